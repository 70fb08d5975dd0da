"""Slices whose corner is known only when they run.

Of a split dimension that is cut, each rank gives or takes what it has of the slice: what is sent has the size of the slice, never
of the array. So one entry of a cache that is split over its length is read by one small all-reduce, and written by none.
"""

from collections.abc import Sequence

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.dims import dim_of, dims_of
from distad.lax.indexing import at_home, filling, looked_up, unmarked, vectors, wrapped
from distad.lax.kind import kindly, whole_along
from distad.ops import arithmetic
from distad.ops import dynamic as ops
from distad.ops import gather as gathering
from distad.ops.cast import cast
from distad.ops.convert import convert_element_type
from distad.ops.windows import Windows
from distad.types.array_type import ArrayType

Start = Value | np.generic
Starts = Sequence[int | Value] | Value


def dynamic_slice(operand, start_indices: Starts, slice_sizes: Sequence[int]) -> Value:
    """The part of an array of fixed sizes from a corner on.

    operand: [n, ..]; start_indices: an integer for each dimension, or integers [ndim], negative ones counted from the end; the
    corner is moved so that the part fits. The result is split as the operand, but for dimensions of size 1. Unreduced and reduced
    operands stay so. Communication: where a split dimension is cut, an all-reduce or reduce-scatter of the part.
    Raises ShardingTypeError where a size does not divide, and for unreduced indices.

        dynamic_slice(jnp.arange(6.), (-2,), (2,))        # 4., 5.
    """
    x = as_value(operand, 'dynamic_slice')
    t = typeof(x)
    sizes = tuple(int(n) for n in slice_sizes)
    starts = _starts('dynamic_slice', t, start_indices)
    if len(sizes) != t.ndim or any(not 0 <= s <= n for s, n in zip(sizes, t.shape, strict=True)):
        raise TypeError(f"slice_sizes must fit in the operand, dimension by dimension, got {sizes} for {t}")
    cut = _cut(t, sizes)
    if not cut:
        return kindly(ops.dynamic_slice, x, *starts, slice_sizes=sizes)
    if all(not isinstance(starts[d], Value) and sizes[d] > 1 for d in cut):
        first = [int(_inside(starts[d], n, sizes[d])) if d in cut else 0 for d, n in enumerate(t.shape)]
        x = slicing.slice(x, first, [first[d] + sizes[d] if d in cut else n for d, n in enumerate(t.shape)])
        return kindly(ops.dynamic_slice, x, *starts, slice_sizes=sizes)
    axes = tuple(() if n == 1 else axes for n, axes in zip(sizes, t.partitions, strict=True))
    goal = slicing.resized('dynamic_slice', t, sizes, partitions=axes)
    local = tuple(n if d in cut else s for d, (s, n) in enumerate(zip(sizes, t.shape, strict=True)))
    if local != t.shape:
        x = kindly(ops.dynamic_slice, x, *starts, slice_sizes=local)
    y = _rows(x, cut, [_inside(starts[d], t.shape[d], sizes[d]) for d in cut], sizes)
    out = typeof(y)
    return cast(y, out.update(partitions=goal.partitions, unreduced=out.unreduced - t.split_axes, kind=t.kind))


def _cut(t: ArrayType, sizes: tuple[int, ...]) -> list[int]:
    """The split dimensions that are not taken whole."""
    return [d for d, (s, n) in enumerate(zip(sizes, t.shape, strict=True)) if s != n and t.partitions[d]]


def _rows(x: Value, cut: list[int], starts: list[Start], sizes: tuple[int, ...]) -> Value:
    """Consecutive elements of some dimensions, not yet summed over the ranks."""
    kept = [d for d in range(x.ndim) if d not in cut]
    windows = Windows(offset_dims=tuple(range(len(cut), x.ndim)), collapsed_slice_dims=tuple(cut), start_index_map=tuple(cut))
    indices = _lines(starts, [sizes[d] for d in cut])
    y = looked_up(x, indices, windows, tuple(1 if d in cut else n for d, n in enumerate(x.shape)), mode='clip',
                  fill=filling(x.dtype), settled=False)
    order = [*cut, *kept]
    return lax_shape.transpose(y, [order.index(d) for d in range(x.ndim)])


def _lines(starts: list[Start], sizes: list[int]) -> Value:
    """The index vectors of all elements of a part with this corner."""
    lines = []
    for k, (start, n) in enumerate(zip(starts, sizes, strict=True)):
        steps = np.arange(n, dtype=typeof(start).dtype).reshape([-1 if j == k else 1 for j in range(len(sizes))])
        if isinstance(start, Value):
            lines.append(kindly(arithmetic.add, as_value(steps, 'dynamic_slice'), start))
        else:
            lines.append(steps + start)
    return vectors(lines, tuple(sizes))


def _inside(start: Start, n: int, size: int) -> Start:
    """The corner moved so that the part fits."""
    if not isinstance(start, Value):
        return np.clip(start, 0, n - size)
    number = start.dtype.type
    return kindly(arithmetic.max, kindly(arithmetic.min, start, number(n - size)), number(0))


def _starts(name: str, t: ArrayType, starts: Starts) -> list[Start]:
    """Corners of one dtype, negative ones counted from the end."""
    if isinstance(starts, (Value, np.ndarray)) and starts.ndim == 1:
        starts = [starts[d] for d in range(starts.shape[0])]
    starts = list(starts)
    if len(starts) != t.ndim:
        raise TypeError(f"{name} takes a start index for each dimension of {t}, got {len(starts)}")
    for s in starts:
        here = typeof(s)
        if here.ndim or here.dtype.kind not in 'iu':
            raise TypeError(f"{name}: start indices are integers of rank 0, got {here}")
    found = [wrapped(name, unmarked(s) if isinstance(s, Value) else s, n) for s, n in zip(starts, t.shape, strict=True)]
    dtype = next((s.dtype for s in found if isinstance(s, Value)), np.dtype(np.int32))
    return [convert_element_type(s, new_dtype=dtype, weak_type=False) if isinstance(s, Value) and s.dtype != dtype
            else s if isinstance(s, Value) else dtype.type(s) for s in found]


def dynamic_update_slice(operand, update, start_indices: Starts) -> Value:
    """The array with a part of it replaced, from a corner on.

    operand: [n, ..]; update: [m, ..] of its rank and dtype; start_indices as of `dynamic_slice`. The result lies as the operand.
    Both are unreduced, or none. Communication: where a split dimension is cut and the update is split there, an all-gather of the
    update. Raises ShardingTypeError for states that do not go together.

        dynamic_update_slice(jnp.ones(3), jnp.zeros(2), (1,))             # 1., 0., 0.
    """
    x = as_value(operand, 'dynamic_update_slice')
    u = as_value(x.dtype.type(update) if is_scalar(update) else update, 'dynamic_update_slice')
    t = typeof(x)
    if u.ndim != t.ndim or u.dtype != t.dtype or any(m > n for m, n in zip(u.shape, t.shape, strict=True)):
        raise TypeError(f"dynamic_update_slice takes an update of the rank and dtype of its operand, which fits in it, got {t} and "
                        f"{u.type}")
    starts = _starts('dynamic_update_slice', t, start_indices)
    cut = _cut(t, u.shape)
    if not cut:
        return kindly(ops.dynamic_update_slice, x, u, *starts)
    u = whole_along(u, cut)
    partial = [d for d in range(t.ndim) if u.shape[d] != t.shape[d] and d not in cut]
    windows = Windows(offset_dims=tuple(d for d in range(t.ndim) if d not in cut), collapsed_slice_dims=tuple(cut),
                      start_index_map=(*cut, *partial))
    corner = {d: _inside(starts[d], t.shape[d], u.shape[d]) for d in (*cut, *partial)}
    sizes = [u.shape[d] for d in cut] + [1] * len(partial)
    indices = _lines([corner[d] for d in (*cut, *partial)], sizes)
    indices = lax_shape.squeeze(indices, range(len(cut), len(sizes)))
    y = kindly(gathering.scatter, x, indices, u, windows=windows, mode='clip',
               slice_sizes=tuple(1 if d in cut else n for d, n in enumerate(u.shape)))
    return at_home(y, t)


# ---- along one dimension

def _along(name: str, x: Value, start, axis: int) -> tuple[int, list]:
    d = dim_of(name, axis, x.ndim)
    return d, [start if i == d else 0 for i in range(x.ndim)]


def dynamic_slice_in_dim(operand, start_index: int | Value, slice_size: int, axis: int = 0) -> Value:
    """A slice of one dimension from an index on. See `dynamic_slice`.

        dynamic_slice_in_dim(jnp.arange(6.), 3, 2)        # 3., 4.
    """
    x = as_value(operand, 'dynamic_slice_in_dim')
    d, starts = _along('dynamic_slice_in_dim', x, start_index, axis)
    return dynamic_slice(x, starts, [slice_size if i == d else n for i, n in enumerate(x.shape)])


def dynamic_index_in_dim(operand, index: int | Value, axis: int = 0, keepdims: bool = True) -> Value:
    """One index of a dimension, kept with size 1 or dropped. See `dynamic_slice`.

        dynamic_index_in_dim(jnp.arange(6.), 4, keepdims=False)           # 4.
    """
    x = as_value(operand, 'dynamic_index_in_dim')
    y = dynamic_slice_in_dim(x, index, 1, axis)
    return y if keepdims else lax_shape.squeeze(y, (dim_of('dynamic_index_in_dim', axis, x.ndim),))


def dynamic_update_slice_in_dim(operand, update, start_index: int | Value, axis: int) -> Value:
    """The array with a slice of one dimension replaced, from an index on. See `dynamic_update_slice`.

        dynamic_update_slice_in_dim(jnp.ones(3), jnp.zeros(1), 1, 0)      # 1., 0., 1.
    """
    x = as_value(operand, 'dynamic_update_slice_in_dim')
    _, starts = _along('dynamic_update_slice_in_dim', x, start_index, axis)
    return dynamic_update_slice(x, update, starts)


def dynamic_update_index_in_dim(operand, update, index: int | Value, axis: int) -> Value:
    """The array with one index of a dimension replaced; the update has this dimension with size 1, or not at all.

        dynamic_update_index_in_dim(jnp.ones(3), 0.0, 2, 0)              # 1., 1., 0.
    """
    x = as_value(operand, 'dynamic_update_index_in_dim')
    u = as_value(x.dtype.type(update) if is_scalar(update) else update, 'dynamic_update_index_in_dim')
    d, = dims_of('dynamic_update_index_in_dim', axis, x.ndim)
    if u.ndim != x.ndim:
        u = lax_shape.expand_dims(u, (d,))
    return dynamic_update_slice_in_dim(x, u, index, d)


__all__ = ['dynamic_index_in_dim', 'dynamic_slice', 'dynamic_slice_in_dim', 'dynamic_update_index_in_dim',
           'dynamic_update_slice', 'dynamic_update_slice_in_dim']
