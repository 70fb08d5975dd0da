"""PartitionSpec: its canonical forms, what it refuses, how it prints."""

import copy
import pickle

import pytest

from distad.types.spec import P, PartitionSpec, UnreducedKind

PRINTED = [
    (P(), 'P()'),
    (P(None), 'P(None,)'),
    (P('X'), "P('X',)"),
    (P('X', None), "P('X', None)"),
    (P(None, 'X'), "P(None, 'X')"),
    (P(('X', 'Y')), "P(('X', 'Y'),)"),
    (P(['X', 'Y']), "P(('X', 'Y'),)"),
    (P(('X',)), "P('X',)"),
    (P((None,)), 'P(None,)'),
    (P(()), 'P(None,)'),
    (P((), 'X'), "P(None, 'X')"),
    (P(''), 'P(None,)'),
    (P('X', 'X'), "P('X', 'X')"),
    (P(P.UNCONSTRAINED), 'P(UNCONSTRAINED,)'),
    (P(unreduced={'X'}), "P(unreduced={'X'}, unreduced_kind=sum)"),
    (P('Y', unreduced=frozenset({'X'})), "P('Y', unreduced={'X'}, unreduced_kind=sum)"),
    (P(unreduced=set()), 'P()'),
    (P(reduced={'X'}), "P(reduced={'X'})"),
    (P('Y', None, reduced={'X'}), "P('Y', None, reduced={'X'})"),
    (P(unreduced={'X'}, reduced={'Y'}), "P(unreduced={'X'}, reduced={'Y'}, unreduced_kind=sum)"),
    (P('X', unreduced={'Y'}, unreduced_kind=UnreducedKind.max), "P('X', unreduced={'Y'}, unreduced_kind=max)"),
    (P(None, reduced={'Y', 'X', 'A'}), "P(None, reduced={'A', 'X', 'Y'})"),
]


@pytest.mark.parametrize('spec, text', PRINTED, ids=[text for _, text in PRINTED])
def test_prints(spec, text):
    assert repr(spec) == str(spec) == text


@pytest.mark.parametrize('make, error', [
    (lambda: P('X', unreduced={'X'}), ValueError),
    (lambda: P(('Y', 'X'), reduced={'X'}), ValueError),
    (lambda: P(unreduced={'X'}, reduced={'X'}), ValueError),
    (lambda: P('X').update(unreduced={'X'}), ValueError),
    (lambda: P(unreduced='X'), TypeError),
    (lambda: P(unreduced=['X']), TypeError),
    (lambda: P('X', reduced=None), TypeError),
    (lambda: P(unreduced={None}), ValueError),
    (lambda: P(unreduced_kind=UnreducedKind.max), ValueError),
    (lambda: P(unreduced={'X'}, unreduced_kind='max'), TypeError),
    (lambda: P((('X', 'Y'), 'Z')), ValueError),
    (lambda: P('X').update(partition=('Y',)), TypeError),
    (lambda: P('X', unreduced={'Y'})[0], ValueError),
    (lambda: tuple(P('X', reduced={'Y'})), ValueError),
    (lambda: P('X', unreduced={'Y'}) + ('Y',), TypeError),
    (lambda: ('Y',) + P('X', reduced={'Z'}), TypeError),
    (lambda: P('X', unreduced={'Y'}) + P(None), TypeError),
    (lambda: type('Q', (P,), {}), TypeError),
    (lambda: setattr(P('X'), 'partitions', ()), AttributeError),
])
def test_refuses(make, error):
    with pytest.raises(error):
        make()


def test_equal_specs_are_one_object():
    assert P('X') is P(('X',)) is P(['X'])
    assert P(unreduced={'X'}) is P(unreduced=frozenset({'X'}))
    assert P('X', None) is pickle.loads(pickle.dumps(P('X', None))) is copy.deepcopy(P('X', None))
    assert PartitionSpec is P


def test_trailing_nones_count():
    assert P() != P(None)
    assert P('X') != P('X', None)
    assert P(('X', 'Y')) != P(('Y', 'X'))
    assert P('X') != ('X',)
    assert not isinstance(P('X'), tuple)


def test_is_a_sequence_of_partitions():
    spec = P('X', None, ('Y', 'Z'))
    assert (len(spec), spec[0], spec[-1], spec[1:]) == (3, 'X', ('Y', 'Z'), (None, ('Y', 'Z')))
    assert (spec.index('X'), spec.count(None), list(spec)) == (0, 1, ['X', None, ('Y', 'Z')])
    assert spec.axes == (('X',), (), ('Y', 'Z'))


def test_joins():
    assert P('X') + P('Y') is P('X', 'Y')
    assert P('X') + ('Y',) is P('X', 'Y')
    assert ('Y',) + P('X') is P('Y', 'X')
    assert P('X', unreduced={'Y'}) + P('Z', unreduced={'W'}) is P('X', 'Z', unreduced={'Y', 'W'})


def test_update():
    assert P('X').update(unreduced={'Y'}) is P('X', unreduced={'Y'})
    assert P('X', 'Y').update(partitions=(None, 'X')) is P(None, 'X')
    of_max = P('X', unreduced={'Y'}, unreduced_kind=UnreducedKind.max)
    assert of_max.update(partitions=['Z']).unreduced_kind is UnreducedKind.max
    assert of_max.update(unreduced=set()) is P('X')


def test_unreduced_and_reduced_are_sets():
    spec = P('Z', unreduced={'X'}, reduced={'Y'})
    assert spec.unreduced == {'X'} and spec.reduced == {'Y'}
    assert P().unreduced == frozenset() and P().unreduced_kind is None
    assert repr(spec.unreduced_kind) == '<UnreducedKind.sum: 1>'
