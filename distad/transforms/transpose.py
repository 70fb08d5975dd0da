"""Reverse mode: walk a linear program backwards.

The type of a cotangent is a function of the type of its primal: U and R change places, all else stays. It is checked at
every accumulation, so a rule that breaks the law cannot pass unseen.
"""

from collections.abc import Sequence

from distad.core.jaxpr import Jaxpr, Literal, Var, at_equation, scope
from distad.core.primitive import NoRule, Primitive
from distad.core.value import Linear, Zero, typeof
from distad.errors import ShardingTypeError
from distad.ops.basic import add_any, instantiated
from distad.ops.reshard import reshard
from distad.types.array_type import ArrayType


def backward(jaxpr: Jaxpr, cotangents: Sequence) -> list:
    """Cotangents of a linear program's inputs, from those of its outputs. Both may be `Zero`."""
    known = dict(jaxpr.consts)
    ct_of: dict[Var, object] = {}

    def accumulate(atom, ct) -> None:
        if ct is None or ct.__class__ is Zero or atom.__class__ is Literal or atom in known:
            return
        ct = settled(ct, atom.type)
        want, got = atom.type.dual(), typeof(ct)
        if got is not want and not same_cotangent(got, want):
            raise ShardingTypeError(f"a cotangent of a value of type {atom.type} has type {got}, it has to be {want}")
        before = ct_of.get(atom)
        ct_of[atom] = ct if before is None else add_any(before, ct)

    for atom, ct in zip(jaxpr.outs, cotangents, strict=True):
        accumulate(atom, ct)
    with scope('transpose(jvp())'):
        for eqn in reversed(jaxpr.equations):
            cts = [ct_of.pop(v, None) for v in eqn.outs]
            if all(ct is None for ct in cts):
                continue
            operands = tuple(a.value if a.__class__ is Literal else known[a] if a in known else Linear(a.type)
                             for a in eqn.ins)
            with at_equation(eqn):
                full = [Zero(v.type.dual()) if ct is None else ct for v, ct in zip(eqn.outs, cts, strict=True)]
                for a, ct in zip(eqn.ins, transpose_rule(eqn.primitive, full, operands, eqn.params), strict=True):
                    accumulate(a, ct)
    return [ct_of.get(v, Zero(v.type.dual())) for v in jaxpr.ins]


def settled(ct, t: ArrayType):
    """The cotangent of a scalar that was never placed. It took any state that it met, for free: here it pays for the sum."""
    got = typeof(ct)
    if t.ndim or not t.mesh.empty or not (got.unreduced or got.reduced) or got.mesh.manual_axes:
        return ct
    return reshard(ct, to=(got.update(unreduced=(), reduced=()),))[0]


def same_cotangent(got, want) -> bool:
    """Equal but for weak types and for a mesh that one of them was never placed on."""
    return got.update(weak_type=False) is want.update(weak_type=False) or (
        got.shape == want.shape and got.dtype == want.dtype and (got.mesh.empty or want.mesh.empty)
        and got.partitions == want.partitions and got.unreduced == want.unreduced and got.reduced == want.reduced)


def transpose_rule(primitive: Primitive, cts: list, operands: tuple, params: dict) -> list:
    """Cotangents of a linear call's operands, by the primitive's transpose field."""
    rule = primitive.transpose
    if isinstance(rule, NoRule):
        raise NotImplementedError(f"{primitive.name} has no transpose: {rule.why}")
    if callable(rule):
        return rule(cts if primitive.multiple else instantiated(cts[0]), *operands, **params)
    ct = instantiated(cts[0])
    out = []
    for one, x in zip(rule, operands, strict=True):
        if x.__class__ is not Linear:
            out.append(None)
            continue
        if one is None or isinstance(one, NoRule):
            why = one.why if isinstance(one, NoRule) else 'it is not linear there'
            raise NotImplementedError(f"{primitive.name} has no transpose in this operand: {why}")
        out.append(one(ct, *operands, **params))
    return out
