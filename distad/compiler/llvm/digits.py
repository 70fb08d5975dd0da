"""Remainders of floats, and ops on the parts that a float is made of.

A remainder is x - n y for the whole number n that x / y is cut to. While n has fewer digits than a float, that is exact in one
fused multiplication; rounding of x / y can make n too large by one, which is mended. Others are left to the C library.
"""

from __future__ import annotations

import math

import numpy as np

from distad.compiler.llvm.emit import F64, I32, I64, Emitter, Value
from distad.compiler.llvm.functions import MANTISSA, clipped, integer, otherwise, two_to

REACH = {4: 2.0 ** 22, 8: 2.0 ** 51}


def _bits(e: Emitter, x: Value) -> Value:
    return e.bitcast(x, integer(x.dtype))


def rem(e: Emitter, x: Value, y: Value) -> Value:
    """With the sign of x, as C's fmod."""
    n = e.call('llvm.trunc', x.dtype, x / y)
    r = e.fma(-n, y, x)
    beyond = ((_bits(e, r) ^ _bits(e, x)) < 0) & r.differs(0.0)
    r = e.copysign(e.select(beyond, e.abs(y) - e.abs(r), e.abs(r)), x)
    usual = (e.abs(n) < REACH[x.dtype.itemsize]) & (e.abs(y) < math.inf)
    return otherwise(e, ~usual, r, lambda: e.op(f'frem {x}, {y.name}', x.dtype))


def remainder(e: Emitter, x: Value, y: Value) -> Value:
    """With the sign of y."""
    r = e.function('rem', rem, x, y)
    turned = e.select((r < 0.0).bits('xor', y < 0.0), r + y, r)
    return e.select(r.equals(0.0), e.copysign(e.splat(0.0, x.dtype), y), turned)


def floor_divide(e: Emitter, x: Value, y: Value) -> Value:
    """The quotient that goes with `remainder`, a whole number; x / y where y is 0."""
    r = e.function('rem', rem, x, y)
    q = (x - r) / y
    q = e.select(r.differs(0.0) & (r < 0.0).bits('xor', y < 0.0), q - 1.0, q)
    whole = e.call('llvm.floor', x.dtype, q)
    whole = e.select(q - whole > 0.5, whole + 1.0, whole)
    plain = x / y
    whole = e.select(q.equals(0.0), e.copysign(e.splat(0.0, x.dtype), plain), whole)
    return e.select(y.equals(0.0), plain, whole)


# ---- x = mantissa * 2 ** exponent

def ldexp(e: Emitter, x: Value, n: Value) -> Value:
    """x * 2 ** n, rounded once: the last factor is the largest."""
    n = clipped(e, e.convert(n, I64), -2200, 2200) if n.dtype.itemsize > 1 else e.convert(n, I64)
    wide = e.convert(x, F64)
    last = clipped(e, n, -1022, 1022)
    first = n - last
    middle = clipped(e, first, -1022, 1022)
    for part in (first - middle, middle, last):
        wide = wide * two_to(e, part, F64)
    return e.convert(wide, x.dtype)


def exponent(e: Emitter, x: Value) -> Value:
    """Of a mantissa from 1/2 to 1, as int32; 0 for what has none."""
    wide = e.convert(x, F64)
    small = e.abs(wide) < 2.0 ** -1022
    bits = e.bitcast(e.select(small, wide * 2.0 ** 54, wide), I64)
    n = ((bits >> MANTISSA[8]) & 0x7FF) - e.select(small, 1022 + 54, e.splat(1022, I64))
    return e.convert(e.select(wide.equals(0.0) | ~(e.abs(wide) < math.inf), 0, n), I32)


def next_after(e: Emitter, x: Value, y: Value) -> Value:
    """The next float from x on the way to y."""
    bits = _bits(e, x)
    away = (y > x).bits('xor', bits < 0)
    found = e.bitcast(e.select(away, bits + 1, bits - 1), x.dtype)
    least = e.splat(float(np.finfo(x.dtype).smallest_subnormal), x.dtype)
    found = e.select(x.equals(0.0), e.copysign(least, y), found)
    return e.select(x.is_nan() | y.is_nan(), x + y, e.select(x.equals(y), y, found))


def spacing(e: Emitter, x: Value) -> Value:
    """The distance to the next float away from zero, negative for a negative one."""
    a = e.abs(x)
    step = e.bitcast(_bits(e, a) + 1, x.dtype) - a
    return e.select(a < math.inf, e.select(x < 0.0, -step, step), math.nan)


def reduce_precision(e: Emitter, x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    """Rounded to nearest even; infinite beyond the largest exponent, zero below the least."""
    a = e.abs(x)
    y, dropped = a, MANTISSA[x.dtype.itemsize] - mantissa_bits
    if dropped > 0:
        bits = _bits(e, a)
        odd = (bits >> dropped) & 1 if mantissa_bits else 1          # the one digit before the point is
        bits = (bits + odd + ((1 << dropped - 1) - 1)) & -(1 << dropped)
        y = e.bitcast(bits, x.dtype)
    bias = 2 ** (exponent_bits - 1) - 1
    if 2.0 ** (1 - bias) > float(np.finfo(x.dtype).tiny):
        least = math.ldexp(1.0, 1 - bias)
        edge = least * (1 - 2.0 ** (-mantissa_bits - 1))            # from here on it is rounded to `least`, which is even
        up = a > edge if mantissa_bits == 0 else a >= edge
        y = e.select(a < least, e.select(up, least, e.splat(0.0, x.dtype)), y)
    if bias + 1 <= {4: 127, 8: 1023}[x.dtype.itemsize]:
        y = e.select(y >= math.ldexp(1.0, bias + 1), math.inf, y)
    return e.select(a < math.inf, e.copysign(y, x), x)
