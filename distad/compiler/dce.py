"""Dead code: equations whose results nobody reads go away, collectives included, on every rank alike."""

from collections.abc import Sequence

from distad.core.jaxpr import Equation, Jaxpr, Var, has_effect


def dce(jaxpr: Jaxpr, used_outs: Sequence[bool] | None = None) -> Jaxpr:
    """The same program without what its (used) outputs do not need, inside loops and calls too. Inputs stay."""
    outs = jaxpr.outs if used_outs is None else tuple(a for a, u in zip(jaxpr.outs, used_outs, strict=True) if u)
    live: set[Var] = {a for a in outs if a.__class__ is Var}
    kept: list[Equation] = []
    for eqn in reversed(jaxpr.equations):
        if not has_effect(eqn) and not any(v in live for v in eqn.outs):
            continue
        if eqn.primitive.prune is not None:
            eqn = eqn.primitive.prune(eqn, [v in live for v in eqn.outs])
        kept.append(eqn)
        live.update(a for a in eqn.ins if a.__class__ is Var)
    consts = tuple((v, x) for v, x in jaxpr.consts if v in live)
    return jaxpr.changed(equations=tuple(reversed(kept)), outs=outs, consts=consts)
