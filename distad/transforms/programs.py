"""Derivatives of whole programs: a jaxpr in, a jaxpr out. Loops and calls are differentiated by these.

Each result is remembered with the jaxpr it came from, for jaxprs are compared by identity.
"""

from collections.abc import Sequence
from functools import lru_cache

from distad.core.jaxpr import Jaxpr, as_function, open_consts
from distad.core.value import Zero
from distad.ops.basic import instantiated
from distad.transforms.jvp import jvp_flat
from distad.transforms.stage import stage
from distad.transforms.transpose import backward

Flags = tuple[bool, ...]


def closed(jaxpr: Jaxpr) -> Jaxpr:
    """A program staged from a closed program has nothing to close over; anything else is a leak."""
    if jaxpr.consts:
        raise AssertionError('a program made from a closed program closes over values')
    return jaxpr


@lru_cache(maxsize=1024)
def jvp_jaxpr(jaxpr: Jaxpr, active: Flags, want: Flags | None = None) -> tuple[Jaxpr, Flags]:
    """The program of values and tangents: `(*ins, *active tangents) -> (*outs, *live tangents)`, and which are live.

    Tangents of the outputs in `want` are made even if they are zero.
    """
    live: list[bool] = []

    def f(*args):
        primals, given = args[:len(active)], iter(args[len(active):])
        tangents = [next(given) if on else Zero(x.type.tangent()) for x, on in zip(primals, active, strict=True)]
        outs, out_tangents = jvp_flat(as_function(jaxpr), primals, tangents)
        live[:] = [t.__class__ is not Zero or (want is not None and want[i]) for i, t in enumerate(out_tangents)]
        return [*outs, *(instantiated(t) for t, on in zip(out_tangents, live, strict=True) if on)]

    types = [*jaxpr.in_types, *(t.tangent() for t, on in zip(jaxpr.in_types, active, strict=True) if on)]
    return closed(stage(f, types, jaxpr.name)), tuple(live)


@lru_cache(maxsize=1024)
def transpose_jaxpr(jaxpr: Jaxpr, linear: Flags, ct_given: Flags, instantiate: bool = False) -> tuple[Jaxpr, Flags]:
    """The transposed program of one that is linear in some inputs: `(*known ins, *given cts) -> (*live cts)`.

    `live` says which linear inputs get a cotangent; with `instantiate` all do.
    """
    live: list[bool] = []
    known_types = [t for t, lin in zip(jaxpr.in_types, linear, strict=True) if not lin]

    def f(*args):
        known, given = args[:len(known_types)], iter(args[len(known_types):])
        variables = [v for v, lin in zip(jaxpr.ins, linear, strict=True) if not lin]
        program = Jaxpr(ins=tuple(v for v, lin in zip(jaxpr.ins, linear, strict=True) if lin),
                        equations=jaxpr.equations, outs=jaxpr.outs, consts=tuple(zip(variables, known, strict=True)))
        cts = [next(given) if on else Zero(t.dual()) for t, on in zip(jaxpr.out_types, ct_given, strict=True)]
        found = backward(program, cts)
        live[:] = [instantiate or ct.__class__ is not Zero for ct in found]
        return [instantiated(ct) for ct, on in zip(found, live, strict=True) if on]

    types = [*known_types, *(t.dual() for t, on in zip(jaxpr.out_types, ct_given, strict=True) if on)]
    return closed(stage(f, types, jaxpr.name)), tuple(live)


def stage_closed(f, types: Sequence, name: str = '') -> tuple[Jaxpr, tuple]:
    """Stage a function; what it closes over becomes leading inputs, whose values come second."""
    return open_consts(stage(f, types, name))


