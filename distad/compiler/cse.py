"""Common subexpressions: an equation that computes what an earlier one computed is dropped, collectives included."""

from distad.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var, has_effect


def cse(jaxpr: Jaxpr) -> Jaxpr:
    """The same program in which no two equations are alike."""
    same: dict[Var, Var] = {}
    seen: dict = {}
    kept: list[Equation] = []
    for eqn in jaxpr.equations:
        ins = tuple(_renamed(a, same) for a in eqn.ins)
        key = None if has_effect(eqn) else (eqn.primitive, tuple(map(_identity, ins)), _params(eqn.params))
        before = seen.get(key) if key is not None else None
        if before is not None:
            same.update(zip(eqn.outs, before, strict=True))
            continue
        if key is not None:
            seen[key] = eqn.outs
        kept.append(eqn if ins == eqn.ins else eqn.changed(ins=ins))
    return jaxpr.changed(equations=tuple(kept), outs=tuple(_renamed(a, same) for a in jaxpr.outs))


def _renamed(a: Atom, same: dict[Var, Var]) -> Atom:
    return same.get(a, a) if a.__class__ is Var else a


def _identity(a: Atom):
    """What makes two operands the same: the variable, or a literal's type and bits (so that -0.0 is not 0.0, nor NaN lost)."""
    return (a.type, a.type.dtype.type(a.value).tobytes()) if a.__class__ is Literal else a


def _params(params: dict):
    key = tuple(params.items())
    hash(key)
    return key
