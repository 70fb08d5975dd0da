"""Reductions in a loop nest: a vector that is added to all along, and its lanes at the end as one.

A sum along a row is known after its pass; one over everything, or over rows, when the loops are done. Where elements lie side by
side in the result, the result itself is added to. Sums of float32 numbers are taken in float64 where there are many.
"""

from __future__ import annotations

import math

import numpy as np

from distad.compiler.access import local
from distad.compiler.llvm import functions, scalars
from distad.compiler.llvm.accesses import Accesses
from distad.compiler.llvm.emit import F32, F64, LANES, Emitter, Value, element, memory, number, register, vector
from distad.compiler.llvm.layout import linear
from distad.compiler.llvm.schedule import Schedule
from distad.core.jaxpr import Equation, Var

START = {'reduce_sum': 0.0, 'reduce_max': -math.inf, 'reduce_min': math.inf}
MANY = 1 << 14                 # summands along a row


def neutral(name: str, dtype: np.dtype) -> str:
    """What a reduction starts with."""
    value = START[name]
    if dtype.kind in 'iu':
        info = np.iinfo(dtype)
        value = min(max(value, info.min), info.max)
    return number(value, dtype)


class Sums:
    """The accumulators of a nest; `entry` are the lines before its loops."""

    def __init__(self, schedule: Schedule, accesses: Accesses, entry: list[str]):
        self.schedule, self.accesses, self.entry = schedule, accesses, entry
        self.emitter: Emitter = accesses.emitter
        self.accumulators: dict[Var, tuple[str, np.dtype]] = {}

    def slot(self, eqn: Equation, wide: np.dtype) -> list[str]:
        """An accumulator; the lines that start it."""
        slot = self.emitter.fresh()
        self.entry.append(f'  {slot} = alloca {vector(wide)}, align 64')
        self.accumulators[eqn.outs[0]] = (slot, wide)
        return [f'  store {vector(wide)} splat ({element(wide)} {neutral(eqn.primitive.name, wide)}), ptr {slot}']

    def begin_row(self, eqn: Equation) -> list[str]:
        """An accumulator that starts anew with each row."""
        dtype, schedule = register(eqn.ins[0].type.dtype), self.schedule
        many = math.prod(schedule.space[schedule.rows:]) > MANY
        return self.slot(eqn, F64 if dtype == F32 and eqn.primitive.name == 'reduce_sum' and many else dtype)

    def begin_late(self, eqn: Equation) -> tuple[str, int] | None:
        """A sum of everything has an accumulator; other results are to be filled: with what, and how many."""
        out, name = eqn.outs[0], eqn.primitive.name
        dtype, count = register(out.type.dtype), math.prod(local(out))
        if count == 1:
            self.entry += self.slot(eqn, F64 if name == 'reduce_sum' and dtype.kind == 'f' else dtype)
            return None
        return f'{element(dtype)} {neutral(name, dtype)}', count

    def total(self, eqn: Equation) -> Value:
        """What an accumulator holds in all, in every lane."""
        e, (slot, wide) = self.emitter, self.accumulators[eqn.outs[0]]
        x = Value(e, e.raw(f'load {vector(wide)}, ptr {slot}'), wide)
        n = LANES // 2
        while n:                                     # halves, quarters ...
            order = ', '.join(f'i32 {i ^ n}' for i in range(LANES))
            x = self.combined(eqn, x, e.op(f'shufflevector {x}, {x.type} poison, <{LANES} x i32> <{order}>', wide))
            n //= 2
        return scalars.converted(e, x, eqn.outs[0].type.dtype)

    def end_late(self, eqn: Equation) -> None:
        out = eqn.outs[0]
        if out in self.accumulators:
            self.accesses.store_one(self.total(eqn), out.type.dtype, self.schedule.arguments[out])

    def accumulate(self, eqn: Equation, value: Value) -> None:
        e, out, accesses = self.emitter, eqn.outs[0], self.accesses
        found = self.accumulators.get(out)
        if found is not None:
            slot, wide = found
            before = Value(e, e.raw(f'load {vector(wide)}, ptr {slot}'), wide)
            after = self.combined(eqn, before, e.convert(value, wide))
            if accesses.lanes < LANES:
                after = e.op(f'select <{LANES} x i1> {accesses.mask()}, {after}, {before}', wide)
            e.do(f'store {after}, ptr {slot}')
            return
        base, where = self.schedule.arguments[out], linear(local(out), self.schedule.reduced_index(eqn))
        before = accesses.load(base, value.dtype, where)
        accesses.store(self.combined(eqn, before, value), value.dtype, base, where)

    def combined(self, eqn: Equation, x: Value, y: Value) -> Value:
        if eqn.primitive.name == 'reduce_sum':
            return x + y
        return (functions.maximum if eqn.primitive.name == 'reduce_max' else functions.minimum)(self.emitter, x, y)


def cleared(base: str, dtype: np.dtype, at: str, start: str, slot: str) -> list[str]:
    """One element of a result as a reduction starts."""
    return [f'  {slot} = getelementptr {memory(dtype)}, ptr {base}, i64 {at}', f'  store {start}, ptr {slot}']
