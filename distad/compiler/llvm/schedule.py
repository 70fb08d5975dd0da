"""What a group computes when: passes over a row.

A pass may read sums that an earlier one took along the row. A value that a later pass needs again is computed again if that is
cheap, else kept: where it is a result in the result's array, else in a buffer of one row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from distad.compiler.access import CHEAP, MOVES, Index, identity, local, rows_of
from distad.compiler.llvm.scalars import REDUCTIONS
from distad.core.jaxpr import Atom, Equation, Jaxpr, Var

KEPT_BYTES = 1 << 19           # buffers of one row, on the stack
CHEAP_COST = 4                 # equations that are rather computed twice than kept


@dataclass(slots=True)
class Pass:
    """What one walk along a row leaves: values in memory (with the name of the array), and sums."""

    stores: list[tuple[Var, str]] = field(default_factory=list)
    reductions: list[Equation] = field(default_factory=list)


class Schedule:
    """The passes of a group, and where what they keep lies."""

    def __init__(self, jaxpr: Jaxpr, space: tuple[int, ...], rows: int | None):
        self.jaxpr, self.space, self.rows = jaxpr, space, rows
        self.maker = {v: eqn for eqn in jaxpr.equations for v in eqn.outs}
        self.arguments = {v: f'%p{i}' for i, v in enumerate((*jaxpr.ins, *jaxpr.outs))}
        self.inputs = set(jaxpr.ins)
        self.reductions = [eqn for eqn in jaxpr.equations if eqn.primitive.name in REDUCTIONS]
        self.row_sums = {eqn.outs[0] for eqn in self.reductions if self.along_row(eqn)}
        self.ready = self._ready()
        self.cost: dict[Var, int] = {}
        self.row_outs: list[Var] = []                          # results that are one for each row
        self.kept: dict[Var, str] = {}                         # the array of a value that later passes read
        self.buffers: dict[str, Var] = {}                      # arrays that hold one row of a value
        self.passes = self._passes()

    def along_row(self, eqn: Equation) -> bool:
        return self.rows is not None and rows_of(eqn.params['axes'], self.space) == self.rows

    def is_row(self, v: Var) -> bool:
        """A value that is one for each row."""
        return v in self.row_sums or (self.rows is not None and local(v) != self.space and self._below(v))

    def out_index(self, v: Var) -> Index:
        """A result has the space's shape, or that of rows with dimensions of size 1 behind."""
        return identity(local(v)) if local(v) == self.space else tuple(
            identity((*self.space[:self.rows], *[1] * (len(local(v)) - self.rows))))

    def reduced_index(self, eqn: Equation) -> Index:
        return tuple(p for d, p in enumerate(identity(self.space)) if d not in eqn.params['axes'])

    def cost_of(self, v: Atom) -> int:
        if v.__class__ is not Var or v not in self.maker or v in self.row_sums:
            return 0
        if v not in self.cost:
            eqn = self.maker[v]
            name = eqn.primitive.name
            own = 0 if name in MOVES else 1 if name in CHEAP else 8
            self.cost[v] = min(own + sum(map(self.cost_of, eqn.ins)), 99)
        return self.cost[v]

    def _ready(self) -> dict[Var, int]:
        """The first pass in which a value can be computed."""
        ready = dict.fromkeys(self.jaxpr.ins, 0)
        for eqn in self.jaxpr.equations:
            at = max((ready[a] for a in eqn.ins if a.__class__ is Var), default=0)
            for v in eqn.outs:
                ready[v] = at + (v in self.row_sums)
        return ready

    def _below(self, v: Var) -> bool:
        eqn = self.maker.get(v)
        return eqn is not None and any(a in self.row_sums or a.__class__ is Var and a in self.maker and self.is_row(a)
                                       for a in eqn.ins)

    def _passes(self) -> list[Pass]:
        count = 1 + max(self.ready.values(), default=0)
        plan = [Pass() for _ in range(count)]
        for eqn in self.reductions:
            plan[self.ready[eqn.ins[0]] if eqn.ins[0].__class__ is Var else 0].reductions.append(eqn)
        for v in self.jaxpr.outs:
            if v in self.maker and self.maker[v].primitive.name in REDUCTIONS:
                continue
            if local(v) != self.space or self.is_row(v):
                self.row_outs.append(v)
            else:
                plan[self.ready[v]].stores.append((v, self.arguments[v]))
                self.kept[v] = self.arguments[v]
        width = math.prod(self.space[self.rows:]) if self.rows is not None else 0
        room = KEPT_BYTES
        for p in range(count - 1, 0, -1):
            for v in self._wanted(p, plan[p]):
                size = width * v.type.dtype.itemsize
                if v in self.kept or size > room:
                    continue
                room -= size
                self.kept[v] = f'%kept{len(self.buffers)}'
                self.buffers[self.kept[v]] = v
                plan[self.ready[v]].stores.append((v, self.kept[v]))
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
