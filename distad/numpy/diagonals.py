"""Diagonals, taken out and put in, and matrices made of powers.

A whole diagonal is a slice of the matrix as one row, with a stride of a row and one element. Where rows or columns are split, it
is the sum of the other dimension with all else masked: each rank has the elements of its own rows, so nothing is sent, and the
diagonal is split as they were.
"""

import operator

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.dims import dims_of
from distad.lax.kind import kindly, settle, whole_along
from distad.numpy.creation import eye, ones_like
from distad.numpy.joining import stack
from distad.numpy.logic import where
from distad.numpy.promotion import converted, numeric
from distad.numpy.reductions import sum
from distad.numpy.shapes import moveaxis, ravel
from distad.ops import arithmetic, compare
from distad.ops.broadcast import broadcast_in_dim, reduce_sum
from distad.ops.reshape import reshape as reshape_p


def diagonal(a, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The elements of a diagonal of matrices.

    a: [.., m, n] with the matrices in `axis1` and `axis2`. Returns [.., l]: the last dimension is split as that of the two that
    was. Unreduced and reduced axes stay.
    Communication: none; an all-reduce of the result where both dimensions are split; an all-gather of the result where one is
    and a part of it is left.

        jnp.diagonal(jnp.eye(3))                  # 1., 1., 1.
    """
    x = as_value(a, 'diagonal')
    if x.ndim < 2:
        raise ValueError(f"diagonal takes arrays of at least two dimensions, got {x.type}")
    first, second = dims_of('diagonal', (axis1, axis2), x.ndim)
    x = moveaxis(x, (first, second), (-2, -1))
    t, k = typeof(x), operator.index(offset)
    *batch, m, n = t.shape
    length = max(0, min(m + min(k, 0), n - max(k, 0)))
    if any(t.partitions[-2:]) and length:
        return _of_split(x, k, length)
    x = reshape_p(whole_along(x, (t.ndim - 2, t.ndim - 1)), new_sizes=(*batch, m * n))
    start = k if k >= 0 else -k * n
    stop = start + (length - 1) * (n + 1) + 1 if length else start
    start, stop = (start, stop) if length else (0, 0)
    return slicing.slice_in_dim(x, start, stop, n + 1, axis=len(batch))


def _of_split(x: Value, k: int, length: int) -> Value:
    t = typeof(x)
    rows, columns = t.ndim - 2, t.ndim - 1
    kept, gone = (rows, columns) if t.partitions[rows] else (columns, rows)
    number = converted(x, np.dtype(np.int32), False) if t.dtype == bool else x
    y = settle(kindly(reduce_sum, _masked(number, k), axes=(gone,)), number)
    start = max(0, -k if kept == rows else k)
    if length < t.shape[kept]:
        y = slicing.slice_in_dim(whole_along(y, (rows,)), start, start + length, axis=rows)
    return converted(y, t.dtype, t.weak_type)


def _masked(x: Value, k: int) -> Value:
    """Matrices with zeros off the k-th diagonal."""
    return where(eye(*x.shape[-2:], k, dtype=bool), x, 0)


def trace(a, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype=None, out: None = None) -> Value:
    """The sum of a diagonal of matrices. Communication: one all-reduce of the result where they are split. See `diagonal`.

        jnp.trace(jnp.eye(3))                     # 3.
    """
    if out is not None:
        raise NotImplementedError('trace: arrays are immutable, so there is no out=. Use the result.')
    x = as_value(a, 'trace')
    if x.ndim >= 2 and any(typeof(x).partitions[d] for d in dims_of('trace', (axis1, axis2), x.ndim)):
        x = moveaxis(x, (axis1, axis2), (-2, -1))
        return sum(_masked(x, operator.index(offset)), (-2, -1), dtype=dtype)
    return sum(diagonal(x, offset, axis1, axis2), -1, dtype=dtype)


def diag(v, k: int = 0) -> Value:
    """The k-th diagonal of a matrix, or a matrix with a vector on it and zeros elsewhere.

    v: [m, n], see `diagonal`; or [n], which gives [n + |k|, n + |k|]. For k = 0 its rows are split as the vector, and nothing is
    communicated; else a split vector is gathered.

        jnp.diag(jnp.arange(3.))                  # float32[3,3]
    """
    x = as_value(v, 'diag')
    if x.ndim == 1:
        return diagflat(x, k)
    if x.ndim != 2:
        raise ValueError(f"diag takes a vector or a matrix, got {x.type}")
    return diagonal(x, k)


def diagflat(v, k: int = 0) -> Value:
    """A matrix with the elements of an array on its k-th diagonal and zeros elsewhere. See `diag`.

        jnp.diagflat(jnp.ones((2, 2)))            # float32[4,4]
    """
    x, k = ravel(as_value(v, 'diagflat')), operator.index(k)
    if k:
        x = slicing.pad(whole_along(x, (0,)), np.zeros((), x.dtype)[()], [(max(-k, 0), max(k, 0), 0)])
    n = x.size
    return _masked(broadcast_in_dim(x, shape=(n, n), broadcast_dimensions=(0,), sharding=None), k)


def vander(x, N: int | None = None, increasing: bool = False) -> Value:
    """The powers 0 to N - 1 of the elements of a vector, falling from left to right unless `increasing`.

    x: [n]. Returns [n, N], split as x. Nothing is communicated. Raises ShardingTypeError for an unreduced vector.

        jnp.vander(jnp.arange(3.), 3)
    """
    x, = numeric('vander', as_value(x, 'vander'))
    if x.ndim != 1:
        raise ValueError(f"vander takes a vector, got {x.type}")
    count = x.size if N is None else operator.index(N)
    if count < 0:
        raise ValueError(f"vander: N is zero or more, got {count}")
    if not count:
        return slicing.slice_in_dim(lax_shape.expand_dims(x, (1,)), 0, 0, axis=1)
    powers = [ones_like(compare.eq(x, x), x.dtype)]
    while len(powers) < count:
        powers.append(x if len(powers) == 1 else kindly(arithmetic.mul, powers[-1], x))
    return stack(powers if increasing else powers[::-1], 1)


__all__ = ['diag', 'diagflat', 'diagonal', 'trace', 'vander']
