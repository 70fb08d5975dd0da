"""The primitive `fused`: equations that run as one pass over memory. The compiler alone makes it, and two backends run it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distad.compiler.blocked import blocked
from distad.compiler.llvm import engine
from distad.core.primitive import NoRule, Place, Primitive

NEVER = NoRule('it is made by the compiler only')


def _kernel(place: Place, ins, outs, params) -> Callable:
    """`run(*blocks) -> results`; `run.into(*blocks, *results)` writes results into arrays that are given, and gives the last."""
    native = engine.kernel(params['jaxpr'], params['space'], params['rows']) if engine.available() else None
    if native is None:
        return blocked(params['jaxpr'], params['space'], params['rows'], place)
    made = [(t.local_shape, t.dtype) for t in outs]

    def run(*blocks) -> list[np.ndarray]:
        results = [np.empty(*m) for m in made]
        native(*blocks, *results)
        return results
    run.into = native
    return run


fused = Primitive(
    'fused',
    type=lambda *types, jaxpr, space, rows, in_place: jaxpr.out_types,
    kernel=_kernel,
    jvp=NEVER,
    transpose=NEVER,
    batch=NEVER,
    multiple=True,
    show=lambda params: {'space': params['space']})
