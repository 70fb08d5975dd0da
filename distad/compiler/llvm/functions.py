"""exp, log, sin, erf ... in additions, multiplications and shifts of bits: no call leaves a loop, so every loop fills its vectors.

The ways are old and published: Cody and Waite, Software Manual for the Elementary Functions (1980), for reducing an argument by a
constant in several parts; Muller, Elementary Functions (3rd edition, 2016), for splitting off what is exact; Tang's and Kahan's
expm1 and log1p as Muller gives them.
`coefficients` says which polynomial stands for what. In float32 the largest error is 2 units in the last place, in float64 4.
Infinities, NaN, zeros with their signs and numbers below the normal range come out as NumPy has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from distad.compiler.llvm import coefficients as c
from distad.compiler.llvm.emit import F32, F64, I32, I64, LANES, Emitter, Value

# log(2) and pi / 2 in parts that end in zeros, so that small multiples are exact.
LN2 = {4: (0.693145751953125, 1.4286068203094172e-06), 8: (0.6931471803691238, 1.9082149292705877e-10)}
PI_2 = {4: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        8: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)}
ROUND = {4: 1.5 * 2 ** 23, 8: 1.5 * 2 ** 52}          # added to a small number, it leaves the integer in the last bits
MANTISSA = {4: 23, 8: 52}
BIAS = {4: 127, 8: 1023}
INF = math.inf


def integer(dtype: np.dtype) -> np.dtype:
    return I32 if dtype == F32 else I64


def polynomial(e: Emitter, x: Value, table: dict[int, Sequence[float]], size: int | None = None) -> Value:
    """Horner's scheme."""
    *rest, top = table[size or x.dtype.itemsize]
    y = e.splat(top, x.dtype)
    for a in reversed(rest):
        y = e.fma(y, x, a)
    return y


def rounded(e: Emitter, x: Value, factor: float) -> tuple[Value, Value]:
    """The integer next to x * factor, as float and as integer of the same size."""
    magic = ROUND[x.dtype.itemsize]
    shifted = e.fma(x, factor, magic)
    i = integer(x.dtype)
    return shifted - magic, e.bitcast(shifted, i) - int(x.dtype.type(magic).view(i.type))


def two_to(e: Emitter, n: Value, dtype: np.dtype) -> Value:
    """2 ** n for integers n in the normal range."""
    size = dtype.itemsize
    return e.bitcast((n + BIAS[size]) << MANTISSA[size], dtype)


def scaled(e: Emitter, x: Value, i: Value, n: Value) -> Value:
    """x * 2 ** n in two steps, so that n may be beyond the range of one power; by one instruction where there is one."""
    if e.module.avx512:
        return e.scalef(x, n)
    n, half = i, i >> 1
    return x * two_to(e, half, x.dtype) * two_to(e, n - half, x.dtype)


def clipped(e: Emitter, x: Value, low: float, high: float) -> Value:
    """x between bounds; NaN stays."""
    x = e.select(x < low, low, x)
    return e.select(x > high, high, x)


def reduced(e: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """x = n log(2) + r: r, n as float and as integer."""
    n, i = rounded(e, x, 1 / math.log(2))
    high, low = LN2[x.dtype.itemsize]
    return e.fma(n, -low, e.fma(n, -high, x)), n, i


def exp(e: Emitter, x: Value) -> Value:
    low, high = {4: (-104.0, 89.0), 8: (-746.0, 710.0)}[x.dtype.itemsize]
    r, n, i = reduced(e, clipped(e, x, low, high))
    return scaled(e, e.fma(e.fma(polynomial(e, r, c.EXP), r, 1.0), r, 1.0), i, n)


def exp2(e: Emitter, x: Value) -> Value:
    low, high = {4: (-151.0, 129.0), 8: (-1076.0, 1025.0)}[x.dtype.itemsize]
    x = clipped(e, x, low, high)
    n, i = rounded(e, x, 1.0)
    r = (x - n) * math.log(2)
    return scaled(e, e.fma(e.fma(polynomial(e, r, c.EXP), r, 1.0), r, 1.0), i, n)


def expm1(e: Emitter, x: Value) -> Value:
    """2**n (exp(r) - 1) + (2**n - 1), halved on the way so that 2**n stays in range."""
    low, high = {4: (-30.0, 89.0), 8: (-60.0, 710.0)}[x.dtype.itemsize]
    r, _, i = reduced(e, clipped(e, x, low, high))
    small = e.fma(polynomial(e, r, c.EXP) * r, r, r)
    half = two_to(e, i - 1, x.dtype)
    y = e.fma(small, half, half - 0.5)
    return e.select(i.equals(0), e.select(small.equals(0), x, small), y + y)


def parted(e: Emitter, x: Value) -> tuple[Value, Value]:
    """x = (1 + f) * 2 ** k with 1 + f from sqrt(1/2) to sqrt(2): f, and k as float. For x normal and positive."""
    size, i = x.dtype.itemsize, integer(x.dtype)
    bits = e.bitcast(x, i) - int(x.dtype.type(math.sqrt(0.5)).view(i.type))
    k = bits >> MANTISSA[size]
    one_and_f = e.bitcast((bits & (2 ** MANTISSA[size] - 1)) + int(x.dtype.type(math.sqrt(0.5)).view(i.type)), x.dtype)
    return one_and_f - 1.0, e.convert(k, x.dtype)


def log_of_part(e: Emitter, f: Value, k: Value, correction: Value | None = None) -> Value:
    """log(1 + f) + k log(2) + correction, the large terms last."""
    high, low = LN2[f.dtype.itemsize]
    tail = k * low if correction is None else e.fma(k, low, correction)
    square = f * f * 0.5
    if f.dtype == F32:
        rest = polynomial(e, f, c.LOG) * f * (f * f) + tail
        return e.fma(k, high, f - (square - rest))
    s = f / (f + 2.0)
    z = s * s
    rest = e.fma(s, e.fma(polynomial(e, z, c.ATANH), z, square), tail)
    return e.fma(k, high, f - (square - rest))


def otherwise(e: Emitter, rare: Value, y: Value, other: Callable[[], Value]) -> Value:
    """y, or in lanes that are `rare` another value, which is computed only if there are any."""
    flag = e.raw(f'bitcast {rare} to i{LANES}')
    some = e.raw(f'icmp ne i{LANES} {flag}, 0')
    here, slow, done = (e.fresh()[1:] for _ in range(3))
    e.do(f'br label %{here}')
    e.label(here)
    e.do(f'br i1 {some}, label %{slow}, label %{done}')
    e.label(slow)
    z = e.select(rare, other(), y)
    e.do(f'br label %{done}')
    e.label(done)
    return e.op(f'phi {y.type} [ {y.name}, %{here} ], [ {z.name}, %{slow} ]', y.dtype)


def normalized(e: Emitter, x: Value) -> tuple[Value, Value]:
    """A positive number below the normal range made larger; and the exponent that was added, as float."""
    tiny, factor, n = {4: (2.0 ** -126, 2.0 ** 24, 24.0), 8: (2.0 ** -1022, 2.0 ** 54, 54.0)}[x.dtype.itemsize]
    small = x < tiny
    return e.select(small, x * factor, x), e.select(small, n, e.splat(0.0, x.dtype))


def at_ends_of_log(e: Emitter, x: Value, y: Value, zero: float = 0.0) -> Value:
    """-inf at zero, NaN below, inf at inf."""
    y = e.select(x.equals(INF), x, y)
    y = e.select(x.equals(zero), -INF, y)
    return e.select(x < zero, math.nan, e.select(x.is_nan(), x, y))


def normal_parts(e: Emitter, x: Value) -> tuple[Value, Value]:
    """`parted`, for numbers below the normal range too."""
    wide, n = normalized(e, x)
    f, k = parted(e, wide)
    return f, k - n


def _logarithm(of_parts: Callable) -> Callable:
    """A logarithm from the parts of its argument. Zero, infinity, NaN and what is below the normal range go another way, rarely."""
    def body(e: Emitter, x: Value) -> Value:
        i = integer(x.dtype)
        least = int(np.finfo(x.dtype).tiny.view(i.type))
        odd = (e.bitcast(x, i) - least).compare('ge', int(x.dtype.type(INF).view(i.type)) - least, signed=False)
        y = of_parts(e, *parted(e, x))
        return otherwise(e, odd, y, lambda: at_ends_of_log(e, x, of_parts(e, *normal_parts(e, x))))
    return body


log = _logarithm(lambda e, f, k: log_of_part(e, f, k))
log2 = _logarithm(lambda e, f, k: e.fma(log_of_part(e, f, e.splat(0.0, f.dtype)), 1 / math.log(2), k))
log10 = _logarithm(lambda e, f, k: log_of_part(e, f, k) * (1 / math.log(10)))


def log1p(e: Emitter, x: Value) -> Value:
    """log(u) for u = 1 + x rounded, and what rounding lost over u."""
    u = x + 1.0
    lost = e.select(x > 1.0, 1.0 - (u - x), x - (u - 1.0))
    f, k = parted(e, u)
    y = at_ends_of_log(e, x, log_of_part(e, f, k, lost / u), -1.0)
    return e.select(e.abs(x) < {4: 2.0 ** -25, 8: 2.0 ** -54}[x.dtype.itemsize], x, y)


def logistic(e: Emitter, x: Value) -> Value:
    t = e.function('exp', exp, -e.abs(x))
    return e.select(x < 0.0, t, e.splat(1.0, x.dtype)) / (t + 1.0)


def tanh(e: Emitter, x: Value) -> Value:
    a = e.abs(x)
    if x.dtype == F64:
        t = e.function('expm1', expm1, clipped(e, a, 0.0, 20.0) * -2.0)
        return e.copysign(-t / (t + 2.0), x)
    z = x * x
    small = e.fma(polynomial(e, z, c.TANH) * z, a, a)
    t = e.function('exp', exp, clipped(e, a, 0.0, 10.0) * 2.0)
    return e.copysign(e.select(a < 0.625, small, 1.0 - 2.0 / (t + 1.0)), x)


# ---- circular functions: beyond the reach of pi in three parts the C library is asked, lane by lane

REACH = {4: 1e4, 8: 1e6}


def _quadrant(e: Emitter, x: Value) -> tuple[Value, Value]:
    n, i = rounded(e, x, 2 / math.pi)
    for part in PI_2[x.dtype.itemsize]:
        x = e.fma(n, -part, x)
    return x, i


def _sine(e: Emitter, r: Value) -> Value:
    z = r * r
    return e.fma(polynomial(e, z, c.SIN) * z, r, r)


def _cosine(e: Emitter, r: Value) -> Value:
    z = r * r
    half = z * 0.5
    one = 1.0 - half
    return one + e.fma(z * z, polynomial(e, z, c.COS), (1.0 - one) - half)      # what 1 - z / 2 lost in rounding comes back


def _circular(shift: int, name: str) -> Callable:
    def body(e: Emitter, x: Value) -> Value:
        r, i = _quadrant(e, x)
        i = i + shift
        y = e.select((i & 1).equals(0), _sine(e, r), _cosine(e, r))
        y = e.select((i & 2).equals(0), y, -y)
        if shift == 0:
            y = e.select(x.equals(0.0), x, y)
        return otherwise(e, e.abs(x) > REACH[x.dtype.itemsize], y, lambda: e.call(name, x.dtype, x))
    return body


sin = _circular(0, 'llvm.sin')
cos = _circular(1, 'llvm.cos')


def atan(e: Emitter, x: Value) -> Value:
    """atan(x) = pi/4 + atan((x - 1) / (x + 1)) in the middle, pi/2 - atan(1/x) above."""
    a = e.abs(x)
    middle, above = a > math.tan(math.pi / 8), a > math.tan(3 * math.pi / 8)
    top = e.select(above, -1.0, e.select(middle, a - 1.0, a))
    bottom = e.select(above, a, e.select(middle, a + 1.0, e.splat(1.0, x.dtype)))
    r = top / bottom
    z = r * r
    y = e.fma(polynomial(e, z, c.ATAN) * z, r, r)
    high, low = PI_2[x.dtype.itemsize][:2]
    zero = e.splat(0.0, x.dtype)
    base = e.select(above, high, e.select(middle, high / 2, zero))
    rest = e.select(above, low, e.select(middle, low / 2, zero))
    return e.copysign(base + (y + rest), x)


# ---- error functions

def _erfc_of_large(e: Emitter, a: Value) -> Value:
    """exp(-a**2) times a polynomial; the square's rounding error is put back, for it is multiplied by the exponent."""
    a = clipped(e, a, 0.5, 27.5)
    w = 4.0 / (a + 2.0)
    square = a * a
    lost = e.fma(a, a, -square)
    y = e.function('exp', exp, -square) * (polynomial(e, 1.0 - w, c.ERFC) * w)
    return e.fma(y, -lost, y)


def _erf_of_small(e: Emitter, x: Value) -> Value:
    return e.fma(polynomial(e, x * x, c.ERF), x, x)


def erf(e: Emitter, x: Value) -> Value:
    a = e.abs(x)
    if x.dtype == F32:
        large = 1.0 - e.function('exp', exp, polynomial(e, clipped(e, a, 1.0, 4.0), c.LOG_ERFC))
    else:
        large = 1.0 - _erfc_of_large(e, a)
    return e.select(a < 1.0, _erf_of_small(e, x), e.copysign(large, x))


def erfc(e: Emitter, x: Value) -> Value:
    if x.dtype == F32:
        return in_double(erfc)(e, x)
    large = _erfc_of_large(e, e.abs(x))
    large = e.select(x < 0.0, 2.0 - large, large)
    return e.select(e.abs(x) < 0.5, 1.0 - _erf_of_small(e, x), large)


# ---- functions of those above

def in_double(f: Callable) -> Callable:
    """A float32 function computed in float64."""
    def body(e: Emitter, *xs: Value) -> Value:
        if xs[0].dtype != F32:
            return f(e, *xs)
        return e.convert(f(e, *(e.convert(x, F64) for x in xs)), F32)
    return body


@in_double
def tan(e: Emitter, x: Value) -> Value:
    return e.function('sin', sin, x) / e.function('cos', cos, x)


@in_double
def sinh(e: Emitter, x: Value) -> Value:
    a = e.abs(x)
    t = e.function('expm1', expm1, a)
    small = (t + t / (t + 1.0)) * 0.5
    half = e.function('exp', exp, a * 0.5)
    return e.copysign(e.select(a > 700.0, half * 0.5 * half, e.select(t.equals(INF), t, small)), x)


@in_double
def cosh(e: Emitter, x: Value) -> Value:
    a = e.abs(x)
    t = e.function('exp', exp, a)
    half = e.function('exp', exp, a * 0.5)
    return e.select(a > 700.0, half * 0.5 * half, t * 0.5 + 0.5 / t)


@in_double
def asinh(e: Emitter, x: Value) -> Value:
    a = e.abs(x)
    near = e.function('log1p', log1p, a + a * a / (e.sqrt(e.fma(a, a, 1.0)) + 1.0))
    far = e.function('log', log, a) + math.log(2)
    return e.copysign(e.select(a > 1e150, far, near), x)


@in_double
def acosh(e: Emitter, x: Value) -> Value:
    t = x - 1.0
    near = e.function('log1p', log1p, t + e.sqrt(t * (x + 1.0)))
    y = e.select(x > 1e150, e.function('log', log, x) + math.log(2), near)
    return e.select(x < 1.0, math.nan, y)


@in_double
def atanh(e: Emitter, x: Value) -> Value:
    a = e.abs(x)
    return e.copysign(e.function('log1p', log1p, 2.0 * a / (1.0 - a)) * 0.5, x)


# ---- extrema

def maximum(e: Emitter, x: Value, y: Value) -> Value:
    """The larger one; NaN where one is NaN."""
    z = e.select(x > y, x, y)
    return e.select(x.is_nan(), x, z) if x.dtype.kind == 'f' else z


def minimum(e: Emitter, x: Value, y: Value) -> Value:
    z = e.select(x < y, x, y)
    return e.select(x.is_nan(), x, z) if x.dtype.kind == 'f' else z
