"""Buckets: sums that are ready together and go the same way become one message.

The level of a collective is the number of collectives that must be done before it. Two of one level never wait for each other, so
those of one level and kind, over the same axes, may be one equation. All ranks have the same program, so they agree.

Only what adds up is joined. A gather makes its operand as many times larger as there are ranks; joined with others it would be made
before it is needed, and weights that are gathered layer by layer would all be there at once.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from distad.compiler.ordering import ordered
from distad.compiler.text import messages
from distad.core.jaxpr import Equation, Jaxpr, Var, has_effect


def bucketed(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with alike collectives of one level joined."""
    groups = [group for group in _alike(jaxpr.equations) if len(group) > 1]
    if not groups:
        return jaxpr
    joined = {id(group[0]): _joined(group) for group in groups}
    gone = {id(eqn) for group in groups for eqn in group[1:]}
    return jaxpr.changed(equations=tuple(ordered([joined.get(id(eqn), eqn) for eqn in jaxpr.equations if id(eqn) not in gone])))


def _alike(equations: Sequence[Equation]) -> Iterable[list[Equation]]:
    """Collectives by level, kind, axes and dtype, in the order of the program."""
    level: dict[Var, int] = {}
    found: dict = {}
    of_effects = 0                                       # an effect waits for the one before it
    for eqn in equations:
        here = max((level.get(a, 0) for a in eqn.ins if a.__class__ is Var), default=0)
        if has_effect(eqn):
            here = of_effects = max(here, of_effects)
        sent = messages(eqn) if eqn.primitive.multiple else []
        if sent and not eqn.primitive.separate and JOINED.issuperset(message.kind for message in sent):
            dtypes = frozenset(v.type.dtype for v in eqn.outs)
            found.setdefault((here, eqn.primitive, tuple(message[:2] for message in sent), dtypes, _common(eqn)), []).append(eqn)
        for v in eqn.outs:
            level[v] = here + len(sent)
    return found.values()


def _common(eqn: Equation):
    """The parameters that joined equations must share: all but those that are one for each operand."""
    return tuple((k, v) for k, v in eqn.params.items() if k not in PER_OPERAND)


JOINED = frozenset({'all-reduce', 'reduce-scatter'})
PER_OPERAND = ('to',)


def _joined(group: list[Equation]) -> Equation:
    first = group[0]
    params = {k: _together(e.params[k] for e in group) if k in PER_OPERAND else v for k, v in first.params.items()}
    return first.changed(ins=_together(e.ins for e in group), outs=_together(e.outs for e in group), params=params)


def _together(parts: Iterable[tuple]) -> tuple:
    return tuple(chain.from_iterable(parts))
