"""Order under NumPy's names: sort and its kin, and search in what is sorted.

Sorting is stable, with NaN last. A split dimension is sorted where it lies (see `lax.sort`); a search in a split array counts, on
each rank, the elements that it has.
"""

from collections.abc import Sequence

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax import cumulative as lax_cumulative
from distad.lax import slicing as lax_slicing
from distad.lax import sorting as lax
from distad.lax.dims import dim_of
from distad.lax.kind import kindly, settle, whole_along
from distad.numpy.elementwise import invert, negative
from distad.numpy.promotion import ArrayLike, converted, promoted
from distad.numpy.shapes import ravel
from distad.numpy.taking import take
from distad.ops import arithmetic
from distad.ops import sorting as ops
from distad.ops.cast import cast
from distad.ops.compare import ge, select_n
from distad.ops.sample_sort import permute
from distad.types import dtypes

__all__ = ['argpartition', 'argsort', 'digitize', 'lexsort', 'partition', 'searchsorted', 'sort', 'sort_complex', 'top_k']


def _start(name: str, a, axis: int | None, kind=None, order=None):
    """The array and the dimension to sort."""
    if order is not None:
        raise NotImplementedError(f"{name}: there are no structured arrays, so there is no order=")
    if kind not in (None, 'stable', 'mergesort', 'quicksort', 'heapsort'):
        raise ValueError(f"{name}: kind is a name of NumPy's, which makes no difference, got {kind!r}")
    x = as_value(a, name)
    if axis is None:
        return ravel(x), 0
    return x, dim_of(name, axis, x.ndim)


def sort(a: ArrayLike, axis: int | None = -1, *, kind: str | None = None, order: None = None, stable: bool = True,
         descending: bool = False) -> Value:
    """The elements in order, NaN last.

    Args:
      a: [..., n@X, ...], any dtype. axis: the dimension n; None for all elements in one row. descending: the greatest first.
      kind, stable: accepted for their names; the sort is stable in any case.
    Returns: an array of the type of `a`. The derivative is the permutation.
    Communication: none where the dimension is whole, else that of `lax.sort`.
    Raises: ShardingTypeError for an unreduced array.

    >>> sort(np.float32([3, 1, 2]))
    Array([1., 2., 3.], dtype=float32)
    """
    x, d = _start('sort', a, axis, kind, order)
    y = lax.sort(x, dimension=d)
    return turned(y, d) if descending else y


def turned(x: Value, d: int) -> Value:
    """The array from its end; one dimension that is split is turned by an exchange of blocks."""
    if x.ndim > 1 or lax_cumulative.ranks_along(x.type, d) == 1:
        return lax_slicing.rev(x, (d,))
    last = ops.INDEX.type(x.size - 1)
    return permute(x, kindly(arithmetic.sub, last, ops.numbers_like(x, 0)), back=False)


def argsort(a: ArrayLike, axis: int | None = -1, *, kind: str | None = None, order: None = None, stable: bool = True,
            descending: bool = False, dtype=None) -> Value:
    """The indices that sort the array: int32, or of an integer `dtype`. All else as `sort`.

    >>> argsort(np.float32([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    x, d = _start('argsort', a, axis, kind, order)
    numbers = ops.numbers_like(x, d)
    if descending:
        x, numbers = turned(x, d), turned(numbers, d)
    _, at = lax.sort((x, numbers), dimension=d)
    at = turned(at, d) if descending else at
    return at if dtype is None else converted(at, dtypes.canonical(dtype), False)


def top_k(a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = 'largest', sorted: bool = True) -> tuple[Value, Value]:
    """The k greatest elements along a dimension, the greatest first, or with mode='smallest' the least; and their indices.

    a: [..., n, ...], real; sorted: accepted, they always are. Returns values and int32 indices [..., k, ...]. Communication and errors
    as of `lax.top_k`.

        jnp.top_k(jnp.array([3, 1, 2]), 2)        # (3, 2), (0, 2)
    """
    x = as_value(a, 'top_k')
    if mode not in ('largest', 'smallest'):
        raise ValueError(f"top_k: mode is 'largest' or 'smallest', got {mode!r}")
    if mode == 'largest':
        return lax.top_k(x, k, axis=axis)
    turn = negative if dtypes.is_float(x.dtype) else invert         # which turns the order round for all integers
    values, places = lax.top_k(turn(x), k, axis=axis)
    return turn(values), places


def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1) -> Value:
    """The indices that sort by several keys: by the last one, then by the one before it, and so on.

    Args: keys: arrays of one shape [..., n@X, ...], or an array of them. axis: the dimension n.
    Returns: int32[..., n, ...], split as the keys are.
    Communication: as that of `sort`.

    >>> lexsort((np.int32([0, 1, 0]), np.int32([1, 1, 0])))
    Array([2, 0, 1], dtype=int32)
    """
    xs = [as_value(key, 'lexsort') for key in keys]
    if not xs:
        raise TypeError('lexsort needs one key or more')
    d = dim_of('lexsort', axis, xs[0].ndim)
    return lax.sort((*reversed(xs), ops.numbers_like(xs[-1], d)), dimension=d, num_keys=len(xs))[-1]


def partition(a: ArrayLike, kth: int, axis: int | None = -1) -> Value:
    """The array with its kth element in its place, no greater ones before and no lesser ones after it: all of it sorted.

    Args: as `sort`. kth: counted from the end if negative.

    >>> partition(np.float32([3, 1, 2]), 1)
    Array([1., 2., 3.], dtype=float32)
    """
    x, d = _start('partition', a, axis)
    dim_of('partition', kth, x.shape[d])
    return lax.sort(x, dimension=d)


def argpartition(a: ArrayLike, kth: int, axis: int | None = -1) -> Value:
    """The indices that partition the array; see `partition`.

    >>> argpartition(np.float32([3, 1, 2]), 1)
    Array([1, 2, 0], dtype=int32)
    """
    x, d = _start('argpartition', a, axis)
    dim_of('argpartition', kth, x.shape[d])
    return argsort(x, d)


def sort_complex(a: ArrayLike) -> Value:
    """The array as complex numbers, sorted along its last dimension by real, then by imaginary parts.

    >>> sort_complex(np.float32([2, 1]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    x = as_value(a, 'sort_complex')
    return sort(converted(x, np.promote_types(dtypes.inexact(x.dtype), np.complex64), False))


# ---- search

def searchsorted(a: ArrayLike, v: ArrayLike, side: str = 'left', sorter: ArrayLike | None = None, *, method: str = 'scan') -> Value:
    """Where values belong in a sorted array: how many of its elements lie before each.

    Args:
      a: [n@X], in order (NaN last). v: [...], values to find. side: 'left' counts elements less than a value, 'right' also equal
      ones. sorter: int[n], the indices that sort `a`. method: accepted for its name.
    Returns: int32[...], split as v.
    Communication: where `a` is split, one all-reduce of the result; where v is split over the same axis, v is gathered and the result
      reduce-scattered.
    Raises: ShardingTypeError for unreduced arrays; ValueError where `a` is not of one dimension.

    >>> searchsorted(np.float32([1, 2, 3]), np.float32([2, 5]))
    Array([1, 3], dtype=int32)
    """
    a, v = (as_value(x, 'searchsorted') for x in promoted('searchsorted', as_value(a, 'searchsorted'), as_value(v, 'searchsorted')))
    if a.ndim != 1 or side not in ('left', 'right'):
        raise ValueError(f"searchsorted takes a sorted array of one dimension and a side, 'left' or 'right', got {a.type} and {side!r}")
    if sorter is not None:
        a = take(a, as_value(sorter, 'searchsorted'))
    t = typeof(v)
    shared = [d for d, axes in enumerate(t.partitions) if set(axes) & set(a.type.partitions[0])]
    y = kindly(ops.searchsorted, a, whole_along(v, shared), side=side)
    if not shared:
        return settle(y)
    out = typeof(y)
    return cast(y, out.update(partitions=t.partitions, unreduced=(), reduced=out.reduced - t.split_axes, kind='sum'))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Value:
    """The number of the bin that each value is in: i for bins[i - 1] <= x < bins[i] (or, falling, bins[i - 1] > x >= bins[i]).

    Args:
      x: [...]. bins: [n], in rising or falling order. right: whether a bin contains its right end instead of its left one.
    Returns: int32[...], split as x. Communication: as that of `searchsorted`.

    >>> digitize(np.float32([0.5, 1.5]), np.float32([0, 1, 2]))
    Array([1, 2], dtype=int32)
    """
    x, bins = as_value(x, 'digitize'), as_value(bins, 'digitize')
    if bins.ndim != 1:
        raise ValueError(f"digitize takes bins of one dimension, got {bins.type}")
    if not bins.size:
        return settle(kindly(ops.searchsorted, *promoted('digitize', bins, x), side='left'))
    side = 'left' if right else 'right'
    rising = kindly(ge, *(take(bins, np.int32(i)) for i in (bins.size - 1, 0)))
    other = searchsorted(turned(bins, 0), x, side)
    falling = kindly(arithmetic.sub, np.int32(bins.size), other)
    return kindly(select_n, rising, falling, searchsorted(bins, x, side))
