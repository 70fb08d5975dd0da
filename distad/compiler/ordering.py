"""An order for equations that were joined: each after what it reads, effects one after the other, otherwise as they were handed."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from distad.core.jaxpr import Equation, Var, has_effect


def ordered(equations: Sequence[Equation]) -> Iterable[Equation]:
    """The equations, each pulled before the first one that reads it."""
    maker = {v: eqn for eqn in equations for v in eqn.outs}
    before = {id(eqn): last for last, eqn in pairwise(eqn for eqn in equations if has_effect(eqn))}
    done: set[int] = set()
    for root in equations:
        stack = [root]
        while stack:
            eqn = stack[-1]
            if id(eqn) in done:
                stack.pop()
                continue
            waits = [maker[a] for a in eqn.ins if a.__class__ is Var and a in maker]
            waits += [before[id(eqn)]] if id(eqn) in before else []
            waits = [w for w in waits if id(w) not in done]
            if waits:
                if len(stack) > 100 * len(equations) + 100:
                    raise AssertionError(f"{eqn.primitive} waits for itself: a pass joined equations with others between them")
                stack.extend(reversed(waits))
                continue
            stack.pop()
            done.add(id(eqn))
            yield eqn
