"""Elements at positions: take, put and their kin.

Of a split dimension that positions pick from, each rank gives what it has, and one all-reduce of the result's size follows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from distad.core.lift import as_value, read
from distad.core.value import Value, is_scalar
from distad.errors import ShapeError
from distad.lax import shape as lax_shape
from distad.lax.dims import dim_of
from distad.lax.indexing import bounds, filling, looked_up, updated, vectors, wrapped
from distad.lax.kind import kindly
from distad.lax.shape import broadcast_shapes
from distad.numpy.at import At
from distad.numpy.elementwise import remainder
from distad.numpy.index import Pick, Reading
from distad.numpy.indexing import taken
from distad.numpy.known import known
from distad.numpy.logic import clip
from distad.numpy.promotion import ArrayLike, converted, promoted, same_rank
from distad.numpy.searching import nonzero
from distad.numpy.shapes import broadcast_to, ravel
from distad.ops import gather as ops
from distad.ops.compare import select_n
from distad.ops.windows import Windows


def take(a, indices, axis: int | None = None, out: None = None, mode: str | None = None, unique_indices: bool = False,
         indices_are_sorted: bool = False, fill_value: Any = None) -> Value:
    """Elements of an array at positions along a dimension, or of the array as one row.

    a: [n, ..]; indices: integers of any shape. Mode 'fill' (the default) gives NaN (or the least integer, or `fill_value`) for
    positions beyond the bounds and counts negative ones from the end, 'clip' moves them inside, 'wrap' takes the remainder. The
    result has the indices' dimensions where `axis` was, split as the indices are, and the others as a's.
    Communication: an all-reduce of the result where `axis` is split, or a reduce-scatter if the indices are split over its axis.
    Raises ShardingTypeError for unreduced indices.

        jnp.take(jnp.arange(6.), jnp.array([1, 5]))
    """
    if out is not None:
        raise NotImplementedError('take: arrays are immutable, so there is no out=. Use the result.')
    x = as_value(a, 'take')
    if axis is None:
        x, axis = ravel(x), 0
    d = dim_of('take', axis, x.ndim)
    n = x.shape[d]
    index = indices if isinstance(indices, Value) else np.asarray(indices)
    if mode == 'raise':
        raise NotImplementedError("take: mode 'raise' would need the values of indices on each rank. Use 'fill', 'clip' or 'wrap'.")
    if mode == 'wrap':
        places = remainder(index, np.int32(n)) if isinstance(index, Value) else np.mod(index, n).astype(np.int32)
    elif mode == 'clip' and isinstance(index, Value):
        places = clip(index, 0, n - 1)
    else:
        places = np.clip(index, 0, n - 1) if mode == 'clip' else wrapped('take', index, n)
    picks = tuple(Pick(start=0, limit=m) for m in x.shape)
    layout = (*range(d), *(['place'] * np.ndim(places)), *range(d + 1, x.ndim))
    reading = Reading(picks=picks, places={d: places}, block=np.shape(places), layout=layout)
    return taken(x, reading, mode='clip' if mode in ('wrap', 'clip') else bounds(mode), fill=filling(x.dtype, fill_value))


def take_along_axis(arr, indices, axis: int | None = -1, mode: str | None = None, fill_value: Any = None) -> Value:
    """For each place of `indices` the element at that position along a dimension, and otherwise at the same place.

    arr: [.., n, ..]; indices: integers [.., m, ..]; dimensions other than `axis` are shared: they broadcast, and are split
    where one of both is. Modes as of `take`. Communication and errors as of `take`.

        jnp.take_along_axis(jnp.ones((2, 3)), jnp.array([[0], [2]]), 1)    # float32[2,1]
    """
    x, index = as_value(arr, 'take_along_axis'), as_value(indices, 'take_along_axis')
    if axis is None:
        if index.ndim != 1:
            raise ValueError(f"take_along_axis with axis=None takes indices of one dimension, got {index.type}")
        x, axis = ravel(x), 0
    d, x, index, windows = _along('take_along_axis', x, index, axis)
    sizes = (1,) * x.ndim
    return looked_up(x, vectors([wrapped('take_along_axis', index, x.shape[d])], index.shape), windows, sizes, mode=bounds(mode),
                     fill=filling(x.dtype, fill_value))


def _along(name: str, x: Value, index: Value, axis: int):
    """Array and positions with their other dimensions broadcast, and how they go together."""
    if index.ndim != x.ndim:
        raise ValueError(f"{name} takes indices of the array's rank, got {x.type} and {index.type}")
    d = dim_of(name, axis, x.ndim)
    try:
        shape = broadcast_shapes(*(tuple(1 if i == d else n for i, n in enumerate(y.shape)) for y in (x, index)))
    except ValueError:
        raise ShapeError(f"{name}: dimensions other than {d} must be equal or 1, got {x.type} and {index.type}") from None
    x, index = (broadcast_to(y, (*shape[:d], y.shape[d], *shape[d + 1:])) for y in (x, index))
    others = tuple(i for i in range(x.ndim) if i != d)
    return d, x, index, Windows(offset_dims=(), collapsed_slice_dims=(d,), start_index_map=(d,), operand_batching_dims=others,
                                start_indices_batching_dims=others)


def put_along_axis(arr, indices, values: ArrayLike, axis: int | None, inplace: bool = True, *, mode: str | None = None) -> Value:
    """The array with elements replaced that `take_along_axis` would read. Call it with `inplace=False`: arrays are immutable.

    arr: [.., n, ..]; indices: integers [.., m, ..]; values: a number or an array that broadcasts to the indices. The result
    lies as the array. Communication: none. Raises ShardingTypeError for positions along `axis` that are split.

        jnp.put_along_axis(jnp.ones((2, 3)), jnp.array([[0], [2]]), 0.0, 1, inplace=False)
    """
    _not_in_place('put_along_axis', inplace)
    x, index = as_value(arr, 'put_along_axis'), as_value(indices, 'put_along_axis')
    if axis is None:
        return lax_shape.reshape(put_along_axis(ravel(x), index, values, 0, inplace=False, mode=mode), x.shape)
    d, x, index, windows = _along('put_along_axis', x, index, axis)
    number = x.dtype.type(values) if is_scalar(values) else converted(as_value(values, 'put_along_axis'), x.dtype, False)
    updates = broadcast_to(number, index.shape)
    return updated(ops.scatter, x, vectors([wrapped('put_along_axis', index, x.shape[d])], index.shape), updates, windows,
                   (1,) * x.ndim, mode=bounds(mode))


def _not_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(f"{name}: arrays are immutable. Call it with inplace=False and use the result, or x.at[...].set(...).")


def put(a, ind, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Value:
    """The array with elements at positions in it as one row replaced by values, which are repeated as needed.

    Call it with `inplace=False`: arrays are immutable. Positions beyond the bounds are moved inside, or with mode 'wrap' the
    remainder is taken. See `x.at[...].set`.

        jnp.put(jnp.zeros((2, 3)), jnp.array([0, 4]), 1.0, inplace=False)
    """
    _not_in_place('put', inplace)
    x = as_value(a, 'put')
    index = ravel(as_value(ind, 'put'))
    values = as_value(np.asarray(v) if isinstance(v, (list, tuple)) else v, 'put')
    if values.ndim:
        values = ravel(values)
        values = values[np.arange(index.size) % max(values.size, 1)]
    flat = ravel(x)
    if mode == 'wrap':
        index = remainder(index, np.int32(x.size))
    return lax_shape.reshape(At(flat)[index].set(values, mode='clip'), x.shape)


# ---- by a mask

def compress(condition, a, axis: int | None = None, *, size: int | None = None, fill_value: ArrayLike = 0,
             out: None = None) -> Value:
    """The elements along a dimension (or of the array as one row) where a mask is true.

    condition: bool [m], m at most n; a: [.., n, ..]. With a `size` there are so many: what is too many is cut off, what
    is missing is `fill_value`; without it the mask has to be known. Communication and errors as of `take`.

        jnp.compress(jnp.array([True, False, True]), jnp.arange(3.))
    """
    if out is not None:
        raise NotImplementedError('compress: arrays are immutable, so there is no out=. Use the result.')
    x = as_value(a, 'compress')
    if axis is None:
        x, axis = ravel(x), 0
    d = dim_of('compress', axis, x.ndim)
    mask = ravel(as_value(condition, 'compress') if isinstance(condition, Value) else np.asarray(condition, bool))
    if mask.shape[0] > x.shape[d]:
        raise ValueError(f"compress: a mask of {mask.shape[0]} is longer than dimension {d} of {x.type}")
    places, = nonzero(mask, size=size, fill_value=x.shape[d])
    return take(x, places, d, mode='fill', fill_value=fill_value)


def extract(condition, arr, *, size: int | None = None, fill_value: ArrayLike = 0) -> Value:
    """The elements of an array, as one row, where a mask is true. See `compress`.

        jnp.extract(jnp.array([True, False, True]), jnp.arange(3.))
    """
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def choose(a, choices: Sequence[ArrayLike], out: None = None, mode: str = 'raise') -> Value:
    """From each place the choice with the number that stands there.

    a: integers [...]; choices: arrays of one dtype that broadcast to [...]. Numbers out of range are an error if they are
    known; mode 'clip' moves them inside, 'wrap' takes the remainder. Placement as of `jnp.where`. Nothing is communicated.

        jnp.choose(jnp.array([1, 0]), [jnp.zeros(2), jnp.ones(2)])
    """
    if out is not None:
        raise NotImplementedError('choose: arrays are immutable, so there is no out=. Use the result.')
    which, n = as_value(a, 'choose'), len(choices)
    choices = [np.asarray(c) if is_scalar(c) else c for c in choices]
    if mode == 'raise':
        value = known(which)
        if value is None:
            raise NotImplementedError(f"choose: mode 'raise' would have to read a traced array of type {which.type}. Use "
                                      "mode='clip' or mode='wrap'.")
        if np.any((read(value) < 0) | (read(value) >= n)):
            raise ValueError('invalid entry in choice array: it must be 0 or more and less than the number of choices')
    which = remainder(which, np.int32(n)) if mode == 'wrap' else clip(which, 0, n - 1)
    which = converted(which, np.dtype(np.int32), False)
    if n == 1:
        return broadcast_to(choices[0], broadcast_shapes(which.shape, np.shape(choices[0])))
    return kindly(select_n, *same_rank([which, *promoted('choose', *choices)], 'choose'))


__all__ = ['choose', 'compress', 'extract', 'put', 'put_along_axis', 'take', 'take_along_axis']
