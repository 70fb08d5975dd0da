"""All passes, in order, over a program and the programs inside it."""

from distad.compiler.blocked import BLOCK
from distad.compiler.buckets import bucketed
from distad.compiler.cse import cse
from distad.compiler.dce import dce
from distad.compiler.fusion import fuse
from distad.compiler.inline import inlined
from distad.compiler.llvm import engine, scalars
from distad.config import config
from distad.core.jaxpr import Equation, Jaxpr


def optimized(jaxpr: Jaxpr, times: int = 1) -> Jaxpr:
    """What a rank runs in place of a program: calls and maps in line, nothing computed in vain or twice, alike collectives in
    one message, passes over memory joined. `times`: how often it is known to run in one call.
    """
    jaxpr = dce(inlined(jaxpr))
    inner: dict[tuple[int, int], Jaxpr] = {}            # a program that stands in several equations stays one program
    equations = tuple(_inside(eqn, inner, times) for eqn in jaxpr.equations)
    jaxpr = bucketed(cse(jaxpr.changed(equations=equations)))
    if config.check_values:                             # where each operation is looked at, each is one
        return jaxpr
    if engine.available():
        return fuse(jaxpr, scalars.serves, max(2, config.fuse_from // times))
    return fuse(jaxpr, _numpy, max(config.fuse_from, 2 * BLOCK) if config.fuse_from > 2 else 2)


def _numpy(eqn: Equation) -> bool:
    """NumPy makes every elementwise op; sums of truth values and the like stay alone."""
    return eqn.primitive.pointwise or eqn.ins[0].type.dtype.kind == 'f'


def _inside(eqn: Equation, known: dict[tuple[int, int], Jaxpr], times: int) -> Equation:
    """An equation with the programs it holds optimized."""
    times *= eqn.params['length'] if eqn.primitive.name == 'scan' else 1

    def one(value):
        if isinstance(value, Jaxpr):
            if (id(value), times) not in known:
                known[id(value), times] = optimized(value, times)
            return known[id(value), times]
        if isinstance(value, tuple) and value and all(isinstance(v, Jaxpr) for v in value):
            return tuple(map(one, value))
        return value
    params = {k: one(v) for k, v in eqn.params.items()}
    if all(params[k] is eqn.params[k] for k in params):
        return eqn
    return eqn.changed(params=params)
