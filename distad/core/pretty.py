"""Jaxprs as text: JAX's notation, with shardings in the types."""

from collections.abc import Iterator

import numpy as np

from distad.core import jaxpr as ir
from distad.core.jaxpr import Equation, Jaxpr, Literal, Var
from distad.types import dtypes

_WIDTH = 80


class _Names:
    """a, b, ..., z, aa, ...: in order of first use; a variable that is never used is `_`."""

    def __init__(self, used: set[Var]):
        self.names: dict[Var, str] = {}
        self.used = used
        self.count = 0

    def bind(self, var: Var) -> str:
        if var not in self.used:
            return '_'
        if var not in self.names:
            self.names[var] = letters(self.count)
            self.count += 1
        return self.names[var]

    def use(self, atom) -> str:
        if isinstance(atom, Literal):
            return f"{_number(atom.value)}:{atom.type.short().lstrip('~')}"
        return self.names.get(atom, '?')


def letters(index: int) -> str:
    """The name of the index-th variable."""
    text = ''
    while True:
        text = chr(ord('a') + index % 26) + text
        index //= 26
        if not index:
            return text


def _number(value) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if dtypes.is_float(np.asarray(value).dtype) and not isinstance(value, (complex, np.complexfloating)):
        return str(float(value))
    return str(value.item() if isinstance(value, np.generic) else value)


def format_jaxpr(jaxpr: Jaxpr) -> str:
    """The whole program, nested programs indented."""
    return '\n'.join(_program(jaxpr, _Names(_all_used(jaxpr))))


def _program(jaxpr: Jaxpr, names: _Names) -> list[str]:
    consts = ''.join(f"{_binder(v, names)} " for v, _ in jaxpr.consts)
    head = f"{{ lambda {consts}; {' '.join(_binder(v, names) for v in jaxpr.ins)}. let"
    lines = [line for eqn in jaxpr.equations for line in format_equation(eqn, names)]
    outs = ', '.join(names.use(a) for a in jaxpr.outs)
    tail = f"in ({outs}{',' if len(jaxpr.outs) == 1 else ''}) }}"
    if not lines:
        return [f"{head}  {tail}"]
    if len(lines) == 1 and len(head) + len(lines[0]) + len(tail) + 2 <= _WIDTH and '\n' not in lines[0]:
        return [f"{head} {lines[0]} {tail}"]
    return [head, *(f"    {line}" for line in lines), f"  {tail}"]


def _binder(var: Var, names: _Names) -> str:
    return f"{names.bind(var)}:{var.type.short().lstrip('~')}"


def format_equation(eqn: Equation, names: _Names) -> list[str]:
    """One equation: on one line when its parameters are short, else a parameter a line."""
    nested = any(True for _ in ir.sub_jaxprs(eqn.params))
    params = eqn.primitive.show(eqn.params) if eqn.primitive.show else eqn.params
    parts = {key: _parameter(value, names) for key, value in sorted(params.items()) if value is not None or key in
             ('out_sharding', 'sharding')}
    operands = ''.join(f" {names.use(a)}" for a in eqn.ins)
    outs = ' '.join(_binder(v, names) for v in eqn.outs)
    lead = f"{outs} = {eqn.primitive.name}" if outs else eqn.primitive.name
    flat = ' '.join(f"{key}={value[0]}" for key, value in parts.items() if len(value) == 1)
    if not parts:
        return [f"{lead}{operands}"]
    if not nested and len(parts) == sum(len(v) == 1 for v in parts.values()) and (len(parts) == 1 or
                                                                                   len(lead) + len(flat) < _WIDTH - 20):
        return [f"{lead}[{flat}]{operands}"]
    lines = [f"{lead}["]
    for key, value in parts.items():
        lines.append(f"  {key}={value[0]}")
        lines.extend(f"  {line}" for line in value[1:])
    return [*lines, f"]{operands}"]


def _parameter(value, names: _Names) -> list[str]:
    if isinstance(value, Jaxpr):
        names.used |= _all_used(value)
        return _program(value, names)
    if isinstance(value, tuple) and value and isinstance(value[0], Jaxpr):
        return ['(', *(f"  {line}" for v in value for line in _parameter(v, names)), ')']
    if isinstance(value, np.dtype):
        return [dtypes.name(value)]
    return [str(value) if isinstance(value, str) else repr(value)]


def _all_used(jaxpr: Jaxpr) -> set[Var]:
    return set(_uses(jaxpr))


def _uses(jaxpr: Jaxpr) -> Iterator[Var]:
    yield from jaxpr.ins
    yield from (v for v, _ in jaxpr.consts)
    for eqn in jaxpr.equations:
        yield from (a for a in eqn.ins if a.__class__ is Var)
    yield from (a for a in jaxpr.outs if a.__class__ is Var)


ir.FORMAT[0] = format_jaxpr
