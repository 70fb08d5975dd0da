"""Squares, roots and powers by a fixed integer."""

import numpy as np

from distad.core.batching import VECTORIZED
from distad.core.primitive import NoRule, Primitive, by_labels
from distad.core.value import Zero, typeof
from distad.ops.arithmetic import div, mul
from distad.ops.compare import eq, select_n
from distad.ops.makers import (
    FLOAT,
    INTEGER,
    NUMBER,
    REAL_FLOAT,
    check_dtype,
    constant,
    elementwise,
    elementwise_labels,
    scalar,
    ufunc,
    unary,
)
from distad.types import dtypes
from distad.types.array_type import ArrayType

square = unary('square', ufunc(np.square), NUMBER, jvp=lambda t, y, x: mul(t, mul(scalar(2, x), x)))
sqrt = unary('sqrt', ufunc(np.sqrt), FLOAT, jvp=lambda t, y, x: mul(t, div(scalar(0.5, y), y)))
rsqrt = unary('rsqrt', ufunc(lambda x: np.reciprocal(np.sqrt(x))), FLOAT,
              jvp=lambda t, y, x: mul(t, mul(scalar(-0.5, x), div(y, x))))
cbrt = unary('cbrt', ufunc(np.cbrt), REAL_FLOAT, jvp=lambda t, y, x: mul(t, mul(scalar(1 / 3, y), integer_pow(y, y=-2))))


# ---- integer_pow[y](x): x to a power known at trace time, by repeated squaring

def _integer_pow_shape(x: ArrayType, *, y: int):
    check_dtype('integer_pow', NUMBER, x)
    if y < 0 and not dtypes.is_float(x.dtype):
        raise TypeError(f"Integers cannot be raised to negative powers, got integer_pow({x}, {y}). Convert with astype first.")
    return x.shape, x.dtype


def _integer_pow_impl(x, *, out, y):
    x = np.asarray(x, np.float32) if dtypes.is_half(out.dtype) else x
    power = None
    n = abs(y)
    while n:
        if n & 1:
            power = x if power is None else power * x
        n >>= 1
        x = x * x if n else x
    power = np.ones_like(x) if power is None else np.reciprocal(power) if y < 0 else power
    return np.asarray(power).astype(out.dtype, copy=False)


def _integer_pow_jvp(primals, tangents, *, y):
    (x,), (t,) = primals, tangents
    z = integer_pow(x, y=y)
    if y == 0:
        return [z], [Zero(typeof(z).tangent())]
    rest = x if y == 2 else integer_pow(x, y=y - 1)
    return [z], [t if y == 1 else mul(t, mul(scalar(y, x), rest))]


integer_pow = Primitive(
    'integer_pow',
    type=by_labels(elementwise_labels('integer_pow'), _integer_pow_shape),
    labels=elementwise_labels('integer_pow'),
    impl=_integer_pow_impl,
    jvp=_integer_pow_jvp,
    transpose=NoRule('integer_pow is not linear'),
    batch=VECTORIZED,
    pointwise=True)


# ---- integers to integers: a power below zero is that of 1 and -1, and 0 else

def _int_pow_impl(x, y, *, out):
    of_units = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)) if out.dtype.kind == 'i' else x == 1
    return np.where(y < 0, of_units, np.power(x, np.maximum(y, 0))).astype(out.dtype, copy=False)


int_pow = constant('int_pow', _int_pow_impl, INTEGER, operands=2)


# ---- hypot: the length of (x, y)

def _length_share(t, z, x):
    return mul(t, div(x, select_n(eq(z, scalar(0, z)), z, scalar(1, z))))


hypot = elementwise('hypot', ufunc(np.hypot), accepts=REAL_FLOAT,
                    jvp=(lambda t, z, x, y: _length_share(t, z, x), lambda t, z, x, y: _length_share(t, z, y)))
