"""Loads and stores of vectors, each proved to be inside its array while it is written."""

from __future__ import annotations

import numpy as np

from distad.compiler.llvm import halves
from distad.compiler.llvm.emit import BOOL, LANES, Emitter, Value, memory
from distad.compiler.llvm.layout import Box, Layout
from distad.types import dtypes

Offset = tuple[dict[int, int], int]          # of an element, as `layout.linear` gives it


class Accesses:
    """What is read and written at the loops' present place: in a box, under counters, some of the lanes."""

    def __init__(self, emitter: Emitter, layout: Layout, sizes: dict[str, int]):
        self.emitter, self.layout, self.sizes = emitter, layout, sizes
        self.box = Box((), ())
        self.counters: dict[int, str] = {}
        self.lanes = LANES                   # how many are inside
        self.inside: str | None = None       # which, where that is known in the loop only
        self.streams = False                 # whether results go past the cache

    def address(self, base: str, dtype: np.dtype, where: Offset) -> tuple[str, int]:
        """A pointer, and by how much it moves with the last loop."""
        e, layout = self.emitter, self.layout
        by, constant = where
        factors = {i: layout.factor(run, by) for i, run in enumerate(layout.runs) if any(by.get(d) for d in run)}
        spans = [[f * at for at in (layout.extent(i, self.box)[0], layout.extent(i, self.box)[1] - 1)] for i, f in factors.items()]
        if constant + sum(map(min, spans)) < 0 or constant + sum(map(max, spans)) >= self.sizes[base]:
            raise NotImplementedError('an element that is not in its array')
        total = str(constant)
        for i, s in sorted(factors.items()):
            term = self.counters[i] if s == 1 else e.raw(f'mul nsw i64 {self.counters[i]}, {s}')
            total = e.raw(f'add nsw i64 {term}, {total}')
        step = factors.get(len(layout.runs) - 1, 0) if layout.first_inner < len(layout.runs) else 0
        return self.pointer(base, dtype, total), step

    def pointer(self, base: str, dtype: np.dtype, at: str) -> str:
        return self.emitter.raw(f'getelementptr {memory(dtype)}, ptr {base}, i64 {at}')

    def mask(self) -> str:
        return self.inside or '<' + ', '.join(f'i1 {"true" if i < self.lanes else "false"}' for i in range(LANES)) + '>'

    def load(self, base: str, dtype: np.dtype, where: Offset) -> Value:
        return self.load_at(*self.address(base, dtype, where), dtype)

    def load_at(self, pointer: str, step: int, dtype: np.dtype) -> Value:
        """The lanes' elements, which lie `step` apart."""
        e, kind = self.emitter, memory(dtype)
        if step == 0:
            one = e.raw(f'load {kind}, ptr {pointer}, align {dtype.itemsize}')
            first = e.raw(f'insertelement <{LANES} x {kind}> poison, {kind} {one}, i64 0')
            found = e.raw(f'shufflevector <{LANES} x {kind}> {first}, <{LANES} x {kind}> poison, <{LANES} x i32> zeroinitializer')
        elif step == 1 and self.lanes == LANES:
            found = e.raw(f'load <{LANES} x {kind}>, ptr {pointer}, align {dtype.itemsize}')
        elif step == 1:
            name = f'@llvm.masked.load.v{LANES}{_short(dtype)}.p0'
            e.module.declare(f'declare <{LANES} x {kind}> {name}(ptr, i32, <{LANES} x i1>, <{LANES} x {kind}>)')
            found = e.raw(f'call <{LANES} x {kind}> {name}(ptr {pointer}, i32 {dtype.itemsize}, <{LANES} x i1> {self.mask()}, '
                          f'<{LANES} x {kind}> zeroinitializer)')
        else:
            steps = '<' + ', '.join(f'i64 {i * step}' for i in range(LANES)) + '>'
            pointers = e.raw(f'getelementptr {kind}, ptr {pointer}, <{LANES} x i64> {steps}')
            name = f'@llvm.masked.gather.v{LANES}{_short(dtype)}.v{LANES}p0'
            e.module.declare(f'declare <{LANES} x {kind}> {name}(<{LANES} x ptr>, i32, <{LANES} x i1>, <{LANES} x {kind}>)')
            found = e.raw(f'call <{LANES} x {kind}> {name}(<{LANES} x ptr> {pointers}, i32 {dtype.itemsize}, <{LANES} x i1> '
                          f'{self.mask()}, <{LANES} x {kind}> zeroinitializer)')
        if dtype.kind == 'b':
            return e.op(f'icmp ne <{LANES} x i8> {found}, zeroinitializer', BOOL)
        return halves.opened(e, Value(e, found, halves.U16), dtype) if dtypes.is_half(dtype) else Value(e, found, dtype)

    def in_memory(self, value: Value, dtype: np.dtype) -> str:
        """A vector as it lies in memory, with its type."""
        if dtype.kind == 'b':
            return f'<{LANES} x i8> ' + self.emitter.raw(f'zext {value} to <{LANES} x i8>')
        return str(halves.closed(self.emitter, value, dtype) if dtypes.is_half(dtype) else value)

    def store(self, value: Value, dtype: np.dtype, base: str, where: Offset) -> None:
        self.store_at(*self.address(base, dtype, where), value, dtype, self.streams)

    def store_at(self, pointer: str, step: int, value: Value, dtype: np.dtype, past: bool = False) -> None:
        if step != 1 and self.lanes > 1:
            raise NotImplementedError('results that do not lie side by side')
        if self.lanes == 1 and self.inside is None:           # LLVM 22 writes a vector cut to fewer bits, of which one lane is masked
            self.store_one(value, dtype, pointer)             # in, with the width it had before: beyond the array
            return
        e, kind, told = self.emitter, memory(dtype), self.in_memory(value, dtype)
        if self.lanes == LANES:
            how = 'align 64, !nontemporal !0' if past else f'align {dtype.itemsize}'
            e.do(f'store {told}, ptr {pointer}, {how}')
            return
        name = f'@llvm.masked.store.v{LANES}{_short(dtype)}.p0'
        e.module.declare(f'declare void {name}(<{LANES} x {kind}>, ptr, i32, <{LANES} x i1>)')
        e.do(f'call void {name}({told}, ptr {pointer}, i32 {dtype.itemsize}, <{LANES} x i1> {self.mask()})')

    def store_one(self, value: Value, dtype: np.dtype, pointer: str) -> None:
        """The first lane."""
        e = self.emitter
        one = e.raw(f'extractelement {self.in_memory(value, dtype)}, i64 0')
        e.do(f'store {memory(dtype)} {one}, ptr {pointer}, align {dtype.itemsize}')


def _short(dtype: np.dtype) -> str:
    return f'{"f" if dtype.kind == "f" else "i"}{8 * dtype.itemsize}'
