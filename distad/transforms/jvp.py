"""Forward mode: carry a tangent beside each value. The type of a tangent is the type of its primal."""

from collections.abc import Callable, Sequence

from distad.core.primitive import BY_LINEARITY, NoRule, Primitive
from distad.core.trace import Trace, Tracer, current_trace, use_trace
from distad.core.value import Zero, typeof
from distad.ops.basic import add_any, instantiated


class JVPTracer(Tracer):
    """A value with its tangent."""

    __slots__ = ('primal', 'tangent')

    def __init__(self, trace: 'JVPTrace', primal, tangent):
        super().__init__(trace, typeof(primal))
        self.primal = primal
        self.tangent = tangent


class JVPTrace(Trace):
    """Applies jvp rules; a call that no tangent enters goes to the parent as it is."""

    __slots__ = ('parent',)

    def __init__(self, parent: Trace):
        self.parent = parent

    def process(self, primitive: Primitive, args: tuple, params: dict) -> list:
        with use_trace(self.parent):
            if not any(x.__class__ is JVPTracer and x.owner is self for x in args):
                return self.parent.process(primitive, args, params)
            primals, tangents = zip(*map(self.parts, args), strict=True)
            outs, out_tangents = apply_rule(primitive, primals, tangents, params)
        return [y if t.__class__ is Zero else JVPTracer(self, y, t) for y, t in zip(outs, out_tangents, strict=True)]

    def parts(self, x) -> tuple:
        """Primal and tangent of an argument; one from outside is constant."""
        if x.__class__ is JVPTracer and x.owner is self:
            return x.primal, x.tangent
        return x, Zero(typeof(x).tangent())


def apply_rule(primitive: Primitive, primals: tuple, tangents: tuple, params: dict) -> tuple[list, list]:
    """Values and tangents of a call, by the primitive's jvp field."""
    rule = primitive.jvp
    if isinstance(rule, NoRule):
        raise NotImplementedError(f"{primitive.name} cannot be differentiated: {rule.why}")
    if callable(rule):
        return rule(primals, tangents, **params)
    outs = current_trace().process(primitive, primals, params)
    if rule == BY_LINEARITY:
        return outs, by_linearity(primitive, primals, tangents, params, outs)
    total = None
    for one, t in zip(rule, tangents, strict=True):
        if t.__class__ is Zero or one is None:
            continue
        if isinstance(one, NoRule):
            raise NotImplementedError(f"{primitive.name} cannot be differentiated in this operand: {one.why}")
        term = one(t, outs[0], *primals, **params)
        total = term if total is None else add_tangents(total, term)
    return outs, [Zero(outs[0].type.tangent()) if total is None else total]


def by_linearity(primitive: Primitive, primals: tuple, tangents: tuple, params: dict, outs: list) -> list:
    """A linear op is its own derivative: once for every group of operands that it is linear in together."""
    total = None
    for group in primitive.linearity.groups_of(len(primals)):
        if all(tangents[i].__class__ is Zero for i in group):
            continue
        operands = tuple(instantiated(tangents[i]) if i in group else x for i, x in enumerate(primals))
        terms = current_trace().process(primitive, operands, params)
        total = terms if total is None else [add_any(a, b) for a, b in zip(total, terms, strict=True)]
    return [Zero(y.type.tangent()) for y in outs] if total is None else total


def add_tangents(a, b):
    """The sum of two tangents of one value."""
    if a.__class__ is Zero:
        return b
    return a if b.__class__ is Zero else add_any(a, b)


def jvp_flat(f: Callable[..., Sequence], primals: Sequence, tangents: Sequence) -> tuple[list, list]:
    """Values and tangents of a flat function; tangents may be `Zero`."""
    trace = JVPTrace(current_trace())
    args = [x if t.__class__ is Zero else JVPTracer(trace, x, t) for x, t in zip(primals, tangents, strict=True)]
    with use_trace(trace):
        outs = f(*args)
    pairs = [trace.parts(y) for y in outs]
    return [y for y, _ in pairs], [t for _, t in pairs]
