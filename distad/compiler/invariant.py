"""Loop-invariant code: what a loop computes from its constants alone is computed once, before it.

So is a free cast of a slice: the whole array is cast. And slices that a loop hands out as it got them are the array they came from.
Collectives stay where the user put them (gathering weights layer by layer is a way to save memory), and so do ops that only move
or spread elements, which cost nothing and would have to be kept.
"""

from __future__ import annotations

from distad.compiler.access import MOVES
from distad.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var, chosen, has_effect

STAY = MOVES | {'iota', 'zeros', 'split', 'optimization_barrier'}


def invariant(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with loop-invariant equations of its scans in front of them."""
    equations: list[Equation] = []
    same: dict[Var, Atom] = {}
    for eqn in jaxpr.equations:
        if any(a.__class__ is Var and a in same for a in eqn.ins):
            eqn = eqn.changed(ins=tuple(same.get(a, a) if a.__class__ is Var else a for a in eqn.ins))
        if eqn.primitive.name != 'scan':
            equations.append(eqn)
            continue
        *before, eqn = _cast_whole(eqn)
        equations += [*before, *_opened(_without_copies(eqn, same))]
    if not same and len(equations) == len(jaxpr.equations):
        return jaxpr
    outs = tuple(same.get(a, a) if a.__class__ is Var else a for a in jaxpr.outs)
    return jaxpr.changed(equations=tuple(equations), outs=outs)


def _cast_whole(eqn: Equation) -> list[Equation]:
    """A scan whose slices are cast before they are cut, where casting sends nothing."""
    body, before = eqn.params['jaxpr'], eqn.params['num_consts'] + eqn.params['num_carry']
    slices = dict(zip(body.ins[before:], eqn.ins[before:], strict=True))
    out: list[Equation] = []
    more: list[tuple[Var, Var]] = []
    kept: list[Equation] = []
    for inner in body.equations:
        x = inner.ins[0] if inner.ins else None
        if inner.primitive.name == 'reshard' and len(inner.ins) == 1 and x.__class__ is Var and x in slices and _silent(inner):
            whole = slices[x].type
            kind = inner.outs[0].type.update(shape=whole.shape, partitions=((), *inner.outs[0].type.partitions))
            cast = Var(kind)
            made = inner.changed(ins=(slices[x],), outs=(cast,), params=dict(inner.params, to=(kind,)), path=eqn.path + inner.path)
            if _silent(made):
                out.append(made)
                more.append((inner.outs[0], cast))
                continue
        kept.append(inner)
    if not out:
        return [eqn]
    program = body.changed(ins=(*body.ins, *(v for v, _ in more)), equations=tuple(kept))
    return [*out, eqn.changed(ins=(*eqn.ins, *(v for _, v in more)), params=dict(eqn.params, jaxpr=program))]


def _without_copies(eqn: Equation, same: dict[Var, Atom]) -> Equation:
    """A scan without the results that are its operands."""
    body, carries = eqn.params['jaxpr'], eqn.params['num_carry']
    before = eqn.params['num_consts'] + carries
    slices = dict(zip(body.ins[before:], eqn.ins[before:], strict=True))
    keep = [k < carries or not (a.__class__ is Var and a in slices and slices[a].type == v.type)
            for k, (a, v) in enumerate(zip(body.outs, eqn.outs, strict=True))]
    if all(keep):
        return eqn
    same.update((v, slices[a]) for a, v, k in zip(body.outs, eqn.outs, keep, strict=True) if not k)
    return eqn.changed(outs=chosen(eqn.outs, keep), params=dict(eqn.params, jaxpr=body.changed(outs=chosen(body.outs, keep))))


def _opened(eqn: Equation) -> list[Equation]:
    body, count = eqn.params['jaxpr'], eqn.params['num_consts']
    known: dict[Var, Atom] = dict(zip(body.ins[:count], eqn.ins[:count], strict=True))
    out: list[Equation] = []
    kept: list[Equation] = []
    for inner in body.equations:
        if _movable(inner) and all(a.__class__ is Literal or a in known for a in inner.ins):
            outs = tuple(Var(v.type) for v in inner.outs)
            out.append(inner.changed(ins=tuple(known[a] if a.__class__ is Var else a for a in inner.ins), outs=outs,
                                     path=eqn.path + inner.path))
            known.update(zip(inner.outs, outs, strict=True))
        else:
            kept.append(inner)
    if not out:
        return [eqn]
    read = {a for inner in kept for a in inner.ins if a.__class__ is Var} | {a for a in body.outs if a.__class__ is Var}
    moved = [v for inner in body.equations for v in inner.outs if v in known and v in read]
    program = body.changed(ins=(*body.ins[:count], *moved, *body.ins[count:]), equations=tuple(kept))
    ins = (*eqn.ins[:count], *(known[v] for v in moved), *eqn.ins[count:])
    return [*out, eqn.changed(ins=ins, params=dict(eqn.params, jaxpr=program, num_consts=count + len(moved)))]


def _silent(eqn: Equation) -> bool:
    """Whether an equation sends nothing."""
    return not (eqn.primitive.messages and eqn.primitive.messages(
        tuple(a.type for a in eqn.ins), tuple(v.type for v in eqn.outs), eqn.params))


def _movable(eqn: Equation) -> bool:
    return (any(a.__class__ is Var for a in eqn.ins) and not has_effect(eqn) and not eqn.primitive.split
            and eqn.primitive.name not in STAY and _silent(eqn))
