"""Arrays as sets: which values there are, and which are in several. What is found depends on all elements, so they have to be whole.

Results have a size that depends on values: with `size` they can be traced, without it the values have to be known to Python.
"""

import math
from typing import Any, NamedTuple

from distad.core.lift import as_value
from distad.core.value import Value
from distad.lax.kind import kindly
from distad.numpy.creation import arange, full_like
from distad.numpy.indexing import getitem
from distad.numpy.joining import concatenate
from distad.numpy.logic import logical_and, where
from distad.numpy.promotion import ArrayLike, converted, promoted
from distad.numpy.reductions import sum
from distad.numpy.searching import need_all, number_of
from distad.numpy.shapes import broadcast_to, moveaxis, ravel, reshape
from distad.numpy.sorting import argsort, searchsorted, sort
from distad.numpy.taking import compress, take
from distad.ops import compare
from distad.ops import searching as ops


def unique(ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, size: int | None = None, fill_value: Any = None,
           sorted: bool = True) -> Value | tuple[Value, ...]:
    """The different elements of an array in rising order; on demand where each is first, the number of each element's, and counts.

    ar: [n, ..], whole on every rank; axis: the dimension whose entries are compared, in lexicographic order; by default all elements
    are; equal_nan: whether all NaN are one. With a `size` there are so many: what is too many is cut off, what is missing is
    `fill_value`, by default the least. `sorted` is accepted; they always are. Nothing is communicated.
    Raises ConcretizationTypeError for a traced array without a size, ShardingTypeError for a split or unreduced one.

        jnp.unique(jnp.array([3, 1, 3]), size=2)
    """
    x = as_value(ar, 'unique')
    need_all('unique', x)
    entries = ravel(x) if axis is None else moveaxis(x, axis, 0)
    n, each = entries.shape[0], entries.shape[1:]
    rows = reshape(entries, (n, math.prod(each)))
    size = number_of('unique', rows, size, lambda value: ops.distinct(value, equal_nan)[0].size)
    first, counts, numbers = ops.unique(rows, size=size, equal_nan=bool(equal_nan))
    values = take(entries, first, 0, mode='clip') if n else entries
    if fill_value is not None:
        fill = broadcast_to(converted(as_value(fill_value, 'unique'), x.dtype, False), each)
        values = where(reshape(counts, (size, *[1] * len(each))) == 0, fill, values)
    values, numbers = (values, reshape(numbers, x.shape)) if axis is None else (moveaxis(values, 0, axis), numbers)
    more = [y for y, wanted in ((first, return_index), (numbers, return_inverse), (counts, return_counts)) if wanted]
    return (values, *more) if more else values


class UniqueAll(NamedTuple):
    """What `unique` gives."""

    values: Value
    indices: Value
    inverse_indices: Value
    counts: Value


class UniqueCounts(NamedTuple):
    """Values, and how often each is there."""

    values: Value
    counts: Value


class UniqueInverse(NamedTuple):
    """Values, and for each element the number of its value."""

    values: Value
    inverse_indices: Value


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """`unique` with all that it can return; each NaN is a value of its own.

        jnp.unique_all(jnp.array([3, 1, 3]))
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """`unique` with counts; each NaN is a value of its own.

        jnp.unique_counts(jnp.array([3, 1, 3]))
    """
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """`unique` with the number of each element's value; each NaN is a value of its own.

        jnp.unique_inverse(jnp.array([3, 1, 3]))
    """
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> Value:
    """`unique` alone; each NaN is a value of its own.

        jnp.unique_values(jnp.array([3, 1, 3]))
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def isin(element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
         method: str = 'auto') -> Value:
    """Whether each element is among others.

    element: [..], which may be split; test_elements: any shape, gathered where it is split; invert: whether they are not.
    `assume_unique` and `method` are accepted and not needed.

        jnp.isin(jnp.array([3, 1]), jnp.array([1, 2]))
    """
    x, others = promoted('isin', as_value(element, 'isin'), as_value(test_elements, 'isin'))
    if not others.size:
        found = full_like(x, False, bool)
    else:
        line = sort(ravel(others))
        place = searchsorted(line, x)
        found = kindly(compare.eq, take(line, place, mode='clip'), x)
    return ~found if invert else found


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The values that are in either array, rising. All else as `unique`.

        jnp.union1d(jnp.array([3, 1]), jnp.array([1, 2]))
    """
    return unique(concatenate([ravel(ar1), ravel(ar2)]), size=size, fill_value=fill_value)


def _values(ar: ArrayLike) -> tuple[Value, Value, Value]:
    """The different elements of an array, as many as it has elements; where each is first; and whether it is one or only fills up."""
    x = ravel(ar)
    values, first, counts = unique(x, True, return_counts=True, size=x.size)
    return values, first, counts > 0


def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
                size: int | None = None, fill_value: Any = None) -> Value | tuple[Value, Value, Value]:
    """The values that are in both arrays, rising; on demand where each is first in the first array and in the second.

    ar1, ar2: [...], whole, taken as one row. With a `size` there are so many: what is too many is cut off, what is missing is
    `fill_value`, by default the least, and the array's size as index. `assume_unique` is accepted and not needed. Nothing is
    communicated. Raises ConcretizationTypeError for traced arrays without a size, ShardingTypeError for split or unreduced ones.

        jnp.intersect1d(jnp.array([3, 1, 2]), jnp.array([2, 3]))          # 2, 3
    """
    x, y = (ravel(v) for v in promoted('intersect1d', as_value(ar1, 'intersect1d'), as_value(ar2, 'intersect1d')))
    need_all('intersect1d', y)
    values, first, are = _values(x)
    keep = logical_and(are, isin(values, y))
    found = _picked(keep, values, size, fill_value)
    if not return_indices:
        return found
    order = argsort(y)
    second = take(order, searchsorted(take(y, order), values), mode='clip') if y.size else first
    return found, *(compress(keep, at, size=size, fill_value=n) for at, n in ((first, x.size), (second, y.size)))


def _picked(keep: Value, values: Value, size: int | None, fill_value: Any) -> Value:
    """Values, rising, where they are to be kept; the least of these fills up."""
    found = compress(keep, values, size=size, fill_value=0 if fill_value is None else fill_value)
    if fill_value is not None or size is None or not size:
        return found
    return where(arange(size) < sum(keep), found, getitem(found, 0))


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The values that are in the first array and not in the second, rising; with `assume_unique` in the order of the first.

    ar1: [...], whole; ar2: [...], gathered where it is split. What is missing to `size` is `fill_value`, by default 0. All else as
    `intersect1d`.

        jnp.setdiff1d(jnp.array([3, 1, 2]), jnp.array([2, 3]))            # 1
    """
    x, y = promoted('setdiff1d', as_value(ar1, 'setdiff1d'), as_value(ar2, 'setdiff1d'))
    need_all('setdiff1d', x)
    values, are = (ravel(x), True) if assume_unique else _values(x)[::2]
    keep = logical_and(are, isin(values, y, invert=True))
    return compress(keep, values, size=size, fill_value=0 if fill_value is None else fill_value)


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The values that are in one of two arrays and not in the other, rising. All else as `intersect1d`.

        jnp.setxor1d(jnp.array([3, 1, 2]), jnp.array([2, 3, 4]))          # 1, 4
    """
    x, y = promoted('setxor1d', as_value(ar1, 'setxor1d'), as_value(ar2, 'setxor1d'))
    parts = []
    for one, other in ((x, y), (y, x)):
        values, _, are = _values(one)
        parts.append((values, logical_and(are, isin(values, other, invert=True))))
    values, keep = map(concatenate, zip(*parts, strict=True))
    order = argsort(values)
    return _picked(take(keep, order), take(values, order), size, fill_value)


__all__ = ['intersect1d', 'isin', 'setdiff1d', 'setxor1d', 'union1d', 'unique', 'unique_all', 'unique_counts', 'unique_inverse',
           'unique_values']
