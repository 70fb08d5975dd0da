"""The steps of collectives that go over mapped axes: one value, one axis (`Run`), one strict primitive each."""

from collections.abc import Callable, Sequence
from typing import Any

from distad import tree
from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax.axis_names import Run
from distad.ops import mapped_axis
from distad.ops.reshape import reshape
from distad.ops.shape import transpose


def in_turn(name: str, x: Any, runs: Sequence[Run], over_mapped: Callable[[Value, Run], Value],
            over_mesh: Callable[[Any, tuple[str, ...]], Any]) -> Any:
    """A pytree through one step after the other: mesh axes take it whole, so that it stays one message, mapped ones each leaf."""
    for run in runs:
        x = tree.map(lambda v: over_mapped(as_value(v, name), run), x) if run.mapped else over_mesh(x, run.axes)     # noqa: B023
    return x


def summed(v: Value, runs: Sequence[Run]) -> Value:
    for run in runs:
        v = mapped_axis.mapped_sum(v, names=run.mapped)
    return v


def extremum(v: Value, runs: Sequence[Run], kind: str) -> Value:
    for run in runs:
        v = {'max': mapped_axis.mapped_max, 'min': mapped_axis.mapped_min}[kind](v, names=run.mapped)
    return v


def gathered(v: Value, run: Run, axis: int, tiled: bool) -> Value:
    return mapped_axis.mapped_gather(v, names=run.mapped, size=run.size, dimension=dimension(v, axis, 0 if tiled else 1), tiled=tiled)


def scattered(v: Value, run: Run, axis: int) -> Value:
    return mapped_axis.mapped_scatter(v, names=run.mapped, size=run.size, dimension=dimension(v, axis), tiled=True)


def exchanged(v: Value, runs: Sequence[Run], split: int, concat: int,
              over_mesh: Callable[[Value, tuple[str, ...], int], Value]) -> Value:
    """An all-to-all over several axes: a dimension for each, exchanged along it, then all in front of the dimension to join."""
    shape, sizes = v.shape, [run.size for run in runs]
    left = list(sizes)
    part = shape[split]
    for n in sizes:
        if part % n:
            raise ValueError(f"all_to_all: dimension {split} of {v.type} is not divisible by the size "
                             f"{' x '.join(map(str, sizes))} of {', '.join(run.label for run in runs)}")
        part //= n
    v = reshape(v, new_sizes=(*shape[:split], *left, part, *shape[split + 1:]))
    for i, run in enumerate(runs):
        d = split + i
        v = over_mesh(v, run.axes, d) if run.axes else mapped_axis.mapped_exchange(
            v, names=run.mapped, size=run.size, split_axis=d, concat_axis=d)
    k = len(runs)
    rest = [d for d in range(typeof(v).ndim) if not split <= d < split + k]
    v = transpose(v, permutation=(*rest[:concat], *range(split, split + k), *rest[concat:]))
    joined = [part if d == split else n for d, n in enumerate(shape)]
    for n in sizes:
        joined[concat] *= n
    return reshape(v, new_sizes=tuple(joined))


def permuted(v: Value, run: Run, perm: tuple[tuple[int, int], ...]) -> Value:
    return mapped_axis.mapped_permute(v, names=run.mapped, perm=perm)


def dimension(v: Value, axis: int, extra: int = 0) -> int:
    """A dimension counted from the front or the end."""
    n = v.ndim + extra
    if not -n <= axis < n:
        raise ValueError(f"axis {axis} is out of bounds for {v.type}")
    return axis % n
