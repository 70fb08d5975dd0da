"""Linearization: compute the primals now, write the tangents' program down.

It is forward mode over a trace that stages exactly the calls that a tangent enters and hands all others to its parent. What
the tangents' program needs of the primals, its residuals, are the constants it closes over.
"""

from collections.abc import Callable, Sequence

from distad.core.jaxpr import Jaxpr, evaluate
from distad.core.primitive import Primitive
from distad.core.trace import Trace, current_trace, use_trace
from distad.core.value import Zero, typeof
from distad.transforms.jvp import JVPTrace, JVPTracer
from distad.transforms.stage import StageTrace, StageTracer


class LinearTrace(StageTrace):
    """Stages what a tangent enters; the rest runs under the parent."""

    __slots__ = ('parent',)

    def __init__(self, parent: Trace):
        super().__init__()
        self.parent = parent

    def owns(self, x) -> bool:
        return isinstance(x, StageTracer) and x.owner is self

    def process(self, primitive: Primitive, args: tuple, params: dict) -> list:
        owned = tuple(map(self.owns, args))
        if not any(owned):
            with use_trace(self.parent):
                return self.parent.process(primitive, args, params)
        if primitive.split is not None:
            return primitive.split(self, owned, args, params)
        return super().process(primitive, args, params)


def linearize_flat(f: Callable[..., Sequence], primals: Sequence, active: Sequence[bool] | None = None):
    """Values of a flat function and the program of its derivative there.

    Returns `(outs, jaxpr, live)`: `jaxpr` maps the tangents of the active inputs to the tangents of those outputs for which
    `live` is true; the other outputs do not depend on the active inputs.
    """
    active = [True] * len(primals) if active is None else active
    parent = current_trace()
    linear = LinearTrace(parent)
    forward = JVPTrace(linear)
    tangents = [linear.input(typeof(x).tangent()) if on else None for x, on in zip(primals, active, strict=True)]
    args = [x if t is None else JVPTracer(forward, x, t) for x, t in zip(primals, tangents, strict=True)]
    with use_trace(forward):
        outs = f(*args)
    pairs = [forward.parts(y) for y in outs]
    live = [t.__class__ is not Zero for _, t in pairs]
    jaxpr = linear.finish([t for t in tangents if t is not None], [t for _, t in pairs if t.__class__ is not Zero])
    return [y for y, _ in pairs], jaxpr, live


def split_jaxpr(jaxpr: Jaxpr, unknown: Sequence[bool], make_unknown: Sequence[bool] | None = None):
    """Cut a program in two by which of its inputs are known.

    Returns `(known, linear, out_unknown, residuals)`. `known` maps the known inputs to the known outputs followed by the
    residuals; `linear` closes over nothing: its inputs are the residuals, then the unknown inputs; its outputs are the
    unknown ones. `make_unknown` forces outputs to be unknown. `residuals` tells for each residual the position of the
    known input that it simply is, or None.
    """
    from_known = StageTrace()
    linear = LinearTrace(from_known)
    ins = [linear.input(t) if u else from_known.input(t) for t, u in zip(jaxpr.in_types, unknown, strict=True)]
    with use_trace(linear):
        outs = evaluate(jaxpr, *ins)
    forced = make_unknown or [False] * len(outs)
    out_unknown = [linear.owns(y) or force for y, force in zip(outs, forced, strict=True)]
    rest = linear.finish([t for t, u in zip(ins, unknown, strict=True) if u],
                         [y for y, u in zip(outs, out_unknown, strict=True) if u])
    known_ins = [t for t, u in zip(ins, unknown, strict=True) if not u]
    variables = tuple(v for v, _ in rest.consts)
    values = [value for _, value in rest.consts]
    position = {id(t): i for i, t in enumerate(known_ins)}
    residuals = [position.get(id(value)) for value in values]
    known = from_known.finish(known_ins, [y for y, u in zip(outs, out_unknown, strict=True) if not u] + values,
                              jaxpr.name)
    closed = Jaxpr(ins=(*variables, *rest.ins), equations=rest.equations, outs=rest.outs, name=jaxpr.name)
    return known, closed, out_unknown, residuals

