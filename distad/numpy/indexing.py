"""x[...]: every index that NumPy has, on every placement.

What slices take is taken first; then places are looked up, all in one gather. Of a split dimension that places pick from, each
rank gives what it has, and one all-reduce of the result's size follows.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax import shape as lax_shape
from distad.lax import slicing as lax_slicing
from distad.lax.indexing import bounds, filling, looked_up, vectors
from distad.lax.kind import settle, wanted, whole_along, with_sharding
from distad.lax.shape import Sharding
from distad.numpy.index import Pick, Reading, read_index
from distad.ops import shape as ops
from distad.ops import slicing
from distad.ops.cast import cast
from distad.ops.windows import Windows
from distad.types.array_type import ArrayType


def getitem(x, index: Any) -> Value:
    """The part of an array that an index names: `x[index]`.

    x: [n, ..]. index: integers, slices, None, `...`, True and False, arrays of integers, masks, or a tuple of these, with NumPy's
    meaning; integers may be traced, masks may not. Places beyond the bounds are moved to the nearest one inside, but a number that
    Python knows is an error there. Dimensions keep their split, and the places' dimensions have that of the arrays; unreduced and
    reduced axes stay.
    Communication: an all-gather where a split dimension is cut or turned round; an all-reduce of the result where places are
    picked from a split dimension, or a reduce-scatter if the places are split over its axis.
    Raises IndexError beyond the bounds, ShardingTypeError where a size does not divide and for unreduced indices,
    NonConcreteBooleanIndexError for a traced mask.

        jnp.arange(6)[1:5:2]                      # 1, 3
    """
    x = as_value(x, 'indexing')
    return taken(x, read_index(typeof(x), index), mode='clip', fill=filling(x.dtype))


def taken(x: Value, reading: Reading, *, mode: str, fill: np.generic, out_sharding: Sharding = None) -> Value:
    """The part of an array that an index names, which was read before."""
    t = typeof(x)
    y = _sliced(x, t, reading.picks)
    dropped = tuple(d for d, p in enumerate(reading.picks) if p.dropped)
    if out_sharding is not None:
        reading = _giving_way(t, reading, out_sharding)
    y = _picked(y, reading, mode, fill, out_sharding is None, dropped)
    new = [k for k, origin in enumerate(reading.layout) if isinstance(origin, bool)]
    if new:
        y = lax_shape.expand_dims(y, new)
        empty = {k for k in new if not reading.layout[k]}
        y = lax_slicing.slice(y, (0,) * y.ndim, [0 if d in empty else n for d, n in enumerate(y.shape)]) if empty else y
    return with_sharding(settle(y, x) if out_sharding is None else y, out_sharding)


def _giving_way(t: ArrayType, reading: Reading, out_sharding: Sharding) -> Reading:
    """Places gathered where the result shall not be split as they are: they are small."""
    goal = wanted(t.update(shape=reading.shape(), partitions=((),) * len(reading.layout)), out_sharding)
    at = [k for k, o in enumerate(reading.layout) if o == 'place']

    def giving(p):
        if not isinstance(p, Value):
            return p
        mine = at[len(at) - p.ndim:]
        return whole_along(p, [j for j, axes in enumerate(p.type.partitions) if axes != goal.partitions[mine[j]]])
    return replace(reading, places={d: giving(p) for d, p in reading.places.items()})


def _sliced(x: Value, t: ArrayType, picks: tuple[Pick, ...]) -> Value:
    """Slice and turn round, with at most one gather for all of it."""
    params = {'start_indices': tuple(p.start for p in picks), 'limit_indices': tuple(p.limit for p in picks),
              'strides': tuple(p.stride for p in picks)}
    shape = slicing.sliced_shape(t, **params)
    turned = tuple(d for d, p in enumerate(picks) if p.turned and shape[d] > 1)
    if shape == t.shape and not turned:
        return x
    goal = lax_slicing.resized('indexing', t, shape) if shape != t.shape else t
    moving = [d for d, p in enumerate(picks) if d in turned or goal.partitions[d] != t.partitions[d]
              or not slicing.slices_within_blocks(t.mesh.axis_size(t.partitions[d]), t.shape[d], p.start, p.limit, p.stride)]
    x = whole_along(x, moving)
    if shape != t.shape:
        x = slicing.slice_p(x, **(params if any(p.stride != 1 for p in picks) else params | {'strides': None}))
    x = ops.rev(x, dimensions=turned) if turned else x
    return cast(x, goal)


def _picked(x: Value, reading: Reading, mode: str, fill: np.generic, settled: bool, dropped: tuple[int, ...]) -> Value:
    """Look places up, and drop the dimensions of numbers."""
    if not reading.places:
        return lax_shape.squeeze(x, dropped) if dropped else x
    dims = tuple(reading.places)
    origins = [o for o in reading.layout if not isinstance(o, bool)]
    windows = Windows(offset_dims=tuple(k for k, o in enumerate(origins) if o != 'place'),
                      collapsed_slice_dims=tuple(sorted((*dims, *dropped))), start_index_map=dims)
    sizes = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    indices = vectors(list(reading.places.values()), reading.block)
    return looked_up(x, indices, windows, sizes, mode=mode, fill=fill, settled=settled)


def get(x, index: Any, mode: Any = None, fill_value: Any = None, out_sharding: Sharding = None) -> Value:
    """As `getitem`, with a mode for places beyond the bounds and a sharding for the result."""
    x = as_value(x, 'at[].get')
    filled = filling(x.dtype, fill_value)
    if out_sharding is not None:
        index = tuple(map(_reduced, index)) if isinstance(index, tuple) else _reduced(index)
    if mode is None:
        return taken(x, read_index(typeof(x), index), mode='clip', fill=filled, out_sharding=out_sharding)
    return taken(x, read_index(typeof(x), index, strict=False), mode=bounds(mode), fill=filled, out_sharding=out_sharding)


def _reduced(item: Any) -> Any:
    """Indices whose sum was still to come; who says how the result shall lie lets operands move."""
    if not isinstance(item, Value) or not item.type.unreduced:
        return item
    return cast(item, item.type.update(unreduced=(), kind='sum'))


def iterate(x: Value) -> Iterator[Value]:
    """The slices along the first dimension, one after the other; a split one is gathered once, by one all-gather."""
    if not x.ndim:
        raise TypeError('iteration over a 0-d array')
    x = whole_along(x, (0,))
    return (lax_shape.squeeze(part, (0,)) for part in lax_slicing.split(x, (1,) * x.shape[0], 0))


__all__ = ['getitem', 'iterate']
