"""Manual mode: ops that change how a value lies along a manual axis, most of them by sending.

What a value means here is a *stack*: an array `[*mesh, *shape]` of the value that each rank has, summands combined. A value
that does not vary over an axis is repeated along it. The NumPy function of such an op is one of stacks, and so are its
derivatives, which are compared with differences of it. <A x, y> is a sum over the ranks, where copies count once.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.mesh import AbstractMesh, Mesh
from tests.laws.blocks import place_of, version_axes, whole
from tests.laws.calls import Call, Operand, Types
from tests.laws.observation import Case, Observation
from tests.laws.reference import pairing, unlike

Axes = tuple[str, ...]
STEP, ROUGH = 1e-3, 1e-6


def exchange(along: Callable[..., np.ndarray], *operands: Operand, params: Callable[[int], Iterable[dict]] = lambda n: [{}],
             orders: int = 2) -> Call:
    """A call over each set of manual axes, of `n` ranks. `along(rows, first, **params)` is the NumPy function of each operand's
    rows `[n, ...]`, the values of these ranks; `first` is the position of the value's first dimension."""
    def params_of(types: Types, mesh: AbstractMesh) -> list[dict]:
        return [{'axes': axes, **more} for axes in over(mesh) for more in params(mesh.axis_size(axes))]

    def reference(mesh: Mesh, stacks: Sequence[np.ndarray], /, axes: Axes, **more) -> list[np.ndarray]:
        return [_of_rows(mesh, stack, axes, lambda rows, first: along(rows, first, **more)) for stack in stacks]
    return Call(operands=operands, params=params_of, reference=reference, orders=orders, stacked=True)


def over(mesh: AbstractMesh) -> list[Axes]:
    """The sets of manual axes, in each order; tracked or untracked ones."""
    axes = mesh.manual_axes or mesh.auto_axes
    return [some for k in range(1, len(axes) + 1) for some in itertools.permutations(axes, k)]


def _of_rows(mesh: Mesh, stack: np.ndarray, axes: Axes, f: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
    """Apply a function of rows along some mesh axes to a stack."""
    at = [mesh.axis_names.index(axis) for axis in axes]
    rest = [i for i in range(stack.ndim) if i not in at]
    rows = stack.transpose(at + rest).reshape(-1, *(stack.shape[i] for i in rest))
    made = f(rows, 1 + len(mesh.axis_names) - len(at))
    made = made.reshape(*(stack.shape[i] for i in at), *made.shape[1:])
    return np.moveaxis(made, range(len(at)), at)


def refute(case: Case, seen: Observation, by_rank: Sequence[dict[str, list[np.ndarray]]], mesh: Mesh) -> list[str]:
    """Compare what the ranks made with the NumPy function of stacks."""
    call, faults = case.call, []
    made: dict[str, list[dict[int, np.ndarray]]] = {}
    for name, types in seen.types.items():
        try:
            made[name] = [whole([blocks[name][i] for blocks in by_rank], t, mesh) if t.dtype != dtypes.float0 else {}
                          for i, t in enumerate(types)]
        except Exception as error:
            faults.append(f'{case}: {name}: {error}')

    def function(stacks: Sequence[np.ndarray]) -> list[np.ndarray]:
        return call.reference(mesh, stacks, **case.params)

    x = [_stack(mesh, t, partial(call.value, i)) for i, t in enumerate(case.types)]
    want = {'value': function(x)}
    if case.orders:
        t, u = ([_stack(mesh, t, partial(call.direction, i, order)) for i, t in enumerate(case.types)] for order in (1, 2))
        want |= _differences(function, x, t, u)
    for name in want.keys() & made.keys():
        for t, got, right in zip(case.outs, made[name], want[name], strict=True):
            if not got:
                continue
            fault = unlike(_stack(mesh, t, got.__getitem__), right, case.tolerance if name == 'value' else ROUGH)
            if fault:
                faults.append(f'{case}: {name}: {fault}')
    if 'cotangent' in made and 'tangent' in made:
        left = sum(pairing(value, call.cotangent(i, case.outs[i], version)) for i, values in enumerate(made['tangent'])
                   for version, value in values.items())
        active = [i for i, x in enumerate(call.operands) if x.active]
        right = sum(pairing(call.direction(i, 1, version), value) for i, values in zip(active, made['cotangent'], strict=True)
                    for version, value in values.items())
        if not np.isclose(left, right, rtol=1e-9, atol=1e-9):
            faults.append(f'{case}: <A x, y> = {left} but <x, A^T y> = {right}')
    return faults


def _differences(function: Callable[[list], list], x: Sequence, t: Sequence, u: Sequence) -> dict[str, list[np.ndarray]]:
    """First and second differences of a function of stacks; operands without derivatives stay where they are."""
    def at(a: int, b: int) -> list[np.ndarray]:
        return function([p if q.dtype == object else p + a * STEP * q + b * STEP * r for p, q, r in zip(x, t, u, strict=True)])
    return {
        'tangent': [(p - q) / (2 * STEP) for p, q in zip(at(1, 0), at(-1, 0), strict=True)],
        'second tangent': [(p - q - r + s) / (4 * STEP**2) for p, q, r, s in zip(at(1, 1), at(1, -1), at(-1, 1), at(-1, -1),
                                                                                 strict=True)]}


def _stack(mesh: Mesh, t: ArrayType, value: Callable[[int], np.ndarray]) -> np.ndarray:
    """The stack of a value of this type from its versions."""
    made = np.stack([value(place_of(mesh, version_axes(t), mesh.coords(rank))) for rank in mesh.ranks])
    return made.reshape(*mesh.axis_sizes, *made.shape[1:])
