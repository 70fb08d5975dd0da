"""Elementary functions, each with its derivative on its own line."""

from math import log as ln

import numpy as np

from distad.core.primitive import Primitive
from distad.core.value import is_scalar, typeof
from distad.late import Late
from distad.ops.arithmetic import add, div, mul, neg, sub
from distad.ops.compare import eq, select_n
from distad.ops.convert import convert_element_type
from distad.ops.makers import FLOAT, REAL_FLOAT, check_dtype, elementwise, in_float32, scalar, ufunc, unary
from distad.ops.powers import rsqrt, square
from distad.types import dtypes
from distad.types.array_type import ArrayType

special = Late('scipy.special')

def _one(x):
    return scalar(1, x)


def one_minus_square(x):
    return mul(sub(_one(x), x), add(_one(x), x))                # exact near 1, where 1 - x * x is not


# ---- exponentials and logarithms

exp = unary('exp', ufunc(np.exp), jvp=lambda t, y, x: mul(t, y))
exp2 = unary('exp2', ufunc(lambda x: np.exp(x * ln(2)) if np.iscomplexobj(x) else np.exp2(x)),
             jvp=lambda t, y, x: mul(t, mul(scalar(ln(2), y), y)))
expm1 = unary('expm1', ufunc(np.expm1), jvp=lambda t, y, x: mul(t, add(y, _one(y))))
log = unary('log', ufunc(np.log), jvp=lambda t, y, x: div(t, x))
log2 = unary('log2', ufunc(np.log2), jvp=lambda t, y, x: div(t, mul(scalar(ln(2), x), x)))
log10 = unary('log10', ufunc(np.log10), jvp=lambda t, y, x: div(t, mul(scalar(ln(10), x), x)))
log1p = unary('log1p', ufunc(np.log1p), jvp=lambda t, y, x: div(t, add(x, _one(x))))


def _logistic_impl(x, *, out):
    if out.dtype.kind == 'c':
        return np.reciprocal(1 + np.exp(-x)).astype(out.dtype, copy=False)
    return in_float32(special.expit)(x, out=out)


logistic = unary('logistic', _logistic_impl, jvp=lambda t, y, x: mul(t, mul(y, sub(_one(y), y))))


def _lean(x, y):
    """How far x is above y; 0 for equal infinities, of which each has half the weight."""
    d = sub(x, y)
    return select_n(eq(d, d), scalar(0, d), d)


logaddexp = elementwise('logaddexp', ufunc(np.logaddexp), accepts=REAL_FLOAT,
                        jvp=(lambda t, z, x, y: mul(t, logistic(_lean(x, y))),
                             lambda t, z, x, y: mul(t, logistic(_lean(y, x)))))


# ---- trigonometric functions

sin = unary('sin', ufunc(np.sin), jvp=lambda t, y, x: mul(t, cos(x)))
cos = unary('cos', ufunc(np.cos), jvp=lambda t, y, x: neg(mul(t, sin(x))))
tan = unary('tan', ufunc(np.tan), jvp=lambda t, y, x: mul(t, add(_one(y), square(y))))
asin = unary('asin', ufunc(np.arcsin), jvp=lambda t, y, x: mul(t, rsqrt(one_minus_square(x))))
acos = unary('acos', ufunc(np.arccos), jvp=lambda t, y, x: neg(mul(t, rsqrt(one_minus_square(x)))))
atan = unary('atan', ufunc(np.arctan), jvp=lambda t, y, x: div(t, add(_one(x), square(x))))


def _per_square(t, x, y):
    return div(t, add(square(x), square(y)))


atan2 = elementwise('atan2', ufunc(np.arctan2), accepts=REAL_FLOAT,
                    jvp=(lambda t, z, x, y: mul(t, _per_square(y, x, y)),
                         lambda t, z, x, y: mul(t, _per_square(neg(x), x, y))))


# ---- hyperbolic functions

sinh = unary('sinh', ufunc(np.sinh), jvp=lambda t, y, x: mul(t, cosh(x)))
cosh = unary('cosh', ufunc(np.cosh), jvp=lambda t, y, x: mul(t, sinh(x)))
tanh = unary('tanh', ufunc(np.tanh), jvp=lambda t, y, x: mul(t, one_minus_square(y)))
asinh = unary('asinh', ufunc(np.arcsinh), jvp=lambda t, y, x: mul(t, rsqrt(add(square(x), _one(x)))))
acosh = unary('acosh', ufunc(np.arccosh),
              jvp=lambda t, y, x: mul(t, mul(rsqrt(sub(x, _one(x))), rsqrt(add(x, _one(x))))))
atanh = unary('atanh', ufunc(np.arctanh), jvp=lambda t, y, x: div(t, one_minus_square(x)))


# ---- pow: the exponent has the base's dtype, or is an integer

def _pow_check(x: ArrayType, y: ArrayType) -> None:
    check_dtype('pow', FLOAT, x)
    if not dtypes.is_integer(y.dtype):
        check_dtype('pow', FLOAT, x, y)


def _pow_impl(x, y, *, out):
    x = np.asarray(x, np.float32) if dtypes.is_half(out.dtype) else x
    return np.asarray(np.power(x, np.asarray(y, x.dtype) if dtypes.is_half(y.dtype) else y)).astype(out.dtype, copy=False)


def _pow_by_base(t, z, x, y):
    """y * x ** (y - 1), and zero where y is, whatever x."""
    if is_scalar(y):
        return mul(t, scalar(0, x)) if y == 0 else mul(t, mul(scalar(y, x), pow(x, scalar(y - scalar(1, y), y))))
    one_less = select_n(eq(y, scalar(0, y)), sub(y, scalar(1, y)), scalar(1, y))
    factor = y if typeof(y).dtype == typeof(x).dtype else convert_element_type(y, new_dtype=typeof(x).dtype, weak_type=False)
    return mul(t, mul(factor, pow(x, one_less)))


def _pow_by_exponent(t, z, x, y):
    """log(x) * x ** y, and zero where x is."""
    return mul(t, mul(log(select_n(eq(x, scalar(0, x)), x, _one(x))), z))


pow: Primitive = elementwise('pow', _pow_impl, accepts=_pow_check, jvp=(_pow_by_base, _pow_by_exponent))
