"""Comparisons, logic and choices, element by element, under NumPy's names."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import Value, is_scalar, typeof
from distad.lax.documentation import documented
from distad.lax.kind import kindly
from distad.numpy.promotion import ArrayLike, converted, inexact_operands, operands, promoted, same_rank
from distad.numpy.searching import nonzero
from distad.ops import arithmetic, compare, rounding
from distad.ops import complex as complex_ops
from distad.ops.basic import zero_scalar
from distad.ops.makers import scalar
from distad.types import dtypes

Binary = Callable[[ArrayLike, ArrayLike], Value]


# ---- comparisons

def _comparison(name: str, primitive: Primitive, what: str, strict: Primitive | None = None) -> Binary:
    """`strict` compares the real parts of complex numbers, which are ordered by these first."""
    def f(x1: ArrayLike, x2: ArrayLike, /) -> Value:
        x, y = operands(name, x1, x2)
        if strict is None or typeof(x).dtype.kind != 'c':
            return kindly(primitive, x, y)
        (rx, ix), (ry, iy) = ((complex_ops.real(v), complex_ops.imag(v)) for v in (x, y))
        return kindly(compare.select_n, kindly(compare.eq, rx, ry), kindly(strict, rx, ry), kindly(primitive, ix, iy))
    return documented(f, name, what, operands='x1, x2', gives='dtype bool', example='1, 2')


equal = _comparison('equal', compare.eq, 'Whether x1 equals x2.')
not_equal = _comparison('not_equal', compare.ne, 'Whether x1 differs from x2.')
less = _comparison('less', compare.lt, 'Whether x1 is below x2.', compare.lt)
less_equal = _comparison('less_equal', compare.le, 'Whether x1 is not above x2.', compare.lt)
greater = _comparison('greater', compare.gt, 'Whether x1 is above x2.', compare.gt)
greater_equal = _comparison('greater_equal', compare.ge, 'Whether x1 is not below x2.', compare.gt)


def isclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-5, atol: ArrayLike = 1e-8, equal_nan: bool = False) -> Value:
    """Whether abs(a - b) is at most atol + rtol * abs(b), or both are the same infinity; with `equal_nan` also both NaN.

    a, b: arrays and numbers that broadcast to [...]. The result has dtype bool; placement as of `maximum`. Nothing is
    communicated. Raises ShardingTypeError for unreduced operands.

        jnp.isclose(1.0, 1.0 + 1e-7)
    """
    x, y = inexact_operands('isclose', a, b)
    size = complex_ops.abs(y)
    bound = kindly(arithmetic.add, *operands('isclose', atol, kindly(arithmetic.mul, *operands('isclose', rtol, size))))
    distance = complex_ops.abs(kindly(arithmetic.sub, x, y))
    near = kindly(compare.and_, rounding.is_finite(size), kindly(compare.le, *operands('isclose', distance, bound)))
    out = kindly(compare.or_, near, kindly(compare.eq, x, y))
    return kindly(compare.or_, out, kindly(compare.and_, isnan(x), isnan(y))) if equal_nan else out


# ---- logic

def truth(x: ArrayLike, name: str):
    """A value as bool: whether it is not zero."""
    x = x if is_scalar(x) else as_value(x, name)
    if typeof(x).dtype == bool:
        return x
    return np.bool_(x != 0) if is_scalar(x) else compare.ne(x, scalar(0, x))


def _logical(name: str, primitive: Primitive, what: str) -> Binary:
    def f(x1: ArrayLike, x2: ArrayLike, /) -> Value:
        return kindly(primitive, *operands(name, truth(x1, name), truth(x2, name)))
    return documented(f, name, what, operands='x1, x2', gives='dtype bool', example='True, False')


logical_and = _logical('logical_and', compare.and_, 'Whether both are true (not zero).')
logical_or = _logical('logical_or', compare.or_, 'Whether any is true (not zero).')
logical_xor = _logical('logical_xor', compare.xor, 'Whether exactly one is true (not zero).')


def _test(name: str, f_of: Callable[[Any], Any], what: str) -> Callable[[ArrayLike], Value]:
    def f(x: ArrayLike, /) -> Value:
        return f_of(as_value(x, name))
    return documented(f, name, what, gives='dtype bool')


def _never(x):
    """False everywhere, for what no value of this dtype can be; comparing, it refuses unreduced values as all tests do."""
    return compare.lt(x, x)


def _is_infinite(x):
    dtype = typeof(x).dtype
    if dtype.kind == 'c':
        return compare.or_(_is_infinite(complex_ops.real(x)), _is_infinite(complex_ops.imag(x)))
    return compare.eq(complex_ops.abs(x), scalar(np.inf, x)) if dtypes.is_float(dtype) else _never(x)


def _is_finite(x):
    dtype = typeof(x).dtype
    if dtype.kind == 'c':
        return compare.and_(_is_finite(complex_ops.real(x)), _is_finite(complex_ops.imag(x)))
    return rounding.is_finite(x) if dtypes.is_float(dtype) else compare.eq(x, x)


def _is_infinity(name: str, value: float):
    def f(x):
        dtype = typeof(x).dtype
        if dtype.kind == 'c':
            raise ValueError(f"{name} is not well defined for complex numbers, got {typeof(x)}. Ask for its jnp.real(x).")
        return compare.eq(x, scalar(value, x)) if dtypes.is_float(dtype) else _never(x)
    return f


def _is_real(x):
    if typeof(x).dtype.kind != 'c':
        return compare.not_(_never(x))
    part = complex_ops.imag(x)
    return compare.eq(part, scalar(0, part))


def _sign_bit(x):
    dtype = typeof(x).dtype
    if dtypes.is_float(dtype):
        return rounding.signbit(x)
    return compare.lt(x, scalar(0, x))


logical_not = _test('logical_not', lambda x: compare.not_(truth(x, 'logical_not')), 'Whether it is false (zero).')
isnan = _test('isnan', lambda x: compare.ne(x, x), 'Whether it is NaN.')
isinf = _test('isinf', _is_infinite, 'Whether it is infinite.')
isfinite = _test('isfinite', _is_finite, 'Whether it is neither infinite nor NaN.')
isposinf = _test('isposinf', _is_infinity('isposinf', np.inf), 'Whether it is plus infinity.')
isneginf = _test('isneginf', _is_infinity('isneginf', -np.inf), 'Whether it is minus infinity.')
signbit = _test('signbit', _sign_bit, 'Whether the sign is minus, of zeros too.')
isreal = _test('isreal', lambda x: _is_real(x), 'Whether it has no imaginary part.')
iscomplex = _test('iscomplex', lambda x: compare.not_(_is_real(x)), 'Whether it has an imaginary part.')


# ---- choices

def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: int | None = None,
          fill_value: Any = None) -> Value | tuple[Value, ...]:
    """x where the condition holds, y elsewhere; of a condition alone where it holds, see `nonzero`.

    condition, x, y: arrays and numbers that broadcast to [...]. The result has the common dtype of x and y. It is split
    where an operand is, and a replicated operand beside a split one is cut for free; x and y may be unreduced if both are,
    or if the other is the number 0. Nothing is communicated. Raises ShardingTypeError for an unreduced condition, and for
    an unreduced value beside another.

        jnp.where(x > 0, x, 0.0)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None or size is not None or fill_value is not None:
        raise ValueError('where takes a condition and two values, or a condition alone and perhaps size and fill_value')
    which = truth(condition, 'where')
    x, y = promoted('where', *_zeros_beside(x, y))
    return kindly(compare.select_n, *same_rank([which, y, x], 'where'))


def _zeros_beside(*xs):
    """The number 0 beside an unreduced value is the unreduced zero; any other number would count once per rank."""
    unreduced = [typeof(x) for x in xs if not is_scalar(x) and typeof(x).unreduced]
    if not unreduced:
        return xs
    return [zero_scalar(unreduced[0]) if is_scalar(x) and x == 0 else x for x in xs]


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Value:
    """From each place the choice whose condition is the first to hold there, else the default.

    condlist: bool arrays; choicelist: as many arrays; all broadcast to [...]. The result has the common dtype of choices and
    default; placement as of `where`. Nothing is communicated. Raises ValueError for lists of different lengths.

        jnp.select([x < 0, x > 1], [0.0, 1.0], x)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"select takes a choice for each condition, got {len(condlist)} conditions and "
                         f"{len(choicelist)} choices")
    if not condlist:
        raise ValueError('select takes at least one condition, got none')
    *choices, out = promoted('select', *_zeros_beside(*choicelist, default))
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        out = kindly(compare.select_n, *same_rank([truth(condition, 'select'), out, choice], 'select'))
    return out


def piecewise(x: ArrayLike, condlist: Sequence[ArrayLike] | ArrayLike, funclist: Sequence[ArrayLike | Callable], *args,
              **kw) -> Value:
    """The function (or number) of the last condition that holds, applied to x; the one without a condition elsewhere, or 0.

    x: [...]; condlist: bool arrays; funclist: functions of x (called with `*args, **kw` too) and numbers, one more than the
    conditions at most. The result has x's shape and dtype; placement as of `where`. All functions are computed everywhere.
    Nothing is communicated by it.

        jnp.piecewise(x, [x < 0], [lambda x: -x, lambda x: x])
    """
    x = as_value(x, 'piecewise')
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ValueError(f"piecewise takes a function for each of {len(conditions)} conditions, and one more or none, got "
                         f"{len(funclist)} functions")
    values = [f(x, *args, **kw) if callable(f) else f for f in funclist]
    out = values.pop() if len(values) > len(conditions) else 0
    t = typeof(x)
    for condition, value in zip(conditions, values, strict=True):
        out = where(condition, value, out)
    return converted(out, t.dtype, t.weak_type)


def clip(arr: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Value:
    """arr within bounds; on a bound, value and bound share the gradient.

    arr, min, max: arrays and numbers that broadcast to [...]. The result has their common dtype; placement as of `maximum`.
    Nothing is communicated. Raises ShardingTypeError for unreduced operands, ValueError for complex ones.

        jnp.clip(2.5, 0, 1)
    """
    xs = [arr, *(bound for bound in (min, max) if bound is not None)]
    x, *bounds = operands('clip', as_value(arr, 'clip'), *xs[1:])
    if typeof(x).dtype.kind == 'c':
        raise ValueError(f"clip is not defined for complex numbers, got {typeof(x)}. Clip real and imaginary part.")
    if min is not None:
        x = kindly(arithmetic.max, bounds.pop(0), x)
    return x if max is None else kindly(arithmetic.min, bounds.pop(0), x)


__all__ = ['clip', 'equal', 'greater', 'greater_equal', 'isclose', 'iscomplex', 'isfinite', 'isinf', 'isnan',
           'isneginf', 'isposinf', 'isreal', 'less', 'less_equal', 'logical_and', 'logical_not', 'logical_or',
           'logical_xor', 'not_equal', 'piecewise', 'select', 'signbit', 'where']
