"""Algebra that keeps every bit: what does nothing goes away, what follows itself becomes one, a product is made transposed at once.

A rule looks at one equation and at those that made its operands; it gives what stands for the result, a value or an equation, or
None. Sums of zero and the like stay: 0 + -0 is not -0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distad.compiler.dce import dce
from distad.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var

Rule = Callable[[Equation, dict[Var, Equation]], Atom | Equation | None]


def simplified(jaxpr: Jaxpr) -> Jaxpr:
    """The same program, equation by equation simpler."""
    maker: dict[Var, Equation] = {}
    stands: dict[Var, Atom] = {}
    kept: list[Equation] = []
    changed = False
    for eqn in jaxpr.equations:
        if any(a.__class__ is Var and a in stands for a in eqn.ins):
            eqn = eqn.changed(ins=tuple(stands.get(a, a) if a.__class__ is Var else a for a in eqn.ins))
        rule = RULES.get(eqn.primitive.name)
        found = rule(eqn, maker) if rule else None
        if found.__class__ is Equation:
            changed, eqn = True, found
        elif found is not None and found.type == eqn.outs[0].type:
            changed = True
            stands[eqn.outs[0]] = found
            continue
        kept.append(eqn)
        maker.update((v, eqn) for v in eqn.outs)
    if not changed:
        return jaxpr
    outs = tuple(stands.get(a, a) if a.__class__ is Var else a for a in jaxpr.outs)
    return dce(jaxpr.changed(equations=tuple(kept), outs=outs))


def _made_by(a: Atom, maker: dict[Var, Equation], name: str) -> Equation | None:
    eqn = maker.get(a) if a.__class__ is Var else None
    return eqn if eqn is not None and eqn.primitive.name == name else None


def _is(a: Atom, value: float) -> bool:
    return a.__class__ is Literal and a.value == value


def _is_one(a: Atom) -> bool:
    """Whether a factor does nothing: of complex numbers even 1 + 0j makes other zeros, for it adds and subtracts products by 0."""
    return _is(a, 1) and a.type.dtype.kind != 'c'


# ---- rules

def _mul(eqn: Equation, maker) -> Atom | None:
    x, y = eqn.ins
    return y if _is_one(x) else x if _is_one(y) else None


def _div(eqn: Equation, maker) -> Atom | None:
    return eqn.ins[0] if _is_one(eqn.ins[1]) else None


def _sub(eqn: Equation, maker) -> Atom | None:
    y = eqn.ins[1]
    return eqn.ins[0] if _is(y, 0) and not np.signbit([np.real(y.value), np.imag(y.value)]).any() else None


def _neg(eqn: Equation, maker) -> Atom | None:
    before = _made_by(eqn.ins[0], maker, 'neg')
    return before.ins[0] if before else None


def _integer_pow(eqn: Equation, maker) -> Atom | None:
    return eqn.ins[0] if eqn.params['y'] == 1 else None


def _same(eqn: Equation, maker) -> Atom | None:
    """An op that only changes a type, to the type that is there."""
    return eqn.ins[0] if eqn.ins[0].type == eqn.outs[0].type else None


def _transpose(eqn: Equation, maker) -> Atom | Equation | None:
    x, permutation = eqn.ins[0], tuple(eqn.params['permutation'])
    if permutation == tuple(range(len(permutation))):
        return x
    before = _made_by(x, maker, 'transpose')
    if before is not None:
        both = tuple(before.params['permutation'][d] for d in permutation)
        return before.ins[0] if both == tuple(range(len(both))) else eqn.changed(ins=before.ins, params={'permutation': both})
    product = _made_by(x, maker, 'dot_general')
    return _turned(eqn, product) if product is not None else None


def _turned(eqn: Equation, product: Equation) -> Equation | None:
    """A product whose free dimensions change places is the product of its operands the other way round."""
    x, y = product.ins
    (cx, cy), (bx, by) = product.params['dimension_numbers']
    batch, m = len(bx), x.type.ndim - len(cx) - len(bx)
    n = y.type.ndim - len(cy) - len(by)
    turned = (*range(batch), *range(batch + m, batch + m + n), *range(batch, batch + m))
    if tuple(eqn.params['permutation']) != turned:
        return None
    params = dict(product.params, dimension_numbers=((cy, cx), (by, bx)))
    if product.primitive.infer((y.type, x.type), params) != (eqn.outs[0].type,):
        return None
    return product.changed(ins=(y, x), outs=eqn.outs, params=params)


def _slice(eqn: Equation, maker) -> Atom | None:
    return eqn.ins[0] if eqn.ins[0].type == eqn.outs[0].type else None


def _pad(eqn: Equation, maker) -> Atom | None:
    return eqn.ins[0] if all(c == (0, 0, 0) for c in eqn.params['padding_config']) else None


def _concatenate(eqn: Equation, maker) -> Atom | None:
    return eqn.ins[0] if len(eqn.ins) == 1 else None


RULES: dict[str, Rule] = {
    'mul': _mul, 'div': _div, 'sub': _sub, 'neg': _neg, 'integer_pow': _integer_pow, 'transpose': _transpose, 'slice': _slice,
    'pad': _pad, 'concatenate': _concatenate, 'convert_element_type': _same, 'reshape': _same, 'squeeze': _same,
    'broadcast_in_dim': _same, 'relabel': _same, 'stop_gradient': _same}
