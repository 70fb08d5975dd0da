"""Instructions of LLVM on vectors of a fixed number of lanes, with Python's operators for arithmetic.

A `Value` is the name of a result. The number of lanes is part of the meaning, not of the machine: sums are taken in the same
order on every processor, so ranks on unlike nodes get the same bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from distad.types import dtypes

LANES = 16

F32, F64, I32, I64, BOOL = map(np.dtype, (np.float32, np.float64, np.int32, np.int64, bool))


def register(dtype: np.dtype) -> np.dtype:
    """What elements of a dtype are in a register: halves are the float32 numbers that they stand for (see `halves`)."""
    return F32 if dtypes.is_half(dtype) else dtype


def element(dtype: np.dtype) -> str:
    """LLVM's name of the type of one element in a register; truth values are single bits there."""
    return {'b': 'i1', 'f': {4: 'float', 8: 'double'}.get(dtype.itemsize)}.get(dtype.kind, f'i{8 * dtype.itemsize}')


def part(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex dtype; a real one is its own."""
    return np.dtype(f'f{dtype.itemsize // 2}') if dtype.kind == 'c' else dtype


def memory(dtype: np.dtype) -> str:
    """LLVM's name of one element in memory: truth values are bytes there, halves two."""
    if dtype.kind == 'c':
        return f'{{ {element(part(dtype))}, {element(part(dtype))} }}'
    return 'i8' if dtype.kind == 'b' else 'i16' if dtypes.is_half(dtype) else element(dtype)


def vector(dtype: np.dtype) -> str:
    return f'<{LANES} x {element(dtype)}>'


def number(value, dtype: np.dtype) -> str:
    """A number as LLVM reads it."""
    if dtype.kind == 'f':
        bits, = struct.unpack('<Q', struct.pack('<d', float(dtype.type(value))))
        return f'0x{bits:016X}'
    if dtype.kind == 'b':
        return 'true' if value else 'false'
    return str(int(value))


class Value:
    """A vector in a register. Numbers beside it are taken in its dtype."""

    __slots__ = ('e', 'name', 'dtype')

    def __init__(self, e: Emitter, name: str, dtype: np.dtype):
        self.e, self.name, self.dtype = e, name, dtype

    @property
    def type(self) -> str:
        return vector(self.dtype)

    def __str__(self) -> str:
        return f'{self.type} {self.name}'

    def _binary(self, op: str, other) -> Value:
        if self.dtype.kind == 'f':
            op = 'f' + op
        return self.e.op(f'{op} {self}, {self.e.like(other, self).name}', self.dtype)

    def __add__(self, other) -> Value:
        return self._binary('add', other)

    def __sub__(self, other) -> Value:
        return self._binary('sub', other)

    def __mul__(self, other) -> Value:
        return self._binary('mul', other)

    def __truediv__(self, other) -> Value:
        return self._binary('div', other)

    def __radd__(self, other) -> Value:
        return self.e.like(other, self) + self

    def __rsub__(self, other) -> Value:
        return self.e.like(other, self) - self

    def __rmul__(self, other) -> Value:
        return self.e.like(other, self) * self

    def __rtruediv__(self, other) -> Value:
        return self.e.like(other, self) / self

    def __neg__(self) -> Value:
        if self.dtype.kind == 'f':
            return self.e.op(f'fneg {self}', self.dtype)
        return 0 - self

    def bits(self, op: str, other) -> Value:
        """and, or, xor, shl, lshr, ashr."""
        return self.e.op(f'{op} {self}, {self.e.like(other, self).name}', self.dtype)

    def __and__(self, other) -> Value:
        return self.bits('and', other)

    def __or__(self, other) -> Value:
        return self.bits('or', other)

    def __xor__(self, other) -> Value:
        return self.bits('xor', other)

    def __invert__(self) -> Value:
        return self.bits('xor', True if self.dtype.kind == 'b' else -1)

    def __lshift__(self, n) -> Value:
        return self.bits('shl', n)

    def __rshift__(self, n) -> Value:
        return self.bits('ashr' if self.dtype.kind == 'i' else 'lshr', n)

    def compare(self, how: str, other, signed: bool = True) -> Value:
        """eq, ne, lt, le, gt, ge: ordered on floats (false beside NaN), but for ne."""
        kind, other = self.dtype.kind, self.e.like(other, self)
        if kind == 'f':
            op = 'fcmp ' + ('une' if how == 'ne' else 'o' + how)
        else:
            op = 'icmp ' + (how if how in ('eq', 'ne') else ('s' if kind == 'i' and signed else 'u') + how)
        return self.e.op(f'{op} {self}, {other.name}', BOOL)

    def __lt__(self, other) -> Value:
        return self.compare('lt', other)

    def __le__(self, other) -> Value:
        return self.compare('le', other)

    def __gt__(self, other) -> Value:
        return self.compare('gt', other)

    def __ge__(self, other) -> Value:
        return self.compare('ge', other)

    def equals(self, other) -> Value:
        return self.compare('eq', other)

    def differs(self, other) -> Value:
        return self.compare('ne', other)

    def is_nan(self) -> Value:
        return self.e.op(f'fcmp uno {self}, {self.name}', BOOL)


class Pair:
    """A complex number in registers: two vectors."""

    __slots__ = ('re', 'im')

    def __init__(self, re: Value, im: Value):
        self.re, self.im = re, im

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(f'c{2 * self.re.dtype.itemsize}')

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.re - other.re, self.im - other.im)

    def __mul__(self, other: Pair) -> Pair:
        return Pair(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __neg__(self) -> Pair:
        return Pair(-self.re, -self.im)


class Emitter:
    """Writes into `lines`; functions and declarations that the lines need are collected beside them."""

    def __init__(self, module: Module, lines: list[str] | None = None):
        self.module = module
        self.lines = [] if lines is None else lines

    def fresh(self) -> str:
        return self.module.fresh()

    def op(self, text: str, dtype: np.dtype) -> Value:
        name = self.fresh()
        self.lines.append(f'  {name} = {text}')
        return Value(self, name, dtype)

    def raw(self, text: str) -> str:
        """An instruction whose result is no vector."""
        name = self.fresh()
        self.lines.append(f'  {name} = {text}')
        return name

    def do(self, text: str) -> None:
        self.lines.append(f'  {text}')

    def label(self, name: str) -> None:
        self.lines.append(f'{name}:')

    def splat(self, value, dtype: np.dtype) -> Value | Pair:
        if dtype.kind == 'c':
            value = dtype.type(value)
            return Pair(self.splat(value.real, value.real.dtype), self.splat(value.imag, value.imag.dtype))
        if dtypes.is_half(dtype):
            value, dtype = float(dtype.type(value)), F32
        return Value(self, f'splat ({element(dtype)} {number(value, dtype)})', dtype)

    def like(self, value, other: Value) -> Value:
        return value if isinstance(value, Value) else self.splat(value, other.dtype)

    def select(self, where: Value, x, y) -> Value:
        x = self.like(x, y)
        y = self.like(y, x)
        return self.op(f'select {where}, {x}, {y}', x.dtype)

    def call(self, intrinsic: str, dtype: np.dtype, *operands: Value) -> Value:
        """A function of LLVM, named without its type: llvm.fma, llvm.sqrt ..."""
        name = f'@{intrinsic}.v{LANES}{_suffix(operands[0].dtype)}'
        self.module.declare(f'declare {vector(dtype)} {name}({", ".join(v.type for v in operands)})')
        return self.op(f'call {vector(dtype)} {name}({", ".join(map(str, operands))})', dtype)

    def fma(self, x: Value, y, z) -> Value:
        return self.call('llvm.fma', x.dtype, x, self.like(y, x), self.like(z, x))

    def scalef(self, x: Value, n: Value) -> Value:
        """x * 2 ** n for a whole number n, by AVX-512, which has 64 bytes in a register."""
        size, kind = 64 // x.dtype.itemsize, element(x.dtype)
        name = f"@llvm.x86.avx512.mask.scalef.{'ps' if size == 16 else 'pd'}.512"
        part = f'<{size} x {kind}>'
        self.module.declare(f'declare {part} {name}({part}, {part}, {part}, i{size}, i32)')
        parts = []
        for first in range(0, LANES, size):
            order = ', '.join(f'i32 {first + i}' for i in range(size))
            a, b = (self.raw(f'shufflevector {v}, {v.type} poison, <{size} x i32> <{order}>') for v in (x, n))
            parts.append(self.raw(f'call {part} {name}({part} {a}, {part} {b}, {part} {a}, i{size} -1, i32 4)'))
        if len(parts) == 1:
            return Value(self, parts[0], x.dtype)
        order = ', '.join(f'i32 {i}' for i in range(LANES))
        return self.op(f'shufflevector {part} {parts[0]}, {part} {parts[1]}, <{LANES} x i32> <{order}>', x.dtype)

    def sqrt(self, x: Value) -> Value:
        return self.call('llvm.sqrt', x.dtype, x)

    def abs(self, x: Value) -> Value:
        if x.dtype.kind == 'f':
            return self.call('llvm.fabs', x.dtype, x)
        return x if x.dtype.kind in 'ub' else self.select(x < 0, -x, x)

    def copysign(self, x: Value, sign: Value) -> Value:
        return self.call('llvm.copysign', x.dtype, self.like(x, sign), sign)

    def bitcast(self, x: Value, dtype: np.dtype) -> Value:
        return self.op(f'bitcast {x} to {vector(dtype)}', dtype)

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        """Between dtypes as XLA has it: floats to integers towards zero, saturating, NaN to 0; anything to bool by != 0."""
        old, new = x.dtype, dtype
        if old == new:
            return x
        if new.kind == 'b':
            return x.differs(0)
        if old.kind == 'f' and new.kind == 'f':
            return self.op(f'{"fpext" if new.itemsize > old.itemsize else "fptrunc"} {x} to {vector(new)}', new)
        if old.kind == 'f':
            return self._saturated(x, new)
        if new.kind == 'f':
            return self.op(f'{"sitofp" if old.kind == "i" else "uitofp"} {x} to {vector(new)}', new)
        if old.kind == 'b' or new.itemsize > old.itemsize:
            return self.op(f'{"sext" if old.kind == "i" else "zext"} {x} to {vector(new)}', new)
        return self.op(f'trunc {x} to {vector(new)}', new) if new.itemsize < old.itemsize else Value(self, x.name, new)

    def _saturated(self, x: Value, new: np.dtype) -> Value:
        """A float as an integer. LLVM has this too, but makes it lane by lane."""
        info = np.iinfo(new)
        least, most = x.dtype.type(info.min), x.dtype.type(info.max)
        if int(most) > info.max:
            most = np.nextafter(most, x.dtype.type(0))
        inside = self.select(x < least, least, self.select(x > most, most, self.select(x.is_nan(), 0, x)))
        y = self.op(f'fpto{"s" if new.kind == "i" else "u"}i {inside} to {vector(new)}', new)
        return self.select(x > most, info.max, y)

    def function(self, name: str, body: Callable, *operands: Value) -> Value:
        """A call of a function that is written once for each dtype: `body(emitter, *values) -> value`."""
        full = f'@{name}' + ''.join(f'_{v.dtype.kind}{8 * v.dtype.itemsize}' for v in operands)
        self.module.define(full, body, [v.dtype for v in operands])
        dtype = self.module.functions[full]
        return self.op(f'call {vector(dtype)} {full}({", ".join(map(str, operands))})', dtype)


class Module:
    """What goes to LLVM together: declarations, functions, and the counter of names."""

    def __init__(self, avx512: bool = False) -> None:
        self.avx512 = avx512                 # some of its instructions do in one what else takes several, with the same bits
        self.declarations: dict[str, None] = {}
        self.functions: dict[str, np.dtype] = {}
        self.texts: list[str] = []
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f'%v{self.count}'

    def declare(self, line: str) -> None:
        self.declarations[line] = None

    def define(self, full: str, body: Callable, dtypes: list[np.dtype]) -> None:
        if full in self.functions:
            return
        e = Emitter(self)
        out = body(e, *(Value(e, f'%x{i}', d) for i, d in enumerate(dtypes)))
        self.functions[full] = out.dtype
        head = ', '.join(f'{vector(d)} %x{i}' for i, d in enumerate(dtypes))
        self.texts.append(f'define internal {out.type} {full}({head}) alwaysinline nounwind {{\n' + '\n'.join(e.lines)
                          + f'\n  ret {out}\n}}')

    def text(self) -> str:
        return '\n'.join([*self.declarations, *self.texts]) + '\n'


def _suffix(dtype: np.dtype) -> str:
    return f'{"f" if dtype.kind == "f" else "i"}{1 if dtype.kind == "b" else 8 * dtype.itemsize}'
