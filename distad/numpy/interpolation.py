"""Linear interpolation between points."""

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value
from distad.lax.sorting import sort
from distad.numpy.elementwise import abs, add, divide, multiply, remainder, subtract
from distad.numpy.joining import concatenate
from distad.numpy.logic import clip, where
from distad.numpy.promotion import ArrayLike, inexact, promoted
from distad.numpy.sorting import searchsorted
from distad.numpy.taking import take

__all__ = ['interp']


def interp(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | str | None = None, right: ArrayLike | str | None = None,
           period: ArrayLike | None = None) -> Value:
    """The values at x of the function that is linear between points.

    Args:
      x: [...], real. xp: [n], rising; fp: [n], the values there. left, right: the values before the first and after the last point
        (by default theirs), or 'extrapolate'. period: after which the function repeats; then xp need not rise.
    Returns: the inexact dtype of all, split as x.
    Communication: none where xp and fp are whole; where they are split, a few all-reduces of the result's size.
    Raises: ValueError for points of other shapes, ShardingTypeError for unreduced x and xp.

    >>> interp(np.float32([0.5, 3]), np.float32([0, 1]), np.float32([10, 20]))
    Array([15., 20.], dtype=float32)
    """
    xp, fp = as_value(xp, 'interp'), as_value(fp, 'interp')
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(f"interp takes xp and fp of one shape [n], n at least 1, got {xp.type} and {fp.type}")
    x, xp, fp = (inexact(y, 'interp') for y in promoted('interp', as_value(x, 'interp'), xp, fp))
    if period is not None:
        left = right = None
        period = abs(as_value(period, 'interp').astype(xp.dtype))
        x, xp = remainder(x, period), remainder(xp, period)
        xp, fp = sort((xp, fp))
        first, last = (take(xp, np.arange(i, i + 1)) for i in (0, xp.size - 1))
        xp = concatenate([subtract(last, period), xp, add(first, period)])
        fp = concatenate([take(fp, np.arange(fp.size - 1, fp.size)), fp, take(fp, np.arange(1))])
    n = xp.size
    i = clip(searchsorted(xp, x, 'right'), 1, n - 1)
    before = subtract(i, np.int32(1))
    x0, f0 = take(xp, before, mode='clip'), take(fp, before, mode='clip')
    width, rise = subtract(take(xp, i, mode='clip'), x0), subtract(take(fp, i, mode='clip'), f0)
    none = abs(width) <= np.spacing(np.finfo(xp.dtype).eps)
    y = where(none, f0, add(f0, multiply(divide(subtract(x, x0), where(none, xp.dtype.type(1), width)), rise)))
    for end, value, beyond in ((0, left, lambda e: x < e), (n - 1, right, lambda e: x > e)):
        if not (isinstance(value, str) and value == 'extrapolate'):
            value = take(fp, np.int32(end)) if value is None else value
            y = where(beyond(take(xp, np.int32(end))), value, y)
    return y
