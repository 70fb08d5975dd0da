"""Rounding, and the parts that a floating-point number is made of."""

from functools import reduce

import numpy as np

from distad.core.primitive import BY_LINEARITY
from distad.core.value import Zero, typeof
from distad.ops.arithmetic import max, mul
from distad.ops.basic import add_any
from distad.ops.broadcast import spread, unbroadcast
from distad.ops.compare import and_, gt, lt, select_n
from distad.ops.makers import ANY, INTEGER, REAL_FLOAT, check_dtype, constant, elementwise, scalar, ufunc, unary
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, LINEAR_IN_FIRST

AWAY_FROM_ZERO, TO_NEAREST_EVEN = 0, 1

floor = constant('floor', ufunc(np.floor), REAL_FLOAT)
ceil = constant('ceil', ufunc(np.ceil), REAL_FLOAT)


def _round_impl(x, *, out, rounding_method):
    if rounding_method == TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    rest = np.where(np.isfinite(x), x - whole, out.dtype.type(0))         # exact, and twice it is too
    return (whole + np.trunc(rest + rest)).astype(out.dtype, copy=False)


round = constant('round', _round_impl, REAL_FLOAT)


def _to_bool(dtype: np.dtype) -> np.dtype:
    return np.dtype(bool)


is_finite = constant('is_finite', ufunc(np.isfinite), REAL_FLOAT, result=_to_bool)
signbit = constant('signbit', ufunc(np.signbit), REAL_FLOAT, result=_to_bool)
spacing = constant('spacing', ufunc(np.spacing), REAL_FLOAT)
nextafter = elementwise('nextafter', ufunc(np.nextafter), accepts=REAL_FLOAT,
                        jvp=(lambda t, z, x, y: spread(t, typeof(z)), None))
copysign = elementwise('copysign', ufunc(np.copysign), accepts=REAL_FLOAT,
                       jvp=(lambda t, z, x, y: mul(t, mul(copysign(scalar(1, x), x), copysign(scalar(1, y), y))), None))


# ---- x = mantissa * 2 ** exponent

def _ldexp_impl(x, exponent, *, out):
    if dtypes.is_half(out.dtype):
        x = np.asarray(x, np.float32)
    return np.ldexp(x, np.clip(exponent, -5000, 5000).astype(np.int32)).astype(out.dtype, copy=False)


def _ldexp_check(x: ArrayType, n: ArrayType) -> None:
    check_dtype('ldexp', REAL_FLOAT, x)
    check_dtype('ldexp', INTEGER, n)


ldexp = elementwise('ldexp', _ldexp_impl, accepts=_ldexp_check, linearity=LINEAR_IN_FIRST,
                    jvp=(lambda t, z, x, n: spread(ldexp(t, n), typeof(z)), None),
                    transpose=(lambda ct, x, n: unbroadcast(ldexp(ct, n), typeof(x)), None))

exponent = constant('exponent', ufunc(lambda x: np.frexp(x)[1]), REAL_FLOAT, result=lambda dtype: np.dtype(np.int32))


# ---- reduce_precision: a float rounded to fewer bits, in the same dtype

def _reduce_precision_impl(x, *, out, exponent_bits, mantissa_bits):
    """Round to nearest even; what is beyond the largest exponent becomes infinite.

    Numbers below the smallest exponent become zero, or, where the dtype has no smaller one itself, lose bits one by one.
    """
    wide = np.asarray(x, np.float64)
    bias = 2 ** (exponent_bits - 1) - 1
    last_bit = np.maximum(np.frexp(wide)[1] - 1, 1 - bias) - mantissa_bits
    y = np.ldexp(np.rint(np.ldexp(wide, -last_bit)), last_bit)
    own = np.finfo(out.dtype) if out.dtype.kind == 'f' else np.finfo(np.float32)
    y = np.where(np.abs(y) >= np.ldexp(1.0, bias + 1), np.copysign(np.inf, wide), y)
    if 2.0 ** (1 - bias) > own.tiny:
        y = np.where(np.abs(y) < np.ldexp(1.0, 1 - bias), np.copysign(0.0, wide), y)
    return np.where(np.isfinite(wide), y, wide).astype(out.dtype)


reduce_precision = unary('reduce_precision', _reduce_precision_impl, REAL_FLOAT, jvp=BY_LINEARITY, linearity=ADDITIVE,
                         transpose=lambda ct, x, **bits: reduce_precision(ct, **bits))


# ---- clamp(low, x, high)

def _clamp_jvp(primals, tangents):
    """The tangent of what is taken. On a bound itself it is zero, for all three."""
    low, x, high = primals
    y = clamp(low, x, high)
    taken = (lambda: and_(gt(low, x), lt(low, high)), lambda: and_(gt(x, low), lt(x, high)), lambda: lt(high, max(x, low)))
    terms = [select_n(where(), scalar(0, y), spread(t, typeof(y)))
             for where, t in zip(taken, tangents, strict=True) if t.__class__ is not Zero]
    return [y], [reduce(add_any, terms)]


clamp = elementwise('clamp', lambda low, x, high, *, out: np.minimum(np.maximum(x, low), high), accepts=ANY,
                               jvp=_clamp_jvp)
