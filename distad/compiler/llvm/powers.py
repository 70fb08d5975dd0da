"""Powers: of floats by exp and a logarithm in two floats (Dekker, A floating-point technique for extending the available precision,
1971), of any number by a whole number that is known.
"""

from __future__ import annotations

import math

from distad.compiler.llvm import coefficients as c
from distad.compiler.llvm.emit import I64, Emitter, Value
from distad.compiler.llvm.functions import INF, LN2, clipped, exp, in_double, normal_parts, polynomial


def _pow_double(e: Emitter, x: Value, y: Value) -> Value:
    """exp(y log|x|) with the logarithm as a sum of two floats, then sign and special cases."""
    a = e.abs(x)
    f, k = normal_parts(e, a)
    s, ds = _quotient(e, f, f + 2.0)
    # 2 atanh(s) = 2 s + 2/3 s**3 + s**5 R(s**2): the first two terms in two floats
    z = s * s
    dz = e.fma(s, s, -z) + 2.0 * s * ds
    cube = z * s
    dcube = e.fma(z, s, -cube) + z * ds + dz * s
    third = cube * (2 / 3)
    dthird = e.fma(cube, 2 / 3, -third) + cube * (2 / 3 * 2.0 ** -54) + dcube * (2 / 3)      # 2/3 itself is rounded
    rest = {8: c.ATANH[8][1:]}
    tail = cube * z * polynomial(e, z, rest)
    high, low = _two_sum(e, s + s, third)
    low = low + (ds + ds) + dthird + tail
    ln2, dln2 = LN2[8]
    main, part = _two_sum(e, k * ln2, high)
    low = low + part + k * dln2
    main, low = _two_sum(e, main, low)
    # times y
    p = y * main
    dp = e.fma(y, main, -p) + y * low
    big = clipped(e, p, -2000.0, 2000.0)
    dp = e.select(big.equals(p), dp, 0.0)
    power = e.function('exp', exp, big)
    power = e.select(power.equals(INF), power, e.fma(power, dp, power))
    return _with_special_cases(e, x, y, power)


def _with_special_cases(e: Emitter, x: Value, y: Value, power: Value) -> Value:
    """Zero, infinite and negative bases; what C's pow says (IEEE 754-2019, 9.2.1)."""
    a = e.abs(x)
    whole = e.call('llvm.rint', y.dtype, y).equals(y)
    half = y * 0.5
    odd = whole & e.call('llvm.rint', y.dtype, half).differs(half) & (e.abs(y) < 2.0 ** 53)
    zero, inf = e.splat(0.0, x.dtype), e.splat(INF, x.dtype)
    power = e.select(a.equals(0.0), e.select(y < 0.0, inf, zero), power)
    power = e.select(a.equals(INF), e.select(y < 0.0, zero, inf), power)
    grows = (a > 1.0).bits('xor', y < 0.0)
    power = e.select(e.abs(y).equals(INF), e.select(a.equals(1.0), e.splat(1.0, x.dtype), e.select(grows, inf, zero)), power)
    negative = x.compare('lt', 0.0) | (e.bitcast(x, I64) < 0)
    power = e.select(negative & odd, -power, power)
    power = e.select((x < 0.0) & ~whole & (a < INF), math.nan, power)
    power = e.select(x.is_nan() | y.is_nan(), math.nan, power)
    return e.select(x.equals(1.0) | y.equals(0.0), 1.0, power)


def _quotient(e: Emitter, x: Value, y: Value) -> tuple[Value, Value]:
    """x / y as a sum of two floats, for y = x + 2 with what that rounding lost."""
    lost = x - (y - 2.0)
    q = x / y
    rest = e.fma(-q, y, x) - q * lost
    return q, rest / y


def _two_sum(e: Emitter, x: Value, y: Value) -> tuple[Value, Value]:
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def pow(e: Emitter, x: Value, y: Value) -> Value:
    return in_double(_pow_double)(e, x, y)


def integer_power(e: Emitter, x: Value, n: int) -> Value:
    """By repeated squaring, as the primitive computes it."""
    power, m = None, abs(n)
    while m:
        if m & 1:
            power = x if power is None else power * x
        m >>= 1
        x = x * x if m else x
    if power is None:
        return e.splat(1, x.dtype)
    return 1.0 / power if n < 0 else power

