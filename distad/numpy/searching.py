"""Where a mask is true, and which values there are: results whose size depends on values.

With a `size` they have that many entries and can be traced; without it the values have to be known to Python.
"""

from typing import Any

import numpy as np

from distad.core.lift import as_value, read
from distad.core.value import Value, is_scalar, typeof
from distad.errors import ConcretizationTypeError
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.kind import kindly
from distad.numpy.known import known
from distad.numpy.shapes import ravel
from distad.ops import arithmetic, compare
from distad.ops import searching as ops


def _size(name: str, x: Value, size: int | None, count) -> int:
    """How many entries the result has: as said, or as counted now."""
    if size is not None:
        return int(size)
    array = known(x)
    if array is None:
        raise ConcretizationTypeError(f"{name} of a traced value of type {x.type} needs size=n: how many entries the result has "
                                      "depends on the value, which is not known while the program is traced.")
    return int(count(read(array)))


def _places(name: str, x: Value, size: int | None) -> Value:
    """Positions where an array is not zero, in the array as one row."""
    flat = ravel(x)
    size = _size(name, x, size, np.count_nonzero)
    if flat.dtype != bool:
        flat = compare.ne(flat, flat.dtype.type(0))
    return ops.nonzero(flat, size=size)


def nonzero(a, *, size: int | None = None, fill_value: Any = None) -> tuple[Value, ...]:
    """The positions where an array is not zero: for each dimension an integer array [size].

    a: [n, ..], whole on every rank. With a `size` the result has so many entries: what is too many is cut off, what is missing
    is `fill_value` (a number or one for each dimension, 0 by default). Nothing is communicated.
    Raises ConcretizationTypeError for a traced array without a size, ShardingTypeError for a split or unreduced one.

        jnp.nonzero(jnp.array([1, 0, 2]), size=2)
    """
    x = as_value(a, 'nonzero')
    if not x.ndim:
        raise ValueError('nonzero takes an array of one dimension or more; use jnp.atleast_1d(x)')
    places = _places('nonzero', x, size)
    fills = [0] * x.ndim if fill_value is None else [fill_value] * x.ndim if np.ndim(fill_value) == 0 else list(fill_value)
    found, stride = [], x.size
    for n, fill in zip(x.shape, fills, strict=True):
        stride //= max(n, 1)
        one = kindly(arithmetic.rem, kindly(arithmetic.div, places, np.int32(max(stride, 1))), np.int32(max(n, 1)))
        found.append(kindly(compare.select_n, compare.ge(places, np.int32(x.size)), one, np.int32(fill)))
    return tuple(found)


def argwhere(a, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The positions where an array is not zero, as integers [size, ndim]. See `nonzero`.

        jnp.argwhere(jnp.array([[1, 0], [0, 2]]), size=2)
    """
    x = as_value(a, 'argwhere')
    columns = nonzero(x, size=size, fill_value=fill_value)
    return slicing.concatenate([lax_shape.expand_dims(c, (1,)) for c in columns], 1)


def flatnonzero(a, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The positions where an array is not zero, in the array as one row. See `nonzero`.

        jnp.flatnonzero(jnp.array([1, 0, 2]), size=2)
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def unique(ar, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
           equal_nan: bool = True, size: int | None = None, fill_value: Any = None) -> Value | tuple[Value, ...]:
    """The different elements of an array in rising order; on demand where each is first, the number of each element's, and counts.

    ar: [n, ..], whole on every rank. With a `size` there are so many: what is too many is cut off, what is missing is
    `fill_value`, by default the least element. Nothing is communicated.
    Raises ConcretizationTypeError for a traced array without a size, ShardingTypeError for a split or unreduced one.

        jnp.unique(jnp.array([3, 1, 3]), size=2)
    """
    if axis is not None or not equal_nan:
        raise NotImplementedError('unique takes all elements of an array (axis=None), and all NaN as one (equal_nan=True)')
    x = as_value(ar, 'unique')
    flat = ravel(x)
    size = _size('unique', x, size, lambda value: np.unique(value).size)
    first, counts, numbers = ops.unique(flat, size=size)
    values = flat[first]
    if fill_value is not None:
        fill = typeof(flat).dtype.type(fill_value) if is_scalar(fill_value) else fill_value
        values = kindly(compare.select_n, compare.eq(counts, np.int32(0)), values, fill)
    numbers = lax_shape.reshape(numbers, x.shape)
    more = [y for y, wanted in ((first, return_index), (numbers, return_inverse), (counts, return_counts)) if wanted]
    return (values, *more) if more else values


__all__ = ['argwhere', 'flatnonzero', 'nonzero', 'unique']
