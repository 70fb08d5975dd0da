"""Pads and concatenations of what groups make: the groups write their part into the joined array, and its border.

After fusion a pad or concatenation is left where its result has to lie in memory. If nobody else reads what some group makes
for it, the group's loops run over the joined array instead: each box of it computes one operand, and the copy is gone.
"""

from __future__ import annotations

from collections import defaultdict

from distad.compiler.access import CHEAP, JOINS, MOVES, is_move, local
from distad.compiler.fused import fused
from distad.compiler.fusion import MEMBERS, REDUCTIONS
from distad.compiler.ordering import ordered
from distad.core.jaxpr import Equation, Jaxpr, Var

PIECES = 8                     # operands of one concatenation
DEEP = 3                       # pads and concatenations of one group: each cuts its loops


def ended(jaxpr: Jaxpr) -> Jaxpr:
    """The same program, joins made by the groups that make what they join."""
    if not any(eqn.primitive.name in JOINS for eqn in jaxpr.equations):
        return jaxpr
    found, made = _Ends(jaxpr), {}
    for eqn in reversed(jaxpr.equations):                      # of joins of joins the last first: it takes in those before
        if eqn.primitive.name in JOINS and id(eqn) not in found.gone:
            group = found.group(eqn)
            if group is not None:
                made[id(eqn)] = group
    if not made:
        return jaxpr
    return jaxpr.changed(equations=tuple(made.get(id(eqn), eqn) for eqn in jaxpr.equations if id(eqn) not in found.gone))


class _Ends:
    """Who makes and who reads each value of a program."""

    def __init__(self, jaxpr: Jaxpr):
        self.maker = {v: eqn for eqn in jaxpr.equations for v in eqn.outs}
        self.readers: dict[Var, list[Equation | None]] = defaultdict(list)
        for eqn in jaxpr.equations:
            for a in eqn.ins:
                if a.__class__ is Var:
                    self.readers[a].append(eqn)
        for a in jaxpr.outs:
            if a.__class__ is Var:
                self.readers[a].append(None)
        self.gone: set[int] = set()

    def group(self, join: Equation) -> Equation | None:
        """The group that makes a join's result; None where no group makes what is joined for it alone."""
        if not is_move(join) or len(join.ins) > PIECES:
            return None
        ins: dict[Var, None] = {}
        inside, taken = [join], {}
        stack = list(join.ins)
        while stack:
            a = stack.pop()
            eqn = self.maker.get(a) if a.__class__ is Var else None
            if eqn is None or not self.only(a, join) or not (is_move(eqn) or _separable(eqn) and all(
                    self.only(v, join) for v in eqn.outs)):
                if a.__class__ is Var:
                    ins[a] = None
            elif id(eqn) not in taken:
                taken[id(eqn)] = eqn
                inside += eqn.params['jaxpr'].equations if eqn.primitive is fused else [eqn]
                stack += eqn.ins
        deep = sum(eqn.primitive.name in JOINS for eqn in inside)
        if not any(eqn.primitive is fused for eqn in taken.values()) or len(inside) > MEMBERS or deep > DEEP:
            return None
        self.gone.update(taken)
        body = Jaxpr(ins=tuple(ins), equations=tuple(ordered(inside)), outs=join.outs, name='fused')
        params = {'jaxpr': body, 'space': local(join.outs[0]), 'rows': None, 'in_place': ()}
        return Equation(primitive=fused, ins=body.ins, outs=join.outs, params=params, path=join.path, source=join.source)

    def only(self, v: Var, join: Equation) -> bool:
        """Whether a join alone reads a value, itself or through moves."""
        return all(r is join or r is not None and is_move(r) and self.only(r.outs[0], join) for r in self.readers[v])


def _separable(eqn: Equation) -> bool:
    """A group without sums, of which no dear value is needed for two results: each is computed where it goes."""
    if eqn.primitive is not fused or any(e.primitive.name in REDUCTIONS for e in eqn.params['jaxpr'].equations):
        return False
    needed: dict[Var, set[Var]] = defaultdict(set)
    for v in eqn.outs:
        needed[v].add(v)
    for e in reversed(eqn.params['jaxpr'].equations):
        goals = needed[e.outs[0]]
        if len(goals) > 1 and e.primitive.name not in CHEAP | MOVES:
            return False
        for a in e.ins:
            if a.__class__ is Var:
                needed[a] |= goals
    return True
