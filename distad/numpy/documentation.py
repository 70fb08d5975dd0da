"""What all elementwise functions have in common, said once: their docstrings are made of a sentence and this."""

from collections.abc import Callable

_COMMON = """{what}

    {operands}: {shapes}, {takes}. The result has {gives}. It lies as its operands do: a dimension
    is split where an operand's is, and a replicated or reduced operand beside a split one is cut for free. Nothing is
    communicated. Raises ShardingTypeError for {unreduced}, and for operands whose dimensions are split unlike.

        jnp.{name}({example})
    """

_NONLINEAR = 'an unreduced operand (reduce it first)'


def documented(f: Callable, name: str, what: str, *, operands: str = 'x', takes: str = 'numbers',
               gives: str = 'their common dtype', unreduced: str = _NONLINEAR, example: str = '0.5') -> Callable:
    """Give a function its name and a docstring."""
    shapes = '[...]' if ',' not in operands else 'arrays and numbers that broadcast to [...]'
    f.__name__ = f.__qualname__ = name
    f.__doc__ = _COMMON.format(what=what, operands=operands, shapes=shapes, takes=takes, gives=gives, unreduced=unreduced,
                               name=name, example=example)
    return f
