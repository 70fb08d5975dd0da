"""Whole derivatives: a derivative is linear, so it is known when it is known on a basis, and vmap runs it on all of a basis at once."""

from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np

from distad import tree
from distad.api import jvp, vjp
from distad.control.vmap import vmap
from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.numpy.shapes import reshape
from distad.ops.cast import cast
from distad.ops.slicing import slice_p
from distad.source import boundary
from distad.types import dtypes
from distad.types.array_type import ArrayType


def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable:
    """The Jacobian of a function, one column after the other: for functions with few inputs.

    fun: of arrays to a pytree of arrays. The result has, for each result `[a...]` of `fun` and each argument `[b...]` at `argnums`, an
    array `[a..., b...]`, in the tree of the results with the tree of the arguments inside; with `has_aux` a pair with what `fun`
    returns beside. Each is split as the result of `fun` is. Communication: that of `jvp` of `fun`, for all columns in one message.
    Raises TypeError for arguments that have no derivative, and complex ones without `holomorphic`.

        jacfwd(lambda x: x ** 2)(jnp.arange(3.0))          # the diagonal matrix of 2 x
    """
    @boundary
    @wraps(fun)
    def jacobian(*args, **kwargs):
        of_chosen, chosen = _chosen(fun, argnums, args, kwargs)
        leaves, structure = tree.flatten(chosen)
        types = [_checked(x, 'jacfwd', holomorphic, False) for x in leaves]

        def push(*tangents):
            return jvp(of_chosen, tuple(chosen), tree.unflatten(structure, tangents), has_aux=has_aux)

        first, made, *aux = vmap(push, out_axes=(None, -1, None) if has_aux else (None, -1))(*_basis(types))
        for y in tree.leaves(first):
            _check_result(typeof(y), 'jacfwd', holomorphic)
        full = tree.map(lambda j: _with_arguments(j, types, structure, argnums), made)
        return (full, *aux) if has_aux else full

    return jacobian


def jacrev(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable:
    """The Jacobian of a function, one row after the other: for functions with few results.

    As `jacfwd`; each array `[a..., b...]` is split as the cotangent of its argument is. Communication: that of `vjp` of `fun`, for all
    rows in one message.

        jacrev(lambda x: (x ** 2).sum())(jnp.arange(3.0))  # 2 x
    """
    @boundary
    @wraps(fun)
    def jacobian(*args, **kwargs):
        of_chosen, chosen = _chosen(fun, argnums, args, kwargs)
        for x in tree.leaves(chosen):
            _checked(x, 'jacrev', holomorphic, allow_int)
        out, pull, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        leaves, structure = tree.flatten(out)
        types = [_check_result(typeof(y), 'jacrev', holomorphic) for y in leaves]
        rows = vmap(lambda *cts: pull(tree.unflatten(structure, cts)))(*_basis([t.dual() for t in types]))
        rows = rows[0] if isinstance(argnums, int) else rows
        ends = np.cumsum([0, *(t.size for t in types)]).tolist()
        parts = [tree.map(lambda j, t=t, a=a, b=b: _reshaped(_part(j, a, b), (*t.shape, *j.shape[1:])), rows)
                 for t, a, b in zip(types, ends, ends[1:], strict=False)]
        full = tree.unflatten(structure, parts)
        return (full, *aux) if has_aux else full

    return jacobian


def hessian(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable:
    """The second derivatives of a function: `jacfwd(jacrev(fun))`, for each result `[a...]` an array `[a..., b..., c...]`.

        hessian(lambda x: (x ** 3).sum())(jnp.arange(3.0))  # the diagonal matrix of 6 x
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def _chosen(fun: Callable, argnums: int | Sequence[int], args: tuple, kwargs: dict) -> tuple[Callable, list]:
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(not -len(args) <= i < len(args) for i in nums):
        raise TypeError(f"differentiating with respect to arguments {nums}, but the function got {len(args)} positional arguments")
    at = [i % len(args) for i in nums]

    def of_chosen(*chosen):
        full = list(args)
        for i, x in zip(at, chosen, strict=True):
            full[i] = x
        return fun(*full, **kwargs)

    return of_chosen, [args[i] for i in at]


def _checked(x, name: str, holomorphic: bool, allow_int: bool) -> ArrayType:
    t = typeof(as_value(x, name))
    if holomorphic and t.dtype.kind != 'c':
        raise TypeError(f"{name} with holomorphic=True requires complex inputs, got {t}")
    if not allow_int and (not dtypes.is_float(t.dtype) or t.dtype.kind == 'c' and not holomorphic):
        raise TypeError(f"{name} requires real-valued inputs (a sub-dtype of np.floating), but got {t}"
                        + ('. Pass holomorphic=True for holomorphic functions.' if t.dtype.kind == 'c' else '. Convert it by astype.'))
    return t


def _check_result(t: ArrayType, name: str, holomorphic: bool) -> ArrayType:
    if not dtypes.is_float(t.dtype) or t.dtype.kind == 'c' and not holomorphic:
        raise TypeError(f"{name} requires real-valued outputs, got {t}"
                        + ('. Pass holomorphic=True for holomorphic functions.' if t.dtype.kind == 'c' else ''))
    return t


def _basis(types: Sequence[ArrayType]) -> list[Value]:
    """The unit vectors of values of these types together, as a batch: one array [n, ...] for each type."""
    n = sum(t.size for t in types)
    out, before = [], 0
    for t in types:
        unit = np.zeros((n, t.size), t.tangent().dtype if dtypes.is_float(t.dtype) else np.float32)
        if dtypes.is_float(t.dtype):
            unit[np.arange(before, before + t.size), np.arange(t.size)] = 1
        before += t.size
        x = as_value(unit.reshape(n, *t.shape), 'a basis')
        out.append(cast(x, t.update(shape=(n, *t.shape), partitions=((), *t.partitions), dtype=unit.dtype, weak_type=False))
                   if not t.mesh.empty else x)
    return out


def _with_arguments(j, types: Sequence[ArrayType], structure, argnums: int | Sequence[int]):
    """A Jacobian [a..., n] cut along its last dimension into one array [a..., b...] for each argument."""
    ends = np.cumsum([0, *(t.size for t in types)]).tolist()
    cut = [_reshaped(_part(j, a, b, j.ndim - 1), (*j.shape[:-1], *t.shape))
           for t, a, b in zip(types, ends, ends[1:], strict=False)]
    parts = tree.unflatten(structure, cut)
    return parts[0] if isinstance(argnums, int) else tuple(parts)


def _part(x, start: int, stop: int, dim: int = 0):
    if (start, stop) == (0, x.shape[dim]):
        return x
    return slice_p(x, start_indices=tuple(start if d == dim else 0 for d in range(x.ndim)),
                   limit_indices=tuple(stop if d == dim else n for d, n in enumerate(x.shape)), strides=None)


def _reshaped(x, shape: tuple[int, ...]):
    return x if x.shape == shape else reshape(x, shape)


__all__ = ['hessian', 'jacfwd', 'jacrev']
