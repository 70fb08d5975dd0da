"""Traces: what calling a primitive means just now.

The current trace is a context variable. A transformation makes a trace whose parent is the current one, wraps the inputs
in its tracers, and runs the function with its trace current; the rules it applies run with the parent current. So the
order of nesting is the order of the calls, and no value has to be searched for its level.
"""

from contextvars import ContextVar, Token

from distad.core.value import Value
from distad.types.array_type import ArrayType


class Trace:
    """An interpreter of primitives."""

    __slots__ = ()

    def process(self, primitive, args: tuple, params: dict) -> list:
        raise NotImplementedError


class Tracer(Value):
    """A value of a trace. Its attributes have names that no NumPy method has."""

    __slots__ = ('owner', 'type')

    def __init__(self, trace: Trace, type: ArrayType):
        self.owner = trace
        self.type = type


_current: ContextVar[Trace] = ContextVar('distad_trace')


def current_trace() -> Trace:
    return _current.get()


class use_trace:
    """`with use_trace(trace):` runs the body with `trace` as the meaning of primitives.

    Entered in every step of a trace, so a class: a generator takes three times as long.
    """

    __slots__ = ('trace', 'token')

    def __init__(self, trace: Trace):
        self.trace = trace
        self.token: Token | None = None

    def __enter__(self) -> None:
        self.token = _current.set(self.trace)

    def __exit__(self, *_: object) -> None:
        _current.reset(self.token)


def start(trace: Trace) -> None:
    """Set the trace at the bottom, of every thread: the eager one, once, at import."""
    global _current
    _current = ContextVar('distad_trace', default=trace)
