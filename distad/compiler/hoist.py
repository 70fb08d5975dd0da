"""Reductions out of loops: `jit(hoist_reductions=True)`.

A sum over ranks is linear, so it may be taken once, after a loop, instead of in each round:

    carry + reshard(u: U -> N)      becomes a carry that is unreduced itself, with one reshard after the loop
    slices reshard(u: U -> N)       become unreduced slices, and one reshard of all of them

Within a body a reshard first moves towards the end, past linear ops that it commutes with. Loops inside loops are done first, so what
came out of one may go on. That this can be done by looking is due to the types: a sum that is still to come has one. Results are
equal but for rounding. Bodies of shard_map are left alone, for there the user places collectives by name.
"""

from __future__ import annotations

from distad.compiler.dce import dce
from distad.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var
from distad.errors import ShardingTypeError
from distad.ops.reshard import reshard
from distad.types.array_type import ArrayType

LINEAR = frozenset({'neg', 'transpose', 'reshape', 'squeeze', 'broadcast_in_dim', 'reduce_sum', 'slice', 'rev'})
SUMS = frozenset({'add', 'add_any', 'sub'})
SCALED = frozenset({'mul', 'div'})


def hoisted(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with reductions after its scans."""
    equations: list[Equation] = []
    for eqn in jaxpr.equations:
        equations += _out_of(eqn) if eqn.primitive.name == 'scan' else [eqn]
    return jaxpr if len(equations) == len(jaxpr.equations) else dce(sunk(jaxpr.changed(equations=tuple(equations))))


def _out_of(eqn: Equation) -> list[Equation]:
    """A scan and what comes before and after it."""
    body = sunk(eqn.params['jaxpr'])
    consts, carries = eqn.params['num_consts'], eqn.params['num_carry']
    maker = {v: e for e in body.equations for v in e.outs}
    reads = _reads(body)
    ins, outs = list(eqn.ins), list(eqn.outs)
    body_ins, body_outs = list(body.ins), list(body.outs)
    equations = list(body.equations)
    before: list[Equation] = []
    after: list[Equation] = []
    for k, out in enumerate(body.outs):
        carried = k < carries
        u = _summand(body.ins[consts + k], out, maker, reads) if carried else _reduced(out, maker, reads)
        if u is None:
            continue
        whole = eqn.outs[k].type
        kind = u.type.update(weak_type=False) if carried else _stacked(u.type, whole)
        if carried:
            first, entering = Var(kind), Var(kind)
            made = Equation(primitive=reshard, ins=(ins[consts + k],), outs=(first,), params={'to': (kind,)}, source=eqn.source)
            total = Var(kind)
            if not _holds(made) or not _holds(add := maker[out].changed(ins=(entering, u), outs=(total,))):
                continue
            before.append(made)
            equations = [add if e is maker[out] else e for e in equations]
            ins[consts + k], body_ins[consts + k], body_outs[k] = first, entering, total
        else:
            body_outs[k] = u
        outs[k] = Var(kind)
        after.append(Equation(primitive=reshard, ins=(outs[k],), outs=(eqn.outs[k],), params={'to': (whole,)}, path=eqn.path,
                              source=eqn.source))
    if not after:
        return [eqn]
    program = dce(body.changed(ins=tuple(body_ins), equations=tuple(equations), outs=tuple(body_outs)))
    return [*before, eqn.changed(ins=tuple(ins), outs=tuple(outs), params=dict(eqn.params, jaxpr=program)), *after]


def _stacked(t: ArrayType, like: ArrayType) -> ArrayType:
    return t.update(shape=(like.shape[0], *t.shape), partitions=((), *t.partitions), weak_type=False)


def _reads(jaxpr: Jaxpr) -> dict[Var, int]:
    """How often each value is read."""
    count: dict[Var, int] = {}
    for a in (*(a for e in jaxpr.equations for a in e.ins), *jaxpr.outs):
        if a.__class__ is Var:
            count[a] = count.get(a, 0) + 1
    return count


def _reduced(a: Atom, maker: dict[Var, Equation], reads: dict[Var, int]) -> Var | None:
    """The unreduced operand, if a value is the sum over ranks of one and is read once."""
    eqn = maker.get(a) if a.__class__ is Var else None
    if eqn is None or eqn.primitive is not reshard or len(eqn.ins) != 1 or reads[a] != 1 or eqn.params.get('exact'):
        return None
    u = eqn.ins[0]
    summed = u.__class__ is Var and u.type.unreduced - a.type.unreduced
    return u if summed and u.type.kind == 'sum' else None


def _summand(carry: Var, out: Atom, maker: dict[Var, Equation], reads: dict[Var, int]) -> Var | None:
    """What is added to a carry over the ranks, if that is all that is done with the carry."""
    eqn = maker.get(out) if out.__class__ is Var else None
    if eqn is None or eqn.primitive.name not in ('add', 'add_any') or reads[out] != 1 or reads.get(carry) != 1:
        return None
    for one, other in (eqn.ins, eqn.ins[::-1]):
        if one is carry:
            return _reduced(other, maker, reads)
    return None


def _holds(eqn: Equation) -> bool:
    """Whether an equation type-checks."""
    try:
        return eqn.primitive.infer(tuple(a.type for a in eqn.ins), eqn.params) == tuple(v.type for v in eqn.outs)
    except (ShardingTypeError, TypeError, ValueError):
        return False


# ---- reductions towards the end of a program

def sunk(jaxpr: Jaxpr) -> Jaxpr:
    """The same program, reductions after the linear ops that read nothing else."""
    reads = _reads(jaxpr)
    maker: dict[Var, Equation] = {}
    equations: list[Equation] = []
    changed = False
    for eqn in jaxpr.equations:
        parts = _single(eqn) if eqn.primitive is reshard else _past(eqn, maker, reads) or [eqn]
        changed |= len(parts) > 1
        equations += parts
        for part in parts:
            maker.update((v, part) for v in part.outs)
            for a in part.ins:
                if a.__class__ is Var:
                    reads.setdefault(a, 1)
    return dce(jaxpr.changed(equations=tuple(equations))) if changed else jaxpr


def _single(eqn: Equation) -> list[Equation]:
    """A reshard of several values as several; buckets join them again."""
    return [eqn.changed(ins=(a,), outs=(v,), params=dict(eqn.params, to=(t,)))
            for a, v, t in zip(eqn.ins, eqn.outs, eqn.params['to'], strict=True)]


def _past(eqn: Equation, maker: dict[Var, Equation], reads: dict[Var, int]) -> list[Equation] | None:
    """A linear op of reduced values as the reduction of the op of summands."""
    name, (out, *more) = eqn.primitive.name, eqn.outs
    if more or name not in LINEAR | SUMS | SCALED:
        return None
    summands = [_reduced(a, maker, reads) for a in eqn.ins]
    if name in SUMS:
        if None in summands or summands[0].type.unreduced != summands[1].type.unreduced:
            return None
    elif name in SCALED:
        if summands[0] is None or eqn.ins[1].__class__ is not Literal:
            return None
        summands[1] = eqn.ins[1]
    elif summands[0] is None:
        return None
    try:
        kind, = eqn.primitive.infer(tuple(a.type for a in summands), eqn.params)
    except (ShardingTypeError, TypeError, ValueError):
        return None
    early = Var(kind)
    late = Equation(primitive=reshard, ins=(early,), outs=eqn.outs, params={'to': (out.type,)}, path=eqn.path, source=eqn.source)
    return [eqn.changed(ins=tuple(summands), outs=(early,)), late] if kind.unreduced and _holds(late) else None
