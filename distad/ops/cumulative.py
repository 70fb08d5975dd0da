"""Accumulation along a dimension: cumsum, cumprod, cummax, cummin, cumlogsumexp; and the recurrence behind their derivatives.

Each y_i combines y_{i-1} with x_i. So the tangent of y_i is that of y_{i-1} times a factor, plus a term: a linear recurrence,
y_i = a_i y_{i-1} + b_i, without any division. It is a primitive of its own, whose derivatives are recurrences again.
The dimension has to be whole; `lax.cumulative` takes split ones in two steps.
"""

from collections.abc import Callable

import numpy as np

from distad.core.batching import shifting
from distad.core.primitive import BY_LINEARITY, NoRule, Primitive, by_labels, signature
from distad.core.value import Linear, Zero, typeof
from distad.ops.arithmetic import add, div, mul, sub
from distad.ops.basic import zero_scalar
from distad.ops.compare import eq, select_n
from distad.ops.convert import convert_element_type
from distad.ops.elementary import exp
from distad.ops.makers import ANY, NUMBER, REAL_FLOAT, check_dtype
from distad.ops.slicing import pad
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, NONLINEAR, Linearity


def _labels(name: str, linearity: Linearity) -> Callable:
    def labels(*types: ArrayType, axis: int, reverse: bool):
        dims = [None if d == axis else d for d in range(types[0].ndim)]
        return signature(name, [dims] * len(types), [dims], linearity=linearity)
    return labels


def _accumulation(name: str, ufunc: np.ufunc, accepts: str, *, jvp, linearity: Linearity = NONLINEAR, transpose=None) -> Primitive:
    labels = _labels(name, linearity)

    def shape(x: ArrayType, *, axis: int, reverse: bool):
        check_dtype(name, accepts, x)
        if not 0 <= axis < x.ndim:
            raise ValueError(f"{name}: {x} has no dimension {axis}")
        return x.shape, x.dtype

    def impl(x, *, out, axis, reverse):
        work = x.astype(np.float32) if dtypes.is_half(out.dtype) else x                # half types are rounded once
        if reverse:
            work = np.flip(work, axis)
        y = ufunc.accumulate(work, axis=axis, dtype=work.dtype)
        return (np.flip(y, axis) if reverse else y).astype(out.dtype, copy=False)

    return Primitive(name, type=by_labels(labels, shape), labels=labels, impl=impl, jvp=jvp, batch=shifting('axis'),
                     linearity=linearity,
                     transpose=transpose or NoRule('it is not linear'))


def _before(x, axis: int, reverse: bool, first):
    """At each place what stands at the one before it, and `first` where there is none."""
    config = tuple(((-1, 1, 0) if reverse else (1, -1, 0)) if d == axis else (0, 0, 0) for d in range(typeof(x).ndim))
    return pad(x, first, padding_config=config) if typeof(x).shape[axis] else x


# ---- y_i = a_i y_{i-1} + b_i

IN_SECOND = Linearity(groups=((1,),))


def _recurrence_shape(a: ArrayType, b: ArrayType, *, axis: int, reverse: bool):
    check_dtype('linear_recurrence', NUMBER, a, b)
    if a.shape != b.shape or not 0 <= axis < a.ndim:
        raise TypeError(f"linear_recurrence takes two arrays of one shape and one of their dimensions, got {a}, {b} and {axis}")
    return b.shape, b.dtype


def _recurrence_impl(a, b, *, out, axis, reverse):
    work = [np.moveaxis(x.astype(np.float32) if dtypes.is_half(out.dtype) else x, axis, 0) for x in (a, b)]
    a, b = (x[::-1] for x in work) if reverse else work
    y = _recurred(a, b)
    return np.moveaxis(y[::-1] if reverse else y, 0, axis).astype(out.dtype, copy=False)


def _recurred(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Two steps are one step, so every second element follows from half as many steps (cyclic reduction)."""
    n = len(b)
    if n <= 1:
        return b
    odd = _recurred(a[1::2] * a[:n - 1:2], a[1::2] * b[:n - 1:2] + b[1::2])
    y = np.empty_like(b)
    y[0], y[1::2] = b[0], odd
    y[2::2] = a[2::2] * odd[:(n - 1) // 2] + b[2::2]
    return y


def _recurrence_jvp(primals, tangents, *, axis: int, reverse: bool):
    a, b = primals
    ta, tb = tangents
    y = linear_recurrence(a, b, axis=axis, reverse=reverse)
    term = None if tb.__class__ is Zero else tb
    if ta.__class__ is not Zero:
        more = mul(ta, _before(y, axis, reverse, zero_scalar(typeof(y))))
        term = more if term is None else add(term, more)
    return [y], [Zero(typeof(y).tangent()) if term is None else linear_recurrence(a, term, axis=axis, reverse=reverse)]


def _recurrence_transpose(ct, a, b, *, axis: int, reverse: bool):
    """From the end: what goes to y_i goes on to y_{i-1} by the factor a_i."""
    if b.__class__ is not Linear:
        return [None, None]
    after = _before(a, axis, not reverse, typeof(a).dtype.type(0))
    return [None, linear_recurrence(after, ct, axis=axis, reverse=not reverse)]


linear_recurrence = Primitive(
    'linear_recurrence',
    type=by_labels(_labels('linear_recurrence', IN_SECOND), _recurrence_shape),
    labels=_labels('linear_recurrence', IN_SECOND),
    impl=_recurrence_impl,
    jvp=_recurrence_jvp,
    transpose=_recurrence_transpose,
    batch=shifting('axis'),
    linearity=IN_SECOND)


# ---- the accumulations

cumsum = _accumulation('cumsum', np.add, NUMBER, jvp=BY_LINEARITY, linearity=ADDITIVE, transpose=(
    lambda ct, x, *, axis, reverse: cumsum(ct, axis=axis, reverse=not reverse),))


def _product_jvp(t, y, x, *, axis: int, reverse: bool):
    before = _before(y, axis, reverse, typeof(y).dtype.type(1))
    return linear_recurrence(x, mul(t, before), axis=axis, reverse=reverse)


cumprod = _accumulation('cumprod', np.multiply, NUMBER, jvp=(_product_jvp,))


def _winners_jvp(t, y, x, *, axis: int, reverse: bool):
    """The tangent of the winner so far, the mean of the winners' where there are several."""
    dtype = typeof(x).dtype
    wins = convert_element_type(eq(x, y), new_dtype=dtype, weak_type=False)
    stays = convert_element_type(eq(_before(y, axis, reverse, dtype.type(0)), y), new_dtype=dtype, weak_type=False)
    total, count = (linear_recurrence(stays, term, axis=axis, reverse=reverse) for term in (mul(t, wins), wins))
    return div(total, count)


cummax = _accumulation('cummax', np.maximum, ANY, jvp=(_winners_jvp,))
cummin = _accumulation('cummin', np.minimum, ANY, jvp=(_winners_jvp,))


def _logarithm_jvp(t, y, x, *, axis: int, reverse: bool):
    """Of the sum of exponentials up to i, exp(y_{i-1} - y_i) was there before and exp(x_i - y_i) is new."""
    infinity = typeof(y).dtype.type(np.inf)
    before = _finite(_before(y, axis, reverse, -infinity), infinity)
    here = _finite(_finite(y, infinity), -infinity)
    new = exp(sub(_finite(x, infinity), here))
    return linear_recurrence(exp(sub(before, here)), mul(t, new), axis=axis, reverse=reverse)


def _finite(x, infinity):
    """Zero in place of an infinity, whose difference from itself is no number."""
    return select_n(eq(x, infinity), x, infinity.dtype.type(0))


cumlogsumexp = _accumulation('cumlogsumexp', np.logaddexp, REAL_FLOAT, jvp=(_logarithm_jvp,))
