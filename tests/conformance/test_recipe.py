"""The recipe for inputs and the comparison are right by themselves, without the library and without MPI.

If these fail, no answer of the library means anything; if they hold, a failing case is the library's.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from tests.conformance.cases import (
    Case,
    Placed,
    assemble,
    blocks,
    difference,
    explicit,
    input_value,
    recorded_value,
    tolerance,
)

ELEMENTWISE = ('unary', 'binary', 'binary_pairs2', 'broadcasting', 'reduce', 'reshape', 'transpose', 'concat', 'dot',
               'einsum', 'slice', 'mesh_shapes')


def test_printed_types_are_read_back() -> None:
    for case in explicit():
        types = [*case.get('out', ()), *case.get('jit_out', ()), *case.get('grad', {}).get('ct_types', ())]
        for text in types:
            assert Placed.parse(text).show(case['mesh']) == text, case['id']


def test_cotangent_types_are_the_duals_of_the_arguments() -> None:
    for case in explicit():
        grad = case.get('grad', {})
        for position, text in zip(grad.get('wrt', ()), grad.get('ct_types', ())):
            want = Placed.of_arg(case['args'][position]).dual().show(case['mesh'])
            assert text == want, f"{case['id']}: {case['expr']}"


def test_blocks_and_assemble_are_inverse() -> None:
    for case in explicit():
        for position, arg in enumerate(case['args']):
            placed, value = Placed.of_arg(arg), input_value(arg, position)
            parts = dict(enumerate(blocks(value, placed, case['mesh'])))
            back = assemble(parts, placed, case['mesh'])
            assert difference(back, value, tolerance(arg['dtype'])) is None, f"{case['id']}, argument {position}"


def test_every_summand_of_an_unreduced_input_counts() -> None:
    value = input_value({'shape': [4, 2], 'dtype': 'float32'}, 0)
    placed = Placed(shape=(4, 2), dtype='float32', spec=((), ()), unreduced=('X',))
    pieces = list(blocks(value, placed, [['X', 2]]))
    assert all((piece != 0).any() and difference(piece, value, 1e-3) for piece in pieces)


def test_copies_that_differ_are_found() -> None:
    placed = Placed(shape=(2,), dtype='float32', spec=((),))
    with pytest.raises(ValueError, match='should hold the same copy'):
        assemble({0: np.zeros(2), 1: np.ones(2)}, placed, [['X', 2]])


def test_recorded_values_follow_from_the_inputs_by_numpy() -> None:
    checked = 0
    for case in explicit():
        got = _by_numpy(case)
        for value, want in zip(got, case.get('values', ())):
            if want is not None:
                assert difference(value, recorded_value(want, False), 2e-4) is None, f"{case['id']}: {case['expr']}"
                checked += 1
    assert checked > 800


def _by_numpy(case: Case) -> list[np.ndarray]:
    """The outputs of the expression if NumPy can evaluate it, else nothing."""
    expr = case.get('expr', '')
    foreign = re.search(r'reshard|lax|jax\.|lambda|\.at\[', re.sub(r', out_sharding=.*\)$', ')', expr))
    dtypes = {arg['dtype'] for arg in case['args']}
    plain = dtypes and dtypes <= {'float32', 'int32', 'bool'} and not any('complex' in t for t in case.get('out', ()))
    if foreign or not plain or case['group'] not in ELEMENTWISE:
        return []
    names = {'jnp': np, 'np': np} | dict(zip('abcdefgh', (input_value(a, i) for i, a in enumerate(case['args']))))
    try:
        with warnings.catch_warnings(action='ignore'):
            out = eval(re.sub(r', out_sharding=.*\)$', ')', expr), names)
    except Exception:  # NumPy lacks the function or the keyword
        return []
    out = list(out) if isinstance(out, (tuple, list)) else [out]
    return [np.asarray(v) for v in out] if len(out) == len(case.get('values', ())) else []
