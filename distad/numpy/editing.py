"""Entries put in, taken out and put over: insert, delete, trim_zeros, place, fill_diagonal, and bits packed into bytes.

Where the size along a dimension changes, that dimension is gathered first, if it is split, by one all-gather: its blocks could not stay
of one size. Others stay split, and nothing is communicated for them.
"""

import operator

import numpy as np

from distad.core.lift import as_value, read
from distad.core.value import Value
from distad.errors import ConcretizationTypeError
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.creation import broadcasted_iota
from distad.lax.dims import dim_of
from distad.lax.kind import whole_along
from distad.numpy.creation import arange, asarray
from distad.numpy.cumulative import cumsum
from distad.numpy.elementwise import bitwise_and, remainder, right_shift
from distad.numpy.joining import concatenate
from distad.numpy.known import known
from distad.numpy.logic import logical_and, where
from distad.numpy.promotion import ArrayLike, converted
from distad.numpy.reductions import sum
from distad.numpy.searching import need_all
from distad.numpy.shapes import broadcast_to, moveaxis, ravel, reshape
from distad.numpy.sorting import argsort, sort
from distad.numpy.taking import take


def _line(name: str, a: ArrayLike, axis: int | None) -> tuple[Value, int]:
    """The array whole along the dimension in question, and which that is; without one the array as one row."""
    x = as_value(a, name)
    if axis is None:
        x, axis = ravel(x), 0
    d = dim_of(name, axis, x.ndim)
    return whole_along(x, (d,)), d


def insert(arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None) -> Value:
    """An array with entries put in before others.

    arr: [.., n, ..]; obj: a place, or [m] of them, or a slice: places in the array as it was, negative ones from the end; values: what
    is put there, broadcast to [.., m, ..] (for one place to the shape without the dimension, or with any m). axis: the dimension n, or
    None for the array as one row. Returns [.., n + m, ..] of the array's dtype, whole along the dimension.

        jnp.insert(jnp.arange(3), 1, 9)           # 0, 9, 1, 2
    """
    x, d = _line('insert', arr, axis)
    n = x.shape[d]
    places = arange(*obj.indices(n)) if isinstance(obj, slice) else asarray(obj)
    if places.ndim > 1 or places.size and places.dtype.kind not in 'iu':
        raise ValueError(f"insert takes one place or a vector of places, got {places.type}")
    new = converted(asarray(values), x.dtype, False)
    if new.ndim < x.ndim:
        new = lax_shape.expand_dims(new, range(x.ndim - new.ndim))
    if not places.ndim:
        new = moveaxis(new, 0, d)
    count = new.shape[d] if places.size == 1 else places.size
    new = broadcast_to(new, tuple(count if k == d else m for k, m in enumerate(x.shape)))
    places = broadcast_to(ravel(places), (count,)).astype(np.int32)
    places = where(places < 0, places + n, places).clip(0, n)
    # Old entries stand at odd numbers, and a new one at the even number just before its place; equal ones keep their order.
    order = argsort(concatenate([2 * places, 2 * arange(n, dtype=np.int32) + 1]))
    return take(concatenate([new, x], d), order, d, mode='clip', unique_indices=True)


def delete(arr: ArrayLike, obj: ArrayLike | slice, axis: int | None = None, *, assume_unique_indices: bool = False) -> Value:
    """An array without some of its entries.

    arr: [.., n, ..]; obj: a place, several, a slice, or a mask [n]. A place may be traced, and several if they are promised to differ
    by `assume_unique_indices`. axis: the dimension n, or None for the array as one row. Returns it shorter, whole along the dimension.
    Raises IndexError for a place that is not there, ConcretizationTypeError for a traced mask or places that may be equal.

        jnp.delete(jnp.arange(4), 1)              # 0, 2, 3
    """
    x, d = _line('delete', arr, axis)
    n = x.shape[d]
    array = known(obj) if isinstance(obj, Value) else None
    if array is None and isinstance(obj, Value):
        if obj.dtype == bool or obj.ndim and not assume_unique_indices:
            raise ConcretizationTypeError(f"delete of traced places of type {obj.type}: how many are left is not known while the "
                                          'program is traced. Say assume_unique_indices=True if they are integers that differ.')
        gone = sort(ravel(where(obj < 0, obj + n, obj)))
        # The i-th of those left is i and as many as of those gone, each less the gone before it, are not above i.
        kept = arange(n - gone.size, dtype=np.int32)
        before = (gone - arange(gone.size, dtype=gone.dtype))[:, None] <= kept
        kept = kept + sum(before, 0)
    else:
        kept = np.delete(np.arange(n, dtype=np.int32), obj if array is None else read(array))
    return take(x, kept, d, mode='clip', unique_indices=True)


def trim_zeros(filt: ArrayLike, trim: str = 'fb', axis: int | None = None) -> Value:
    """A vector without the zeros at its front ('f' in `trim`), its back ('b') or both.

    filt: [n], whole and known, for how many there are decides the size. axis: accepted for its name. Raises ConcretizationTypeError
    for a traced vector, ShardingTypeError for a split or unreduced one.

        jnp.trim_zeros(jnp.array([0, 1, 2, 0]))   # 1, 2
    """
    x = as_value(filt, 'trim_zeros')
    if x.ndim != 1:
        raise ValueError(f"trim_zeros takes a vector, got {x.type}")
    need_all('trim_zeros', x)
    array = known(x)
    if array is None:
        raise ConcretizationTypeError(f"trim_zeros of a traced value of type {x.type}: how many zeros there are is not known while the "
                                      'program is traced. Cut it by slices.')
    found = np.flatnonzero(read(array))
    if not found.size:
        return slicing.slice_in_dim(x, 0, 0)
    front = found[0] if 'f' in trim.lower() else 0
    back = found[-1] + 1 if 'b' in trim.lower() else x.size
    return slicing.slice_in_dim(x, int(front), int(back))


# ---- by a mask

def _not_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(f"{name}: arrays are immutable. Say inplace=False, and use the result.")


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Value:
    """An array with the elements where a mask is true replaced by values in turn: the first by the first, and so on, round and round.

    arr, mask: [...] of one size, split alike; vals: [m], whole. inplace: has to be False. The result lies as the array.
    Communication: where they are split, that of `cumsum`.

        jnp.place(jnp.arange(4), jnp.array([True, False, True, True]), jnp.array([8, 9]), inplace=False)      # 8, 1, 9, 8
    """
    _not_in_place('place', inplace)
    x, taken, values = as_value(arr, 'place'), as_value(mask, 'place'), ravel(as_value(vals, 'place'))
    if taken.size != x.size:
        raise ValueError(f"place takes an array and a mask of one size, got {x.type} and {taken.type}")
    if not x.size:
        return x
    if not values.size:
        raise ValueError('place: there are no values to put in')
    taken = reshape(taken != 0, x.shape)
    number = reshape(cumsum(ravel(taken), dtype=np.int32), x.shape) - 1
    return where(taken, converted(take(values, remainder(number, values.size), mode='clip'), x.dtype, False), x)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Value:
    """An array with its diagonal replaced by a number, or by values in turn.

    a: [m, n], or of more dimensions of one size; val: a number or [...], whole; wrap: has to be False (a diagonal that goes on in a
    tall matrix); inplace: has to be False. The result lies as the array. Nothing is communicated.

        jnp.fill_diagonal(jnp.zeros((3, 3)), 1., inplace=False)
    """
    _not_in_place('fill_diagonal', inplace)
    if wrap:
        raise NotImplementedError('fill_diagonal: wrap=True, a diagonal that goes on in a tall matrix, is not there. Say wrap=False.')
    x, values = as_value(a, 'fill_diagonal'), as_value(val, 'fill_diagonal')
    if x.ndim < 2 or x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError(f"fill_diagonal takes a matrix, or an array of more dimensions of one size, got {x.type}")
    rows = broadcasted_iota(np.int32, (x.shape[0], *[1] * (x.ndim - 1)), 0)
    on = True
    for d in range(1, x.ndim):
        on = logical_and(on, rows == broadcasted_iota(np.int32, [n if k == d else 1 for k, n in enumerate(x.shape)], d))
    if values.ndim:
        if not values.size:
            raise ValueError('fill_diagonal: there are no values to put in')
        values = reshape(take(ravel(values), np.arange(x.shape[0]) % values.size), rows.shape)
    return where(on, converted(values, x.dtype, False), x)


# ---- bits

def _shifts(name: str, bitorder: str) -> np.ndarray:
    if bitorder not in ('big', 'little'):
        raise ValueError(f"{name}: bitorder is 'big' or 'little', got {bitorder!r}")
    return np.arange(8, dtype=np.uint8)[::-1 if bitorder == 'big' else 1]


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = 'big') -> Value:
    """Truth values as bits of bytes, eight to each; what is missing at the end is zero.

    a: [.., n, ..] of bool or integers, of which other than zero is true. axis: the dimension n, or None for the array as one row.
    bitorder: whether the first is the highest ('big') or the lowest bit. Returns uint8 [.., ceil(n / 8), ..], whole along
    it.

        jnp.packbits(jnp.array([1, 0, 1]))        # 160
    """
    shifts = _shifts('packbits', bitorder)
    x, d = _line('packbits', a, axis)
    if x.dtype.kind not in 'biu':
        raise TypeError(f"packbits takes truth values or integers, got {x.type}")
    bits = moveaxis(x != 0, d, -1)
    bits = slicing.pad(bits, False, [*[(0, 0, 0)] * (x.ndim - 1), (0, -bits.shape[-1] % 8, 0)])
    bits = reshape(bits, (*bits.shape[:-1], bits.shape[-1] // 8, 8))
    return moveaxis(sum(where(bits, np.uint8(1) << shifts, np.uint8(0)), -1, dtype=np.uint8), -1, d)


def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = 'big') -> Value:
    """The bits of bytes, each as a byte 0 or 1: what `packbits` has packed.

    a: uint8 [.., n, ..]; axis: the dimension n, or None for the array as one row; count: how many bits are left along it: what is too
    many is cut off, what is missing is zero; negative, so many are cut off. Returns uint8 [.., 8 n, ..], whole along the dimension.

        jnp.unpackbits(jnp.array([160], jnp.uint8), count=3)      # 1, 0, 1
    """
    shifts = _shifts('unpackbits', bitorder)
    x, d = _line('unpackbits', a, axis)
    if x.dtype != np.uint8:
        raise TypeError(f"unpackbits takes bytes, uint8, got {x.type}")
    bits = bitwise_and(right_shift(lax_shape.expand_dims(moveaxis(x, d, -1), (x.ndim,)), shifts), np.uint8(1))
    bits = moveaxis(reshape(bits, (*bits.shape[:-2], 8 * bits.shape[-2])), -1, d)
    size = bits.shape[d]
    wanted = size if count is None else operator.index(count)
    wanted = max(wanted + size, 0) if wanted < 0 else wanted
    return bits if wanted == size else slicing.pad(bits, np.uint8(0), [(0, (wanted - size) * (k == d), 0) for k in range(bits.ndim)])


__all__ = ['delete', 'fill_diagonal', 'insert', 'packbits', 'place', 'trim_zeros', 'unpackbits']
