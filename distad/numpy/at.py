"""x.at[index]: an array with some of its elements changed.

Arrays are immutable, so each of these gives a new one, which lies as the old one did. Updates of elements that one rank has are
made there. Updates that are split over a batch are added up by one all-reduce, or, if an `out_sharding` says so, not yet.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import Value, is_scalar, typeof
from distad.lax import shape as lax_shape
from distad.lax.applying import applied
from distad.lax.indexing import bounds, updated, vectors
from distad.lax.kind import with_sharding
from distad.lax.shape import Sharding
from distad.numpy import elementwise
from distad.numpy.creation import full_like
from distad.numpy.index import Pick, Reading, read_index
from distad.numpy.indexing import get
from distad.numpy.promotion import ArrayLike
from distad.numpy.shapes import broadcast_to
from distad.ops import gather as ops
from distad.ops import scatter as scattering
from distad.ops.convert import convert_element_type
from distad.ops.windows import Windows
from distad.types.array_type import ArrayType
from distad.types.sharding import NamedSharding
from distad.types.spec import P


@dataclass(frozen=True, slots=True)
class At:
    """`x.at`: takes the index."""

    array: Value

    def __getitem__(self, index: Any) -> 'Place':
        return Place(self.array, index)


@dataclass(frozen=True, slots=True)
class Place:
    """`x.at[index]`: reads the elements that an index names, or gives the array with these elements changed.

    Options that all have: `mode` for places beyond the bounds: 'drop' (or 'fill', the default of updates) leaves them out,
    'clip' moves them inside, as reading does by default; `indices_are_sorted` and `unique_indices` are promises that need not be
    made; `out_sharding`: how the result shall lie, perhaps unreduced. Without it the result lies as the array.
    """

    array: Value
    index: Any

    def get(self, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None, fill_value: Any = None,
            out_sharding: Sharding = None) -> Value:
        """The elements. See `distad.numpy.getitem`. With mode 'fill' those beyond the bounds are `fill_value`, else NaN.

        With an `out_sharding`, an all-reduce or reduce-scatter brings what is picked from a split dimension to it.

            x.at[i].get(mode='fill', fill_value=0.0)
        """
        return get(self.array, self.index, mode, fill_value, out_sharding)

    def set(self, values: ArrayLike, **options: Any) -> Value:
        """Elements replaced by values, which broadcast to what the index names; of several for one place the last is there.

        Communication: none. Raises ShardingTypeError for values that are split over their places, and where array or values are
        unreduced and the other is not.

            x.at[0].set(1.0)
        """
        return _update(self, ops.scatter, values, **options)

    def add(self, values: ArrayLike, **options: Any) -> Value:
        """Values added to elements; several for one place add up.

        Communication: an all-reduce of the array where values are split over their places and the array is whole. An
        unreduced array takes values of any state, each counts once.

            x.at[jnp.array([0, 0])].add(1.0)
        """
        return _update(self, ops.scatter_add, values, **options)

    def subtract(self, values: ArrayLike, **options: Any) -> Value:
        """Values subtracted from elements. See `add`.

            x.at[0].subtract(1.0)
        """
        return self.add(elementwise.negative(values), **options)

    def multiply(self, values: ArrayLike, **options: Any) -> Value:
        """Elements multiplied by values; with several for one place by all of them. Communication: none.

            x.at[0].multiply(2.0)
        """
        return _update(self, scattering.scatter_mul, values, **options)

    def divide(self, values: ArrayLike, **options: Any) -> Value:
        """Elements divided by values; with several for one place by all of them. Communication: none.

            x.at[0].divide(2.0)
        """
        return elementwise.true_divide(self.array, self._ones().multiply(values, **options))

    def power(self, values: ArrayLike, **options: Any) -> Value:
        """Elements to the power of values; with several for one place of all of them. Communication: none.

            x.at[0].power(2.0)
        """
        return elementwise.power(self.array, self._ones().multiply(values, **options))

    def min(self, values: ArrayLike, **options: Any) -> Value:
        """The lesser of elements and values. Communication: as of `add`.

            x.at[0].min(0.0)
        """
        return _update(self, scattering.scatter_min, values, **options)

    def max(self, values: ArrayLike, **options: Any) -> Value:
        """The greater of elements and values. Communication: as of `add`.

            x.at[0].max(0.0)
        """
        return _update(self, scattering.scatter_max, values, **options)

    def apply(self, func: Callable[[Value], Value], *, unique_indices: bool = False, **options: Any) -> Value:
        """A function, element by element, applied to elements: as often as the index names them.

        With traced indices that may repeat it has no gradient; say `unique_indices=True` where they do not.
        Communication: as of `add`, of the numbers how often.

            x.at[0].apply(jnp.sin)
        """
        x = self.array
        mode = options.get('mode') or 'drop'
        reading = read_index(x.type, self.index, strict=False)
        apart = any(d not in reading.places and x.type.partitions[d] and _is_line(x.type, d, p) for d, p in enumerate(reading.picks))
        once = unique_indices or _are_unique(reading)
        if once and not apart:
            return self.set(func(self.get(mode=mode)), **options)
        zeros = full_like(x, 0, np.int32) if not x.type.unreduced else full_like(_reduced(x), 0, np.int32)
        times = Place(zeros, self.index).add(1, mode=mode)
        return with_sharding(applied(func, x, times, once=once), options.get('out_sharding'))

    mul = multiply

    def _ones(self) -> 'Place':
        return Place(full_like(_reduced(self.array), 1), self.index)


def _reduced(x: Value) -> ArrayType:
    """The type of what an array is multiplied by: never unreduced."""
    t = typeof(x)
    return t.update(unreduced=(), reduced=t.reduced | t.unreduced, kind='sum')


def _are_unique(reading: Reading) -> bool:
    """Whether an index is known to name no element twice."""
    if any(isinstance(p, Value) and p.ndim for p in reading.places.values()):
        return False
    known = [np.broadcast_to(p, reading.block).ravel() for p in reading.places.values() if not isinstance(p, Value)]
    return not known or len({*zip(*(k.tolist() for k in known), strict=True)}) == known[0].size


# ---- an update as one scatter

def _update(place: Place, primitive: Primitive, values: ArrayLike, *, mode: Any = None, out_sharding: Sharding = None,
            indices_are_sorted: bool = False, unique_indices: bool = False) -> Value:
    x = as_value(place.array, 'at')
    t = typeof(x)
    reading = read_index(t, place.index, strict=False)
    lines = [d for d, p in enumerate(reading.picks) if d not in reading.places and _is_line(t, d, p)]
    origins = [o for o in reading.layout if not isinstance(o, bool)]
    batch = [k for k, o in enumerate(origins) if o == 'place' or o in lines]        # these dimensions of updates name places
    shape = [n for n, o in zip(reading.shape(), reading.layout, strict=True) if not isinstance(o, bool)]
    dims, components = [], []
    block = [j for j, k in enumerate(batch) if origins[k] == 'place']
    for d, positions in reading.places.items():
        dims.append(d)
        components.append(_spread(positions, block, len(batch)))
    for d in lines:
        dims.append(d)
        components.append(_spread(_positions(reading.picks[d]), [batch.index(origins.index(d))], len(batch)))
    starting = [d for d, p in enumerate(reading.picks) if d not in dims and (p.dropped or p.limit - p.start != t.shape[d])]
    for d in starting:
        dims.append(d)
        components.append(np.full((1,) * len(batch), reading.picks[d].start, np.int32))
    dropped = [d for d, p in enumerate(reading.picks) if p.dropped]
    windows = Windows(offset_dims=tuple(k for k in range(len(origins)) if k not in batch),
                      collapsed_slice_dims=tuple(sorted({*reading.places, *lines, *dropped})), start_index_map=tuple(dims))
    sizes = tuple(1 if d in windows.collapsed_slice_dims else p.limit - p.start for d, p in enumerate(reading.picks))
    indices = vectors(components, tuple(shape[k] for k in batch))
    updates = _values(t, values, reading, origins, sizes)
    return updated(primitive, x, indices, updates, windows, sizes, mode=bounds(mode), out_sharding=out_sharding)


def _is_line(t: ArrayType, d: int, pick: Pick) -> bool:
    """Whether a slice is written place by place: where it has gaps or is turned round, and where each rank writes its own part."""
    if pick.dropped:
        return False
    whole = pick.limit - pick.start == t.shape[d]
    return pick.turned or pick.stride > 1 or not whole and bool(t.partitions[d])


def _positions(pick: Pick) -> np.ndarray:
    line = np.arange(pick.start, pick.limit, pick.stride, dtype=np.int32)
    return line[::-1] if pick.turned else line


def _spread(positions, at: list[int], ndim: int):
    """Positions with their dimensions at some of those of the places, the others of size 1."""
    ranks = list(at)[len(at) - np.ndim(positions):]
    shape = [1] * ndim
    for j, n in zip(ranks, np.shape(positions), strict=True):
        shape[j] = n
    if isinstance(positions, np.ndarray):
        return positions.reshape(shape)
    return lax_shape.broadcast_in_dim(positions, shape, ranks)


def _values(t: ArrayType, values: ArrayLike, reading: Reading, origins: list, sizes: tuple[int, ...]) -> Value:
    """The updates: values in the array's dtype, broadcast to what the index names, without its new dimensions."""
    shape = reading.shape()
    v = t.dtype.type(_real(t, values)) if is_scalar(values) else as_value(values, 'at')
    if not is_scalar(v) and (v.dtype != t.dtype or v.weak_type):
        v = convert_element_type(v, new_dtype=t.dtype, weak_type=False)
    if np.ndim(v) > len(shape):
        raise ValueError(f"at: values of shape {v.shape} do not broadcast to what the index names, {shape}")
    if is_scalar(v):
        split = P(*(t.partitions[o] or None if isinstance(o, int) and sizes[o] == t.shape[o] else None for o in origins))
        bare = [n for n, o in zip(shape, reading.layout, strict=True) if not isinstance(o, bool)]
        placed = None if t.mesh.empty or not any(split) else NamedSharding(t.mesh, split)
        return lax_shape.broadcast_in_dim(as_value(v, 'at'), bare, (), out_sharding=placed)
    v = broadcast_to(v, shape)
    new = [k for k, o in enumerate(reading.layout) if isinstance(o, bool)]
    if not all(reading.layout[k] for k in new):
        raise IndexError('at: False as an index names no element')
    return lax_shape.squeeze(v, new) if new else v


def _real(t: ArrayType, number):
    return number.real if t.dtype.kind != 'c' and isinstance(number, (complex, np.complexfloating)) else number


__all__: list[str] = []
