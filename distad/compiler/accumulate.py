"""Sums in the round that makes the summand: `total + stacked`, where a scan makes `stacked`, is added slice by slice in the scan.

The slices are then never together in memory, and each is added while it is still in the cache: gradients of layers that are summed
over microbatches.
"""

from __future__ import annotations

from distad.core.jaxpr import Atom, Equation, Jaxpr, Var

SUMS = frozenset({'add', 'add_any'})


def accumulated(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with sums of stacked results inside their scans."""
    reads: dict[Var, list[Equation | None]] = {}
    known: set[Atom] = set(jaxpr.ins)
    for eqn in jaxpr.equations:
        for a in eqn.ins:
            reads.setdefault(a, []).append(eqn)
    for a in jaxpr.outs:
        reads.setdefault(a, []).append(None)
    gone: set[int] = set()
    equations: list[Equation] = []
    for eqn in jaxpr.equations:
        if eqn.primitive.name == 'scan':
            for k in range(eqn.params['num_carry'], len(eqn.outs)):
                add = _sum(eqn.outs[k], reads, known)
                if add is not None and id(add) not in gone:
                    gone.add(id(add))
                    eqn = _adding(eqn, k, add)
        equations.append(eqn)
        known.update(eqn.outs)
    return jaxpr.changed(equations=tuple(e for e in equations if id(e) not in gone)) if gone else jaxpr


def _sum(y: Var, reads: dict[Var, list[Equation | None]], known: set[Atom]) -> Equation | None:
    """The one equation that reads a stacked result, if it adds it to something of its type that is there before the scan."""
    add, *more = reads.get(y, [None])
    if more or add is None or add.primitive.name not in SUMS or add.outs[0].type != y.type:
        return None
    others = [a for a in add.ins if a is not y]
    return add if len(others) == 1 and others[0] in known and others[0].type == y.type else None


def _adding(eqn: Equation, k: int, add: Equation) -> Equation:
    body = eqn.params['jaxpr']
    total, = (a for a in add.ins if a is not eqn.outs[k])
    summand = body.outs[k]
    before, out = Var(summand.type), Var(summand.type)
    inner = add.changed(ins=tuple(before if a is total else summand for a in add.ins), outs=(out,))
    program = body.changed(ins=(*body.ins, before), equations=(*body.equations, inner),
                           outs=tuple(out if i == k else a for i, a in enumerate(body.outs)))
    return eqn.changed(ins=(*eqn.ins, total), outs=tuple(add.outs[0] if i == k else v for i, v in enumerate(eqn.outs)),
                       params=dict(eqn.params, jaxpr=program))
