"""Softmax and its kin, one_hot, standardize.

Over a split dimension each takes the maximum and then a sum over the ranks: two small all-reduces. The maximum is a constant
for derivatives: it shifts, and changes no value.
"""

import math
from collections.abc import Sequence

import numpy as np

from distad.control.custom import call_custom_jvp
from distad.core.lift import as_value
from distad.core.value import typeof
from distad.lax.creation import numbered
from distad.lax.dims import dim_of, dims_of
from distad.lax.kind import kindly, named, with_sharding
from distad.lax.reduction import reduce_max
from distad.lax.shape import Sharding
from distad.numpy.elementwise import log
from distad.numpy.promotion import converted, inexact, inexact_operands, operands
from distad.numpy.reductions import chosen, end, max, sum
from distad.numpy.shapes import broadcast_to
from distad.numpy.statistics import mean as mean_of
from distad.ops import arithmetic, elementary, powers
from distad.ops.broadcast import expand_dims
from distad.ops.compare import eq, lt, ne, select_n
from distad.ops.complex import abs as abs_p
from distad.ops.complex import real
from distad.ops.complex import sign as sign_p
from distad.ops.makers import scalar
from distad.ops.rounding import is_finite
from distad.ops.shape import squeeze
from distad.ops.stop import stop_gradient
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.sharding import NamedSharding
from distad.types.spec import P

__all__ = ['log_softmax', 'logmeanexp', 'logsumexp', 'one_hot', 'softmax', 'standardize']

Axis = int | Sequence[int] | None


def _dims(name: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim)) if axis is None else dims_of(name, axis, ndim)


def _shifted(x, axes: tuple[int, ...], where):
    """x less its maximum, so that exp does not overflow; and where the mask is false, minus infinity."""
    top = max(stop_gradient(x), axes, keepdims=True, where=where, initial=None if where is None else -np.inf)
    return chosen('softmax', kindly(arithmetic.sub, x, top), where, -np.inf)


def softmax(x, axis: Axis = -1, where=None):
    """exp(x) over its sum.

    Args:
      x: [..., n@X, ...], float. axis: the dimensions that add up to 1. where: a mask that broadcasts to x; 0 elsewhere.
    Returns: as x.
    Communication: two all-reduces where a dimension of `axis` is split, a third one in a gradient.
    Raises: ShardingTypeError for an unreduced array.

    >>> softmax(np.zeros(4, np.float32))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    x = inexact(x, 'softmax')
    axes = _dims('softmax', axis, x.ndim)

    def value(x):
        e = kindly(elementary.exp, _shifted(x, axes, where))
        return [kindly(arithmetic.div, e, sum(e, axes, keepdims=True))]

    def rule(primals, tangents):                 # y (t - sum y t): nothing but y has to be kept
        (x,), (t,) = primals, tangents
        y = softmax(x, axes, where)
        yt = kindly(arithmetic.mul, y, t)
        return [y], [kindly(arithmetic.sub, yt, kindly(arithmetic.mul, y, sum(yt, axes, keepdims=True)))]

    return chosen('softmax', call_custom_jvp(value, rule, [x])[0], where, 0)


def log_softmax(x, axis: Axis = -1, where=None):
    """The logarithm of softmax, without its overflows: x less logsumexp(x).

    Args: as `softmax`; minus infinity where the mask is false.
    Communication: two all-reduces where a dimension of `axis` is split, a third one in a gradient.

    >>> log_softmax(np.zeros(1, np.float32))
    Array([0.], dtype=float32)
    """
    x = inexact(x, 'log_softmax')
    axes = _dims('log_softmax', axis, x.ndim)
    d = _shifted(x, axes, where)
    total = kindly(elementary.log, sum(kindly(elementary.exp, d), axes, keepdims=True))
    return chosen('log_softmax', kindly(arithmetic.sub, d, total), where, -np.inf)


def logsumexp(a, axis: Axis = None, b=None, keepdims: bool = False, return_sign: bool = False, where=None):
    """log(sum(b * exp(a))), without overflow.

    Args:
      a: [..., n@X, ...], float. axis: the dimensions that go. b: factors that broadcast against a. where: a mask.
      return_sign: give (log of the absolute value, sign) for sums that may be negative; else these give NaN.
    Returns: the kept dimensions, split as they were.
    Communication: two all-reduces of the result where a dimension that goes is split; none in a gradient.
    Raises: ShardingTypeError for an unreduced array.

    >>> logsumexp(np.float32([1000, 1000]))
    Array(1000.6932, dtype=float32)
    """
    if b is None:
        x = inexact(a, 'logsumexp')
    else:
        x, b = (as_value(v, 'logsumexp') for v in inexact_operands('logsumexp', a, b))
        x = kindly(select_n, kindly(ne, b, scalar(0, b)), scalar(-np.inf, x), x)
    axes = _dims('logsumexp', axis, x.ndim)
    x = chosen('logsumexp', x, where, -np.inf)
    is_complex = x.dtype.kind == 'c'
    top = end(reduce_max(stop_gradient(kindly(real, x) if is_complex else x), axes), axes, True)
    top = kindly(select_n, kindly(is_finite, top), scalar(0, top), top)
    e = kindly(elementary.exp, kindly(arithmetic.sub, *operands('logsumexp', x, top)))
    total = sum(e if b is None else kindly(arithmetic.mul, e, b), axes, keepdims=True)
    size = kindly(abs_p, total) if return_sign or not is_complex else total
    y = kindly(arithmetic.add, *operands('logsumexp', kindly(elementary.log, size), top))
    sign = kindly(sign_p, total)
    if b is not None and not is_complex and not return_sign:
        y = kindly(select_n, kindly(lt, sign, scalar(0, sign)), y, scalar(np.nan, y))
    y, sign = (v if keepdims else squeeze(v, dimensions=axes) for v in (y, sign))
    return (y, sign) if return_sign else y


def logmeanexp(x, axis: Axis = None, where=None, keepdims: bool = False):
    """log(mean(exp(x))), without overflow; of what `where` chooses. Arguments, communication and errors as of `logsumexp`.

    >>> logmeanexp(np.float32([1000, 1000]))
    Array(1000., dtype=float32)
    """
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    shape = typeof(x).shape
    if where is None:
        return total - math.log(math.prod(shape[d] for d in _dims('logmeanexp', axis, len(shape))))
    return total - log(sum(broadcast_to(where, shape), axis, keepdims=keepdims))


def one_hot(x, num_classes: int, *, dtype=None, axis: int = -1, out_sharding: Sharding = None):
    """1 at the place that an index names, else 0; all 0 for an index out of range.

    Args:
      x: [..., n@X, ...], integers. num_classes: the size of the new dimension. dtype: float32 unless given. axis: where the new
        dimension stands. out_sharding: where the result lies.
    Returns: x's dimensions, split as they were, and the new one.
    Communication: none, unless `out_sharding` splits x's dimensions otherwise.

    >>> one_hot(np.array([2, 0]), 3)
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    x = as_value(x, 'one_hot')
    d = dim_of('one_hot', axis, x.ndim + 1)
    shape = tuple(num_classes if k == d else 1 for k in range(x.ndim + 1))
    numbers = numbered(ArrayType(shape, x.dtype, sharding=_of_classes(x, d, out_sharding)), d)
    hot = kindly(eq, expand_dims(x, (d,)), numbers)
    return with_sharding(converted(hot, dtypes.canonical(np.float64 if dtype is None else dtype), False), out_sharding)


def _of_classes(x, d: int, out_sharding: Sharding) -> NamedSharding | None:
    """How the classes are split from the start, so that no rank makes the whole."""
    if out_sharding is None:
        return None
    s = named(out_sharding, typeof(x).mesh)
    entry = s.spec.partitions[d] if d < len(s.spec.partitions) else None
    axes = {entry} if isinstance(entry, str) else set(entry or ())
    return None if axes & typeof(x).split_axes else NamedSharding(s.mesh, P(*[None] * d, entry))


def standardize(x, axis: Axis = -1, mean=None, variance=None, epsilon: float = 1e-5, where=None):
    """x less its mean, over its standard deviation: (x - mean) / sqrt(variance + epsilon).

    Args:
      x: [..., n@X, ...], float. axis: the dimensions that mean and variance are taken over. mean, variance: if they are known.
      where: a mask of what mean and variance are taken of.
    Returns: as x.
    Communication: two all-reduces where a dimension of `axis` is split.
    Raises: ShardingTypeError for an unreduced array.

    >>> standardize(np.float32([1, 3]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    x = inexact(x, 'standardize')
    axes = _dims('standardize', axis, x.ndim)
    centre = mean_of(x, axes, keepdims=True, where=where) if mean is None else mean
    d = kindly(arithmetic.sub, *operands('standardize', x, centre))
    spread = mean_of(kindly(powers.square, d), axes, keepdims=True, where=where) if variance is None else variance
    d, spread = operands('standardize', d, spread)
    return kindly(arithmetic.mul, d, kindly(powers.rsqrt, kindly(arithmetic.add, spread, scalar(epsilon, spread))))
