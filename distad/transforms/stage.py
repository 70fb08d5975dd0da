"""Staging: run a function on types and write down the equations it makes."""

from collections.abc import Callable, Sequence

from distad.core.forbid import check_allowed, forbidden_axes
from distad.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var, current_path, replayed_source
from distad.core.primitive import Primitive
from distad.core.trace import Trace, Tracer, use_trace
from distad.core.value import is_scalar, typeof
from distad.source import user_source
from distad.types.array_type import ArrayType


class StageTracer(Tracer):
    """A value of a program that is being written."""

    __slots__ = ('variable',)

    def __init__(self, trace: 'StageTrace', variable: Var):
        super().__init__(trace, variable.type)
        self.variable = variable


class StageTrace(Trace):
    """Writes every primitive down as an equation; values from elsewhere become constants."""

    __slots__ = ('equations', 'consts', 'root')

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.consts: dict[int, tuple[Var, object]] = {}
        self.root = current_path()

    def input(self, t: ArrayType) -> StageTracer:
        return StageTracer(self, Var(t))

    def atom(self, x) -> Atom:
        """How an equation of this program refers to a value."""
        if isinstance(x, StageTracer) and x.owner is self:
            return x.variable
        if is_scalar(x):
            return Literal(x)
        found = self.consts.get(id(x))
        if found is None:
            found = self.consts[id(x)] = (Var(typeof(x)), x)      # keeps x alive, so its id stays its own
        return found[0]

    def process(self, primitive: Primitive, args: tuple, params: dict) -> list:
        ins = tuple(map(self.atom, args))
        operands = tuple(a.type for a in ins)
        types = primitive.infer(operands, params)
        if forbidden_axes():
            check_allowed(primitive, operands, types, params)
        outs = tuple(map(Var, types))
        path = current_path()
        self.equations.append(Equation(primitive=primitive, ins=ins, outs=outs, params=params,
                                       path=path[len(self.root):] if path.startswith(self.root) else path,
                                       source=replayed_source() or user_source()))
        return [StageTracer(self, v) for v in outs]

    def finish(self, ins: Sequence[StageTracer], outs: Sequence, name: str = '') -> Jaxpr:
        atoms = tuple(map(self.atom, outs))
        return Jaxpr(ins=tuple(t.variable for t in ins), equations=tuple(self.equations), outs=atoms,
                     consts=tuple(self.consts.values()), name=name)


def stage(f: Callable[..., Sequence], types: Sequence[ArrayType], name: str = '') -> Jaxpr:
    """The program of `f`, a function of flat values to a flat list of values, on operands of these types."""
    trace = StageTrace()
    ins = [trace.input(t) for t in types]
    with use_trace(trace):
        outs = f(*ins)
    return trace.finish(ins, outs, name)
