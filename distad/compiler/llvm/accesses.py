"""Loads and stores of vectors, each proved to be inside its array while it is written."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from distad.compiler.llvm import halves
from distad.compiler.llvm.emit import BOOL, LANES, Emitter, Pair, Value, element, memory, part
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

    def pointer(self, base: str, dtype: np.dtype, at: str | int) -> str:
        return self.emitter.raw(f'getelementptr {memory(dtype)}, ptr {base}, i64 {at}')

    def mask(self, parts: int = 1) -> str:
        """Which numbers of a vector are inside, each lane standing for one, or two that are its parts."""
        if self.inside is None:
            return '<' + ', '.join(f'i1 {"true" if i < self.lanes * parts else "false"}' for i in range(LANES * parts)) + '>'
        if parts == 1:
            return self.inside
        mask = f'<{LANES} x i1>'
        return self.emitter.raw(f'shufflevector {mask} {self.inside}, {mask} poison, {_order(i // 2 for i in range(2 * LANES))}')

    def load(self, base: str, dtype: np.dtype, where: Offset) -> Value | Pair:
        return self.load_at(*self.address(base, dtype, where), dtype)

    def load_at(self, pointer: str, step: int, dtype: np.dtype) -> Value | Pair:
        """The lanes' elements, which lie `step` apart."""
        if dtype.kind == 'c':
            return self.load_pair(pointer, step, part(dtype))
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

    def load_pair(self, pointer: str, step: int, dtype: np.dtype) -> Pair:
        """Parts that lie in turn."""
        e, kind = self.emitter, element(dtype)
        if step != 1:
            second = self.pointer(pointer, dtype, 1)
            return Pair(self.load_at(pointer, 2 * step, dtype), self.load_at(second, 2 * step, dtype))
        both = f'<{2 * LANES} x {kind}>'
        if self.lanes == LANES:
            found = e.raw(f'load {both}, ptr {pointer}, align {dtype.itemsize}')
        else:
            name = f'@llvm.masked.load.v{2 * LANES}{_short(dtype)}.p0'
            e.module.declare(f'declare {both} {name}(ptr, i32, <{2 * LANES} x i1>, {both})')
            found = e.raw(f'call {both} {name}(ptr {pointer}, i32 {dtype.itemsize}, <{2 * LANES} x i1> {self.mask(2)}, '
                          f'{both} zeroinitializer)')
        return Pair(*(e.op(f'shufflevector {both} {found}, {both} poison, {_order(range(first, 2 * LANES, 2))}', dtype)
                      for first in (0, 1)))

    def in_memory(self, value: Value | Pair, dtype: np.dtype) -> str:
        """A vector as it lies in memory, with its type."""
        if value.__class__ is Pair:
            order = _order(i // 2 + i % 2 * LANES for i in range(2 * LANES))
            both = f'<{2 * LANES} x {element(part(dtype))}>'
            return f'{both} ' + self.emitter.raw(f'shufflevector {value.re}, {value.im}, {order}')
        if dtype.kind == 'b':
            return f'<{LANES} x i8> ' + self.emitter.raw(f'zext {value} to <{LANES} x i8>')
        return str(halves.closed(self.emitter, value, dtype) if dtypes.is_half(dtype) else value)

    def store(self, value: Value | Pair, dtype: np.dtype, base: str, where: Offset) -> None:
        self.store_at(*self.address(base, dtype, where), value, dtype, self.streams)

    def store_at(self, pointer: str, step: int, value: Value | Pair, dtype: np.dtype, past: bool = False) -> None:
        if step != 1 and self.lanes > 1:
            raise NotImplementedError('results that do not lie side by side')
        if self.lanes == 1 and self.inside is None:           # LLVM 22 writes a vector cut to fewer bits, of which one lane is masked
            self.store_one(value, dtype, pointer)             # in, with the width it had before: beyond the array
            return
        e, told = self.emitter, self.in_memory(value, dtype)
        if self.lanes == LANES:
            how = 'align 64, !nontemporal !0' if past else f'align {part(dtype).itemsize}'
            e.do(f'store {told}, ptr {pointer}, {how}')
            return
        parts, one = (2, part(dtype)) if dtype.kind == 'c' else (1, dtype)
        name, bits = f'@llvm.masked.store.v{LANES * parts}{_short(one)}.p0', f'<{LANES * parts} x i1>'
        e.module.declare(f'declare void {name}(<{LANES * parts} x {memory(one)}>, ptr, i32, {bits})')
        e.do(f'call void {name}({told}, ptr {pointer}, i32 {one.itemsize}, {bits} {self.mask(parts)})')

    def store_one(self, value: Value | Pair, dtype: np.dtype, pointer: str) -> None:
        """The first lane."""
        e, told, kind = self.emitter, self.in_memory(value, dtype), part(dtype)
        for i in range(2 if dtype.kind == 'c' else 1):
            one, place = e.raw(f'extractelement {told}, i64 {i}'), self.pointer(pointer, kind, i)
            e.do(f'store {memory(kind)} {one}, ptr {place}, align {kind.itemsize}')


def _order(places: Iterable[int]) -> str:
    """Which elements a shuffle takes."""
    found = ', '.join(f'i32 {i}' for i in places)
    return f'<{found.count("i32")} x i32> <{found}>'


def _short(dtype: np.dtype) -> str:
    return f'{"f" if dtype.kind == "f" else "i"}{8 * dtype.itemsize}'
