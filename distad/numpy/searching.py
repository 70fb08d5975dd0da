"""Where a mask is true: results whose size depends on values.

With a `size` they have that many entries and can be traced; without it the values have to be known to Python.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from distad.core.lift import as_value, read
from distad.core.value import Value, typeof
from distad.errors import ConcretizationTypeError, ShardingTypeError
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.kind import kindly
from distad.numpy.known import known
from distad.numpy.shapes import ravel
from distad.ops import arithmetic, compare
from distad.ops import searching as ops


def number_of(name: str, x: Value, size: int | None, count: Callable[[np.ndarray], int]) -> int:
    """How many entries the result has: as said, or as counted now."""
    if size is not None:
        return int(size)
    array = known(x)
    if array is None:
        raise ConcretizationTypeError(f"{name} of a traced value of type {x.type} needs size=n: how many entries the result has "
                                      "depends on the value, which is not known while the program is traced.")
    return int(count(read(array)))


def need_all(name: str, x: Value) -> None:
    """What is found depends on all elements, so they have to be on every rank."""
    t = typeof(x)
    split = [d for d, axes in enumerate(t.partitions) if axes]
    if split or t.unreduced:
        why = (f"needs the whole of dimension {split[0]}, which is split over {','.join(t.partitions[split[0]])}" if split else
               'is a non-linear operation and cannot accept input that is unreduced')
        goal = slicing.whole(t, split).update(unreduced=(), kind='sum')
        raise ShardingTypeError(f"{name} {why}, got {t}. Gather it first: reshard(x, {lax_shape.written(goal)}).")


def _places(name: str, x: Value, size: int | None) -> Value:
    """Positions where an array is not zero, in the array as one row."""
    need_all(name, x)
    flat = ravel(x)
    size = number_of(name, x, size, np.count_nonzero)
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


__all__ = ['argwhere', 'flatnonzero', 'nonzero']
