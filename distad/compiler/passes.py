"""All passes, in order, over a program and the programs inside it."""

from distad.compiler.buckets import bucketed
from distad.compiler.cse import cse
from distad.compiler.dce import dce
from distad.compiler.inline import inlined
from distad.core.jaxpr import Equation, Jaxpr


def optimized(jaxpr: Jaxpr) -> Jaxpr:
    """What a rank runs in place of a program: calls and maps in line, nothing computed in vain or twice, alike collectives in
    one message.
    """
    jaxpr = dce(inlined(jaxpr))
    inner: dict[int, Jaxpr] = {}                        # a program that stands in several equations stays one program
    equations = tuple(_inside(eqn, inner) for eqn in jaxpr.equations)
    return bucketed(cse(jaxpr.changed(equations=equations)))


def _inside(eqn: Equation, known: dict[int, Jaxpr]) -> Equation:
    """An equation with the programs it holds optimized."""
    def one(value):
        if isinstance(value, Jaxpr):
            if id(value) not in known:
                known[id(value)] = optimized(value)
            return known[id(value)]
        if isinstance(value, tuple) and value and all(isinstance(v, Jaxpr) for v in value):
            return tuple(map(one, value))
        return value
    params = {k: one(v) for k, v in eqn.params.items()}
    if all(params[k] is eqn.params[k] for k in params):
        return eqn
    return eqn.changed(params=params)
