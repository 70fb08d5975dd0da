"""linear_transpose: the adjoint of a function that is linear in its arguments."""

from collections.abc import Callable
from typing import Any

from distad import tree
from distad.api import check_cotangent
from distad.core.jaxpr import Jaxpr
from distad.core.lift import as_value
from distad.core.trace import current_trace, use_trace
from distad.core.value import typeof
from distad.ops.basic import instantiated
from distad.source import boundary
from distad.transforms.linearize import LinearTrace
from distad.transforms.transpose import backward
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.struct import ShapeDtypeStruct


def linear_transpose(fun: Callable, *primals: Any) -> Callable:
    """The transpose of a linear function: `fun_t(ct)` is a tuple with a cotangent for each of `primals`.

    primals: trees of arrays or of `ShapeDtypeStruct`, of which only the types matter; float or complex. `ct` has the types of the
    results with U and R exchanged, and the cotangents those of the primals likewise. What `fun` computes of values it closes over it
    computes now. Communication: that of the transpose, in `fun_t`. Raises TypeError for primals that are not inexact,
    NotImplementedError, with the primitive's name, where `fun` is not linear, ValueError for a `ct` of another type.

        fun_t = linear_transpose(lambda x: 3. * x, jnp.ones(2))
        ct, = fun_t(jnp.ones(2))
    """
    leaves, in_tree = tree.flatten(primals)
    types = [_type_of(x) for x in leaves]
    jaxpr, out_tree = _staged(fun, types, in_tree)

    @boundary
    def transposed(ct: Any) -> tuple:
        flat, structure = tree.flatten(ct)
        if structure != out_tree:
            raise TypeError(f"linear_transpose: a cotangent has the structure of the result, {out_tree}, got {structure}")
        cts = [as_value(x, 'linear_transpose') for x in flat]
        for x, atom in zip(cts, jaxpr.outs, strict=True):
            check_cotangent(typeof(x), atom.type)
        return tuple(tree.unflatten(in_tree, map(instantiated, backward(jaxpr, cts))))

    return transposed


def _type_of(x: Any) -> ArrayType:
    t = x.type if isinstance(x, ShapeDtypeStruct) else typeof(as_value(x, 'linear_transpose'))
    if not dtypes.is_float(t.dtype):
        raise TypeError(f"linear_transpose takes float or complex primals, got one of type {t}")
    return t


def _staged(fun: Callable, types: list[ArrayType], in_tree: Any) -> tuple[Jaxpr, Any]:
    """The equations that the primals enter; all else is computed now."""
    trace = LinearTrace(current_trace())
    ins = [trace.input(t) for t in types]
    with use_trace(trace):
        outs, out_tree = tree.flatten(fun(*tree.unflatten(in_tree, ins)))
        outs = [as_value(y, 'the result of linear_transpose') for y in outs]
    return trace.finish(ins, outs), out_tree


__all__ = ['linear_transpose']
