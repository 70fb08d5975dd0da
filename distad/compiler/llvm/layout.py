"""How loops lie in memory: which dimensions of a space are one loop to every operand, and where loops have to be cut.

Pads and concatenations cut the space into boxes in which each reads one operand, so that no loop asks where it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distad.compiler.access import JOINS, MOVES, Index, chosen, cuts, elementwise_index, identity, local, through
from distad.compiler.llvm.scalars import REDUCTIONS
from distad.compiler.llvm.schedule import Schedule
from distad.core.jaxpr import Atom, Equation, Var

BOXES = 64                     # more would be more code than a pass over memory is worth


@dataclass(frozen=True, slots=True)
class Box:
    """A part of the space, by dimension: first and last."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def start(self) -> dict[int, int]:
        return dict(enumerate(self.low))


def linear(shape: Sequence[int], index: Index) -> tuple[dict[int, int], int]:
    """The offset of an element of a contiguous array, as factors of dimensions of the space, and a constant."""
    by: dict[int, int] = {}
    constant, stride = 0, 1
    for p, n in zip(reversed(index), reversed(shape), strict=True):
        if p.loop is not None:
            by[p.loop] = by.get(p.loop, 0) + p.factor * stride
        constant += p.offset * stride
        stride *= n
    return by, constant


def operands(eqn: Equation, index: Index) -> list[tuple[Atom, Index]]:
    """What an equation reads, and where, for its result at an index."""
    if eqn.primitive.name in MOVES:
        return [(eqn.ins[0], through(eqn, index))]
    out = eqn.outs[0]
    return [(x, elementwise_index(local(x), local(out), index) if x.__class__ is Var else ()) for x in eqn.ins]


class Layout:
    """The loops of a group, outermost first, each over a run of dimensions; those from `first_inner` on walk along a row."""

    def __init__(self, schedule: Schedule):
        self.space, self.rows = schedule.space, schedule.rows
        self.cut: list[set[int]] = [{0, n} for n in self.space]
        self.runs: list[list[int]] = []
        self._join(self._forms(schedule))
        if math.prod(len(c) - 1 for c in self.cut) > BOXES:
            raise NotImplementedError('too many boxes')
        self.loop_of = {d: i for i, run in enumerate(self.runs) for d in run}
        first = self.rows if self.rows is not None else self.runs[-1][0] if self.runs else 0      # one element has no loop
        self.first_inner = self.loop_of[first] if first < len(self.space) else len(self.runs)

    def _forms(self, schedule: Schedule) -> set[tuple[int, ...]]:
        """By how much each operand moves with each dimension; on the way, where pads and concatenations cut."""
        forms: set[tuple[int, ...]] = set()
        seen: set = set()
        stack: list[tuple[Atom, Index]] = []

        def note(shape: tuple[int, ...], index: Index) -> None:
            by, _ = linear(shape, index)
            forms.add(tuple(by.get(d, 0) for d in range(len(self.space))))

        for eqn in schedule.reductions:
            stack.append((eqn.ins[0], identity(self.space)))
            if eqn.outs[0] in schedule.arguments:
                note(local(eqn.outs[0]), schedule.reduced_index(eqn))
        for v in schedule.jaxpr.outs:
            if schedule.maker[v].primitive.name not in REDUCTIONS:
                stack.append((v, schedule.out_index(v)))
                note(local(v), schedule.out_index(v))
        while stack:
            a, index = stack.pop()
            if a.__class__ is not Var or (a, index) in seen:
                continue
            seen.add((a, index))
            eqn = schedule.maker.get(a)
            if a in schedule.inputs:
                note(local(a), index)
            elif a in schedule.row_sums:
                continue
            elif eqn.primitive.name in JOINS:
                for loop, at in cuts(eqn, index):
                    if 0 < at < self.space[loop]:
                        self.cut[loop].add(at)
                for corner in itertools.product(*(sorted(c)[:-1] for c in self.cut)):
                    taken = chosen(eqn, index, dict(enumerate(corner)))
                    if taken is not None:
                        stack.append((eqn.ins[taken[0]], taken[1]))
            else:
                stack += operands(eqn, index)
        return forms

    def _join(self, forms: set[tuple[int, ...]]) -> None:
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

    def boxes(self) -> Iterator[list[Box]]:
        """The boxes, those together that differ in the last loop only: they share the loops outside."""
        pieces = [list(itertools.pairwise(sorted(c))) for c in self.cut]
        last = self.runs[-1][0] if self.runs else 0
        for outer in itertools.product(*pieces[:last]):
            yield [Box(*zip(*outer, *inner, strict=True)) if self.space else Box((), ())
                   for inner in itertools.product(*pieces[last:])]

    def extent(self, i: int, box: Box) -> tuple[int, int]:
        """From where to where a loop runs in a box."""
        run = [d for d in self.runs[i] if self.space[d] > 1]
        if len(run) == 1:
            return box.low[run[0]], box.high[run[0]]
        return 0, math.prod(self.space[d] for d in run)

    def factor(self, run: list[int], by: dict[int, int]) -> int:
        """By how much an operand moves with a loop over several dimensions."""
        dims = [d for d in run if self.space[d] > 1]
        if any(by.get(c, 0) != by.get(d, 0) * self.space[d] for c, d in itertools.pairwise(dims)):
            raise NotImplementedError('dimensions that are not one loop to all operands')
        return by.get(dims[-1], 0)
