"""Printed programs are as recorded, but for the differences that have a reason."""

import pytest

from tests.conformance.cases import Case, explicit, load, mesh_size
from tests.conformance.jaxprs import differences, printed

# Which cases differ, by reason.
REASONS = {
    'zeros of a type are an equation of their own': 'j.no_args jaxpr-014 jaxpr-015 jaxpr-016',
    'one equation of JAX is two here': 'j.stack',
    'one equation here is several of JAX, or another one': 'j.relu j.mod j.floordiv j.norm j.vmap_ppermute j.vmap_dyn_index',
    'a number is read in the dtype that it is used in, and takes any state':
        'j.where j.clip j.sm_axis_size j.sm_vmap j.sm_scan jaxpr-018 jaxpr-044',
    'an index, a bound or a size is prepared in Python, or in another way':
        'j.scatter_set j.eye j.var j.switch j.fori_dyn j.key',
    'the combining function of a scatter is no parameter': 'j.scatter_add',
    'the shift of exp is taken before the maximum, not after': 'j.softmax j.logsumexp jaxpr-023',
    'a carry that a loop does not change is carried': 'j.scan_tree',
    'the unit matrix is closed over': 'j.jacfwd j.jacrev',
    'another form of a derivative': 'jaxpr-037 jaxpr-038',
}
EXPLICIT = (case for case in explicit() if case['group'] == 'jaxpr' and 'py' in case)
CASES: dict[str, Case] = {case['id']: case for case in (*load('jaxprs'), *EXPLICIT) if 'auto' not in case.get('axis_types', ())}


def size(case: Case) -> int:
    return mesh_size(case) if case['mesh'] else 1


SIZES = sorted({size(case) for case in CASES.values()})


@pytest.mark.parametrize('ranks', [pytest.param(n, marks=pytest.mark.ranks(n)) for n in SIZES])
def test_programs_are_as_recorded(ranks: int) -> None:
    found = {name: differences(printed(case), case.get('text') or case['py']) for name, case in CASES.items() if size(case) == ranks}
    explained = ' '.join(REASONS.values()).split()
    odd = [f"{name}: {text or 'as recorded, against the table'}" for name, text in found.items() if bool(text) != (name in explained)]
    assert not odd, '\n'.join(odd)


def test_differences_are_seen() -> None:
    text = '{ lambda ; a:f32[4@X]. let b:f32[]{U:X} = reduce_sum[axes=(0,)] a; c:f32[] = reshard b in (c,) }'
    assert not differences(text, '{ lambda ; x:f32[4@X]. let\n    y:f32[] = jit[name=f jaxpr={ lambda ; x:f32[4@X]. let\n'
                                 '  y:f32[] = reduce_sum[axes=(0,) out_sharding=None] x in (y,) }] x in (y,) }')
    assert 'expected 1 sin' in differences(text, text.replace('c:f32[]', 'd:f32[4@X] = sin a; c:f32[]'))
    assert 'has 1 reduce_sum' in differences(text, text.replace('reduce_sum', 'reduce_max'))
    assert 'types' in differences(text, text.replace('4@X', '4'))
    assert 'types' in differences(text, text.replace('in (c,)', 'in (b,)'))
