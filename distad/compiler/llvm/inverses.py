"""Inverse functions, lengths and angles, in terms of those of `functions`.

asin and acos near 1 by the half angle (Cody and Waite, Software Manual for the Elementary Functions, 1980); the cubic root by
Halley's step from a polynomial (Kahan, Computing a real cube root, 1991); the inverse error function in the variable
-log(1 - x**2) (Giles, Approximating the erfinv function, in GPU Computing Gems, 2010), with polynomials of our own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from distad.compiler.llvm import coefficients as c
from distad.compiler.llvm.emit import F32, Emitter, Value
from distad.compiler.llvm.functions import (
    PI_2,
    exp,
    in_double,
    integer,
    log,
    log1p,
    maximum,
    normal_parts,
    otherwise,
    polynomial,
    rounded,
    two_to,
)


def _half_angle(e: Emitter, x: Value) -> tuple[Value, Value]:
    """asin(|x|) below 1/2, and of the half angle's sine above; where it is above."""
    a = e.abs(x)
    large = a > 0.5
    z = e.select(large, (1.0 - a) * 0.5, a * a)
    s = e.select(large, e.sqrt(z), a)
    return e.fma(polynomial(e, z, c.ASIN) * z, s, s), large


@in_double
def asin(e: Emitter, x: Value) -> Value:
    y, large = _half_angle(e, x)
    high, low = PI_2[8][:2]
    return e.copysign(e.select(large, high - (y + y - low), y), x)


@in_double
def acos(e: Emitter, x: Value) -> Value:
    y, large = _half_angle(e, x)
    high, low = PI_2[8][:2]
    negative = x < 0.0
    far = e.select(negative, 2 * high - (y + y - 2 * low), y + y)
    return e.select(large, far, high - (e.copysign(y, x) - low))


def atan2(e: Emitter, y: Value, x: Value) -> Value:
    """From the nearest multiple of pi / 4, which is seen under a small angle."""
    a, b = e.abs(y), e.abs(x)
    steep = a > b
    low, high = e.select(steep, b, a), e.select(steep, a, b)
    same = low.equals(math.inf)
    low, high = e.select(same, 1.0, low), e.select(same, 1.0, e.select(high.equals(0.0), 1.0, high))
    scale = e.select(high > {4: 2.0 ** 100, 8: 2.0 ** 1000}[x.dtype.itemsize], 0.5, e.splat(1.0, x.dtype))
    low, high = low * scale, high * scale
    middle = low > math.tan(math.pi / 8) * high
    top, bottom = e.select(middle, low - high, low), e.select(middle, low + high, high)
    r = top / bottom
    lost = e.select(bottom < math.inf, e.fma(-r, bottom, top) / bottom, 0.0)
    z = r * r
    t = r + e.fma(polynomial(e, z, c.ATAN) * z, r, lost)
    negative = e.bitcast(x, integer(x.dtype)) < 0
    n = e.select(middle, 1.0, e.splat(0.0, x.dtype))
    n = e.select(steep, 2.0 - n, n)
    n = e.select(negative, 4.0 - n, n)
    t = e.select(steep.bits('xor', negative), -t, t)
    first, second = PI_2[x.dtype.itemsize][:2]
    t = e.fma(n, first / 2, e.fma(n, second / 2, t))
    return e.copysign(e.select(x.is_nan() | y.is_nan(), math.nan, t), y)


def cbrt(e: Emitter, x: Value) -> Value:
    a = e.abs(x)
    f, k = normal_parts(e, a)
    n, i = rounded(e, k, 1 / 3)
    rest = k - n * 3.0
    up, down = rest > 0.5, rest < -0.5
    cube = (f + 1.0) * e.select(up, 2.0, e.select(down, 0.5, e.splat(1.0, x.dtype)))
    t = polynomial(e, f, c.CBRT) * e.select(up, 2 ** (1 / 3), e.select(down, 0.5 ** (1 / 3), e.splat(1.0, x.dtype)))
    off = e.fma(t * t, t, -cube)                                     # t ** 3 - cube
    t = t - t * off / (off + off + 3.0 * cube)
    y = t * two_to(e, i, x.dtype)
    return e.copysign(e.select((a > 0.0) & (a < math.inf), y, a), x)


@in_double
def hypot(e: Emitter, x: Value, y: Value) -> Value:
    """The root of the sum of squares, which are brought near 1 before."""
    a, b = e.abs(x), e.abs(y)
    high = e.select(a > b, a, b)
    factor = e.select(high > 2.0 ** 510, 2.0 ** -600, e.select(high < 2.0 ** -450, 2.0 ** 600, e.splat(1.0, x.dtype)))
    back = e.select(high > 2.0 ** 510, 2.0 ** 600, e.select(high < 2.0 ** -450, 2.0 ** -600, e.splat(1.0, x.dtype)))
    s, t = a * factor, b * factor
    length = e.sqrt(e.fma(s, s, t * t)) * back
    return e.select(a.equals(math.inf) | b.equals(math.inf), math.inf, length)


def logaddexp(e: Emitter, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)): the larger one and a correction, which is log(2) for equal ones, infinite ones too."""
    more = e.function('log1p', log1p, e.function('exp', exp, -e.abs(x - y)))
    return e.select(x.equals(y), x + math.log(2), maximum(e, x, y) + more)


def _times_log(name: str, of: Callable) -> Callable:
    """x log(y), which is 0 where x is."""
    def body(e: Emitter, x: Value, y: Value) -> Value:
        return e.select(x.equals(0.0) & ~y.is_nan(), 0.0, x * e.function(name, of, y))
    return body


xlogy = _times_log('log', log)
xlog1py = _times_log('log1p', log1p)


def erf_inv(e: Emitter, x: Value) -> Value:
    """x P(w). Few numbers are far from 0, so far that the polynomial is one of the root of w."""
    w = -e.function('log', log, e.fma(-x, x, 1.0))

    def far() -> Value:
        s = e.sqrt(w)
        y = polynomial(e, e.fma(s, 1.25, -4.0), c.ERF_INV_FAR)
        if x.dtype != F32:
            y = e.select(s > 4.0, polynomial(e, s - 5.0, c.ERF_INV_FARTHEST), y)
        return e.select(e.abs(x).equals(1.0), math.inf, y) * x
    near = e.fma(polynomial(e, e.fma(w, 1 / 3, -1.0), c.ERF_INV), w, math.sqrt(math.pi) / 2) * x
    return otherwise(e, w > 6.0, near, far)
