"""Names in the paths of equations, for texts, logs and records."""

import functools
from collections.abc import Callable

from distad.core.jaxpr import scope


def named_call(fun: Callable, *, name: str | None = None) -> Callable:
    """The same function, whose equations stand under its name: `op_name="jit(step)/name/..."`."""
    label = name or getattr(fun, '__name__', 'function')

    @functools.wraps(fun)
    def named(*args, **kwargs):
        with scope(label):
            return fun(*args, **kwargs)

    return named
