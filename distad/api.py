"""Derivatives of functions of pytrees: grad, value_and_grad, vjp, jvp, linearize."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from distad import tree
from distad.control.jit import jit
from distad.core.jaxpr import Jaxpr, evaluate
from distad.core.lift import as_value
from distad.core.value import Zero, typeof
from distad.ops.basic import instantiated
from distad.ops.cast import cast
from distad.runtime import moves
from distad.source import boundary
from distad.transforms.jvp import jvp_flat
from distad.transforms.linearize import linearize_flat
from distad.transforms.transpose import backward, same_cotangent
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.spec import written


def grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
         allow_int: bool = False) -> Callable:
    """The gradient of a scalar function, with respect to the arguments at `argnums`.

    Gradients have the types that the arguments' cotangents have: N to N, S to S, R to U and U to R. So where gradients are
    summed over ranks is decided by the arguments' types, and by casts in `fun`. Communication: that of `fun` as far as its
    value is needed, and of its transpose.

        grad(lambda w: (w ** 2).sum())(jnp.ones(3))
    """
    with_value = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @boundary
    @wraps(fun)
    def gradient(*args, **kwargs):
        value, g = with_value(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


def value_and_grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
                   allow_int: bool = False) -> Callable:
    """Value and gradient of a scalar function in one pass; with `has_aux` the value is a pair `(value, aux)`. See `grad`."""
    if not callable(fun):
        raise TypeError(f"grad takes a function, got {fun!r}")
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(isinstance(i, int) for i in nums):
        raise TypeError(f"grad: argnums is an integer or a sequence of integers, got {argnums!r}")

    @boundary
    @wraps(fun)
    def value_and_gradient(*args, **kwargs):
        if nums and max(i if i >= 0 else -1 - i for i in nums) >= len(args):
            raise TypeError(f"differentiating with respect to argument {max(nums)}, but the function got {len(args)} "
                            "positional arguments")
        at = [i % len(args) for i in nums]
        for i in at:
            for path, x in tree.flatten_with_path(args[i])[0]:
                _check_input(x, f"argument {i}{tree.keystr(path)}", holomorphic, allow_int)

        def of_chosen(*chosen):
            full = list(args)
            for i, x in zip(at, chosen, strict=True):
                full[i] = x
            return fun(*full, **kwargs)

        out, pull, *aux = vjp(of_chosen, *(args[i] for i in at), has_aux=has_aux)
        _check_output(out, holomorphic)
        t = typeof(out)
        one = t.dtype.type(1)
        gradients = pull(one if t.mesh.empty else cast(one, t.dual()))
        return (out, *aux) if has_aux else out, gradients[0] if isinstance(argnums, int) else gradients

    return value_and_gradient


def _check_input(x, where: str, holomorphic: bool, allow_int: bool) -> None:
    dtype = typeof(as_value(x, 'grad')).dtype
    if holomorphic and dtype.kind != 'c':
        raise TypeError(f"grad with holomorphic=True requires complex inputs, got {dtypes.name(dtype)} in {where}")
    if not dtypes.is_float(dtype) and not allow_int:
        raise TypeError(f"grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got "
                        f"{dtypes.name(dtype)} in {where}. Convert it with astype, or pass allow_int=True for a float0 gradient.")


def _check_output(out, holomorphic: bool) -> None:
    if not hasattr(out, 'type'):
        raise TypeError(f"grad requires a function with a scalar result, got {out!r}")
    t = typeof(out)
    if t.shape != ():
        raise TypeError(f"grad requires a function with a scalar result, got one of type {t}. Sum it, or use vjp.")
    if not dtypes.is_float(t.dtype) or (t.dtype.kind == 'c' and not holomorphic):
        raise TypeError(f"grad requires a real-valued result, got {t}"
                        + ('. Pass holomorphic=True for holomorphic functions.' if t.dtype.kind == 'c' else '.'))


def _flat(fun: Callable, structure, out_tree: list, aux: list | None = None) -> Callable:
    """`fun` on flat values; the structure of its result and its auxiliary value are left in the cells."""
    def flat(*leaves):
        out = fun(*tree.unflatten(structure, leaves))
        if aux is not None:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError(f"with has_aux=True the function must return a pair (value, aux), got {out!r}")
            out, extra = out
            extra_leaves, extra_tree = tree.flatten(extra)
            aux[:] = [extra_leaves, extra_tree]
        outs, made = tree.flatten(out)
        out_tree[:] = [made, len(outs)]
        outs = [as_value(y, 'the result of a differentiated function') for y in outs]
        return outs if aux is None else [*outs, *(as_value(x, 'aux') for x in aux[0])]
    return flat


def vjp(fun: Callable, *primals, has_aux: bool = False) -> tuple:
    """Value of a function and its vjp: `out, pull[, aux] = vjp(fun, *primals)`; `pull(ct)` gives a tuple of cotangents.

    `ct` has the types of the result with U and R exchanged, and the cotangents those of the primals likewise; both are
    checked. Communication: that of `fun` now, and that of its transpose in `pull`.

        y, pull = vjp(jnp.sin, 1.0)
    """
    out, linear = _linearized(fun, primals, has_aux)

    @boundary
    def pull(ct):
        cts = linear.cotangents(ct)
        return tuple(tree.unflatten(linear.in_tree, cts))

    return (out, pull, linear.aux) if has_aux else (out, pull)


def linearize(fun: Callable, *primals, has_aux: bool = False) -> tuple:
    """Value of a function and its derivative there as linear function of tangents: `out, f_jvp = linearize(fun, *primals)`."""
    out, linear = _linearized(fun, primals, has_aux)

    def derivative(*tangents):
        return linear.tangents(tangents)

    return (out, derivative, linear.aux) if has_aux else (out, derivative)


class _Linear:
    """The derivative of a function at a point, as a program."""

    def __init__(self, jaxpr: Jaxpr, live: list[bool], in_tree, in_types: list[ArrayType], out_tree, outs: list, aux):
        self.jaxpr, self.live, self.in_tree, self.in_types = jaxpr, live, in_tree, in_types
        self.out_tree, self.out_types, self.aux = out_tree, [typeof(y) for y in outs], aux

    def tangents(self, tangents: tuple):
        flat, structure = tree.flatten(tangents)
        if structure != self.in_tree:
            raise TypeError(f"the derivative takes tangents of the structure of its primals, {self.in_tree}, got {structure}")
        flat = [as_value(t, 'a derivative') for t in flat]
        for t, want in zip(flat, self.in_types, strict=True):
            _check_tangent(typeof(t), want)
        flat = [t for t, want in zip(flat, self.in_types, strict=True) if dtypes.is_float(want.dtype)]
        made = iter(evaluate(self.jaxpr, *flat))
        return tree.unflatten(self.out_tree, [next(made) if on else _zero(t.tangent())
                                              for t, on in zip(self.out_types, self.live, strict=True)])

    def cotangents(self, ct) -> list:
        flat, structure = tree.flatten(ct)
        if structure != self.out_tree:
            raise ValueError(f"a cotangent has the structure of the result, {self.out_tree}, got {structure}")
        cts = []
        for x, t, on in zip(flat, self.out_types, self.live, strict=True):
            if dtypes.is_float(t.dtype):
                x = x if isinstance(x, np.generic) else as_value(x, 'vjp')
                x = x.astype(t.dtype) if typeof(x).weak_type and typeof(x).dtype != t.dtype else x
                check_cotangent(typeof(x), t)
            if on:
                cts.append(x)
        found = iter(backward(self.jaxpr, cts))
        return [_zero(t.dual()) if not dtypes.is_float(t.dtype) else instantiated(next(found)) for t in self.in_types]


def _zero(t: ArrayType):
    """A zero tangent as users get it; of type float0 it is a NumPy array, as in JAX."""
    return np.zeros(t.shape, dtypes.float0) if t.dtype == dtypes.float0 else instantiated(Zero(t))


def _check_tangent(got: ArrayType, primal: ArrayType) -> None:
    want = primal.tangent()
    if not dtypes.is_float(primal.dtype):
        return
    if got.dtype != want.dtype or got.shape != want.shape or not same_cotangent(got, want):
        raise TypeError(f"the tangent of a primal of type {primal} must have type {want}, got {got}")


def check_cotangent(got: ArrayType, out: ArrayType) -> None:
    want = out.dual()
    if not same_cotangent(got, want):
        raise ValueError(f"the cotangent of a result of type {out} must have type {want}, got {got}. Unreduced and reduced "
                         f"change places in cotangents; bring it there with reshard(ct, {written(want.spec)}).")


def _linearized(fun: Callable, primals: tuple, has_aux: bool):
    flat, in_tree = tree.flatten(primals)
    flat = [as_value(x, 'vjp') for x in flat]
    types = [typeof(x) for x in flat]
    out_tree: list = []
    aux: list | None = [] if has_aux else None
    outs, jaxpr, live = linearize_flat(_flat(fun, in_tree, out_tree, aux), flat,
                                       [dtypes.is_float(t.dtype) for t in types])
    made, count = out_tree
    extra = None if aux is None else tree.unflatten(aux[1], outs[count:])
    if has_aux:
        live_count = sum(live[:count])
        jaxpr = Jaxpr(ins=jaxpr.ins, equations=jaxpr.equations, outs=jaxpr.outs[:live_count], consts=jaxpr.consts)
        outs, live = outs[:count], live[:count]
    return tree.unflatten(made, outs), _Linear(jaxpr, live, in_tree, types, made, outs, extra)


def jvp(fun: Callable, primals: Sequence, tangents: Sequence, has_aux: bool = False) -> tuple:
    """Value and tangent: `out, t_out[, aux] = jvp(fun, primals, tangents)`. Tangents have the types of their primals.

        y, dy = jvp(jnp.sin, (0.0,), (1.0,))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(f"jvp takes a tuple of primals and a tuple of tangents, got {primals!r} and {tangents!r}")
    flat, in_tree = tree.flatten(tuple(primals))
    t_flat, t_tree = tree.flatten(tuple(tangents))
    if in_tree != t_tree:
        raise TypeError(f"jvp takes primals and tangents of one structure, got {in_tree} and {t_tree}")
    flat = [as_value(x, 'jvp') for x in flat]
    ts = []
    for x, t in zip(flat, t_flat, strict=True):
        if not dtypes.is_float(typeof(x).dtype):
            ts.append(Zero(typeof(x).tangent()))
            continue
        t = as_value(t, 'jvp')
        t = t.astype(typeof(x).dtype) if typeof(t).weak_type and typeof(t).dtype != typeof(x).dtype else t
        t = _freely(t, typeof(x).tangent())
        _check_tangent(typeof(t), typeof(x))
        ts.append(t)
    out_tree: list = []
    aux: list | None = [] if has_aux else None
    outs, out_ts = jvp_flat(_flat(fun, in_tree, out_tree, aux), flat, ts)
    made, count = out_tree
    result = (tree.unflatten(made, outs[:count]),
              tree.unflatten(made, [_zero(t.type) if t.__class__ is Zero else t for t in out_ts[:count]]))
    return result if aux is None else (*result, tree.unflatten(aux[1], outs[count:]))


def _freely(t, want: ArrayType):
    """A tangent in the state of its primal, where nothing has to be sent for that."""
    have = typeof(t)
    if have.shape != want.shape or have.dtype != want.dtype or have.mesh != want.mesh or have.varying != want.varying:
        return t
    return t if moves.messages(moves.plan(have, want)) or want.unreduced else cast(t, want)


def make_jaxpr(fun: Callable, static_argnums: int | Sequence[int] = ()) -> Callable:
    """A function that traces `fun` on its arguments' types and returns the program, to be printed."""
    jitted = jit(fun, static_argnums=static_argnums)
    return lambda *args, **kwargs: jitted.trace(*args, **kwargs).jaxpr


def eval_shape(fun: Callable, *args, **kwargs) -> Any:
    """The types of `fun`'s results, without computing them."""
    return jit(fun).eval_shape(*args, **kwargs)


__all__ = ['eval_shape', 'grad', 'jvp', 'linearize', 'make_jaxpr', 'value_and_grad', 'vjp']
