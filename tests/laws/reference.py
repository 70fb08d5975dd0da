"""A call on whole operands on one rank: what its placements are compared with. It is itself compared with NumPy.

Derivatives are compared with central differences: the first with those of values, the second with those of first derivatives.
Reverse mode is compared with forward mode, <A x, y> = <x, A^T y>; so where cotangents on some placement are those on whole
operands, the equation holds there too.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from distad.core.eager import frozen
from distad.core.primitive import Primitive
from distad.core.value import Array, Zero
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import show
from distad.types.mesh import EMPTY_MESH
from tests.laws.calls import Call
from tests.laws.observation import Case, Inputs, Observation, block_of, inputs, observe, tangents_of

Versions = tuple[tuple[int, ...], tuple[int, ...]]                 # of the operands, and of the results' cotangents
STEP, ROUGH = 1e-5, 1e-6


def unplaced(value: np.ndarray, t: ArrayType) -> Array:
    return Array(t, None, frozen(np.array(value)))


def whole_case(primitive: Primitive, call: Call) -> Case:
    params = call.params_on(call.types, EMPTY_MESH)[0]
    return Case(primitive=primitive, call=call, types=call.types, params=params, outs=primitive.infer(call.types, params))


@lru_cache(maxsize=8192)
def reference(primitive: Primitive, call: Call, versions: Versions | None = None) -> Observation:
    """The call on whole operands. Without versions it is the first one of each, and the call is put to the test."""
    try:
        case = whole_case(primitive, call)
    except Exception as error:
        return Observation(faults=[f'{primitive.name}({show(call.types)}) on one rank: {error!r}'])
    order = iter((0,) * (len(case.types) + len(case.outs)) if versions is None else versions[0] + versions[1])
    given = inputs(case, unplaced, lambda t: next(order))
    seen = observe(case, given)
    if versions is None:
        _compare_with_numpy(case, seen)
        if case.orders and 'value' in seen.blocks:
            _compare_with_differences(case, seen, given)
        seen.faults = [f'{case} on one rank: {fault}' for fault in seen.faults]
    return seen


def _compare_with_numpy(case: Case, seen: Observation) -> None:
    if 'value' in seen.blocks:
        want = case.call.reference(*(case.call.value(i, 0) for i in range(len(case.types))))
        _compare(seen, 'value', seen.blocks['value'], list(want) if case.primitive.multiple else [want], case.tolerance)


def _compare_with_differences(case: Case, seen: Observation, given: Inputs) -> None:
    first, second = given.tangents
    slope = _difference(lambda xs: list(map(block_of, case(*xs))), given.operands, first)
    tangent = seen.blocks.get('tangent', slope)
    _compare(seen, 'tangent', tangent, slope, ROUGH)
    if 'second tangent' in seen.blocks:
        bend = _difference(lambda xs: list(map(block_of, tangents_of(case, xs, first))), given.operands, second)
        _compare(seen, 'second tangent', seen.blocks['second tangent'], bend, ROUGH)
    if 'cotangent' in seen.blocks:
        left = sum(pairing(t, block_of(ct)) for t, ct in zip(tangent, given.cotangents, strict=True) if ct is not None)
        right = sum(pairing(block_of(t), ct) for t, ct in zip(
            [t for t in first if t.__class__ is not Zero], seen.blocks['cotangent'], strict=True))
        tolerance = case.tolerance if case.call.forward else ROUGH
        if not np.isclose(left, right, rtol=tolerance, atol=tolerance):
            seen.faults.append(f'<A x, y> = {left} but <x, A^T y> = {right}')


def _difference(f: Callable[[list], list], xs: Sequence, direction: Sequence) -> list[np.ndarray]:
    """The central difference of a function of whole operands."""
    def at(step: float) -> list:
        return f([x if t.__class__ is Zero else unplaced(x.block + step * t.block, x.type)
                  for x, t in zip(xs, direction, strict=True)])
    return [(a - b) / (2 * STEP) if dtypes.is_float(a.dtype) else np.zeros(a.shape, dtypes.float0)
            for a, b in zip(at(STEP), at(-STEP), strict=True)]


def pairing(x: np.ndarray, y: np.ndarray) -> float:
    """Of a tangent and a cotangent: for complex ones the real part of the product without conjugation."""
    return float(np.sum(x * y).real)


def _compare(seen: Observation, what: str, got: Sequence, want: Sequence, tolerance: float) -> None:
    for a, b in zip(got, want, strict=True):
        fault = unlike(a, np.asarray(b), tolerance)
        if fault:
            seen.faults.append(f'{what}: {fault}')


def unlike(got: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """What is different between two arrays; '' if nothing is."""
    if got.shape != want.shape:
        return f'shape {got.shape}, not {want.shape}'
    if got.dtype == dtypes.float0:
        return ''
    if got.dtype.kind not in 'fcV' or got.dtype == dtypes.KEY:
        same = got == want
        return '' if np.all(same) else f'{np.count_nonzero(~same)} of {got.size} elements differ'
    wide = np.complex128 if got.dtype.kind == 'c' or want.dtype.kind == 'c' else np.float64
    a, b = got.astype(wide), want.astype(wide)
    close = np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    if np.all(close):
        return ''
    i = np.unravel_index(np.argmin(close), close.shape)
    return f'{np.count_nonzero(~close)} of {close.size} elements differ, such as {got[i]}, not {want[i]}'
