"""What all elementwise functions have in common, said once: their docstrings are made of a sentence and this."""

from collections.abc import Callable
from textwrap import fill

_ONE = """x: [...], {takes}. The result has x's shape and placement, and {gives}. Nothing is communicated. Raises
ShardingTypeError for {unreduced}, TypeError for other dtypes."""

_MORE = """{operands}: arrays and numbers that broadcast to [...], {takes}. The result has {gives}. A dimension of it is split
where an operand's is; a replicated or reduced operand beside a split one is cut, and a replicated one beside a reduced one
cast, for free. Nothing is communicated. Raises ShardingTypeError for {unreduced}, and for operands that are split unlike."""

NONLINEAR = 'unreduced operands (reduce them first)'
LINEAR = 'nothing, for it is linear'


def documented(f: Callable, name: str, what: str, *, operands: str = 'x', takes: str = 'any numbers', module: str = 'jnp',
               gives: str = 'the common dtype', unreduced: str = NONLINEAR, example: str = '0.5') -> Callable:
    """Give a function its name and a docstring."""
    f.__name__ = f.__qualname__ = name
    body = (_MORE if ',' in operands else _ONE).format(operands=operands, takes=takes, gives=gives, unreduced=unreduced)
    body = fill(' '.join(body.split()), width=120, initial_indent='    ', subsequent_indent='    ')
    f.__doc__ = f"{what}\n\n{body}\n\n        {module}.{name}({example})\n    "
    return f
