"""Arrays that a function closes over, as arguments.

A body that runs on other types than the program around it (that of shard_map) cannot use arrays from outside as they are. Those
that its code names directly, in closure cells or globals, are found here and made arguments; others are refused by the types.
"""

from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any

from distad import tree
from distad.core.value import Value


def lifted(f: Callable) -> tuple[Callable, list]:
    """A function of `(values, *args)` that runs `f(*args)` with the arrays it closes over replaced, and those arrays."""
    if not isinstance(f, FunctionType):
        return lambda values, *args: f(*args), []
    cells = {i: cell.cell_contents for i, cell in enumerate(f.__closure__ or ()) if _filled(cell)}
    names = {n: f.__globals__[n] for n in set(_names(f.__code__)) if n in f.__globals__}
    parts = {('cell', i): v for i, v in cells.items() if _holds_arrays(v)}
    parts |= {('name', n): v for n, v in sorted(names.items()) if _holds_arrays(v)}
    if not parts:
        return lambda values, *args: f(*args), []
    flat, structure = tree.flatten(list(parts.values()))
    where = [i for i, x in enumerate(flat) if _is_array(x)]

    def call(values, *args):
        leaves = list(flat)
        for i, v in zip(where, values, strict=True):
            leaves[i] = v
        new = dict(zip(parts, tree.unflatten(structure, leaves), strict=True))
        closure = tuple(CellType(new[('cell', i)]) if ('cell', i) in new else cell
                        for i, cell in enumerate(f.__closure__ or ()))
        scope = f.__globals__
        if any(kind == 'name' for kind, _ in new):
            scope = {**scope, **{n: v for (kind, n), v in new.items() if kind == 'name'}}
        g = FunctionType(f.__code__, scope, f.__name__, f.__defaults__, closure)
        g.__kwdefaults__ = f.__kwdefaults__
        return g(*args)

    return call, [flat[i] for i in where]


def _filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _is_array(x: Any) -> bool:
    return isinstance(x, Value) and not x.type.mesh.empty


def _holds_arrays(x: Any) -> bool:
    """An array on a mesh, or a plain container of such."""
    if isinstance(x, Value):
        return _is_array(x)
    return type(x) in (tuple, list, dict) and any(map(_is_array, tree.leaves(x)))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)
