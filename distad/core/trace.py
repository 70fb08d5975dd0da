"""Traces: what calling a primitive means just now.

The current trace is a context variable. A transformation makes a trace whose parent is the current one, wraps the inputs
in its tracers, and runs the function with its trace current; the rules it applies run with the parent current. So the
order of nesting is the order of the calls, and no value has to be searched for its level.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


@contextmanager
def use_trace(trace: Trace) -> Iterator[None]:
    """Run the body with `trace` as the meaning of primitives."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


def start(trace: Trace) -> None:
    """Set the trace at the bottom, of every thread: the eager one, once, at import."""
    global _current
    _current = ContextVar('distad_trace', default=trace)
