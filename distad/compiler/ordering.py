"""An order for equations that were joined: each after what it reads, otherwise as they were handed."""

from collections.abc import Iterable, Sequence

from distad.core.jaxpr import Equation, Var


def ordered(equations: Sequence[Equation]) -> Iterable[Equation]:
    """The equations, each pulled before the first one that reads it."""
    maker = {v: eqn for eqn in equations for v in eqn.outs}
    done: set[int] = set()
    for root in equations:
        stack = [root]
        while stack:
            eqn = stack[-1]
            if id(eqn) in done:
                stack.pop()
                continue
            waits = [maker[a] for a in eqn.ins if a.__class__ is Var and a in maker]
            waits = [w for w in waits if id(w) not in done]
            if waits:
                stack.extend(reversed(waits))
                continue
            stack.pop()
            done.add(id(eqn))
            yield eqn
