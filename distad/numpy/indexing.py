"""x[...]: numbers, slices, None, ... and True or False, all known to Python.

An index is read into three steps that the types can follow: a slice (of any dimension, turned round for negative steps),
dropping the dimensions that a number picks from, and new dimensions. Only the first may communicate.
"""

import builtins
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.errors import ShardingTypeError
from distad.lax import shape as lax_shape
from distad.lax import slicing as lax_slicing
from distad.lax.kind import whole_along
from distad.ops import shape as ops
from distad.ops import slicing
from distad.ops.cast import cast
from distad.types.array_type import ArrayType


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What an index takes of one dimension: a range with a positive step, perhaps turned round, or one number of it."""

    start: int
    limit: int
    stride: int = 1
    turned: bool = False
    dropped: bool = False


def getitem(x, index: Any) -> Value:
    """The part of an array that an index names: `x[index]`.

    x: [n, ..]. index: integers, slices, None, `...`, True and False, or a tuple of these. Dimensions keep their split, and
    unreduced and reduced axes stay. An integer picks from a dimension that is not split; but if one element is left, it is
    replicated.
    Communication: one all-gather where a split dimension is cut or turned round; none otherwise.
    Raises IndexError beyond the bounds, ShardingTypeError where a size does not divide.

        jnp.arange(6)[1:5:2]                      # 1, 3
    """
    x = as_value(x, 'indexing')
    t = typeof(x)
    picks, new = _read(t, index if isinstance(index, tuple) else (index,))
    y = _take(x, t, picks)
    dropped = tuple(d for d, p in enumerate(picks) if p.dropped)
    y = lax_shape.squeeze(y, dropped) if dropped else y
    if not new:
        return y
    at = tuple(position for position, _ in new)
    y = lax_shape.expand_dims(y, at)
    empty = {position for position, kept in new if not kept}
    return lax_slicing.slice(y, (0,) * y.ndim, [0 if d in empty else n for d, n in enumerate(y.shape)]) if empty else y


def _take(x: Value, t: ArrayType, picks: list[Pick]) -> Value:
    """Slice and turn round, with at most one gather for all of it."""
    params = {'start_indices': tuple(p.start for p in picks), 'limit_indices': tuple(p.limit for p in picks),
              'strides': tuple(p.stride for p in picks)}
    shape = slicing.sliced_shape(t, **params)
    turned = tuple(d for d, p in enumerate(picks) if p.turned and shape[d] > 1)
    if shape == t.shape and not turned:
        return x
    _check_numbers(t, picks, shape)
    goal = lax_slicing.resized('indexing', t, shape) if shape != t.shape else t
    moving = [d for d, p in enumerate(picks) if d in turned or goal.partitions[d] != t.partitions[d]
              or not slicing.slices_within_blocks(t.mesh.axis_size(t.partitions[d]), t.shape[d], p.start, p.limit, p.stride)]
    x = whole_along(x, moving)
    if shape != t.shape:
        x = slicing.slice_p(x, **(params if any(p.stride != 1 for p in picks) else params | {'strides': None}))
    x = ops.rev(x, dimensions=turned) if turned else x
    return cast(x, goal)


def _check_numbers(t: ArrayType, picks: list[Pick], shape: tuple[int, ...]) -> None:
    if all(n == 1 for n in shape):
        return
    for d, p in enumerate(picks):
        if p.dropped and t.mesh.axis_size(t.partitions[d]) > 1:
            raise ShardingTypeError(
                f"indexing of {t} picks {p.start} of dimension {d}, which is split over {', '.join(t.partitions[d])}: one rank "
                f"has it. Gather the dimension first: reshard(x, {lax_shape.written(lax_slicing.whole(t, (d,)))}).")


# ---- reading an index

def _read(t: ArrayType, index: tuple) -> tuple[list[Pick], list[tuple[int, bool]]]:
    """What is taken of each dimension; and the new dimensions, by their position in the result: kept, or empty for False."""
    items = [_known(t, i) for i in index]
    if items.count(Ellipsis) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    consumed = sum(not (i is None or i is Ellipsis or isinstance(i, bool)) for i in items)
    if consumed > t.ndim:
        raise IndexError(f"too many indices: {t} has {t.ndim} dimensions, but {consumed} were indexed")
    missing = [builtins.slice(None)] * (t.ndim - consumed)
    at = items.index(Ellipsis) if Ellipsis in items else len(items)
    items = [*items[:at], *missing, *items[at + 1:]]
    picks: list[Pick] = []
    new: list[tuple[int, bool]] = []
    position = 0
    front = _truths_go_first(items)
    truth = all(i for i in items if isinstance(i, bool))
    truths = sum(isinstance(i, bool) for i in items)
    if truths and front:
        new.append((0, truth))
        position, truths = 1, 0
    for item in items:
        if item is None:
            new.append((position, True))
        elif isinstance(item, bool):
            if not truths:
                continue
            new.append((position, truth))
            truths = 0
        else:
            picks.append(_pick(t, len(picks), item))
            if picks[-1].dropped:
                continue
        position += 1
    return picks, new


def _truths_go_first(items: list) -> bool:
    """NumPy's rule for True and False beside numbers: where these are not neighbours their one dimension comes first."""
    at = [k for k, i in enumerate(items) if isinstance(i, int)]
    return any(isinstance(i, bool) for i in items) and at[-1] - at[0] + 1 != len(at)


def _known(t: ArrayType, item: Any) -> Any:
    """An item of an index as Python object. Arrays of numbers are a matter of gathering, which is another function."""
    if item is None or item is Ellipsis or isinstance(item, builtins.slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    if getattr(item, 'ndim', 0) or isinstance(item, (list, tuple)):
        raise NotImplementedError(
            f"indexing of {t} with an array of indices is not built yet. Use numbers and slices; for several numbers "
            "jnp.stack([x[i] for i in indices]), for a mask jnp.where.")
    try:
        return operator.index(item)
    except TypeError:
        kind = typeof(item) if isinstance(item, Value) else type(item).__name__
        raise TypeError(f"an index of {t} is made of integers, slices, None and ..., got {item if kind is None else kind}. "
                        "A traced integer is not known here: use a loop over slices, or mark the argument static.") from None


def _pick(t: ArrayType, d: int, item: Any) -> Pick:
    n = t.shape[d]
    if isinstance(item, builtins.slice):
        start, stop, step = _bounds(item, n)
        count = len(range(start, stop, step))
        if step > 0:
            return Pick(start=start, limit=max(start, stop), stride=step)
        last = start + (count - 1) * step
        return Pick(start=last if count else 0, limit=start + 1 if count else 0, stride=-step, turned=True)
    if not -n <= item < n:
        raise IndexError(f"index {item} is out of bounds for dimension {d} of {t}")
    return Pick(start=item % n, limit=item % n + 1, dropped=True)


def _bounds(item: builtins.slice, n: int) -> tuple[int, int, int]:
    if item.step is not None and not operator.index(item.step):
        raise ValueError('slice step cannot be zero')
    start, stop, step = item.indices(n)
    return start, stop, step


def iterate(x: Value) -> Iterator[Value]:
    """The slices along the first dimension, one after the other; a split one is gathered once, by one all-gather."""
    if not x.ndim:
        raise TypeError('iteration over a 0-d array')
    x = whole_along(x, (0,))
    return (lax_shape.squeeze(part, (0,)) for part in lax_slicing.split(x, (1,) * x.shape[0], 0))


__all__ = ['getitem', 'iterate']
