"""Makers of elementwise primitives: what all ops of one kind share is written here once."""

from collections.abc import Callable

import numpy as np

from distad.core.batching import BROADCASTING
from distad.core.primitive import BY_LINEARITY, NoRule, Primitive, by_labels, signature
from distad.core.value import typeof
from distad.errors import ShapeError
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import NONLINEAR, Linearity, Signature, show

ANY = 'any'                  # every dtype but keys
NUMBER = 'number'            # not bool
FLOAT = 'float or complex'
REAL = 'real'                # not complex
REAL_FLOAT = 'real float'
INT = 'integer or bool'
INTEGER = 'integer'
COMPLEX = 'complex'

_KINDS = {ANY: 'biufcV',
          NUMBER: 'iufcV', FLOAT: 'fcV', REAL: 'biufV', REAL_FLOAT: 'fV', INT: 'biu', INTEGER: 'iu', COMPLEX: 'c'}


def check_dtype(name: str, accepts: str, *types: ArrayType) -> None:
    """All operands have one dtype, of an accepted kind (bfloat16 and its like are kind V)."""
    first = types[0].dtype
    if any(t.dtype != first for t in types):
        raise TypeError(f"{name} requires arguments to have the same dtypes, got {show(types)}. Convert one with astype, or "
                        "use the function of distad.numpy, which promotes.")
    if not accepted(first, accepts):
        raise TypeError(f"{name} does not accept dtype {dtypes.name(first)}, got {show(types)}. It accepts {accepts} dtypes.")


def accepted(dtype: np.dtype, accepts: str) -> bool:
    """Whether a dtype is of a kind. Keys and float0 are of none."""
    return dtype.kind in _KINDS[accepts] and dtype != dtypes.KEY and dtype != dtypes.float0


def elementwise_labels(name: str, linearity: Linearity = NONLINEAR, rounds: str = '') -> Callable[..., Signature]:
    """Labels of operands that broadcast: a dimension is labelled by its place counted from the result.

    `rounds`: kinds of dtypes in which the result is rounded, so that the op is linear in nothing.
    """
    def labels(*types: ArrayType, **params) -> Signature:
        shape = broadcast_shape(name, types)
        ins = [tuple(d if t.shape[d] == shape[d] else None for d in range(len(shape))) if t.ndim else () for t in types]
        return signature(name, ins, [range(len(shape))],
                         linearity=NONLINEAR if types[0].dtype.kind in rounds else linearity)
    return labels


def broadcast_shape(name: str, types: tuple[ArrayType, ...]) -> tuple[int, ...]:
    """The common shape of operands of one rank (or rank 0) whose sizes agree or are 1."""
    shapes = {t.shape for t in types if t.ndim}
    if len(shapes) <= 1:
        return shapes.pop() if shapes else ()
    if len({len(s) for s in shapes}) == 1:
        sizes = [{s[d] for s in shapes} - {1} or {1} for d in range(len(next(iter(shapes))))]
        if all(len(s) == 1 for s in sizes):
            return tuple(s.pop() for s in sizes)
    raise ShapeError(f"{name} got incompatible shapes for broadcasting: {show(types)}.")


def elementwise(name: str, impl: Callable, *, accepts: str | Callable = NUMBER, result: Callable | None = None, jvp,
                transpose=None, linearity: Linearity = NONLINEAR, rounds: str = '') -> Primitive:
    """An elementwise primitive of any number of operands.

    `accepts`: the kind of the dtype that all operands share; where they need not share one, a check `(*types) -> None`.
    `result(dtype) -> dtype`: the result's dtype from that of the first operand, when the two differ.
    `rounds`: kinds of dtypes in which it is not linear after all. `impl` is called with blocks, `out=` (a
    `core.primitive.Out`) and the parameters.
    """
    labels = elementwise_labels(name, linearity, rounds)

    def shape(*types: ArrayType, **params):
        if callable(accepts):
            accepts(*types)
        else:
            check_dtype(name, accepts, *types)
        dtype = types[0].dtype if result is None else result(types[0].dtype)
        return broadcast_shape(name, types), dtype

    return Primitive(name, type=by_labels(labels, shape), labels=labels, impl=impl, linearity=linearity, jvp=jvp,
                     transpose=transpose or NoRule(f"{name} is not linear"), batch=BROADCASTING, pointwise=True)



def ufunc(f: Callable) -> Callable:
    """A NumPy ufunc as implementation: the result has the dtype that the type rule says."""
    def impl(*blocks, out, **params):
        y = f(*blocks)
        return y if y.dtype == out.dtype else y.astype(out.dtype)
    if isinstance(f, np.ufunc) and f.nout == 1:
        impl.ufunc = f
    return impl


def in_float32(f: Callable) -> Callable:
    """A function that knows float32 and float64 only (SciPy's) as implementation for half types too."""
    def impl(*blocks, out, **params):
        y = f(*(np.asarray(b, np.float32) for b in blocks)) if dtypes.is_half(out.dtype) else f(*blocks)
        return np.asarray(y).astype(out.dtype, copy=False)
    return impl


def unary(name: str, impl: Callable, accepts: str = FLOAT, *, jvp, result: Callable | None = None,
          linearity: Linearity = NONLINEAR, transpose=None) -> Primitive:
    """A primitive of one operand. `jvp`: `(t, y, x) -> tangent`, BY_LINEARITY, or NoRule."""
    rule = jvp if jvp == BY_LINEARITY else (jvp,)
    return elementwise(name, impl, accepts=accepts, result=result, jvp=rule, linearity=linearity,
                       transpose=None if transpose is None else (transpose,))


def constant(name: str, impl: Callable, accepts: str = NUMBER, *, result: Callable | None = None,
             operands: int = 1) -> Primitive:
    """A primitive that is flat almost everywhere: its tangent is zero."""
    return elementwise(name, impl, accepts=accepts, result=result, jvp=(None,) * operands)


def scalar(value, like) -> np.generic | complex:
    """A number as literal of a value's dtype; weak where the value is, so that tangents keep the types of primals."""
    t = typeof(like)
    number = t.dtype.type(value)
    if t.weak_type and dtypes.of_scalar(number.item()) == (t.dtype, True):
        return number.item()
    return number
