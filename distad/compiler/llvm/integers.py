"""Integers: division, powers, shifts and counts of bits, as NumPy has them where a processor would trap or wrap.

Processors do not divide vectors of integers. Up to 32 bits a quotient of floats with more digits than both operands together needs
is exact once it is cut (Granlund and Montgomery, Division by invariant integers using multiplication, 1994, section 7, give the
bound); 64 bits are divided lane by lane. Divisors 0 and -1, which trap, are replaced before and mended after.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distad.compiler.llvm.emit import F32, F64, LANES, Emitter, Value
from distad.compiler.llvm.halves import U16, U32

U8, U64 = np.dtype(np.uint8), np.dtype(np.uint64)
UNSIGNED = {1: U8, 2: U16, 4: U32, 8: U64}


def bits(dtype: np.dtype) -> int:
    return 8 * dtype.itemsize


def unsigned(x: Value) -> Value:
    """The same bits."""
    return Value(x.e, x.name, UNSIGNED[x.dtype.itemsize])


# ---- division

def _quotient(e: Emitter, x: Value, y: Value) -> Value:
    """x / y towards zero; y for y = 0 or an overflow is not defined."""
    wide = {1: F32, 2: F32, 4: F64}.get(x.dtype.itemsize)
    kind = 'si' if x.dtype.kind == 'i' else 'ui'
    if wide is None:
        return e.op(f'{kind[0]}div {x}, {y.name}', x.dtype)
    q = e.convert(x, wide) / e.convert(y, wide)
    return e.op(f'fpto{kind} {q} to {x.type}', x.dtype)


def _safe(e: Emitter, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """The quotient towards zero where there is one, the remainder that goes with it, and where y is 0."""
    zero = y.equals(0)
    odd = zero
    if y.dtype.kind == 'i':
        minus = y.equals(-1)
        odd = zero | minus
    q = _quotient(e, x, e.select(odd, 1, y))
    if y.dtype.kind == 'i':
        q = e.select(minus, -x, q)
    return q, x - q * y, zero


def divide(e: Emitter, x: Value, y: Value) -> Value:
    """Towards zero; -1 where y is 0."""
    q, _, zero = _safe(e, x, y)
    return e.select(zero, -1, q)


def rem(e: Emitter, x: Value, y: Value) -> Value:
    """What `divide` leaves, with the sign of x; x where y is 0."""
    return _safe(e, x, y)[1]


def _wrong_side(r: Value, y: Value) -> Value:
    """Where the quotient towards zero is above that towards minus infinity."""
    return r.differs(0) & ((r ^ y) < 0)


def floor_divide(e: Emitter, x: Value, y: Value) -> Value:
    """Towards minus infinity; 0 where y is 0."""
    q, r, zero = _safe(e, x, y)
    if x.dtype.kind == 'i':
        q = e.select(_wrong_side(r, y), q - 1, q)
    return e.select(zero, 0, q)


def remainder(e: Emitter, x: Value, y: Value) -> Value:
    """What `floor_divide` leaves, with the sign of y; 0 where y is 0."""
    _, r, zero = _safe(e, x, y)
    if x.dtype.kind == 'i':
        r = e.select(_wrong_side(r, y), r + y, r)
    return e.select(zero, 0, r)


# ---- powers

def power(e: Emitter, x: Value, y: Value) -> Value:
    """x ** y by squaring, as long as there are bits in some exponent; below zero that of 1 and -1, and 0 for all others."""
    one, left = e.splat(1, x.dtype), y if y.dtype.kind == 'u' else e.select(y < 0, 0, y)

    def step(product: Value, base: Value, left: Value) -> list[Value]:
        return [e.select((left & 1).equals(0), product, product * base), base * base, unsigned(left) >> 1]
    product, *_ = repeated(e, [one, x, unsigned(left)], lambda *v: v[2].differs(0), step)
    if y.dtype.kind == 'u':
        return product
    of_minus_one = 1 - ((y & 1) << 1)
    of_units = e.select(x.equals(1), one, e.select(x.equals(-1), of_minus_one, e.splat(0, x.dtype)))
    return e.select(y < 0, of_units, product)


def repeated(e: Emitter, values: list[Value], wanted: Callable[..., Value], step: Callable[..., list[Value]]) -> list[Value]:
    """`values = step(*values)` as long as it is wanted in some lane."""
    entry, head, inside, done = (e.fresh()[1:] for _ in range(4))
    e.do(f'br label %{entry}')
    e.label(entry)
    e.do(f'br label %{head}')
    e.label(head)
    now = [Value(e, e.fresh(), v.dtype) for v in values]
    at = len(e.lines)
    flag = e.raw(f'bitcast {wanted(*now)} to i{LANES}')
    some = e.raw(f'icmp ne i{LANES} {flag}, 0')
    e.do(f'br i1 {some}, label %{inside}, label %{done}')
    e.label(inside)
    later = step(*now)
    last = e.fresh()[1:]
    e.do(f'br label %{last}')
    e.label(last)
    e.do(f'br label %{head}')
    e.label(done)
    e.lines[at:at] = [f'  {n.name} = phi {n.type} [ {v.name}, %{entry} ], [ {x.name}, %{last} ]'
                      for n, v, x in zip(now, values, later, strict=True)]
    return now


# ---- shifts: by the width or more, or by less than nothing, all bits go

def shift_left(e: Emitter, x: Value, n: Value) -> Value:
    outside = n.compare('ge', bits(x.dtype), signed=False)
    return e.select(outside, 0, x << e.select(outside, 0, n))


def shift_right_logical(e: Emitter, x: Value, n: Value) -> Value:
    outside = n.compare('ge', bits(x.dtype), signed=False)
    return e.select(outside, 0, x.bits('lshr', e.select(outside, 0, n)))


def shift_right_arithmetic(e: Emitter, x: Value, n: Value) -> Value:
    """What goes is replaced by the sign."""
    last = bits(x.dtype) - 1
    return x.bits('ashr', e.select(n.compare('gt', last, signed=False), last, n))


# ---- bits

def population_count(e: Emitter, x: Value) -> Value:
    return e.call('llvm.ctpop', x.dtype, x)


def leading_zeros(e: Emitter, x: Value) -> Value:
    name = f'@llvm.ctlz.v{LANES}i{bits(x.dtype)}'
    e.module.declare(f'declare {x.type} {name}({x.type}, i1)')
    return e.op(f'call {x.type} {name}({x}, i1 false)', x.dtype)


def high_product(e: Emitter, x: Value, y: Value) -> Value:
    """The upper half of the product of twice the width."""
    n = bits(x.dtype)
    wide, extended = f'<{LANES} x i{2 * n}>', 'sext' if x.dtype.kind == 'i' else 'zext'
    a, b = (e.raw(f'{extended} {v} to {wide}') for v in (x, y))
    product = e.raw(f'mul {wide} {a}, {b}')
    high = e.raw(f'lshr {wide} {product}, splat (i{2 * n} {n})')
    return e.op(f'trunc {wide} {high} to {x.type}', x.dtype)


def magnitude(e: Emitter, x: Value) -> Value:
    """The difference from zero, as an unsigned number."""
    return unsigned(e.abs(x))


def greatest_divisor(e: Emitter, x: Value, y: Value) -> Value:
    """Euclid's algorithm."""
    def step(a: Value, b: Value) -> list[Value]:
        last = b.equals(0)
        return [e.select(last, a, b), e.select(last, b, remainder(e, a, b))]
    found, _ = repeated(e, [magnitude(e, x), magnitude(e, y)], lambda a, b: b.differs(0), step)
    return Value(e, found.name, x.dtype)


def least_multiple(e: Emitter, x: Value, y: Value) -> Value:
    """0 where one of them is."""
    a, b = magnitude(e, x), magnitude(e, y)
    divisor = greatest_divisor(e, a, b)
    return Value(e, (_safe(e, a, divisor)[0] * b).name, x.dtype)

