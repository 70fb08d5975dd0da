"""The elementwise functions of jax.lax: one primitive each, strict about dtypes and ranks, kind about placements.

Operands have one dtype and one rank (or rank 0), dimensions of size 1 broadcast; a Python number has the default dtype of its
kind. `distad.numpy` has the functions that promote.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from distad import tree
from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import Value, is_scalar, typeof
from distad.lax.documentation import LINEAR, NONLINEAR, documented
from distad.lax.kind import kindly
from distad.ops import arithmetic, barrier, bits, compare, convert, elementary, powers, rounding, special
from distad.ops import complex as complex_ops
from distad.types import dtypes
from distad.types.inference import show


class RoundingMethod(IntEnum):
    """Where halves go."""

    AWAY_FROM_ZERO = rounding.AWAY_FROM_ZERO
    TO_NEAREST_EVEN = rounding.TO_NEAREST_EVEN


def values(name: str, *xs) -> list:
    """Operands as values; Python numbers beside arrays stay literals, which take any placement."""
    if all(map(is_scalar, xs)):
        return [as_value(x, name) for x in xs]
    return [x if is_scalar(x) else as_value(x, name) for x in xs]


def _unary(name: str, primitive: Primitive, what: str, *, takes: str = 'float or complex', gives: str = 'the same dtype',
           unreduced: str = NONLINEAR, example: str = '0.5') -> Callable[[Any], Value]:
    def f(x: Any) -> Value:
        return primitive(as_value(x, name))
    return documented(f, name, what, takes=takes, gives=gives, unreduced=unreduced, example=example, module='lax')


def _nary(name: str, primitive: Primitive, what: str, *, operands: str = 'x, y', takes: str = 'of one dtype',
          gives: str = 'the same dtype', unreduced: str = NONLINEAR, example: str = '2.0, 3.0') -> Callable[..., Value]:
    count = operands.count(',') + 1

    def f(*xs: Any) -> Value:
        if len(xs) != count:
            raise TypeError(f"{name} takes {count} operands ({operands}), got {len(xs)}")
        return kindly(primitive, *values(name, *xs))
    return documented(f, name, what, operands=operands, takes=takes, gives=gives, unreduced=unreduced, example=example,
                      module='lax')


# ---- arithmetic

neg = _unary('neg', arithmetic.neg, 'The number with the other sign.', takes='not bool', unreduced=LINEAR)
add = _nary('add', arithmetic.add, 'The sum.', unreduced='one unreduced operand of two')
sub = _nary('sub', arithmetic.sub, 'The difference.', unreduced='one unreduced operand of two')
mul = _nary('mul', arithmetic.mul, 'The product; with one unreduced operand unreduced.', unreduced='two unreduced operands')
div = _nary('div', arithmetic.div, 'The quotient, of integers towards zero; of an unreduced x unreduced.',
            unreduced='an unreduced divisor')
rem = _nary('rem', arithmetic.rem, 'What division towards zero leaves, with the sign of x.')
max = _nary('max', arithmetic.max, 'The larger one, NaN if either is; equal ones share the gradient.')
min = _nary('min', arithmetic.min, 'The smaller one, NaN if either is; equal ones share the gradient.')
abs = _unary('abs', complex_ops.abs, 'The absolute value, of complex numbers a real one.', takes='not bool')
sign = _unary('sign', complex_ops.sign, 'The direction: -1, 0 or 1, of complex numbers x / abs(x).', takes='not bool')
square = _unary('square', powers.square, 'The square.', takes='not bool')
mulhi = _nary('mulhi', bits.mulhi, 'The high half of the product of integers.', example='2, 3')


def integer_pow(x: Any, y: int) -> Value:
    """x to a power known when the program is written, by multiplication.

    x: [...], not bool. The result has x's shape, dtype and placement. Nothing is communicated. Raises ShardingTypeError for
    an unreduced x, TypeError for integers to a negative power.

        lax.integer_pow(2.0, 3)
    """
    return powers.integer_pow(as_value(x, 'integer_pow'), y=int(y))


def reciprocal(x: Any) -> Value:
    """1 / x; see `integer_pow`.

        lax.reciprocal(4.0)
    """
    return integer_pow(x, -1)


def one_minus_square(x: Any) -> Value:
    """1 - x ** 2, as the product (1 - x)(1 + x), which is exact near 1.

    x: [...], float or complex. The result has x's shape, dtype and placement. Nothing is communicated. Raises
    ShardingTypeError for an unreduced x.

        lax.one_minus_square(0.5)
    """
    return elementary.one_minus_square(as_value(x, 'one_minus_square'))


def polynomial(x: Any, coeffs: Sequence[Any]) -> Value:
    """The polynomial with these coefficients, the highest power's first, by Horner's rule.

    x: [...], float or complex; coeffs: numbers or arrays of its dtype. The result lies as x does. Nothing is communicated.
    Raises ShardingTypeError for an unreduced x.

        lax.polynomial(2.0, [1.0, 0.0, -1.0])
    """
    x = as_value(x, 'polynomial')
    total: Any = x.dtype.type(0)
    for c in coeffs:
        total = add(mul(total, x), x.dtype.type(c) if is_scalar(c) else c)
    return total


# ---- powers, exponentials and logarithms

sqrt = _unary('sqrt', powers.sqrt, 'The square root.')
rsqrt = _unary('rsqrt', powers.rsqrt, '1 / sqrt(x).')
cbrt = _unary('cbrt', powers.cbrt, 'The cube root, of negative numbers too.', takes='real float')
pow = _nary('pow', elementary.pow, 'x to the power y.', takes='x float or complex, y of its dtype or integer')
exp = _unary('exp', elementary.exp, 'The exponential function e ** x.')
exp2 = _unary('exp2', elementary.exp2, '2 ** x.')
expm1 = _unary('expm1', elementary.expm1, 'e ** x - 1, exact near zero.')
log = _unary('log', elementary.log, 'The natural logarithm.')
log1p = _unary('log1p', elementary.log1p, 'log(1 + x), exact near zero.')
log2 = _unary('log2', elementary.log2, 'The logarithm to base 2.')
logistic = _unary('logistic', elementary.logistic, '1 / (1 + exp(-x)).')

# ---- trigonometric and hyperbolic functions

sin = _unary('sin', elementary.sin, 'The sine of an angle in radians.')
cos = _unary('cos', elementary.cos, 'The cosine of an angle in radians.')
tan = _unary('tan', elementary.tan, 'The tangent of an angle in radians.')
asin = _unary('asin', elementary.asin, 'The angle in radians whose sine is x.')
acos = _unary('acos', elementary.acos, 'The angle in radians whose cosine is x.')
atan = _unary('atan', elementary.atan, 'The angle in radians whose tangent is x.')
atan2 = _nary('atan2', elementary.atan2, 'The angle in radians of the point (y, x).', takes='of one real float dtype')
sinh = _unary('sinh', elementary.sinh, 'The hyperbolic sine.')
cosh = _unary('cosh', elementary.cosh, 'The hyperbolic cosine.')
tanh = _unary('tanh', elementary.tanh, 'The hyperbolic tangent.')
asinh = _unary('asinh', elementary.asinh, 'The number whose hyperbolic sine is x.')
acosh = _unary('acosh', elementary.acosh, 'The number whose hyperbolic cosine is x.', example='1.5')
atanh = _unary('atanh', elementary.atanh, 'The number whose hyperbolic tangent is x.')

# ---- special functions

erf = _unary('erf', special.erf, 'The error function.', takes='real float')
erfc = _unary('erfc', special.erfc, '1 - erf(x), exact for large x.', takes='real float')
erf_inv = _unary('erf_inv', special.erf_inv, 'The number whose error function is x.', takes='real float')
lgamma = _unary('lgamma', special.lgamma, 'The logarithm of abs(gamma(x)).', takes='real float')
digamma = _unary('digamma', special.digamma, 'The derivative of log(gamma(x)).', takes='real float')
bessel_i0e = _unary('bessel_i0e', special.bessel_i0e, 'exp(-abs(x)) times the modified Bessel function of order 0.',
                    takes='real float')
bessel_i1e = _unary('bessel_i1e', special.bessel_i1e, 'exp(-abs(x)) times the modified Bessel function of order 1.',
                    takes='real float')
polygamma = _nary('polygamma', special.polygamma, 'The m-th derivative of digamma(x).', operands='m, x',
                  takes='of one real float dtype', example='1.0, 2.0')
zeta = _nary('zeta', special.zeta, 'The sum of (q + k) ** -s over k = 0, 1, ....', operands='s, q',
             takes='of one real float dtype', example='2.0, 1.0')
igamma = _nary('igamma', special.igamma, 'The lower incomplete gamma function of a at x over gamma(a).', operands='a, x',
               takes='of one real float dtype')
igammac = _nary('igammac', special.igammac, '1 - igamma(a, x), exact for large x.', operands='a, x',
                takes='of one real float dtype')
igamma_grad_a = _nary('igamma_grad_a', special.igamma_grad_a, 'The derivative of igamma(a, x) in a.', operands='a, x',
                      takes='of one real float dtype')
random_gamma_grad = _nary('random_gamma_grad', special.random_gamma_grad,
                          'The derivative in a of a sample x of the gamma distribution of shape a.', operands='a, x',
                          takes='of one real float dtype')
betainc = _nary('betainc', special.regularized_incomplete_beta, 'The incomplete beta function of a and b at x over beta(a, b).',
                operands='a, b, x', takes='of one real float dtype', example='2.0, 3.0, 0.5')

# ---- rounding

floor = _unary('floor', rounding.floor, 'The largest whole number not above x.', takes='real float')
ceil = _unary('ceil', rounding.ceil, 'The smallest whole number not below x.', takes='real float')
is_finite = _unary('is_finite', rounding.is_finite, 'Whether x is neither infinite nor NaN.', takes='real float',
                   gives='dtype bool')
nextafter = _nary('nextafter', rounding.nextafter, 'The next floating-point number after x in the direction of y.',
                  takes='of one real float dtype')


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Value:
    """The nearest whole number, halves by `rounding_method`.

    x: [...], real float. The result has x's shape, dtype and placement. Nothing is communicated. Raises ShardingTypeError
    for an unreduced x.

        lax.round(2.5)
    """
    return rounding.round(as_value(x, 'round'), rounding_method=int(rounding_method))


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Value:
    """x rounded to a float with fewer bits, in its own dtype.

    operand: [...], real float, unreduced ones too, whose summands are rounded. The result has its shape, dtype and
    placement. Nothing is communicated.

        lax.reduce_precision(1.2345, 5, 10)
    """
    x = as_value(operand, 'reduce_precision')
    return rounding.reduce_precision(x, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits))


def clamp(min: Any, x: Any, max: Any) -> Value:
    """x within bounds; the gradient of a value on a bound is zero.

    x: [...]; min, max: of its shape or numbers, of its dtype. The result has x's shape and dtype; it is split where an operand
    is. Nothing is communicated. Raises ShardingTypeError for unreduced operands, TypeError for bounds of another shape.

        lax.clamp(0.0, 1.5, 1.0)
    """
    xs = values('clamp', min, x, max)
    low, middle, high = map(typeof, xs)
    for bound in (low, high):
        if bound.shape not in ((), middle.shape):
            raise TypeError(f"clamp takes bounds that are numbers or have the shape of x, got {show((low, middle, high))}")
    return kindly(rounding.clamp, *xs)


# ---- complex numbers

real = _unary('real', complex_ops.real, 'The real part.', takes='complex', gives='the dtype of the parts', unreduced=LINEAR,
              example='1 + 2j')
imag = _unary('imag', complex_ops.imag, 'The imaginary part.', takes='complex', gives='the dtype of the parts',
              unreduced=LINEAR, example='1 + 2j')
complex = _nary('complex', complex_ops.complex, 'The complex number x + iy.', takes='of dtype float32 or float64',
                gives='the complex dtype', unreduced='one unreduced operand of two')


def conj(x: Any) -> Value:
    """The complex conjugate, as a complex number.

    x: [...], complex, float32 or float64, unreduced ones too. The result lies as x does. Nothing is communicated.

        lax.conj(1 + 2j)
    """
    x = as_value(x, 'conj')
    t = typeof(x)
    if t.dtype.kind == 'f':
        return convert_element_type(x, complex_ops.whole_dtype(t.dtype))
    return complex_ops.conj(x)


# ---- comparisons, bits

eq = _nary('eq', compare.eq, 'Whether x equals y.', gives='dtype bool')
ne = _nary('ne', compare.ne, 'Whether x differs from y.', gives='dtype bool')
lt = _nary('lt', compare.lt, 'Whether x is below y.', takes='of one real dtype', gives='dtype bool')
le = _nary('le', compare.le, 'Whether x is not above y.', takes='of one real dtype', gives='dtype bool')
gt = _nary('gt', compare.gt, 'Whether x is above y.', takes='of one real dtype', gives='dtype bool')
ge = _nary('ge', compare.ge, 'Whether x is not below y.', takes='of one real dtype', gives='dtype bool')
bitwise_and = _nary('bitwise_and', compare.and_, 'The bits that both have.', takes='integers or bool', example='6, 3')
bitwise_or = _nary('bitwise_or', compare.or_, 'The bits that either has.', takes='integers or bool', example='6, 3')
bitwise_xor = _nary('bitwise_xor', compare.xor, 'The bits that exactly one has.', takes='integers or bool', example='6, 3')
bitwise_not = _unary('bitwise_not', compare.not_, 'The other bits.', takes='integers or bool', example='6')
population_count = _unary('population_count', bits.population_count, 'The number of bits that are set.', takes='integers',
                          example='7')
clz = _unary('clz', bits.clz, 'The number of bits above the highest one that is set.', takes='integers', example='7')
shift_left = _nary('shift_left', bits.shift_left, 'x with its bits moved up by y.', takes='integers', example='1, 3')
shift_right_arithmetic = _nary('shift_right_arithmetic', bits.shift_right_arithmetic,
                               'x with its bits moved down by y, filled up with the sign.', takes='integers', example='-8, 1')
shift_right_logical = _nary('shift_right_logical', bits.shift_right_logical,
                            'x with its bits moved down by y, filled up with zeros.', takes='integers', example='-8, 1')


# ---- choices

def select_n(which: Any, *cases: Any) -> Value:
    """From each place the case that `which` says: bool chooses from two, int32 from any number (clamped to what there is).

    which: bool or int32, [...] or rank 0; cases: [...], of one shape and dtype. The result is split where an operand is; the
    cases may be unreduced if all are. Nothing is communicated. Raises ShardingTypeError for an unreduced `which` and for
    unreduced cases beside others, TypeError for unequal shapes.

        lax.select_n(True, 0.0, 1.0)
    """
    which = as_value(which, 'select_n')
    xs = [as_value(c, 'select_n') for c in cases]
    types = [typeof(x) for x in xs]
    if len({t.shape for t in types}) > 1 or (which.ndim and types and which.shape != types[0].shape):
        raise TypeError(f"select_n takes cases of one shape and a choice of that shape or of rank 0, got "
                        f"{show((typeof(which), *types))}. jnp.where broadcasts.")
    return kindly(compare.select_n, which, *xs)


def select(pred: Any, on_true: Any, on_false: Any) -> Value:
    """on_true where pred holds, on_false elsewhere; see `select_n`.

        lax.select(True, 1.0, 0.0)
    """
    return select_n(pred, on_false, on_true)


# ---- dtypes

def dtype(x: Any) -> np.dtype:
    """The dtype of a value.

        lax.dtype(1.0)
    """
    return typeof(x).dtype


def convert_element_type(operand: Any, new_dtype: Any) -> Value:
    """A value in another dtype (32-bit ones for 64-bit ones, unless x64 is enabled).

    operand: [...]. The result has its shape and placement; that of an unreduced one must be a float dtype. Floats become
    integers towards zero, at most the largest; NaN becomes 0. Nothing is communicated.

        lax.convert_element_type(1.5, jnp.int32)
    """
    x = as_value(operand, 'convert_element_type')
    new = dtypes.canonical(new_dtype)
    if x.dtype == new and not x.weak_type:
        return x
    return convert.convert_element_type(x, new_dtype=new, weak_type=False)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Value:
    """The same bits as another dtype: a narrower one adds a last dimension, a wider one takes it away.

    operand: [...], integer or float. The result lies as the operand does, the last dimension whole. Nothing is communicated.
    Raises ShardingTypeError for an unreduced operand, TypeError for bool and complex.

        lax.bitcast_convert_type(1.0, jnp.int32)
    """
    x = as_value(operand, 'bitcast_convert_type')
    return bits.bitcast_convert_type(x, new_dtype=dtypes.canonical(new_dtype))


def optimization_barrier(operand: Any) -> Any:
    """The same values, all of them computed before any is used. operand: a pytree; types stay. Nothing is communicated.

        lax.optimization_barrier((1.0, 2.0))
    """
    flat, structure = tree.flatten(operand)
    return tree.unflatten(structure, barrier.optimization_barrier(*(as_value(x, 'optimization_barrier') for x in flat)))


__all__ = ['RoundingMethod', 'abs', 'acos', 'acosh', 'add', 'asin', 'asinh', 'atan', 'atan2', 'atanh', 'bessel_i0e',
           'bessel_i1e', 'betainc', 'bitcast_convert_type', 'bitwise_and', 'bitwise_not', 'bitwise_or', 'bitwise_xor',
           'cbrt', 'ceil', 'clamp', 'clz', 'complex', 'conj', 'convert_element_type', 'cos', 'cosh', 'digamma', 'div',
           'dtype', 'eq', 'erf', 'erf_inv', 'erfc', 'exp', 'exp2', 'expm1', 'floor', 'ge', 'gt', 'igamma',
           'igamma_grad_a', 'igammac', 'imag', 'integer_pow', 'is_finite', 'le', 'lgamma', 'log', 'log1p', 'log2',
           'logistic', 'lt', 'max', 'min', 'mul', 'mulhi', 'ne', 'neg', 'nextafter', 'one_minus_square',
           'optimization_barrier', 'polygamma', 'polynomial', 'population_count', 'pow', 'random_gamma_grad', 'real',
           'reciprocal', 'reduce_precision', 'rem', 'round', 'rsqrt', 'select', 'select_n', 'shift_left',
           'shift_right_arithmetic', 'shift_right_logical', 'sign', 'sin', 'sinh', 'sqrt', 'square', 'sub', 'tan',
           'tanh', 'zeta']
