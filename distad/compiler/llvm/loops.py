"""A fused group as a loop nest.

`schedule` says what is computed when, `layout` which loops there are, `strips` where a long pass is cut; here they become text.
The loops that count rows are outside; inside them each pass over a row computes what is ready. The last loop goes in vectors, and
what is left of it under a mask. Groups over much memory go through it forwards and backwards by turns: the end of one is the
beginning of the next, which finds it in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from distad.compiler.access import JOINS, MOVES, Index, chosen, identity, local, through
from distad.compiler.llvm import scalars
from distad.compiler.llvm.accesses import Accesses, Offset
from distad.compiler.llvm.emit import LANES, Emitter, Module, Value
from distad.compiler.llvm.layout import Box, Layout, linear, operands
from distad.compiler.llvm.schedule import Pass, Schedule
from distad.compiler.llvm.strips import LEAST, STRIP, stages
from distad.compiler.llvm.sums import Sums, cleared
from distad.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var

STREAM = 1 << 23               # bytes of a result that goes past the cache
LINE = 64                      # bytes of a line of it
TURN = 1 << 20                 # bytes that a group reads and writes, from which on it begins where the one before it has ended


class Nest:
    """The text of one group."""

    def __init__(self, jaxpr: Jaxpr, space: tuple[int, ...], rows: int | None, avx512: bool):
        self.jaxpr, self.space = jaxpr, space
        self.module = Module(avx512)
        self.schedule = Schedule(jaxpr, space, rows)
        self.layout = Layout(self.schedule)
        self.arguments, self.first_inner = self.schedule.arguments, self.layout.first_inner
        self.entry: list[str] = []                       # before the loops
        self.body: list[str] = []
        self.entry_memo: dict = {}
        self.emitter = Emitter(self.module)
        sizes = {where: math.prod(local(v)) for v, where in self.arguments.items()}
        for buffer, v in self.schedule.buffers.items():
            sizes[buffer] = math.prod(space[rows:])
            self.room(buffer, v, sizes[buffer])
        self.accesses = Accesses(self.emitter, self.layout, sizes)
        self.sums = Sums(self.schedule, self.accesses, self.entry)
        self.strip: dict[Var, tuple[str, int]] = {}      # values in the buffer of a strip, and the stage that leaves them
        self.stage, self.in_strip = 0, ''                # where we are, in stages and in a strip

    def room(self, buffer: str, v: Var, count: int) -> None:
        self.entry.append(f'  {buffer} = alloca [{count * v.type.dtype.itemsize} x i8], align 64')

    def text(self) -> str:
        late = [eqn for eqn in self.schedule.reductions if not self.schedule.along_row(eqn)]
        taken = sum(min(math.prod(local(v)), math.prod(self.space)) * v.type.dtype.itemsize for v in self.arguments)
        self.turns = not late and taken >= TURN                          # the order of summands has to stay
        for eqn in late:
            fill = self.sums.begin_late(eqn)
            if fill is not None:
                out, at = eqn.outs[0], self.module.fresh()
                lines = cleared(self.arguments[out], out.type.dtype, at, fill[0], self.module.fresh())
                self.body += self.loop(at, 0, fill[1], 1, lines)
        for boxes in self.layout.boxes():
            self.boxes(boxes)
        self.emitter.lines = self.body
        for eqn in late:
            self.sums.end_late(eqn)
        pointers = ', '.join(f'ptr {p}' for p in self.arguments.values())
        turn = ['  %turn = load i64, ptr @distad_turn', '  %direction = sub i64 0, %turn', '  store i64 %direction, ptr @distad_turn',
                '  %backwards = icmp slt i64 %direction, 0'] if self.turns else []
        declared = '@distad_turn = external global i64\n' if self.turns else ''
        body = declared + f'define internal void @body({pointers}) nounwind alignstack(64) {{\n' + '\n'.join(
            [*turn, *self.entry, *self.body, '  ret void']) + '\n}\n!0 = !{i32 1}\n'
        return self.module.text() + body

    # ---- loops

    def boxes(self, boxes: list[Box]) -> None:
        """Boxes that have the outer loops in common."""
        counters = {i: self.module.fresh() for i in range(len(self.layout.runs))}
        lines: list[str] = []
        for box in boxes:
            self.accesses.box, self.accesses.counters = box, dict(counters)
            lines += self.passes()
        for i in reversed(range(self.first_inner)):
            lines = self.loop(counters[i], *self.layout.extent(i, boxes[0]), 1, lines, turning=i == 0)
        self.body += lines

    def passes(self) -> list[str]:
        """What is done at one turn of the outer loops."""
        plan, schedule = self.schedule.passes, self.schedule
        self.row_memo: dict = {}
        self.headers: list[list[str]] = [[] for _ in plan]               # what is computed for a row before a pass
        walks: list[list[str]] = []
        for self.now, p in enumerate(plan):
            walks.append(self.walk(p))
        for v in schedule.row_outs:
            self.now = schedule.ready[v]
            self.store_row(v, self.value(v, schedule.out_index(v)), self.headers[self.now])
        return [line for header, walk in zip(self.headers, walks, strict=True) for line in (*header, *walk)]

    def loop(self, counter: str, low: int | str, high: int | str, step: int, lines: list[str], turning: bool = False) -> list[str]:
        """A loop; one that is `turning` goes backwards every other time."""
        if isinstance(low, int) and isinstance(high, int):
            if high - low == step:
                return [f'  {counter} = add i64 0, {low}', *lines]
            if turning and self.turns:
                forwards, top = self.module.fresh(), low + (high - low - 1) // step * step
                return self.loop(forwards, low, high, step, [
                    f'  {counter}.done = sub i64 {forwards}, {low}', f'  {counter}.moved = mul i64 {counter}.done, %direction',
                    f'  {counter}.from = select i1 %backwards, i64 {top}, i64 {low}',
                    f'  {counter} = add i64 {counter}.from, {counter}.moved', *lines])
        slot = self.module.fresh()
        self.entry.append(f'  {slot} = alloca i64')
        head, inside, after = (self.module.fresh()[1:] for _ in range(3))
        test, following = self.module.fresh(), self.module.fresh()
        return [f'  store i64 {low}, ptr {slot}', f'  br label %{head}', f'{head}:', f'  {counter} = load i64, ptr {slot}',
                f'  {test} = icmp slt i64 {counter}, {high}', f'  br i1 {test}, label %{inside}, label %{after}', f'{inside}:', *lines,
                f'  {following} = add nsw i64 {counter}, {step}', f'  store i64 {following}, ptr {slot}', f'  br label %{head}',
                f'{after}:']

    def walk(self, p: Pass) -> list[str]:
        """One pass over the inner loops."""
        if not p.stores and not p.reductions:
            return []
        inner = list(range(self.first_inner, len(self.layout.runs)))
        after: list[str] = []
        for eqn in p.reductions:
            if self.schedule.along_row(eqn):
                self.headers[self.now] += self.sums.begin_row(eqn)
                after += self.end_row(eqn)
        if not inner:
            return self.step(p, 1) + after
        low, high = self.layout.extent(inner[-1], self.accesses.box)
        lines = self.streaming(p, high) if self.streams(p) else self.vectors(p, low, high)
        counters = self.accesses.counters
        for i in reversed(inner[:-1]):
            lines = self.loop(counters[i], *self.layout.extent(i, self.accesses.box), 1, lines)
        self.accesses.counters = {i: c if i < self.first_inner else self.module.fresh() for i, c in counters.items()}
        return lines + after

    def vectors(self, p: Pass, low: int, high: int) -> list[str]:
        """The last loop: whole vectors, then what is left under a mask."""
        full = low + (high - low) // LANES * LANES
        lines = self.whole(p, low, full) if full > low else []
        return lines + (self.at(full, lambda: self.step(p, high - full)) if full < high else [])

    def at(self, place: int | str, lines: Callable[[], list[str]]) -> list[str]:
        """The lines that `lines()` gives, where the last counter has a value."""
        counter = self.accesses.counters[len(self.layout.runs) - 1] = self.module.fresh()
        return [f'  {counter} = add i64 0, {place}', *lines()]

    def whole(self, p: Pass, low: int | str, high: int | str) -> list[str]:
        """Vectors from low to high, strip by strip where the pass has stages."""
        known = isinstance(low, int) and isinstance(high, int)
        held = stages(self.schedule, self.layout, self.now, p) if not known or high - low >= LEAST else []
        last = len(self.layout.runs) - 1
        if not held:
            counter = self.accesses.counters[last] = self.module.fresh()
            return self.loop(counter, low, high, LANES, self.step(p, LANES), turning=len(self.layout.runs) == 1)
        start, rest, short, size = (self.module.fresh() for _ in range(4))
        lines = [f'  {rest} = sub nsw i64 {high}, {start}', f'  {short} = icmp slt i64 {rest}, {STRIP}',
                 f'  {size} = select i1 {short}, i64 {rest}, i64 {STRIP}']
        self.strip = {}
        for stage, values in enumerate(held):
            for v in values:
                self.strip[v] = self.module.fresh(), stage
                self.room(self.strip[v][0], v, STRIP)
        for self.stage in range(len(held) + 1):
            self.in_strip, counter = self.module.fresh(), self.module.fresh()
            self.accesses.counters[last] = counter
            step = self.leave(held[self.stage]) if self.stage < len(held) else self.step(p, LANES)
            lines += self.loop(self.in_strip, 0, size, LANES, [f'  {counter} = add nsw i64 {start}, {self.in_strip}', *step])
        self.strip, self.stage = {}, 0
        return self.loop(start, low, high, STRIP, lines, turning=len(self.layout.runs) == 1)

    def leave(self, values: list[Var]) -> list[str]:
        """A vector of a stage whose values later stages read."""
        self.begin_step(LANES)
        found = [self.value(v, identity(self.space)) for v in values]
        self.emitter.lines = self.lines
        for v, value in zip(values, found, strict=True):
            self.accesses.store_at(self.accesses.pointer(self.strip[v][0], v.type.dtype, self.in_strip), 1, value, v.type.dtype)
        return self.lines

    def begin_step(self, lanes: int) -> None:
        self.inner_memo: dict = {}
        self.lines: list[str] = []
        self.accesses.lanes = lanes

    def step(self, p: Pass, lanes: int) -> list[str]:
        """The values of one vector, of which `lanes` are inside."""
        self.begin_step(lanes)
        stored = [self.value(v, identity(self.space)) for v, _ in p.stores]
        reduced = [self.value(eqn.ins[0], identity(self.space)) for eqn in p.reductions]
        self.emitter.lines = self.lines
        for value, (v, base) in zip(stored, p.stores, strict=True):          # after all loads: a result may lie on an operand
            self.accesses.store(value, v.type.dtype, base, self.place_of(base))
        for value, eqn in zip(reduced, p.reductions, strict=True):
            self.sums.accumulate(eqn, value)
        return self.lines

    # ---- a large result that nothing follows

    def streams(self, p: Pass) -> bool:
        """Whether a pass only writes one large array in one loop: written past the cache, its lines are not read first."""
        layout, schedule = self.layout, self.schedule
        if len(p.stores) != 1 or p.reductions or schedule.row_outs or len(schedule.passes) > 1 or len(layout.runs) > 1:
            return False
        size = p.stores[0][0].type.dtype.itemsize                # at most one vector is before the first that is aligned
        return size * LANES >= LINE and math.prod(self.space) * size >= STREAM and all(len(c) == 2 for c in layout.cut)

    def streaming(self, p: Pass, count: int) -> list[str]:
        """Vectors that begin where the result is aligned, and what is before and behind them under a mask.

        Where the result lies on an operand, its lines are in the cache already, and it is written as usual; so it is where no element
        begins a line, as complex numbers may lie. A result that ends before the first line begins is all before it.
        """
        base, size = p.stores[0][1], p.stores[0][0].type.dtype.itemsize
        accesses, fresh = self.accesses, self.module.fresh
        address, away, bytes_, first, whole, end, odd = (fresh() for _ in range(7))
        lines = [f'  {address} = ptrtoint ptr {base} to i64', f'  {away} = sub i64 0, {address}',
                 f'  {bytes_} = and i64 {away}, {LINE - 1}', f'  {first}.n = lshr i64 {bytes_}, {size.bit_length() - 1}',
                 f'  {first}.all = icmp ugt i64 {first}.n, {count}', f'  {first} = select i1 {first}.all, i64 {count}, i64 {first}.n',
                 f'  {odd}.n = and i64 {bytes_}, {size - 1}', f'  {odd} = icmp ne i64 {odd}.n, 0',
                 f'  {whole} = sub i64 {count}, {first}', f'  {end}.n = and i64 {whole}, {-LANES}',
                 f'  {end} = add i64 {first}, {end}.n']
        # before and behind: two turns of one loop
        turn, is_first, at, to, left = (fresh() for _ in range(5))
        known = [f'  {is_first} = icmp eq i64 {turn}, 0', f'  {at}.p = select i1 {is_first}, i64 0, i64 {end}',
                 f'  {to} = select i1 {is_first}, i64 {first}, i64 {count}', f'  {left} = sub i64 {to}, {at}.p',
                 f'  {left}.v = insertelement <{LANES} x i64> poison, i64 {left}, i64 0',
                 f'  {left}.s = shufflevector <{LANES} x i64> {left}.v, <{LANES} x i64> poison, <{LANES} x i32> zeroinitializer',
                 f'  {left}.m = icmp ult <{LANES} x i64> <{", ".join(f"i64 {i}" for i in range(LANES))}>, {left}.s']
        accesses.inside = f'{left}.m'
        masked = self.at(f'{at}.p', lambda: self.step(p, LANES - 1))
        accesses.inside = None
        lines += self.loop(turn, 0, 2, 1, known + masked)
        # between: past the cache or, in place, as usual
        as_usual, (past, usual, done) = odd, (fresh()[1:] for _ in range(3))
        for v in self.jaxpr.ins:
            same, so_far = fresh(), fresh()
            lines += [f'  {same} = icmp eq ptr {base}, {self.arguments[v]}', f'  {so_far} = or i1 {same}, {as_usual}']
            as_usual = so_far
        accesses.streams = True
        streaming = self.whole(p, first, end)
        accesses.streams = False
        return [*lines, f'  br i1 {as_usual}, label %{usual}, label %{past}', f'{past}:', *streaming, '  fence seq_cst',
                f'  br label %{done}', f'{usual}:', *self.whole(p, first, end), f'  br label %{done}', f'{done}:']

    # ---- values

    def value(self, a: Atom, index: Index) -> Value:
        """The vector of an operand at an index, computed where it can be: once, once a row, or here."""
        if a.__class__ is Literal:
            return self.emitter.splat(a.value, a.type.dtype)
        schedule, accesses = self.schedule, self.accesses
        loops = {self.layout.loop_of[p.loop] for p in index if p.loop is not None}
        inner = any(i >= self.first_inner for i in loops)
        memo = self.inner_memo if inner else self.row_memo
        if not inner and not loops and schedule.ready[a] == 0:
            memo = self.entry_memo
        key = (a, index, accesses.box.low) if memo is self.entry_memo else (a, index)
        if key in memo:
            return memo[key]
        lines = self.lines if inner else self.entry if memo is self.entry_memo else self.headers[schedule.ready[a]]
        held, self.emitter.lines = self.emitter.lines, lines
        here = inner and index == identity(self.space)
        if here and a in self.strip and self.strip[a][1] < self.stage:
            dtype = a.type.dtype
            found = accesses.load_at(accesses.pointer(self.strip[a][0], dtype, self.in_strip), 1, dtype)
        elif here and a in schedule.kept and schedule.ready[a] < self.now:
            found = accesses.load(schedule.kept[a], a.type.dtype, self.place_of(schedule.kept[a]))
        elif a in schedule.inputs:
            found = accesses.load(self.arguments[a], a.type.dtype, linear(local(a), index))
        else:
            found = self.computed(schedule.maker[a], index)
        self.emitter.lines = held
        memo[key] = found
        return found

    def computed(self, eqn: Equation, index: Index) -> Value:
        name = eqn.primitive.name
        if name in JOINS:
            which, at = chosen(eqn, index, self.accesses.box.start)
            return self.value(eqn.ins[which], at)
        if name in MOVES:
            return self.value(eqn.ins[0], through(eqn, index))
        lines = self.emitter.lines
        found = [self.value(x, i) for x, i in operands(eqn, index)]
        self.emitter.lines = lines
        return scalars.apply(self.emitter, eqn, found)

    def place_of(self, base: str) -> Offset:
        """The offset of an element of a result, or of a buffer that holds one row."""
        by, constant = linear(self.space, identity(self.space))
        if base in self.schedule.buffers:
            by = {d: s for d, s in by.items() if d >= self.layout.rows}
        return by, constant

    # ---- values of rows

    def end_row(self, eqn: Equation) -> list[str]:
        """A row's sum, known from here on."""
        out = eqn.outs[0]
        held, self.emitter.lines = self.emitter.lines, []
        total = self.sums.total(eqn)
        if out in self.arguments:
            self.store_row(out, total, self.emitter.lines)
        self.row_memo[(out, self.schedule.reduced_index(eqn))] = total
        lines, self.emitter.lines = self.emitter.lines, held
        return lines

    def store_row(self, v: Var, value: Value, lines: list[str]) -> None:
        self.emitter.lines = lines
        pointer, _ = self.accesses.address(self.arguments[v], v.type.dtype, linear(local(v), self.schedule.out_index(v)))
        self.accesses.store_one(value, v.type.dtype, pointer)


def kernel_text(jaxpr: Jaxpr, space: tuple[int, ...], rows: int | None, avx512: bool = False) -> str:
    """The function `@body(pointers of operands, pointers of results)`, and what it calls."""
    return Nest(jaxpr, space, rows, avx512).text()
