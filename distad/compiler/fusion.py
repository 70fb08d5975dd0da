"""Fusion: which equations become one pass over memory.

A group has a space, the shape over which its loops run. Its members are elementwise equations whose results have that shape,
and reductions of such values. Sums along the last dimensions may be read again inside the group, row by row (softmax, layer
norm: `rows` says how many dimensions count the rows); others are there only when the loops are done. Ops that only move
elements are not members: a member reads through them.

Every unit, a group or a single equation, has a stage, greater than those of all units that it reads. A group's stage may rise as
long as it stays below its ceiling, the least stage of those that read it. Groups of one stage are never connected by a path through
others, so they may be merged, and no cycle can arise. The work is linear in the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from distad.compiler.access import (
    CHEAP,
    JOINS,
    ZERO,
    Index,
    Place,
    elementwise_index,
    identity,
    is_move,
    keeps_last,
    local,
    rows_of,
    through,
)
from distad.compiler.dce import dce
from distad.compiler.fused import fused
from distad.compiler.ordering import ordered
from distad.core.jaxpr import Atom, Equation, Jaxpr, Var, has_effect

REDUCTIONS = frozenset({'reduce_sum', 'reduce_max', 'reduce_min'})
ROW = 1 << 14                  # elements of a row that is kept beside the processor between two passes
MEMBERS = 64                   # more in one group make LLVM slow
SCREEN = 8                     # pads and concatenations of a group: each cuts its loops


@dataclass(slots=True, eq=False)
class Group:
    """Equations that run in one loop nest."""

    stage: int
    space: tuple[int, ...]
    rows: int | None = None
    members: list[Equation] = field(default_factory=list)
    elements: set[Var] = field(default_factory=set)            # values of the shape of the space
    row_values: set[Var] = field(default_factory=set)          # one for each row, readable in later passes over the row
    joins: set[int] = field(default_factory=set)               # pads and concatenations that members read through
    ceiling: float = math.inf                                  # the least stage of units that read it
    anew: bool = False                                         # whether something is computed anew for a member
    readers: list[Group | None] = field(default_factory=list)  # groups that read it; None for a single equation
    reads: list[Read] = field(default_factory=list)
    merged: Group | None = None

    def lifted(self, stage: int) -> bool:
        """Whether its stage is, or may become, at least this one."""
        if stage < self.ceiling:
            self.stage = max(self.stage, stage)
        return self.stage >= stage

    def root(self) -> Group:
        group = self
        while group.merged is not None:
            group = group.merged
        return group


@dataclass(frozen=True, slots=True)
class Read:
    """A value that an operand comes from, at an index of the group's space; None where moves do not tell one."""

    var: Var
    index: Index | None
    joins: tuple[int, ...]


def fuse(jaxpr: Jaxpr, serves: Callable[[Equation], bool], least: int) -> Jaxpr:
    """The same program with groups of at least two equations over at least `least` elements as `fused` equations."""
    found = _Grouping(jaxpr, serves, least)
    groups = found.groups()
    return _with(jaxpr, groups, found.again) if groups else jaxpr


class _Grouping:
    """One walk over a program that gives every equation its unit."""

    def __init__(self, jaxpr: Jaxpr, serves: Callable[[Equation], bool], least: int):
        self.jaxpr, self.serves, self.least = jaxpr, serves, least
        self.maker = {v: eqn for eqn in jaxpr.equations for v in eqn.outs}
        self.stages: dict[Var, int] = {}                       # of values made by single equations
        self.bases: dict[Var, tuple[Var, ...]] = {}            # what is behind a move
        self.unit: dict[Var, Group] = {}
        self.moves: dict[Var, Equation] = {}
        self.open: dict[tuple, Group] = {}                     # by a value that is read and the space: for those that share it
        self.all: list[Group] = []
        self.anew = False                                      # whether the equation at hand reads what is computed anew
        self.joining = False                                   # whether there are pads or concatenations

    def groups(self) -> list[Group]:
        for eqn in self.jaxpr.equations:
            if is_move(eqn):
                self.moves[eqn.outs[0]] = eqn
                self.joining |= eqn.primitive.name in JOINS
                self.bases[eqn.outs[0]] = self.behind(eqn.ins)
            elif not self.joined(eqn):
                stage = self.entered(self.behind(eqn.ins))
                for v in eqn.outs:
                    self.stages[v] = stage
        self.told(self.behind(self.jaxpr.outs), math.inf, None)
        for group in reversed(self.all):
            self.sink(group)
        return [g for g in self.all if g.merged is None and (g.anew or len(g.members) + len(g.joins) > 1)]

    def behind(self, atoms: Sequence[Atom]) -> tuple[Var, ...]:
        """The values that operands come from when moves are looked through."""
        return tuple(dict.fromkeys(v for a in atoms if a.__class__ is Var for v in self.bases.get(a, (a,))))

    def stage_of(self, var: Var) -> int:
        group = self.unit.get(var)
        return self.stages.get(var, 0) if group is None else group.root().stage

    def entered(self, values: Iterable[Var]) -> int:
        """The stage of a unit that reads these values, which they are told."""
        values = list(values)
        stage = 1 + max(map(self.stage_of, values), default=0)
        self.told(values, stage, None)
        return stage

    def told(self, values: Iterable[Var], stage: float, reader: Group | None) -> None:
        for v in values:
            group = self.group_of(v)
            if group is not None and group is not reader:
                group.ceiling = min(group.ceiling, stage)
                if not (group.readers and group.readers[-1] is reader):
                    group.readers.append(reader)

    def sink(self, group: Group) -> None:
        """A group that one other alone reads, element by element, is part of it."""
        readers = {None if r is None else r.root() for r in group.readers} - {group}
        if group.merged is not None or len(readers) != 1 or None in readers:
            return
        reader = readers.pop()
        if _alike(reader, group.space, group.rows) and all(
                self.readable(r, group) for r in reader.reads if self.group_of(r.var) is group) and reader.lifted(group.stage):
            self.merge(reader, group)

    def joined(self, eqn: Equation) -> bool:
        """Give an equation to a group, if it can be part of one."""
        reduces = eqn.primitive.name in REDUCTIONS
        if not reduces and not eqn.primitive.pointwise:
            return False
        space = local(eqn.ins[0] if reduces else eqn.outs[0])
        small = math.prod(space) < self.least
        if not math.prod(space) or small and not self.all and not self.joining or reduces and not _reducible(eqn, space):
            return False
        if not self.serves(eqn):
            return False
        self.anew = False
        reads = [r for a in eqn.ins if a.__class__ is Var for r in self.reads(a, identity(local(a)), ())]
        if self.as_row_value(eqn, reads):
            return True
        if small and not any(r.joins and math.prod(local(r.var)) >= self.least for r in reads):
            return False                                       # but a piece of a large pad is worth it: the rest is not made
        rows = rows_of(eqn.params['axes'], space) if reduces else None
        joins = {j for r in reads for j in r.joins}
        if joins and rows is not None:                         # loops that are cut do not walk along whole rows
            return False
        home = self.home(reads, space, rows, joins)
        if home is None:
            stage = 1 + max((self.stage_of(r.var) for r in reads), default=0)
            home = self.neighbour(reads, space, stage, rows, joins) or self.opened(space, stage)
        self.add(home, eqn, reads, joins, rows)
        return True

    def home(self, reads: list[Read], space: tuple[int, ...], rows: int | None, joins: set[int]) -> Group | None:
        """The group that makes what is read, or several as one, if the reader may be part of it."""
        candidates = {id(g): g for r in reads if (g := self.group_of(r.var)) is not None and _alike(g, space, rows)}
        home = None
        for group in sorted(candidates.values(), key=lambda g: -g.stage):
            if not all(self.readable(r, group) for r in reads if self.group_of(r.var) is group):
                continue
            if home is None:
                home = group
            elif _alike(home, space, group.rows) and group.lifted(home.stage):
                self.merge(home, group)
        if home is None or not _room(home, joins, rows):
            return None
        others = [self.stage_of(r.var) for r in reads if self.group_of(r.var) is not home]
        return home if home.lifted(1 + max(others, default=-1)) else None

    def group_of(self, var: Var) -> Group | None:
        group = self.unit.get(var)
        return None if group is None else group.root()

    def reads(self, a: Var, index: Index | None, joins: tuple[int, ...]) -> list[Read]:
        """The values behind the moves that an operand goes through."""
        eqn = self.moves.get(a)
        if eqn is None or len(joins) >= SCREEN:
            again = self.again(a) if joins or index is not None and not _plain(index) else None
            if again is None:
                return [Read(a, index, joins)]
            self.anew = True
            return [r for x in again.ins if x.__class__ is Var
                    for r in self.reads(x, None if index is None else elementwise_index(local(x), local(a), index), joins)]
        if eqn.primitive.name in JOINS:
            return [r for x in eqn.ins if x.__class__ is Var for r in self.reads(x, None, (*joins, id(eqn)))]
        return [r for x in eqn.ins if x.__class__ is Var
                for r in self.reads(x, None if index is None else through(eqn, index), joins)]

    def again(self, a: Var) -> Equation | None:
        """The equation of a value that is rather computed anew at another place than kept: a cheap one of kept values."""
        eqn = self.maker.get(a)
        if eqn is None or a not in self.unit or eqn.primitive.name not in CHEAP:
            return None
        return eqn if all(x.__class__ is not Var or x not in self.unit for x in eqn.ins) else None

    def readable(self, r: Read, group: Group) -> bool:
        """Whether a member may read a value made in its own group."""
        if r.index is None or r.joins:
            return False
        if r.var in group.elements:
            return _plain(r.index) and all(p.loop == d or n == 1 for d, (p, n) in enumerate(zip(r.index, group.space, strict=True)))
        if r.var not in group.row_values:
            return False
        k = group.rows
        return all(p == (Place(d, 1, 0) if group.space[d] > 1 else ZERO) if d < k else p == ZERO for d, p in enumerate(r.index))

    def as_row_value(self, eqn: Equation, reads: list[Read]) -> bool:
        """An elementwise equation on values of rows joins their group."""
        if eqn.primitive.name in REDUCTIONS:
            return False
        homes = {id(g): g for r in reads if (g := self.group_of(r.var)) is not None and r.var in g.row_values}
        if len(homes) != 1:
            return False
        group = next(iter(homes.values()))
        shape, k = local(eqn.outs[0]), group.rows
        if shape == group.space or shape[:k] != group.space[:k] or math.prod(shape[k:]) != 1 or len(group.members) >= MEMBERS:
            return False
        mine = [r for r in reads if self.group_of(r.var) is group]
        rest = [r for r in reads if self.group_of(r.var) is not group]
        if not all(r.var in group.row_values and self.readable(r, group) for r in mine) or any(
                r.joins or r.index is None for r in rest):
            return False
        if not group.lifted(1 + max((self.stage_of(r.var) for r in rest), default=-1)):
            return False
        self.told([r.var for r in rest], group.stage, group)
        group.reads += reads
        group.members.append(eqn)
        group.row_values.add(eqn.outs[0])
        self.unit[eqn.outs[0]] = group
        return True

    def merge(self, a: Group, b: Group) -> None:
        """Two groups of one stage as one, if that is not too large."""
        if len(a.members) + len(b.members) > MEMBERS or (a.rows is not None or b.rows is not None) and (a.joins or b.joins):
            return
        b.merged = a
        a.rows = b.rows if a.rows is None else a.rows
        a.members += b.members
        a.elements |= b.elements
        a.row_values |= b.row_values
        a.joins |= b.joins
        a.anew |= b.anew
        a.ceiling = min(a.ceiling, b.ceiling)
        a.reads += b.reads
        a.readers += b.readers

    def neighbour(self, reads: list[Read], space, stage: int, rows: int | None, joins: set[int]) -> Group | None:
        """A group of this stage or a later one that reads the same value over the same space."""
        mine = {id(self.group_of(r.var)) for r in reads}       # what is read of these is there only when they are done
        for r in reads:
            group = self.open.get((r.var, space))
            if group is None or id(group := group.root()) in mine:
                continue
            if _alike(group, space, rows) and _room(group, joins, rows) and group.lifted(stage):
                return group
        return None

    def opened(self, space: tuple[int, ...], stage: int) -> Group:
        group = Group(stage, space)
        self.all.append(group)
        return group

    def add(self, group: Group, eqn: Equation, reads: list[Read], joins: set[int], rows: int | None) -> None:
        group.members.append(eqn)
        group.anew |= self.anew
        group.joins |= joins
        out = eqn.outs[0]
        self.unit[out] = group
        if eqn.primitive.name not in REDUCTIONS:
            group.elements.add(out)
        elif rows is not None:
            group.rows = rows
            if math.prod(group.space[rows:]) <= ROW:
                group.row_values.add(out)
        self.told([r.var for r in reads], group.stage, group)
        group.reads += reads
        for r in reads:
            self.open[(r.var, group.space)] = group


def _plain(index: Index) -> bool:
    return all(p == ZERO or p == Place(d, 1, 0) for d, p in enumerate(index))


def _alike(group: Group, space: tuple[int, ...], rows: int | None) -> bool:
    return group.space == space and (rows is None or group.rows in (None, rows))


def _room(group: Group, joins: set[int], rows: int | None) -> bool:
    """Whether a group may take one more: not too large, and no loops that are cut where rows are walked several times."""
    joined = group.joins | joins
    return len(group.members) < MEMBERS and len(joined) <= SCREEN and not (joined and (rows is not None or group.rows is not None))


def _reducible(eqn: Equation, space: tuple[int, ...]) -> bool:
    """To one element, or to one for each row, or keeping the last dimension, along which vectors lie."""
    axes = eqn.params['axes']
    return bool(axes) and (
        math.prod(local(eqn.outs[0])) == 1 or rows_of(axes, space) is not None or keeps_last(axes, space))


# ---- the program with its groups

def _with(jaxpr: Jaxpr, groups: list[Group], again: Callable[[Var], Equation | None]) -> Jaxpr:
    maker = {v: eqn for eqn in jaxpr.equations for v in eqn.outs}
    place = {id(eqn): i for i, eqn in enumerate(jaxpr.equations)}
    group_of = {id(eqn): g for g in groups for eqn in g.members}
    drawn = {id(g): _body(g, maker, place, again) for g in groups}
    needed = _needed(jaxpr, group_of, drawn)
    made = {}
    for g in groups:
        ins, equations = drawn[id(g)]
        outs = tuple(v for eqn in g.members for v in eqn.outs if v in needed)
        body = dce(Jaxpr(ins=ins, equations=equations, outs=outs, name='fused'))
        last = max(g.members, key=lambda e: place[id(e)])
        params = {'jaxpr': body, 'space': g.space, 'rows': g.rows, 'in_place': _in_place(body, g)}
        made[id(last)] = Equation(primitive=fused, ins=ins, outs=outs, params=params, path=last.path, source=last.source)
    units: list[Equation] = []
    for eqn in jaxpr.equations:
        if id(eqn) in made:
            units += [made[id(eqn)]] if made[id(eqn)].outs else []
        elif id(eqn) not in group_of and (has_effect(eqn) or any(v in needed for v in eqn.outs)):
            units.append(eqn)
    return jaxpr.changed(equations=tuple(ordered(units)))


def _in_place(body: Jaxpr, group: Group) -> tuple[int, ...]:
    """Operands whose arrays results may take over: read in one pass only, and by members alone, element by element."""
    if group.row_values:
        return ()
    moved = {a for eqn in body.equations if is_move(eqn) for a in eqn.ins}
    for eqn in reversed(body.equations):                       # and what is computed anew at another place
        if eqn.outs[0] in moved:
            moved.update(eqn.ins)
    return tuple(i for i, v in enumerate(body.ins) if v not in moved and local(v) == group.space)


def _body(group: Group, maker: dict[Var, Equation], place: dict[int, int],
          again: Callable[[Var], Equation | None]) -> tuple[tuple[Var, ...], tuple[Equation, ...]]:
    """What a group reads, and its equations with the moves that members read through and what is rather computed anew."""
    members = {id(eqn) for eqn in group.members}
    mine = {v for eqn in group.members for v in eqn.outs}
    inside: dict[int, Equation] = {}
    ins: dict[Var, None] = {}
    stack = list(group.members)
    while stack:
        eqn = stack.pop()
        if id(eqn) in inside:
            continue
        inside[id(eqn)] = eqn
        for a in eqn.ins:
            if a.__class__ is not Var or a in mine:
                continue
            source = maker.get(a)
            if source is not None and (is_move(source) or id(eqn) not in members and again(a) is not None):
                stack.append(source)
            else:
                ins[a] = None
    return tuple(ins), tuple(sorted(inside.values(), key=lambda e: place[id(e)]))


def _needed(jaxpr: Jaxpr, group_of: dict[int, Group], drawn: dict) -> set[Var]:
    """The values that somebody outside of their group reads."""
    needed = {a for a in jaxpr.outs if a.__class__ is Var}
    read: set[int] = set()
    for eqn in reversed(jaxpr.equations):
        g = group_of.get(id(eqn))
        if g is not None:
            if id(g) not in read:
                read.add(id(g))
                needed.update(drawn[id(g)][0])
        elif has_effect(eqn) or any(v in needed for v in eqn.outs):
            needed.update(a for a in eqn.ins if a.__class__ is Var)
    return needed

