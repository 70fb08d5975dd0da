"""Arithmetic and mathematical functions, element by element, under NumPy's names.

They promote as JAX does (numbers are weak, 64 bits only with x64), broadcast, and are kind to placements; then they bind one
primitive, or a few.
"""

from collections.abc import Callable
from math import log as ln
from math import pi

import numpy as np

from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import Value, is_scalar, typeof
from distad.lax.documentation import LINEAR, NONLINEAR, documented
from distad.lax.kind import kindly
from distad.numpy.dtype_info import finfo
from distad.numpy.logic import greater, less
from distad.numpy.promotion import (
    ArrayLike,
    converted,
    inexact,
    inexact_operands,
    literal,
    numeric,
    operands,
    same_rank,
)
from distad.ops import arithmetic, bits, compare, elementary, powers, rounding, special
from distad.ops import complex as complex_ops
from distad.ops.basic import zeros
from distad.ops.makers import scalar
from distad.types import dtypes

# ---- families

def _float_function(name: str, primitive: Primitive, what: str, example: str = '0.5') -> Callable[[ArrayLike], Value]:
    """A function of floats; integers become floats first."""
    def f(x: ArrayLike, /) -> Value:
        return primitive(inexact(x, name))
    return documented(f, name, what, gives="x's dtype (float32 for integers)", example=example)


def _same_dtype(name: str, primitive: Primitive, what: str, unreduced: str = NONLINEAR,
                example: str = '0.5') -> Callable[[ArrayLike], Value]:
    """A function that keeps the dtype, whatever it is."""
    def f(x: ArrayLike, /) -> Value:
        return primitive(as_value(x, name))
    return documented(f, name, what, gives="x's dtype", unreduced=unreduced, example=example)


def _whole_already(name: str, primitive: Primitive, what: str) -> Callable[[ArrayLike], Value]:
    """Rounding: integers are what they are."""
    def f(x: ArrayLike, /) -> Value:
        x = as_value(x, name)
        return primitive(x) if dtypes.is_float(typeof(x).dtype) else x
    return documented(f, name, what, gives="x's dtype")


Binary = Callable[[ArrayLike, ArrayLike], Value]


def _binary(name: str, primitive: Primitive, what: str, *, for_bool: Primitive | None = None, takes: str = 'any numbers',
            unreduced: str = NONLINEAR, example: str = '2, 3') -> Binary:
    """A function of two operands in their common dtype, of bool perhaps another primitive."""
    def f(x1: ArrayLike, x2: ArrayLike, /) -> Value:
        xs = operands(name, x1, x2)
        p = for_bool if for_bool is not None and typeof(xs[0]).dtype == bool else primitive
        return kindly(p, *xs)
    return documented(f, name, what, operands='x1, x2', takes=takes, unreduced=unreduced, example=example)


def _numeric(name: str, primitive: Primitive, what: str, *, takes: str = 'real numbers', example: str = '2, 3') -> Binary:
    """A function of two operands in their common dtype; truth values count as integers."""
    def f(x1: ArrayLike, x2: ArrayLike, /) -> Value:
        return kindly(primitive, *same_rank(numeric(name, x1, x2), name))
    return documented(f, name, what, operands='x1, x2', takes=takes, example=example)


def _float_binary(name: str, primitive: Primitive, what: str, unreduced: str = NONLINEAR) -> Binary:
    """A function of two operands in their common float dtype."""
    def f(x1: ArrayLike, x2: ArrayLike, /) -> Value:
        return kindly(primitive, *inexact_operands(name, x1, x2))
    return documented(f, name, what, operands='x1, x2', gives='their common float dtype', unreduced=unreduced,
                      example='2.0, 3.0')


# ---- arithmetic

_ONE_SIDED = 'one unreduced operand of two'
_BOTH = 'two unreduced operands'

add = _binary('add', arithmetic.add, 'The sum.', for_bool=compare.or_, unreduced=_ONE_SIDED)
subtract = _binary('subtract', arithmetic.sub, 'The difference.', unreduced=_ONE_SIDED)
multiply = _binary('multiply', arithmetic.mul, 'The product; that of an unreduced value with others is unreduced.',
                   for_bool=compare.and_, unreduced=_BOTH)
divide = true_divide = _float_binary('divide', arithmetic.div, 'The quotient; that of an unreduced value is unreduced.',
                                     unreduced='an unreduced divisor')
negative = _same_dtype('negative', arithmetic.neg, 'The number with the other sign.', unreduced=LINEAR)
floor_divide = _numeric('floor_divide', arithmetic.floor_divide, 'The largest whole number not above the quotient.')
remainder = mod = _numeric('remainder', arithmetic.remainder, 'What floor_divide leaves, with the sign of the divisor.')
fmod = _numeric('fmod', arithmetic.rem, 'What division towards zero leaves, with the sign of the dividend.')
maximum = _binary('maximum', arithmetic.max, 'The larger one, NaN if either is; equal ones share the gradient.')
minimum = _binary('minimum', arithmetic.min, 'The smaller one, NaN if either is; equal ones share the gradient.')


def positive(x: ArrayLike, /) -> Value:
    """x itself: [...], any dtype, any placement. Nothing is communicated.

        jnp.positive(2.0)
    """
    return as_value(x, 'positive')


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Value, Value]:
    """The pair `(floor_divide(x1, x2), remainder(x1, x2))`; see these.

        jnp.divmod(7, 3)
    """
    return floor_divide(x1, x2), remainder(x1, x2)


def square(x: ArrayLike, /) -> Value:
    """x * x.

    x: [...], numbers. The result has x's shape, dtype and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced x.

        jnp.square(3)
    """
    return powers.square(*numeric('square', x))


def reciprocal(x: ArrayLike, /) -> Value:
    """1 / x as a float.

    x: [...], numbers. The result has x's shape and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced x.

        jnp.reciprocal(4.0)
    """
    return powers.integer_pow(inexact(x, 'reciprocal'), y=-1)


def power(x1: ArrayLike, x2: ArrayLike, /) -> Value:
    """x1 to the power x2.

    x1, x2: arrays and numbers that broadcast to [...]. A Python or NumPy integer x2 multiplies x1 with itself; integers to
    integers give integers (zero for a negative power, but of 1 and -1), all else floats. Placement as of `multiply`, for
    operands that are not unreduced. Nothing is communicated. Raises TypeError for integers to a negative power known when the
    function is called.

        jnp.power(2.0, 3)
    """
    if isinstance(x2, (int, np.integer, np.bool_)):
        x = numeric('power', as_value(x1, 'power'), x2)[0]
        return powers.integer_pow(x, y=int(x2))
    base, exponent = numeric('power', x1, x2)
    if dtypes.is_integer(typeof(base).dtype):
        return kindly(powers.int_pow, *same_rank([base, exponent], 'power'))
    if not is_scalar(x2) and dtypes.is_integer(typeof(x2).dtype):
        exponent = as_value(x2, 'power')
    return kindly(elementary.pow, *same_rank([base, exponent], 'power'))


pow = power
float_power = _float_binary('float_power', elementary.pow, 'x1 to the power x2, as floats.')


# ---- exponentials, logarithms, roots

exp = _float_function('exp', elementary.exp, 'The exponential function e ** x.')
exp2 = _float_function('exp2', elementary.exp2, '2 ** x.')
expm1 = _float_function('expm1', elementary.expm1, 'e ** x - 1, exact near zero.')
log = _float_function('log', elementary.log, 'The natural logarithm.')
log2 = _float_function('log2', elementary.log2, 'The logarithm to base 2.')
log10 = _float_function('log10', elementary.log10, 'The logarithm to base 10.')
log1p = _float_function('log1p', elementary.log1p, 'log(1 + x), exact near zero.')
sqrt = _float_function('sqrt', powers.sqrt, 'The square root.')
cbrt = _float_function('cbrt', powers.cbrt, 'The cube root, of negative numbers too.')
logaddexp = _float_binary('logaddexp', elementary.logaddexp, 'log(exp(x1) + exp(x2)), without overflow.')


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Value:
    """log2(2 ** x1 + 2 ** x2), without overflow; see `logaddexp`.

        jnp.logaddexp2(1.0, 2.0)
    """
    x, y = inexact_operands('logaddexp2', x1, x2)
    return divide(logaddexp(multiply(x, ln(2)), multiply(y, ln(2))), ln(2))


# ---- trigonometric and hyperbolic functions

sin = _float_function('sin', elementary.sin, 'The sine of an angle in radians.')
cos = _float_function('cos', elementary.cos, 'The cosine of an angle in radians.')
tan = _float_function('tan', elementary.tan, 'The tangent of an angle in radians.')
arcsin = asin = _float_function('arcsin', elementary.asin, 'The angle in radians whose sine is x.')
arccos = acos = _float_function('arccos', elementary.acos, 'The angle in radians whose cosine is x.')
arctan = atan = _float_function('arctan', elementary.atan, 'The angle in radians whose tangent is x.')
arctan2 = atan2 = _float_binary('arctan2', elementary.atan2, 'The angle in radians of the point (x2, x1).')
hypot = _float_binary('hypot', powers.hypot, 'The length sqrt(x1 ** 2 + x2 ** 2), without overflow.')
sinh = _float_function('sinh', elementary.sinh, 'The hyperbolic sine.')
cosh = _float_function('cosh', elementary.cosh, 'The hyperbolic cosine.')
tanh = _float_function('tanh', elementary.tanh, 'The hyperbolic tangent.')
arcsinh = asinh = _float_function('arcsinh', elementary.asinh, 'The number whose hyperbolic sine is x.')
arccosh = acosh = _float_function('arccosh', elementary.acosh, 'The number whose hyperbolic cosine is x.', '1.5')
arctanh = atanh = _float_function('arctanh', elementary.atanh, 'The number whose hyperbolic tangent is x.')
i0 = _float_function('i0', special.bessel_i0, 'The modified Bessel function of order 0.')


def _times(name: str, factor: float, what: str) -> Callable[[ArrayLike], Value]:
    def f(x: ArrayLike, /) -> Value:
        x = inexact(x, name)
        return arithmetic.mul(x, scalar(factor, x))
    return documented(f, name, what, gives="x's dtype (float32 for integers)", unreduced=LINEAR)


deg2rad = radians = _times('deg2rad', pi / 180, 'An angle in radians, from degrees.')
rad2deg = degrees = _times('rad2deg', 180 / pi, 'An angle in degrees, from radians.')

_SINC = (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800)


def sinc(x: ArrayLike, /) -> Value:
    """sin(pi x) / (pi x), and 1 at zero; all its derivatives are right there too.

    x: [...], numbers. The result has x's shape and placement, in a float dtype. Nothing is communicated. Raises
    ShardingTypeError for an unreduced x.

        jnp.sinc(0.5)
    """
    x = inexact(x, 'sinc')
    u = arithmetic.mul(x, scalar(pi, x))
    size = complex_ops.abs(u)
    small = compare.lt(size, scalar(0.1, size))
    safe = compare.select_n(small, u, scalar(1, u))
    square, series = powers.square(compare.select_n(small, scalar(0, u), u)), scalar(_SINC[-1], u)
    for c in _SINC[-2::-1]:
        series = arithmetic.add(arithmetic.mul(series, square), scalar(c, u))
    return compare.select_n(small, arithmetic.div(elementary.sin(safe), safe), series)


# ---- signs, rounding, and what numbers are made of

def abs(x: ArrayLike, /) -> Value:
    """The absolute value, of complex numbers the real magnitude.

    x: [...], any dtype. The result has x's shape and placement. The derivative at zero is 1. Nothing is communicated. Raises
    ShardingTypeError for an unreduced x.

        jnp.abs(-2.0)
    """
    x = as_value(x, 'abs')
    return x if typeof(x).dtype.kind in 'bu' else complex_ops.abs(x)


absolute = abs


def fabs(x: ArrayLike, /) -> Value:
    """The absolute value as a float; see `abs`.

        jnp.fabs(-2)
    """
    x = inexact(x, 'fabs')
    if typeof(x).dtype.kind == 'c':
        raise TypeError(f"fabs takes real numbers, got {typeof(x)}. jnp.abs takes complex ones too.")
    return complex_ops.abs(x)


sign = _same_dtype('sign', complex_ops.sign, 'The direction: -1, 0 or 1, of complex numbers x / abs(x).')
copysign = _float_binary('copysign', rounding.copysign, 'x1 with the sign of x2.')
nextafter = _float_binary('nextafter', rounding.nextafter, 'The next floating-point number after x1 in the direction of x2.')
spacing = _float_function('spacing', rounding.spacing, 'The distance to the next floating-point number.')
floor = _whole_already('floor', rounding.floor, 'The largest whole number not above x.')
ceil = _whole_already('ceil', rounding.ceil, 'The smallest whole number not below x.')
trunc = _whole_already('trunc', arithmetic.trunc, 'The whole number next to x towards zero.')
fix = trunc


def round(a: ArrayLike, decimals: int = 0) -> Value:
    """a rounded to some decimals, halves to the even neighbour.

    a: [...], numbers. The result has a's shape, dtype and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced a, NotImplementedError for integers and negative decimals.

        jnp.round(2.345, 2)
    """
    x = as_value(a, 'round')
    dtype = typeof(x).dtype
    if not dtypes.is_float(dtype):
        if decimals < 0:
            raise NotImplementedError(f"round of integers to {decimals} decimals, got {typeof(x)}. Convert with astype first.")
        return x
    if dtype.kind == 'c':
        return complex_ops.complex(round(complex_ops.real(x), decimals), round(complex_ops.imag(x), decimals))
    if decimals == 0:
        return rounding.round(x, rounding_method=rounding.TO_NEAREST_EVEN)
    wide = converted(x, np.dtype(np.float32), typeof(x).weak_type) if dtypes.is_half(dtype) else x
    factor = scalar(10.0**decimals, wide)
    y = arithmetic.div(rounding.round(arithmetic.mul(wide, factor), rounding_method=rounding.TO_NEAREST_EVEN), factor)
    return converted(y, dtype, typeof(x).weak_type)


around = round


def rint(x: ArrayLike, /) -> Value:
    """The whole number nearest to x, as a float, halves to the even neighbour; see `round`.

        jnp.rint(2.5)
    """
    return round(inexact(x, 'rint'))


def modf(x: ArrayLike, /) -> tuple[Value, Value]:
    """The pair of what is behind the point and what is before it, both with the sign of x.

    x: [...], real numbers. Both results have x's shape and placement, in a float dtype. Nothing is communicated. Raises
    ShardingTypeError for an unreduced x.

        jnp.modf(-2.5)
    """
    x = inexact(x, 'modf')
    whole = arithmetic.trunc(x)
    infinite = compare.eq(complex_ops.abs(x), scalar(np.inf, x))
    zero = kindly(rounding.copysign, scalar(0, x), x)
    return compare.select_n(infinite, arithmetic.sub(x, whole), zero), whole


def frexp(x: ArrayLike, /) -> tuple[Value, Value]:
    """The pair of mantissa (0.5 to 1) and int32 exponent, so that x = mantissa * 2 ** exponent.

    x: [...], real numbers. Both results have x's shape and placement. Nothing is communicated. Raises ShardingTypeError for
    an unreduced x.

        jnp.frexp(6.0)
    """
    x = inexact(x, 'frexp')
    n = rounding.exponent(x)
    return rounding.ldexp(x, arithmetic.neg(n)), n


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Value:
    """x1 * 2 ** x2, of an unreduced x1 unreduced.

    x1: real numbers; x2: integers; they broadcast to [...]. The result has x1's dtype (float32 for integers); placement as of
    `multiply`. Nothing is communicated. Raises TypeError for an x2 that is not integer.

        jnp.ldexp(0.75, 3)
    """
    x, n = inexact(x1, 'ldexp'), as_value(x2, 'ldexp')
    n = numeric('ldexp', n)[0]
    return kindly(rounding.ldexp, *same_rank([x, n], 'ldexp'))


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Value:
    """0 where x1 is negative, 1 where it is positive, x2 where it is zero.

    x1, x2: arrays and numbers that broadcast to [...]. The result has their common float dtype; placement as of `maximum`.
    Nothing is communicated. Raises ShardingTypeError for unreduced operands.

        jnp.heaviside(-1.0, 0.5)
    """
    x, y = inexact_operands('heaviside', x1, x2)
    zero = scalar(0, x)
    step = kindly(compare.select_n, kindly(compare.gt, x, zero), zero, scalar(1, x))
    step = kindly(compare.select_n, kindly(compare.ne, x, x), step, x)
    return kindly(compare.select_n, kindly(compare.eq, x, zero), step, y)


def _ignoring_nan(name: str, better: Binary, what: str) -> Binary:
    def f(x1: ArrayLike, x2: ArrayLike, /) -> Value:
        x, y = operands(name, x1, x2)
        first = kindly(compare.or_, better(x, y), kindly(compare.ne, y, y))
        return kindly(compare.select_n, first, y, x)
    return documented(f, name, what, operands='x1, x2', example='2.0, 3.0')


fmax = _ignoring_nan('fmax', greater, 'The larger one, or the one that is not NaN.')
fmin = _ignoring_nan('fmin', less, 'The smaller one, or the one that is not NaN.')


def nan_to_num(x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
               neginf: ArrayLike | None = None) -> Value:
    """x with numbers in place of NaN and the infinities: by default 0, the largest and the smallest finite number.

    x: [...], any dtype. The result has x's shape, dtype and placement. `copy` says nothing, for arrays never change. Nothing is
    communicated. Raises ShardingTypeError for an unreduced x.

        jnp.nan_to_num(jnp.inf)
    """
    x = as_value(x, 'nan_to_num')
    t = typeof(x)
    if not dtypes.is_float(t.dtype):
        return x
    if t.dtype.kind == 'c':
        parts = (nan_to_num(p, copy, nan, posinf, neginf) for p in (complex_ops.real(x), complex_ops.imag(x)))
        return complex_ops.complex(*parts)
    limits = finfo(t.dtype)
    x = _replaced(compare.ne(x, x), x, nan)
    x = _replaced(compare.eq(x, scalar(np.inf, x)), x, limits.max if posinf is None else posinf)
    return _replaced(compare.eq(x, scalar(-np.inf, x)), x, limits.min if neginf is None else neginf)


def _replaced(where, x, by):
    by = literal(by, typeof(x).dtype, False) if is_scalar(by) else converted(as_value(by, 'nan_to_num'), typeof(x).dtype, False)
    return kindly(compare.select_n, *same_rank([where, x, by]))


# ---- complex numbers

def real(val: ArrayLike, /) -> Value:
    """The real part: [...] with val's placement, unreduced ones included. Nothing is communicated.

        jnp.real(1 + 2j)
    """
    x = as_value(val, 'real')
    return complex_ops.real(x) if typeof(x).dtype.kind == 'c' else x


def imag(val: ArrayLike, /) -> Value:
    """The imaginary part: [...] with val's placement, unreduced ones included; zeros for real numbers. Nothing is communicated.

        jnp.imag(1 + 2j)
    """
    x = as_value(val, 'imag')
    return complex_ops.imag(x) if typeof(x).dtype.kind == 'c' else zeros(type=typeof(x))


def conj(x: ArrayLike, /) -> Value:
    """The complex conjugate: [...] with x's placement, unreduced ones included; real numbers as they are.

        jnp.conj(1 + 2j)
    """
    x = as_value(x, 'conj')
    return complex_ops.conj(x) if typeof(x).dtype.kind == 'c' else x


conjugate = conj


def angle(z: ArrayLike, deg: bool = False) -> Value:
    """The angle of a complex number, in radians or degrees.

    z: [...], numbers. The result has z's shape and placement, in a real float dtype. Nothing is communicated. Raises
    ShardingTypeError for an unreduced z.

        jnp.angle(1j)
    """
    x = inexact(z, 'angle')
    y = arctan2(imag(x), real(x))
    return rad2deg(y) if deg else y


# ---- integers

left_shift = bitwise_left_shift = _numeric('left_shift', bits.shift_left, 'x1 with its bits moved up by x2.', takes='integers')
bitwise_and = _binary('bitwise_and', compare.and_, 'The bits that both have.', takes='integers or bool')
bitwise_or = _binary('bitwise_or', compare.or_, 'The bits that either has.', takes='integers or bool')
bitwise_xor = _binary('bitwise_xor', compare.xor, 'The bits that exactly one has.', takes='integers or bool')
invert = bitwise_not = bitwise_invert = _same_dtype('invert', compare.not_, 'The other bits, of integers or bool.', example='6')
gcd = _binary('gcd', bits.gcd, 'The greatest common divisor.', takes='integers')
lcm = _binary('lcm', bits.lcm, 'The least common multiple.', takes='integers')


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Value:
    """x1 with its bits moved down by x2; signed integers keep their sign.

    x1, x2: integers that broadcast to [...]. The result has their common dtype; placement as of `maximum`. Nothing is
    communicated. Raises TypeError for other dtypes.

        jnp.right_shift(-8, 1)
    """
    x, n = same_rank(numeric('right_shift', x1, x2), 'right_shift')
    unsigned = typeof(x).dtype.kind == 'u'
    return kindly(bits.shift_right_logical if unsigned else bits.shift_right_arithmetic, x, n)


bitwise_right_shift = right_shift


def bitwise_count(x: ArrayLike, /) -> Value:
    """The number of bits that are set in abs(x), as uint8: [...] with x's placement. x: integers. Nothing is communicated.

        jnp.bitwise_count(7)
    """
    return converted(bits.population_count(abs(*numeric('bitwise_count', x))), np.dtype(np.uint8), False)


__all__ = ['abs', 'absolute', 'acos', 'acosh', 'add', 'angle', 'arccos', 'arccosh', 'arcsin', 'arcsinh', 'arctan',
           'arctan2', 'arctanh', 'around', 'asin', 'asinh', 'atan', 'atan2', 'atanh', 'bitwise_and', 'bitwise_count',
           'bitwise_invert', 'bitwise_left_shift', 'bitwise_not', 'bitwise_or', 'bitwise_right_shift', 'bitwise_xor',
           'cbrt', 'ceil', 'conj', 'conjugate', 'copysign', 'cos', 'cosh', 'deg2rad', 'degrees', 'divide', 'divmod',
           'exp', 'exp2', 'expm1', 'fabs', 'fix', 'float_power', 'floor', 'floor_divide', 'fmax', 'fmin', 'fmod',
           'frexp', 'gcd', 'heaviside', 'hypot', 'i0', 'imag', 'invert', 'lcm', 'ldexp', 'left_shift', 'log', 'log10',
           'log1p', 'log2', 'logaddexp', 'logaddexp2', 'maximum', 'minimum', 'mod', 'modf', 'multiply', 'nan_to_num',
           'negative', 'nextafter', 'positive', 'pow', 'power', 'rad2deg', 'radians', 'real', 'reciprocal',
           'remainder', 'right_shift', 'rint', 'round', 'sign', 'sin', 'sinc', 'sinh', 'spacing', 'sqrt', 'square',
           'subtract', 'tan', 'tanh', 'true_divide', 'trunc']
