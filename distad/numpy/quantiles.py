"""Quantiles and medians under NumPy's names: elements of the sorted array, and what lies between two of them.

One lookup fetches all that is needed of the sorted array: the elements on both sides of each quantile, and the last one, which tells
whether there is a NaN.
"""

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax import shape as lax_shape
from distad.lax import slicing as lax_slicing
from distad.lax.dims import dims_of
from distad.lax.kind import whole_along
from distad.lax.sorting import in_order
from distad.numpy.elementwise import add, ceil, floor, maximum, minimum, multiply, subtract
from distad.numpy.joining import concatenate
from distad.numpy.logic import isnan, logical_not, where
from distad.numpy.promotion import ArrayLike, converted, inexact
from distad.numpy.reductions import Axis, sum
from distad.numpy.shapes import expand_dims, moveaxis, ravel, squeeze
from distad.numpy.taking import take, take_along_axis
from distad.ops.cast import cast

__all__ = ['median', 'nanmedian', 'nanpercentile', 'nanquantile', 'percentile', 'quantile']

METHODS = ('linear', 'lower', 'higher', 'midpoint', 'nearest', 'inverted_cdf')


def quantile(a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
             method: str = 'linear', keepdims: bool = False, *, weights: None = None) -> Value:
    """The values below which given parts of the elements lie; NaN where there is a NaN.

    Args:
      a: [..., n@X, ...], any real dtype; integers give float32. q: parts from 0 to 1, a number or [k].
      axis: the dimensions that go; None for all. method: what lies between two elements: 'linear', 'lower', 'higher', 'midpoint',
        'nearest'; or 'inverted_cdf'. overwrite_input: accepted for its name.
    Returns: [k, ...] or [...], the kept dimensions split as they were. The derivative is that of the elements it is made of.
    Communication: where the dimension is split, that of a sort (see `lax.sort`), and of one dimension an all-reduce of the result.
    Raises: ShardingTypeError for an unreduced array. NotImplementedError for weights.

    >>> quantile(np.float32([1, 2, 3, 4]), 0.5)
    Array(2.5, dtype=float32)
    """
    _check('quantile', out, weights)
    return _quantile('quantile', a, q, axis, method, keepdims, skip_nan=False)


def nanquantile(a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
                method: str = 'linear', keepdims: bool = False, *, weights: None = None) -> Value:
    """Quantiles of what is not NaN; NaN if nothing is left. All else as `quantile`.

    >>> nanquantile(np.float32([1, np.nan, 3]), 0.5)
    Array(2., dtype=float32)
    """
    _check('nanquantile', out, weights)
    return _quantile('nanquantile', a, q, axis, method, keepdims, skip_nan=True)


def percentile(a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
               method: str = 'linear', keepdims: bool = False, *, weights: None = None) -> Value:
    """Quantiles of parts from 0 to 100. All else as `quantile`.

    >>> percentile(np.float32([1, 2, 3, 4]), 50)
    Array(2.5, dtype=float32)
    """
    _check('percentile', out, weights)
    return _quantile('percentile', a, _hundredth(q), axis, method, keepdims, skip_nan=False)


def nanpercentile(a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
                  method: str = 'linear', keepdims: bool = False, *, weights: None = None) -> Value:
    """Percentiles of what is not NaN; NaN if nothing is left. All else as `quantile`.

    >>> nanpercentile(np.float32([1, np.nan, 3]), 50)
    Array(2., dtype=float32)
    """
    _check('nanpercentile', out, weights)
    return _quantile('nanpercentile', a, _hundredth(q), axis, method, keepdims, skip_nan=True)


def median(a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Value:
    """The element in the middle, or the mean of the two there; NaN where there is a NaN. All else as `quantile`.

    >>> median(np.float32([3, 1, 2]))
    Array(2., dtype=float32)
    """
    _check('median', out, None)
    return _quantile('median', a, 0.5, axis, 'midpoint', keepdims, skip_nan=False)


def nanmedian(a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Value:
    """The median of what is not NaN; NaN if nothing is left. All else as `quantile`.

    >>> nanmedian(np.float32([3, np.nan, 2]))
    Array(2.5, dtype=float32)
    """
    _check('nanmedian', out, None)
    return _quantile('nanmedian', a, 0.5, axis, 'midpoint', keepdims, skip_nan=True)


def _check(name: str, out, weights) -> None:
    if out is not None:
        raise NotImplementedError(f"{name}: arrays are immutable, so there is no out=. Use the result.")
    if weights is not None:
        raise NotImplementedError(f"{name} takes no weights.")


def _hundredth(q: ArrayLike) -> Value:
    return multiply(inexact(q, 'percentile'), 0.01)


def _quantile(name: str, a: ArrayLike, q: ArrayLike, axis: Axis, method: str, keepdims: bool, skip_nan: bool) -> Value:
    x, q = inexact(as_value(a, name), name), inexact(as_value(q, name), name)
    if x.dtype.kind == 'c':
        raise ValueError(f"{name}: complex numbers have no order that a quantile would make sense in, got {x.type}")
    if q.ndim > 1:
        raise ValueError(f"{name}: q must have rank 0 or 1, got {q.type}")
    if method not in METHODS:
        raise ValueError(f"{name}: method is one of {', '.join(METHODS)}, got {method!r}")
    axes = tuple(range(x.ndim)) if axis is None else tuple(sorted(dims_of(name, axis, x.ndim)))
    x, d = _in_one(x, axes)
    if not x.shape[d]:                                                     # of nothing it is NaN
        x = lax_slicing.pad(x, x.dtype.type(np.nan), [(k == d, 0, 0) for k in range(x.ndim)])
    y = _between(x, d, ravel(q), method, skip_nan)
    y = converted(cast(y, typeof(y).update(partitions=tuple(() if k == d else p for k, p in enumerate(x.type.partitions)))),
                  x.dtype, x.weak_type)
    y = moveaxis(y, d, 0) if q.ndim else squeeze(y, d)
    return expand_dims(y, tuple(k + q.ndim for k in axes)) if keepdims and axes else y


def _in_one(x: Value, axes: tuple[int, ...]) -> tuple[Value, int]:
    """The array with the dimensions that go as one, and which one that is. Their order does not matter: a split one comes first,
    so that blocks stay blocks."""
    if len(axes) == 1:
        return x, axes[0]
    axes = tuple(sorted(axes, key=lambda k: not x.type.partitions[k]))
    x = whole_along(x, axes[1:])
    kept = tuple(k for k in range(x.ndim) if k not in axes)
    sizes = (*(x.shape[k] for k in kept), int(np.prod([x.shape[k] for k in axes], dtype=int)))
    return lax_shape.reshape(lax_shape.transpose(x, (*kept, *axes)), sizes), len(kept)


def _between(x: Value, d: int, q: Value, method: str, skip_nan: bool) -> Value:
    """The quantiles in place of dimension d."""
    line = [-1 if k == d else 1 for k in range(x.ndim)]
    ordered = in_order(x, d)
    if skip_nan:
        count = sum(logical_not(isnan(ordered)), d, dtype=q.dtype, keepdims=True)
        q = q.reshape(line)
    else:
        count = q.dtype.type(x.shape[d])
    last = subtract(count, q.dtype.type(1))
    at = subtract(ceil(multiply(q, count)), q.dtype.type(1)) if method == 'inverted_cdf' else multiply(q, last)
    low, high = floor(at), ceil(at)
    part = subtract(at, low)
    low, high = (converted(maximum(minimum(v, last), q.dtype.type(0)), np.dtype(np.int32), False) for v in (low, high))
    k = q.size
    if skip_nan:                                                           # where nothing is left, the first one is NaN
        found = take_along_axis(ordered, concatenate([low, high], d), d, mode='clip')
    else:
        found = take(ordered, concatenate([low, high, np.full(1, x.shape[d] - 1, np.int32)]), d, mode='clip')
        part = part.reshape(line)
    below, above = (lax_slicing.slice_in_dim(found, i * k, (i + 1) * k, axis=d) for i in (0, 1))
    y = _mixed(below, above, part, method)
    if skip_nan:
        return y
    greatest = lax_slicing.slice_in_dim(found, 2 * k, 2 * k + 1, axis=d)
    return where(isnan(greatest), y.dtype.type(np.nan), y)


def _mixed(below: Value, above: Value, part: Value, method: str) -> Value:
    if method == 'linear':
        one = part.dtype.type(1)
        return add(multiply(converted(below, part.dtype, False), subtract(one, part)),
                   multiply(converted(above, part.dtype, False), part))
    if method == 'midpoint':
        return multiply(add(below, above), below.dtype.type(0.5))
    if method == 'nearest':
        return where(part <= 0.5, below, above)
    return above if method == 'higher' else below
