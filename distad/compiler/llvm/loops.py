"""A fused group as a loop nest.

The dimensions of the space are joined where every operand allows it. The loops that count rows are outside; inside them each pass
over a row computes what is ready: a pass may read sums that an earlier one took along the row. A value that a later pass needs
again is computed again if that is cheap, else kept in a buffer of one row. Pads and concatenations cut the space into boxes in
which each reads one operand, so that no loop asks where it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from distad.compiler.access import CHEAP, JOINS, MOVES, Index, chosen, cuts, elementwise_index, identity, local, rows_of, through
from distad.compiler.llvm import functions, halves, scalars
from distad.compiler.llvm.emit import BOOL, F32, F64, LANES, Emitter, Module, Value, element, memory, number, register, vector
from distad.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var
from distad.types import dtypes

REDUCERS = {'reduce_sum': 0.0, 'reduce_max': -math.inf, 'reduce_min': math.inf}
KEPT_BYTES = 1 << 19           # buffers of one row, on the stack
CHEAP_COST = 4                 # equations that are rather computed twice than kept
BOXES = 64                     # more would be more code than a pass over memory is worth


def neutral(name: str, dtype: np.dtype) -> str:
    """What a reduction starts with."""
    value = REDUCERS[name]
    if dtype.kind in 'iu':
        info = np.iinfo(dtype)
        value = min(max(value, info.min), info.max)
    return number(value, dtype)


def strides(shape: Sequence[int]) -> list[int]:
    """In elements, of a contiguous array."""
    out, n = [], 1
    for size in reversed(shape):
        out.append(n)
        n *= size
    return out[::-1]


@dataclass(slots=True)
class Box:
    """A part of the space, by dimension: first and last."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def start(self) -> dict[int, int]:
        return dict(enumerate(self.low))


@dataclass(slots=True)
class Pass:
    """What one walk along a row does, and what is computed for the row before it."""

    header: list[str] = field(default_factory=list)
    stores: list[tuple[Var, str]] = field(default_factory=list)
    reductions: list[Equation] = field(default_factory=list)


class Nest:
    """The text of one group."""

    def __init__(self, jaxpr: Jaxpr, space: tuple[int, ...], rows: int | None, avx512: bool):
        self.jaxpr, self.space = jaxpr, space
        self.module = Module(avx512)
        self.maker = {v: eqn for eqn in jaxpr.equations for v in eqn.outs}
        self.arguments = {v: f'%p{i}' for i, v in enumerate((*jaxpr.ins, *jaxpr.outs))}
        self.sizes = {where: math.prod(local(v)) for v, where in self.arguments.items()}
        self.inputs = set(jaxpr.ins)
        self.reductions = [eqn for eqn in jaxpr.equations if eqn.primitive.name in REDUCERS]
        self.rows = rows
        self.row_sums = {eqn.outs[0] for eqn in self.reductions if self.along_row(eqn)}
        self.ready = self._ready()
        self.cost: dict[Var, int] = {}
        self.entry: list[str] = []
        self.entry_memo: dict = {}
        self.body: list[str] = []
        self.finish: list[str] = []
        self.emitter = Emitter(self.module)
        self.accumulators: dict[Var, tuple[str, np.dtype]] = {}
        self.plan = self.passes()

    def along_row(self, eqn: Equation) -> bool:
        return self.rows is not None and rows_of(eqn.params['axes'], self.space) == self.rows

    # ---- what is done when

    def _ready(self) -> dict[Var, int]:
        """The first pass in which a value can be computed."""
        ready = dict.fromkeys(self.jaxpr.ins, 0)
        for eqn in self.jaxpr.equations:
            at = max((ready[a] for a in eqn.ins if a.__class__ is Var), default=0)
            for v in eqn.outs:
                ready[v] = at + (v in self.row_sums)
        return ready

    def is_row(self, v: Var) -> bool:
        """A value that is one for each row."""
        return v in self.row_sums or (self.rows is not None and local(v) != self.space and self._below(v))

    def _below(self, v: Var) -> bool:
        eqn = self.maker.get(v)
        return eqn is not None and any(a in self.row_sums or a.__class__ is Var and a in self.maker and self.is_row(a)
                                       for a in eqn.ins)

    def passes(self) -> list[Pass]:
        count = 1 + max(self.ready.values(), default=0)
        plan = [Pass() for _ in range(count)]
        for eqn in self.reductions:
            plan[self.ready[eqn.ins[0]] if eqn.ins[0].__class__ is Var else 0].reductions.append(eqn)
        self.row_outs: list[Var] = []
        stored: set[Var] = set()
        for v in self.jaxpr.outs:
            if v in self.maker and self.maker[v].primitive.name in REDUCERS:
                continue
            if local(v) != self.space or self.is_row(v):
                self.row_outs.append(v)
            else:
                plan[self.ready[v]].stores.append((v, self.arguments[v]))
                stored.add(v)
        self.kept: dict[Var, str] = {v: self.arguments[v] for v in stored}
        width = math.prod(self.space[self.rows:]) if self.rows is not None else 0
        room = KEPT_BYTES
        for p in range(count - 1, 0, -1):
            for v in self._wanted(p, plan[p]):
                size = width * v.type.dtype.itemsize
                if v in self.kept or size > room:
                    continue
                room -= size
                buffer = self.module.fresh()
                self.entry.append(f'  {buffer} = alloca [{size} x i8], align 64')
                self.kept[v] = buffer
                self.sizes[buffer] = width
                plan[self.ready[v]].stores.append((v, buffer))
        self.buffers = {b for v, b in self.kept.items() if v not in stored}
        return plan

    def _wanted(self, p: int, now: Pass) -> Iterable[Var]:
        """Values of earlier passes that pass p reads and that are dear."""
        stack = [v for v, _ in now.stores] + [eqn.ins[0] for eqn in now.reductions]
        seen: set[Var] = set()
        while stack:
            v = stack.pop()
            if v.__class__ is not Var or v in seen or v not in self.maker or v in self.row_sums:
                continue
            seen.add(v)
            if local(v) == self.space and self.ready[v] < p and self.cost_of(v) > CHEAP_COST:
                yield v
                continue
            stack.extend(self.maker[v].ins)

    def cost_of(self, v: Atom) -> int:
        if v.__class__ is not Var or v not in self.maker or v in self.row_sums:
            return 0
        if v not in self.cost:
            eqn = self.maker[v]
            name = eqn.primitive.name
            own = 0 if name in MOVES else 1 if name in CHEAP else 8
            self.cost[v] = min(own + sum(map(self.cost_of, eqn.ins)), 99)
        return self.cost[v]

    # ---- how loops lie in memory

    def survey(self) -> None:
        """Where loops have to be cut, and which dimensions are one loop to every operand."""
        self.cut: list[set[int]] = [{0, n} for n in self.space]
        forms: set[tuple[int, ...]] = set()
        seen: set = set()
        stack: list[tuple[Atom, Index]] = []

        def note(shape: tuple[int, ...], index: Index) -> None:
            by, _ = self.linear(shape, index)
            forms.add(tuple(by.get(d, 0) for d in range(len(self.space))))

        for eqn in self.reductions:
            stack.append((eqn.ins[0], identity(self.space)))
            out = eqn.outs[0]
            if out in self.arguments:
                note(local(out), self.reduced_index(eqn))
        for v in self.jaxpr.outs:
            if self.maker[v].primitive.name not in REDUCERS:
                stack.append((v, self.out_index(v)))
                note(local(v), self.out_index(v))
        while stack:
            a, index = stack.pop()
            if a.__class__ is not Var or (a, index) in seen:
                continue
            seen.add((a, index))
            eqn = self.maker.get(a)
            if a in self.inputs:
                note(local(a), index)
            elif a in self.row_sums:
                continue
            elif eqn.primitive.name in JOINS:
                for loop, at in cuts(eqn, index):
                    if 0 < at < self.space[loop]:
                        self.cut[loop].add(at)
                boxes = [dict(zip(range(len(self.space)), corner, strict=True)) for corner in itertools.product(
                    *(sorted(c)[:-1] for c in self.cut))]
                for box in boxes:
                    taken = chosen(eqn, index, box)
                    if taken is not None:
                        stack.append((eqn.ins[taken[0]], taken[1]))
            else:
                stack += [(x, i) for x, i in self.operands(eqn, index)]
        self.runs: list[list[int]] = []
        for d, n in enumerate(self.space):
            if n == 1 and self.runs and d != self.rows:
                self.runs[-1].append(d)
                continue
            whole = self.runs and d != self.rows and len(self.cut[d]) == 2 and all(len(self.cut[c]) == 2 for c in self.runs[-1])
            last = next((c for c in reversed(self.runs[-1]) if self.space[c] > 1), None) if self.runs else None
            if whole and (last is None or all(f[last] == f[d] * n for f in forms)):
                self.runs[-1].append(d)
            else:
                self.runs.append([d])
        if math.prod(len(c) - 1 for c in self.cut) > BOXES:
            raise NotImplementedError('too many boxes')
        self.loop_of = {d: i for i, run in enumerate(self.runs) for d in run}

    def linear(self, shape: tuple[int, ...], index: Index) -> tuple[dict[int, int], int]:
        """The offset of an element, as factors of dimensions of the space, and a constant."""
        by: dict[int, int] = {}
        constant = 0
        for p, s in zip(index, strides(shape), strict=True):
            if p.loop is not None:
                by[p.loop] = by.get(p.loop, 0) + p.factor * s
            constant += p.offset * s
        return by, constant

    def operands(self, eqn: Equation, index: Index) -> list[tuple[Atom, Index]]:
        if eqn.primitive.name in MOVES:
            return [(eqn.ins[0], through(eqn, index))]
        out = eqn.outs[0]
        return [(x, elementwise_index(local(x), local(out), index) if x.__class__ is Var else ()) for x in eqn.ins]

    def reduced_index(self, eqn: Equation) -> Index:
        whole = identity(self.space)
        return tuple(p for d, p in enumerate(whole) if d not in eqn.params['axes'])

    def out_index(self, v: Var) -> Index:
        """A result has the space's shape, or that of rows with dimensions of size 1 behind."""
        return identity(local(v)) if local(v) == self.space else tuple(
            p for p in identity((*self.space[:self.rows], *[1] * (len(local(v)) - self.rows))))

    # ---- writing

    def text(self) -> str:
        self.survey()
        first_inner = self.rows if self.rows is not None else self.runs[-1][0] if self.runs else 0      # one element has no loop
        self.first_inner = self.loop_of[first_inner] if first_inner < len(self.space) else len(self.runs)
        for eqn in self.reductions:
            if not self.along_row(eqn):
                self.begin_late(eqn)
        for corner in itertools.product(*(list(itertools.pairwise(sorted(c))) for c in self.cut)):
            self.box(Box(tuple(a for a, _ in corner), tuple(b for _, b in corner)))
        for eqn in self.reductions:
            if not self.along_row(eqn):
                self.end_late(eqn)
        pointers = ', '.join(f'ptr {p}' for p in self.arguments.values())
        body = f'define internal void @body({pointers}) nounwind {{\n' + '\n'.join(
            [*self.entry, *self.body, *self.finish, '  ret void']) + '\n}\n'
        return self.module.text() + body

    def box(self, box: Box) -> None:
        plan = self.plan
        self.here = box
        self.row_memo: dict = {}
        for p in plan:
            p.header = []
        inner: list[list[str]] = []
        self.counters = {i: self.module.fresh() for i in range(len(self.runs))}
        for self.now, p in enumerate(plan):
            inner.append(self.walk(p))
        for v in self.row_outs:
            self.now = self.ready[v]
            value = self.value(v, self.out_index(v))
            self.store_row(v, value, plan[self.ready[v]].header)
        lines: list[str] = []
        for p, walk in zip(plan, inner, strict=True):
            lines += p.header + walk
        for i in reversed(range(self.first_inner)):
            lines = self.loop(i, *self.extent(i), 1, lines)
        self.body += lines

    def extent(self, i: int) -> tuple[int, int]:
        """From where to where a loop runs in this box."""
        run = [d for d in self.runs[i] if self.space[d] > 1]
        if len(run) == 1:
            return self.here.low[run[0]], self.here.high[run[0]]
        return 0, math.prod(self.space[d] for d in run)

    def loop(self, i: int, low: int, high: int, step: int, lines: list[str]) -> list[str]:
        if high - low == step:
            return [f'  {self.counters[i]} = add i64 0, {low}', *lines]
        slot = self.module.fresh()
        self.entry.append(f'  {slot} = alloca i64')
        head, inside, after = (self.module.fresh()[1:] for _ in range(3))
        test, following = self.module.fresh(), self.module.fresh()
        i_ = self.counters[i]
        return [f'  store i64 {low}, ptr {slot}', f'  br label %{head}', f'{head}:', f'  {i_} = load i64, ptr {slot}',
                f'  {test} = icmp slt i64 {i_}, {high}', f'  br i1 {test}, label %{inside}, label %{after}', f'{inside}:', *lines,
                f'  {following} = add nsw i64 {i_}, {step}', f'  store i64 {following}, ptr {slot}', f'  br label %{head}',
                f'{after}:']

    def walk(self, p: Pass) -> list[str]:
        """One pass over the inner loops, the last one in vectors and what is left of it under a mask."""
        if not p.stores and not p.reductions:
            return []
        inner = list(range(self.first_inner, len(self.runs)))
        after: list[str] = []
        for eqn in p.reductions:
            if self.along_row(eqn):
                self.begin_row(eqn, p)
                after += self.end_row(eqn)
        if not inner:
            return self.step(p, 1) + after
        last = inner[-1]
        low, high = self.extent(last)
        full = (high - low) // LANES * LANES
        lines: list[str] = []
        if full:
            lines += self.loop(last, low, low + full, LANES, self.step(p, LANES))
        if low + full < high:
            saved = self.counters[last]
            self.counters[last] = self.module.fresh()
            lines += [f'  {self.counters[last]} = add i64 0, {low + full}', *self.step(p, high - low - full)]
            self.counters[last] = saved
        for i in reversed(inner[:-1]):
            lines = self.loop(i, *self.extent(i), 1, lines)
        self.counters = {i: c if i < self.first_inner else self.module.fresh() for i, c in self.counters.items()}
        return lines + after

    def step(self, p: Pass, lanes: int) -> list[str]:
        """The values of one vector, of which `lanes` are inside."""
        self.inner_memo: dict = {}
        self.lines: list[str] = []
        self.lanes = lanes
        stored = [self.value(v, identity(self.space)) for v, _ in p.stores]
        reduced = [self.value(eqn.ins[0], identity(self.space)) for eqn in p.reductions]
        for value, (v, where) in zip(stored, p.stores, strict=True):          # after all loads: a result may lie on an operand
            self.store(value, v.type.dtype, where, *self.place_of(v, where))
        for value, eqn in zip(reduced, p.reductions, strict=True):
            self.accumulate(eqn, value)
        return self.lines

    def place_of(self, v: Var, where: str) -> tuple[dict[int, int], int]:
        """The offset of an element of a result, or of a buffer that holds one row."""
        by, constant = self.linear(self.space, identity(self.space))
        if where in self.buffers:
            by = {d: s for d, s in by.items() if d >= self.rows}
        return by, constant

    # ---- values

    def value(self, a: Atom, index: Index) -> Value:
        """The vector of an operand at an index, computed where it can be: once, once a row, or here."""
        if a.__class__ is Literal:
            return self.emitter.splat(a.value, a.type.dtype)
        loops = {self.loop_of[p.loop] for p in index if p.loop is not None}
        inner = any(i >= self.first_inner for i in loops)
        memo = self.inner_memo if inner else self.row_memo
        if not inner and not loops and self.ready[a] == 0:
            memo = self.entry_memo
        key = (a, index, tuple(self.here.low)) if memo is self.entry_memo else (a, index)
        if key in memo:
            return memo[key]
        lines = self.lines if inner else self.entry if memo is self.entry_memo else self.plan[self.ready[a]].header
        held, self.emitter.lines = self.emitter.lines, lines
        if inner and a in self.kept and self.ready[a] < self.now and index == identity(self.space):
            found = self.load(self.kept[a], a.type.dtype, *self.place_of(a, self.kept[a]))
        elif a in self.inputs:
            found = self.load(self.arguments[a], a.type.dtype, *self.linear(local(a), index))
        else:
            found = self.computed(self.maker[a], index)
        self.emitter.lines = held
        memo[key] = found
        return found

    def computed(self, eqn: Equation, index: Index) -> Value:
        name = eqn.primitive.name
        if name in JOINS:
            which, at = chosen(eqn, index, self.here.start)
            return self.value(eqn.ins[which], at)
        if name in MOVES:
            return self.value(eqn.ins[0], through(eqn, index))
        lines = self.emitter.lines
        operands = [self.value(x, i) for x, i in self.operands(eqn, index)]
        self.emitter.lines = lines
        return scalars.apply(self.emitter, eqn, operands)

    # ---- memory

    def address(self, base: str, dtype: np.dtype, by: dict[int, int], constant: int) -> tuple[str, int]:
        """A pointer, and by how much it moves with the last loop."""
        e = self.emitter
        factors = {i: self.factor(run, by) for i, run in enumerate(self.runs) if any(by.get(d) for d in run)}
        spans = [[f * at for at in (self.extent(i)[0], self.extent(i)[1] - 1)] for i, f in factors.items()]
        if constant + sum(map(min, spans)) < 0 or constant + sum(map(max, spans)) >= self.sizes[base]:
            raise NotImplementedError('an element that is not in its array')
        total = str(constant)
        for i, s in sorted(factors.items()):
            term = self.counters[i] if s == 1 else e.raw(f'mul nsw i64 {self.counters[i]}, {s}')
            total = e.raw(f'add nsw i64 {term}, {total}')
        step = factors.get(len(self.runs) - 1, 0) if self.first_inner < len(self.runs) else 0
        return e.raw(f'getelementptr {memory(dtype)}, ptr {base}, i64 {total}'), step

    def factor(self, run: list[int], by: dict[int, int]) -> int:
        """By how much an operand moves with a loop over several dimensions."""
        dims = [d for d in run if self.space[d] > 1]
        if any(by.get(c, 0) != by.get(d, 0) * self.space[d] for c, d in itertools.pairwise(dims)):
            raise NotImplementedError('dimensions that are not one loop to all operands')
        return by.get(dims[-1], 0)

    def mask(self) -> str:
        return '<' + ', '.join(f'i1 {"true" if i < self.lanes else "false"}' for i in range(LANES)) + '>'

    def load(self, base: str, dtype: np.dtype, by: dict[int, int], constant: int) -> Value:
        e, kind = self.emitter, memory(dtype)
        pointer, step = self.address(base, dtype, by, constant)
        if step == 0:
            one = e.raw(f'load {kind}, ptr {pointer}, align {dtype.itemsize}')
            first = e.raw(f'insertelement <{LANES} x {kind}> poison, {kind} {one}, i64 0')
            found = e.raw(f'shufflevector <{LANES} x {kind}> {first}, <{LANES} x {kind}> poison, <{LANES} x i32> zeroinitializer')
        elif step == 1 and self.lanes == LANES:
            found = e.raw(f'load <{LANES} x {kind}>, ptr {pointer}, align {dtype.itemsize}')
        elif step == 1:
            name = f'@llvm.masked.load.v{LANES}{_short(dtype)}.p0'
            self.module.declare(f'declare <{LANES} x {kind}> {name}(ptr, i32, <{LANES} x i1>, <{LANES} x {kind}>)')
            found = e.raw(f'call <{LANES} x {kind}> {name}(ptr {pointer}, i32 {dtype.itemsize}, <{LANES} x i1> {self.mask()}, '
                          f'<{LANES} x {kind}> zeroinitializer)')
        else:
            steps = '<' + ', '.join(f'i64 {i * step}' for i in range(LANES)) + '>'
            pointers = e.raw(f'getelementptr {kind}, ptr {pointer}, <{LANES} x i64> {steps}')
            name = f'@llvm.masked.gather.v{LANES}{_short(dtype)}.v{LANES}p0'
            self.module.declare(f'declare <{LANES} x {kind}> {name}(<{LANES} x ptr>, i32, <{LANES} x i1>, <{LANES} x {kind}>)')
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

    def store(self, value: Value, dtype: np.dtype, base: str, by: dict[int, int], constant: int) -> None:
        e = self.emitter
        e.lines = self.lines
        pointer, step = self.address(base, dtype, by, constant)
        if step != 1 and self.lanes > 1:
            raise NotImplementedError('results that do not lie side by side')
        kind, told = memory(dtype), self.in_memory(value, dtype)
        if self.lanes == LANES:
            e.do(f'store {told}, ptr {pointer}, align {dtype.itemsize}')
            return
        name = f'@llvm.masked.store.v{LANES}{_short(dtype)}.p0'
        self.module.declare(f'declare void {name}(<{LANES} x {kind}>, ptr, i32, <{LANES} x i1>)')
        e.do(f'call void {name}({told}, ptr {pointer}, i32 {dtype.itemsize}, <{LANES} x i1> {self.mask()})')

    def store_row(self, v: Var, value: Value, lines: list[str]) -> None:
        e, dtype = self.emitter, v.type.dtype
        e.lines = lines
        pointer, _ = self.address(self.arguments[v], dtype, *self.linear(local(v), self.out_index(v)))
        one = e.raw(f'extractelement {self.in_memory(value, dtype)}, i64 0')
        e.do(f'store {memory(dtype)} {one}, ptr {pointer}, align {dtype.itemsize}')

    # ---- reductions

    def begin_row(self, eqn: Equation, p: Pass) -> None:
        """An accumulator that starts anew with each row."""
        dtype = register(eqn.ins[0].type.dtype)
        wide = F64 if dtype == F32 and eqn.primitive.name == 'reduce_sum' and math.prod(self.space[self.rows:]) > 1 << 14 else dtype
        slot = self.module.fresh()
        self.entry.append(f'  {slot} = alloca {vector(wide)}, align 64')
        start = f'splat ({element(wide)} {neutral(eqn.primitive.name, wide)})'
        p.header.append(f'  store {vector(wide)} {start}, ptr {slot}')
        self.accumulators[eqn.outs[0]] = (slot, wide)

    def end_row(self, eqn: Equation) -> list[str]:
        """The row's result, known from here on."""
        out = eqn.outs[0]
        slot, wide = self.accumulators[out]
        e = self.emitter
        held, e.lines = e.lines, []
        total = self.across(eqn, Value(e, e.raw(f'load {vector(wide)}, ptr {slot}'), wide))
        total = scalars.converted(e, total, out.type.dtype)
        if out in self.arguments:
            self.store_row(out, total, e.lines)
        self.row_memo[(out, self.reduced_index(eqn))] = total
        lines, e.lines = e.lines, held
        return lines

    def begin_late(self, eqn: Equation) -> None:
        out, name = eqn.outs[0], eqn.primitive.name
        dtype = register(out.type.dtype)
        start = neutral(name, dtype)
        if not local(out) or math.prod(local(out)) == 1:
            wide = F64 if name == 'reduce_sum' and dtype.kind == 'f' else dtype
            slot = self.module.fresh()
            self.entry += [f'  {slot} = alloca {vector(wide)}, align 64',
                           f'  store {vector(wide)} splat ({element(wide)} {neutral(name, wide)}), ptr {slot}']
            self.accumulators[out] = (slot, wide)
            return
        counter, slot = self.module.fresh(), self.module.fresh()
        self.counters = {-1: counter}
        lines = [f'  {slot} = getelementptr {memory(dtype)}, ptr {self.arguments[out]}, i64 {counter}',
                 f'  store {element(dtype)} {start}, ptr {slot}']
        self.body += self.loop(-1, 0, math.prod(local(out)), 1, lines)

    def end_late(self, eqn: Equation) -> None:
        out = eqn.outs[0]
        found = self.accumulators.get(out)
        if found is None:
            return
        slot, wide = found
        e = self.emitter
        e.lines = self.finish
        dtype = out.type.dtype
        total = scalars.converted(e, self.across(eqn, Value(e, e.raw(f'load {vector(wide)}, ptr {slot}'), wide)), dtype)
        one = e.raw(f'extractelement {self.in_memory(total, dtype)}, i64 0')
        e.do(f'store {memory(dtype)} {one}, ptr {self.arguments[out]}')

    def accumulate(self, eqn: Equation, value: Value) -> None:
        e, out = self.emitter, eqn.outs[0]
        e.lines = self.lines
        found = self.accumulators.get(out)
        if found is not None:
            slot, wide = found
            value = e.convert(value, wide)
            before = Value(e, e.raw(f'load {vector(wide)}, ptr {slot}'), wide)
            after = self.combined(eqn, before, value)
            if self.lanes < LANES:
                after = e.op(f'select <{LANES} x i1> {self.mask()}, {after}, {before}', wide)
            e.do(f'store {after}, ptr {slot}')
            return
        where = self.linear(local(out), self.reduced_index(eqn))
        before = self.load(self.arguments[out], value.dtype, *where)
        self.store(self.combined(eqn, before, value), value.dtype, self.arguments[out], *where)

    def combined(self, eqn: Equation, x: Value, y: Value) -> Value:
        if eqn.primitive.name == 'reduce_sum':
            return x + y
        return (functions.maximum if eqn.primitive.name == 'reduce_max' else functions.minimum)(self.emitter, x, y)

    def across(self, eqn: Equation, x: Value) -> Value:
        """All lanes as one, in every lane: halves, quarters ..."""
        n = LANES // 2
        while n:
            order = ', '.join(f'i32 {i ^ n}' for i in range(LANES))
            turned = self.emitter.op(f'shufflevector {x}, {x.type} poison, <{LANES} x i32> <{order}>', x.dtype)
            x = self.combined(eqn, x, turned)
            n //= 2
        return x


def _short(dtype: np.dtype) -> str:
    return f'{"f" if dtype.kind == "f" else "i"}{8 * dtype.itemsize}'


def kernel_text(jaxpr: Jaxpr, space: tuple[int, ...], rows: int | None, avx512: bool = False) -> str:
    """The function `@body(pointers of operands, pointers of results)`, and what it calls."""
    return Nest(jaxpr, space, rows, avx512).text()
