"""ArrayType: printing, states, duals, what it refuses."""

import copy
import itertools
import pickle

import numpy as np
import pytest

from distad.errors import IndivisibleError, ShardingTypeError
from distad.types import array_type, dtypes, spec
from distad.types.array_type import ArrayType, axis_state
from distad.types.mesh import EMPTY_MESH, AbstractMesh, AxisType
from distad.types.sharding import NamedSharding
from distad.types.spec import P, UnreducedKind

MESH = AbstractMesh((2, 3), ('X', 'Y'))
MANUAL = MESH.with_types({'X': AxisType.Manual})


def typ(shape, placed=None, dtype='float32', mesh=MESH, **more):
    return ArrayType(shape, dtype, sharding=NamedSharding(mesh, P() if placed is None else placed), **more)


PRINTED = [
    (typ((4,), P('X')), 'float32[4@X]', 'f32[4@X]'),
    (typ((8, 4), P('X', None)), 'float32[8@X,4]', 'f32[8@X,4]'),
    (typ((4, 6), P(None, 'X')), 'float32[4,6@X]', 'f32[4,6@X]'),
    (typ((4, 6), P('X', 'Y')), 'float32[4@X,6@Y]', 'f32[4@X,6@Y]'),
    (typ((6, 4), P('Y', 'X')), 'float32[6@Y,4@X]', 'f32[6@Y,4@X]'),
    (typ((6, 4), P(('X', 'Y'))), 'float32[6@(X,Y),4]', 'f32[6@(X,Y),4]'),
    (typ((6, 4), P(('Y', 'X'))), 'float32[6@(Y,X),4]', 'f32[6@(Y,X),4]'),
    (typ(()), 'float32[]', 'f32[]'),
    (typ((0,)), 'float32[0]', 'f32[0]'),
    (typ((), P(unreduced={'X'})), 'float32[]{U:X}', 'f32[]{U:X}'),
    (typ((4, 2), P(reduced={'X'})), 'float32[4,2]{R:X}', 'f32[4,2]{R:X}'),
    (typ((4,), P(unreduced={'Y', 'X'})), 'float32[4]{U:(X,Y)}', 'f32[4]{U:(X,Y)}'),
    (typ((4,), P(unreduced={'Y'}, reduced={'X'})), 'float32[4]{U:Y, R:X}', 'f32[4]{U:Y, R:X}'),
    (typ((4,), P('X', unreduced={'Y'})), 'float32[4@X]{U:Y}', 'f32[4@X]{U:Y}'),
    (typ((4,), P(unreduced={'Y'}, unreduced_kind=UnreducedKind.max)), 'float32[4]{U_max:Y}', 'f32[4]{U_max:Y}'),
    (typ((4,), P('X'), 'int32'), 'int32[4@X]', 'i32[4@X]'),
    (typ((4,), None, 'bool'), 'bool[4]', 'bool[4]'),
    (typ((2,), P('X'), dtypes.bfloat16), 'bfloat16[2@X]', 'bf16[2@X]'),
    (typ((2,), None, 'uint8'), 'uint8[2]', 'u8[2]'),
    (typ((2,), None, 'float16'), 'float16[2]', 'f16[2]'),
    (typ((2,), None, 'complex64'), 'complex64[2]', 'c64[2]'),
    (typ((), None, dtypes.KEY), 'key<fry>[]', 'key<fry>[]'),
    (typ((3,), None, dtypes.float0), 'float0[3]', 'float0[3]'),
    (typ((), weak_type=True), '~float32[]', 'f32[]'),
    (typ((4,), mesh=MANUAL, varying={'X'}), 'float32[4]{V:X}', 'f32[4]{V:X}'),
    (typ((2, 6), P(None, 'Y'), mesh=MANUAL, varying={'X'}), 'float32[2,6@Y]{V:X}', 'f32[2,6@Y]{V:X}'),
    (typ((2,), P(unreduced={'Y'}), mesh=MANUAL, varying={'X'}), 'float32[2]{V:X, U:Y}', 'f32[2]{V:X, U:Y}'),
]


@pytest.mark.parametrize('t, text, short', PRINTED, ids=[text for _, text, _ in PRINTED])
def test_prints(t, text, short):
    assert str(t) == text and t.short() == t.str_short(short_dtypes=True) == short


def test_repr():
    assert repr(ArrayType((3,), 'float32')) == 'ShapedArray(float32[3])'
    assert repr(ArrayType((), 'float32', weak_type=True)) == 'ShapedArray(float32[], weak_type=True)'


def test_sharding_is_abstract_and_padded():
    t = typ((6, 4, 5), P('X'))
    assert t.spec is t.sharding.spec is P('X', None, None) and t.mesh == MESH
    assert ArrayType((3,), 'int32').mesh is EMPTY_MESH and ArrayType((3,), 'int32').spec == P(None)


def test_parts():
    t = typ((6, 4), P('Y', unreduced={'X'}))
    assert (t.shape, t.ndim, t.size, t.dtype, t.weak_type) == ((6, 4), 2, 24, np.float32, False)
    assert (t.partitions, t.unreduced, t.reduced, t.varying, t.kind) == ((('Y',), ()), {'X'}, set(), set(), 'sum')
    assert (t.local_shape, t.local_bytes, t.split_axes) == ((2, 4), 32, {'Y'})


def test_equal_types_are_one_object():
    t = typ((6, 4), P('Y'))
    assert t is typ([6, 4], P('Y', None), np.float32) is t.update(weak_type=True).update(weak_type=False)
    assert t is pickle.loads(pickle.dumps(t)) is copy.deepcopy(t)
    assert t != t.update(weak_type=True) and t != typ((6, 4)) and t != typ((6, 4), P('Y'), 'int32') and t != str(t)
    assert len({t, typ((6, 4), P('Y')), typ((4, 6))}) == 2


def test_equal_types_are_one_object_also_when_the_tables_forgot_them():
    # The tables of specs and types are bounded, so one may fall out and be made again.
    t = typ((6, 4), P('Y', unreduced={'X'}))
    again = spec._intern.__wrapped__(t.spec.partitions, t.unreduced, t.reduced, t.spec.unreduced_kind)
    assert again is not t.spec and again == t.spec and hash(again) == hash(t.spec)
    assert array_type._intern.__wrapped__(t.shape, t.dtype, t.weak_type, t.mesh, again, t.varying) is t


def test_update():
    t = typ((6, 4), P('Y', unreduced={'X'}))
    assert str(t.update(shape=(4, 6), partitions=((), ('Y',)))) == 'float32[4,6@Y]{U:X}'
    assert str(t.update(unreduced=(), partitions=(('Y', 'X'), ()))) == 'float32[6@(Y,X),4]'
    assert str(t.update(kind='max')) == 'float32[6@Y,4]{U_max:X}'
    assert str(t.update(kind='max').update(unreduced=()).update(unreduced={'X'})) == 'float32[6@Y,4]{U:X}'
    assert str(t.update(dtype='int32')) == 'int32[6@Y,4]{U:X}'
    assert str(typ((6, 4)).update(shape=(3,), mesh=MANUAL, varying={'X'})) == 'float32[3]{V:X}'
    with pytest.raises(ValueError, match='2 entries'):
        t.update(shape=(6,))
    with pytest.raises(AttributeError, match='does not change'):
        t.shape = (3,)


def all_states():
    """Types of one dimension in every state over both axes."""
    for x, y in itertools.product('NSUR', repeat=2):
        split = tuple(name for name, state in (('X', x), ('Y', y)) if state == 'S')
        unreduced = {name for name, state in (('X', x), ('Y', y)) if state == 'U'}
        reduced = {name for name, state in (('X', x), ('Y', y)) if state == 'R'}
        yield (x, y), typ((12,), P(split, unreduced=unreduced, reduced=reduced))


@pytest.mark.parametrize('states, t', list(all_states()))
def test_dual_swaps_unreduced_and_reduced(states, t):
    swap = {'U': 'R', 'R': 'U', 'S': 'S', 'N': 'N'}
    assert (axis_state(t, 'X'), axis_state(t, 'Y')) == states
    assert (axis_state(t.dual(), 'X'), axis_state(t.dual(), 'Y')) == tuple(swap[s] for s in states)
    assert t.dual().dual() is t and t.to_ct_aval() is t.dual()
    assert t.tangent() is t is t.to_tangent_aval()


@pytest.mark.parametrize('dtype', ['int32', 'bool', dtypes.KEY])
def test_duals_of_what_has_no_derivative(dtype):
    t = typ((4,), P('X', unreduced={'Y'}), dtype)
    assert str(t.dual()) == 'float0[4@X]{R:Y}' and str(t.tangent()) == 'float0[4@X]{U:Y}'
    assert t.dual().local_bytes == 0


def test_dual_keeps_varying_and_weak():
    t = typ((4,), mesh=MANUAL, varying={'X'}, weak_type=True)
    assert t.dual() is t


def test_only_sums_have_duals():
    with pytest.raises(ShardingTypeError, match='U_max:X.* no cotangent type'):
        typ((4,), P(unreduced={'X'}, unreduced_kind=UnreducedKind.max)).dual()


def test_axis_states_of_manual_and_unknown_axes():
    t = typ((4,), mesh=MANUAL, varying={'X'})
    assert (axis_state(t, 'X'), axis_state(t, 'Y'), axis_state(t, 'Z')) == ('V', 'N', 'N')


def test_manual_axis_type():
    mesh = MESH.with_types(dict.fromkeys('XY', AxisType.Manual))
    manual = typ((4,), P(unreduced={'Y'}), mesh=mesh, varying={'X'}).manual_axis_type
    assert (manual.varying, manual.unreduced, manual.reduced, manual.unreduced_kind) == (
        {'X'}, {'Y'}, set(), UnreducedKind.sum)
    assert typ((4,), P(unreduced={'Y'})).manual_axis_type.unreduced == set()


@pytest.mark.parametrize('make, error, words', [
    (lambda: typ((7,), P('X')), IndivisibleError, 'dimension 0'),
    (lambda: typ((4,), P('X', None)), ValueError, '2 entries'),
    (lambda: typ((-4,)), ValueError, 'zero or more'),
    (lambda: typ((4,), varying={'X'}), ValueError, "'X' is none of them"),
    (lambda: typ((4,), P('X'), mesh=MANUAL), ValueError, 'manual here'),
    (lambda: typ((4,), P(reduced={'X'}), mesh=MANUAL, varying={'X'}), ValueError, 'one state'),
    (lambda: typ((2.5,)), TypeError, 'integer'),
    (lambda: type('T', (ArrayType,), {}), TypeError, 'no subclasses'),
])
def test_refuses(make, error, words):
    with pytest.raises(error, match=words):
        make()
