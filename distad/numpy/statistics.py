"""Means, variances, and reductions of what is not NaN, under NumPy's names.

A mean is one sum, settled and then divided by a number; a variance is the mean of squares about a mean, thus two. Where NaN is
left out, each is the plain function with a mask or with a number in place of NaN.
"""

from collections.abc import Callable

import numpy as np

from distad.core.lift import as_value
from distad.core.value import typeof
from distad.lax.kind import kindly
from distad.lax.reduction import reduce_sum
from distad.numpy.promotion import converted, inexact, operands
from distad.numpy.reductions import Axis, any, argmax, argmin, chosen, elements, end, half, mask_of, max, min, prod, start, sum
from distad.ops import arithmetic, powers
from distad.ops.broadcast import broadcast_in_dim, expand_dims
from distad.ops.compare import gt, ne, not_, select_n
from distad.ops.complex import conj, real
from distad.ops.makers import scalar
from distad.ops.reduction import limit
from distad.types import dtypes

__all__ = ['average', 'mean', 'nanargmax', 'nanargmin', 'nanmax', 'nanmean', 'nanmin', 'nanprod', 'nanstd', 'nansum', 'nanvar',
           'std', 'var']


# ---- mean and variance

def _in_and_out(x, dtype):
    """The dtype that means are computed in (half types in float32, integers in floats) and the one they come out in."""
    out = dtypes.inexact(x.dtype) if dtype is None else dtypes.canonical(dtype)
    return np.dtype(np.float32) if half(out) else out, out


def _count(name: str, x, axes: tuple[int, ...], where, dtype: np.dtype):
    """How many elements each result is made of: a number, or with a mask an array."""
    if where is None:
        return dtype.type(elements(x, axes))
    t = typeof(x)
    mask = converted(mask_of(name, where, x), dtype, False)
    places = tuple(range(t.ndim)) if typeof(mask).ndim else ()
    return reduce_sum(kindly(broadcast_in_dim, mask, shape=t.shape, broadcast_dimensions=places, sharding=t.sharding), axes)


def mean(a, axis: Axis = None, dtype=None, out: None = None, keepdims: bool = False, *, where=None):
    """Mean.

    Args:
      a: [..., n@X, ...], any dtype; integers give float32. axis: the dimensions that go. dtype: of the mean. where: a mask
        that broadcasts to a.
    Returns: the kept dimensions, split as they were. An unreduced array has an unreduced mean.
    Communication: one all-reduce of the result over the mesh axes that split a dimension that goes (two with `where`).

    >>> mean(np.float32([[1, 2], [3, 4]]), axis=0)
    Array([2., 3.], dtype=float32)
    """
    x, axes = start('mean', a, axis, out)
    inner, outer = _in_and_out(x, dtype)
    weak = typeof(x).weak_type
    total = reduce_sum(chosen('mean', converted(x, inner, weak), where, 0), axes)
    y = kindly(arithmetic.div, total, _count('mean', x, axes, where, inner))
    return end(converted(y, outer, weak), axes, keepdims)


def var(a, axis: Axis = None, dtype=None, out: None = None, ddof: int = 0, keepdims: bool = False, *, where=None, mean=None,
        correction=None):
    """Variance: the mean square distance from the mean.

    Args:
      a: [..., n@X, ...], any dtype; integers give float32. axis: the dimensions that go. dtype: of the variance.
      ddof (or correction): what is taken off the number of elements. where: a mask that broadcasts to a. mean: the mean with
        keepdims, where it is known.
    Returns: real, the kept dimensions split as they were; NaN where ddof leaves no elements.
    Communication: two all-reduces of the result where a dimension that goes is split (one if the mean is known).
    Raises: ShardingTypeError for an unreduced array: reduce it first.

    >>> var(np.float32([[1, 2], [3, 4]]), axis=0)
    Array([1., 1.], dtype=float32)
    """
    x, axes = start('var', a, axis, out)
    inner, outer = _in_and_out(x, dtype)
    x = converted(x, inner if dtypes.is_float(x.dtype) or dtype is None else dtypes.inexact(x.dtype), False)
    centre = _mean(x, axes, where) if mean is None else converted(as_value(mean, 'var'), x.dtype, False)
    squares = chosen('var', _square_of_distance(x, centre), where, 0)
    y = _mean_square('var', squares, axes, where, ddof if correction is None else correction)
    return end(converted(y, outer if outer.kind != 'c' else y.dtype, False), axes, keepdims)


def _mean(x, axes, where):
    return mean(x, axes, keepdims=True, where=where)


def _square_of_distance(x, centre):
    d = kindly(arithmetic.sub, *operands('var', x, centre))
    return kindly(real, kindly(arithmetic.mul, d, kindly(conj, d))) if x.dtype.kind == 'c' else kindly(powers.square, d)


def _mean_square(name: str, squares, axes: tuple[int, ...], where, ddof):
    """The sum of squares over the number of elements less ddof; NaN where that leaves none."""
    total = reduce_sum(squares, axes)
    if where is None:
        n = elements(squares, axes) - ddof
        return kindly(arithmetic.div, total, scalar(n if n > 0 else np.nan, total))
    n = kindly(arithmetic.sub, _count(name, squares, axes, where, squares.dtype), squares.dtype.type(ddof))
    some = kindly(gt, n, scalar(0, n))
    return nan_unless(some, kindly(arithmetic.div, total, kindly(select_n, some, scalar(1, n), n)))


def std(a, axis: Axis = None, dtype=None, out: None = None, ddof: int = 0, keepdims: bool = False, *, where=None, mean=None,
        correction=None):
    """Standard deviation: the square root of `var`, which says all else.

    >>> std(np.float32([[1, 2], [3, 4]]), axis=0)
    Array([1., 1.], dtype=float32)
    """
    return kindly(powers.sqrt, var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


def average(a, axis: Axis = None, weights=None, returned: bool = False, keepdims: bool = False):
    """Weighted mean.

    Args:
      a: [..., n@X, ...]. axis: the dimensions that go.
      weights: as a, or [n] along the one dimension that goes; None for the mean. returned: give the sums of weights too.
    Communication: one all-reduce of the result over the mesh axes that split a dimension that goes; a second one, of the sums
      of weights, if they are split.

    >>> average(np.float32([1, 2, 3]), weights=np.float32([1, 0, 1]))
    Array(2., dtype=float32)
    """
    x, axes = start('average', a, axis, None)
    if weights is None:
        y = mean(x, axes, keepdims=keepdims)
        total = scalar(elements(x, axes), y)
    else:
        w = as_value(weights, 'average')
        if w.shape != x.shape:
            if len(axes) != 1 or axis is None or w.ndim != 1 or w.shape[0] != x.shape[axes[0]]:
                raise ValueError(f"average: weights {typeof(w)} must have the shape of {typeof(x)}, or one dimension along the "
                                 "one axis that is given")
            w = expand_dims(w, tuple(d for d in range(x.ndim) if d != axes[0]))
        x, w = operands('average', inexact(x, 'average'), w)
        total = sum(w, axes, keepdims=keepdims)
        y = kindly(arithmetic.div, *operands('average', sum(kindly(arithmetic.mul, x, w), axes, keepdims=keepdims), total))
    if not returned:
        return y
    places = tuple(range(y.ndim)) if typeof(total).ndim else ()
    return y, kindly(broadcast_in_dim, total, shape=y.shape, broadcast_dimensions=places, sharding=typeof(y).sharding)


# ---- without NaN

def _isnan(x):
    return kindly(ne, x, x)


def _without_nan(x, other):
    """The array with a number in place of NaN."""
    return kindly(select_n, _isnan(x), x, x.dtype.type(other)) if dtypes.is_float(x.dtype) else x


def nansum(a, axis: Axis = None, dtype=None, out: None = None, keepdims: bool = False, initial=None, where=None):
    """Sum of what is not NaN. All else as `sum`; an unreduced array is refused.

    >>> nansum(np.float32([1, np.nan, 2]))
    Array(3., dtype=float32)
    """
    return sum(_without_nan(as_value(a, 'nansum'), 0), axis, dtype, out, keepdims, initial, where)


def nanprod(a, axis: Axis = None, dtype=None, out: None = None, keepdims: bool = False, initial=None, where=None):
    """Product of what is not NaN. All else as `prod`.

    >>> nanprod(np.float32([3, np.nan, 2]))
    Array(6., dtype=float32)
    """
    return prod(_without_nan(as_value(a, 'nanprod'), 1), axis, dtype, out, keepdims, initial, where)


def nanmax(a, axis: Axis = None, out: None = None, keepdims: bool = False, initial=None, where=None):
    """Maximum of what is not NaN; NaN if nothing is left. All else as `max`, with one all-reduce more.

    >>> nanmax(np.float32([3, np.nan, 2]))
    Array(3., dtype=float32)
    """
    return _nan_extremum(max, -1, a, axis, out, keepdims, initial, where)


def nanmin(a, axis: Axis = None, out: None = None, keepdims: bool = False, initial=None, where=None):
    """Minimum of what is not NaN; NaN if nothing is left. All else as `min`, with one all-reduce more.

    >>> nanmin(np.float32([3, np.nan, 2]))
    Array(2., dtype=float32)
    """
    return _nan_extremum(min, 1, a, axis, out, keepdims, initial, where)


def _nan_extremum(f: Callable, sign: int, a, axis: Axis, out, keepdims: bool, initial, where):
    x = as_value(a, f"nan{f.__name__}")
    y = f(_without_nan(x, limit(x.dtype, sign)), axis, out, keepdims, initial, where)
    if initial is not None or not dtypes.is_float(x.dtype):
        return y
    return nan_unless(any(kindly(not_, _isnan(x)), axis, keepdims=keepdims, where=where), y)


def nan_unless(mask, y):
    return kindly(select_n, mask, y.dtype.type(np.nan), y)


def _not_nan(x, where):
    """The mask of what counts."""
    mask = kindly(not_, _isnan(x))
    return mask if where is None else chosen('where', mask, where, False)


def nanmean(a, axis: Axis = None, dtype=None, out: None = None, keepdims: bool = False, where=None):
    """Mean of what is not NaN; NaN if nothing is left. All else as `mean`, with a second all-reduce, of the counts.

    >>> nanmean(np.float32([3, np.nan, 2]))
    Array(2.5, dtype=float32)
    """
    x = as_value(a, 'nanmean')
    return mean(x, axis, dtype, out, keepdims, where=_not_nan(x, where) if dtypes.is_float(x.dtype) else where)


def nanvar(a, axis: Axis = None, dtype=None, out: None = None, ddof: int = 0, keepdims: bool = False, where=None, mean=None):
    """Variance of what is not NaN. All else as `var`, with all-reduces of the counts.

    >>> nanvar(np.float32([3, np.nan, 2]))
    Array(0.25, dtype=float32)
    """
    x = as_value(a, 'nanvar')
    mask = _not_nan(x, where) if dtypes.is_float(x.dtype) else where
    return var(_without_nan(x, 0), axis, dtype, out, ddof, keepdims, where=mask, mean=mean)


def nanstd(a, axis: Axis = None, dtype=None, out: None = None, ddof: int = 0, keepdims: bool = False, where=None, mean=None):
    """The square root of `nanvar`, which says all else.

    >>> nanstd(np.float32([3, np.nan, 2]))
    Array(0.5, dtype=float32)
    """
    return kindly(powers.sqrt, nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


def nanargmax(a, axis: int | None = None, out: None = None, keepdims: bool | None = None):
    """Index of the first maximum of what is not NaN; -1 if nothing is left. All else as `argmax`.

    >>> nanargmax(np.float32([1, np.nan, 2]))
    Array(2, dtype=int32)
    """
    return _nan_index(argmax, -1, a, axis, out, keepdims)


def nanargmin(a, axis: int | None = None, out: None = None, keepdims: bool | None = None):
    """Index of the first minimum of what is not NaN; -1 if nothing is left. All else as `argmin`.

    >>> nanargmin(np.float32([1, np.nan, 2]))
    Array(0, dtype=int32)
    """
    return _nan_index(argmin, 1, a, axis, out, keepdims)


def _nan_index(f: Callable, sign: int, a, axis: int | None, out, keepdims: bool | None):
    x = as_value(a, f"nan{f.__name__}")
    y = f(_without_nan(x, limit(x.dtype, sign)), axis, out, keepdims)
    if not dtypes.is_float(x.dtype):
        return y
    return kindly(select_n, any(kindly(not_, _isnan(x)), axis, keepdims=bool(keepdims)), y.dtype.type(-1), y)
