"""What NumPy users expect before any arithmetic: one dtype, one rank."""

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.errors import ShapeError
from distad.ops.broadcast import broadcast_in_dim
from distad.ops.convert import convert_element_type
from distad.types import dtypes
from distad.types.inference import common_mesh, show

ArrayLike = Value | np.ndarray | np.generic | bool | int | float | complex


def operands(name: str, *xs) -> list:
    """Values and literals of one dtype and one rank (literals keep rank 0)."""
    if all(isinstance(x, Value) for x in xs) and len({x.type for x in xs}) == 1:
        return list(xs)
    return same_rank(promoted(name, *xs), name)


def numeric(name: str, *xs) -> list:
    """As `promoted`; truth values become integers."""
    xs = promoted(name, *xs)
    integer = dtypes.canonical(np.int64)
    return [x if typeof(x).dtype != bool else literal(x, integer, False) if is_scalar(x) else converted(x, integer, False)
            for x in xs]


def promoted(name: str, *xs) -> list:
    """Operands in their common dtype. Numbers beside arrays become literals."""
    if all(map(is_scalar, xs)):
        xs = [as_value(x, name) for x in xs]
    xs = [x if is_scalar(x) else as_value(x, name) for x in xs]
    dtype, weak = dtypes.promote(*((t.dtype, t.weak_type) for t in map(typeof, xs)))
    return [literal(x, dtype, weak) if is_scalar(x) else converted(x, dtype, weak) for x in xs]


def literal(x, dtype, weak: bool):
    """A number in a dtype, as a literal; a Python number where that is as weak as it should be."""
    number = dtype.type(x)
    return number.item() if weak and dtypes.of_scalar(number.item()) == (dtype, True) else number


def converted(x, dtype, weak: bool):
    """A value in a dtype; strong operands make the result strong."""
    t = typeof(x)
    if t.dtype == dtype and (not t.weak_type or weak):
        return x
    return convert_element_type(x, new_dtype=dtype, weak_type=weak)


def inexact(x, name: str):
    """A value as float (or complex), for functions that have no integer form."""
    return inexact_operands(name, x)[0]


def inexact_operands(name: str, *xs) -> list:
    """As `operands`, in a float (or complex) dtype: integers become the default float."""
    xs = promoted(name, *xs)
    t = typeof(next((x for x in xs if not is_scalar(x)), xs[0]))
    if not dtypes.is_float(t.dtype):
        dtype = dtypes.inexact(t.dtype)
        xs = [literal(x, dtype, t.weak_type) if is_scalar(x) else converted(x, dtype, t.weak_type) for x in xs]
    return same_rank(xs, name)


def same_rank(xs: list, name: str = '') -> list:
    """Operands of one rank that broadcast: dimensions of size 1 are put in front. Rank 0 broadcasts by itself."""
    shapes = {t.shape for t in map(typeof, xs) if t.ndim}
    if len(shapes) > 1:
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            common_mesh(name or 'operands', [typeof(x) for x in xs])       # shapes from another mesh are no use to compare
            raise ShapeError(f"{name or 'operands'}: shapes do not broadcast, got {show([typeof(x) for x in xs])}") from None
    n = max(map(len, shapes), default=0)
    return xs if all(len(s) == n for s in shapes) else [x if typeof(x).ndim in (0, n) else _in_front(x, n) for x in xs]


def _in_front(x, n: int):
    t = typeof(x)
    missing = n - t.ndim
    return broadcast_in_dim(x, shape=(1,) * missing + t.shape, broadcast_dimensions=tuple(range(missing, n)), sharding=None)
