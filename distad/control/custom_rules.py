"""Functions with a derivative of their own: custom_jvp and custom_vjp, as users write them.

Arguments are put in their places by the function's signature and made flat; rules get and give trees. What is known to be zero is
an array of zeros to a rule, or, if it asks for that, a `SymbolicZero`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
from inspect import Signature, signature
from typing import Any

from distad import tree
from distad.control.custom import call_custom_jvp, call_custom_vjp
from distad.control.repair import towards
from distad.core.jaxpr import evaluate
from distad.core.lift import as_value
from distad.core.trace import Tracer
from distad.core.value import Value, Zero, typeof
from distad.errors import UnexpectedTracerError
from distad.ops.basic import instantiated
from distad.ops.stop import stop_gradient
from distad.transforms.programs import stage_closed
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.typed import Typed


class SymbolicZero(Typed):
    """A tangent or cotangent that is known to be zero, as rules with `symbolic_zeros=True` see it: a type without a value."""

    __slots__ = ('type',)

    def __init__(self, type: ArrayType):
        self.type = type

    def instantiate(self) -> Value:
        """An array of zeros."""
        return instantiated(Zero(self.type))

    def __repr__(self) -> str:
        return f"SymbolicZero({self.type})"


def _symbolic(t):
    return SymbolicZero(t.type) if t.__class__ is Zero else t


def _plain(t):
    return Zero(t.type) if t.__class__ is SymbolicZero else t


def _signature(fun: Callable) -> Signature | None:
    try:
        return signature(fun)
    except (TypeError, ValueError):                          # a builtin
        return None


def _positions(signed: Signature | None, nums: int | Sequence[int], names: str | Sequence[str]) -> tuple[int, ...]:
    """The positions of arguments that are given by number or name."""
    nums = (nums,) if isinstance(nums, int) else tuple(nums)
    order = list(signed.parameters) if signed is not None else []
    return (*nums, *(order.index(name) for name in ((names,) if isinstance(names, str) else names)))


def _resolved(what: str, signed: Signature | None, args: tuple, kwargs: dict) -> tuple:
    """All arguments by position, with their defaults."""
    if signed is None:
        if kwargs:
            raise TypeError(f"{what}: the function has no signature, so it takes no keyword arguments, got {', '.join(kwargs)}")
        return args
    bound = signed.bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"{what}: keyword-only arguments cannot be told from the others by the rules, got {', '.join(bound.kwargs)}. "
                        "Let the function take them by position.")
    return bound.args


class custom_jvp:
    """A function whose derivative is given by a rule.

        @custom_jvp
        def f(x, y): ...
        @f.defjvp
        def f_jvp(primals, tangents):        # -> (f(*primals), tangent of the result)

    `nondiff_argnums`, `nondiff_argnames`: arguments that are no arrays or are not differentiated, handed to the rule first.
    Keyword arguments are put in their places. Nothing is communicated but what the function and the rule say.
    """

    def __init__(self, fun: Callable, nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: str | Sequence[str] = ()):
        update_wrapper(self, fun)
        self.fun, self.rule, self.symbolic = fun, None, False
        self.signed = _signature(fun)
        self.nondiff = _positions(self.signed, nondiff_argnums, nondiff_argnames)

    def defjvp(self, rule: Callable, symbolic_zeros: bool = False) -> Callable:
        """Set the rule `(*nondiff, primals, tangents) -> (out, tangent)`; usable as decorator.

        symbolic_zeros: tangents that are known to be zero reach the rule as `SymbolicZero`, and it may return such.
        """
        self.rule, self.symbolic = rule, symbolic_zeros
        return rule

    def defjvps(self, *rules: Callable | None) -> None:
        """Set a rule `(t, out, *primals) -> tangent` for each argument (None: its derivative is zero)."""
        if self.nondiff:
            raise TypeError("defjvps goes with functions whose arguments are all differentiated; use defjvp with nondiff_argnums")

        def rule(primals, tangents):
            out = self(*primals)
            terms = [one(t, out, *primals) for one, t in zip(rules, tangents, strict=True) if one is not None]
            total = terms[0] if terms else tree.map(lambda y: y * 0, out)
            for term in terms[1:]:
                total = tree.map(lambda a, b: a + b, total, term)
            return out, total
        self.rule = rule

    def __get__(self, instance, owner=None):
        return self if instance is None else partial(self, instance)

    def __call__(self, *args, **kwargs):
        if self.rule is None:
            raise AttributeError(f"no jvp rule was defined for custom_jvp function {self.__name__}: use defjvp")
        args = _resolved(self.__name__, self.signed, args, kwargs)
        args = tuple(_constant(x) if i in self.nondiff or i - len(args) in self.nondiff else x for i, x in enumerate(args))
        flat, fun, structure, nondiff, out_tree = _flattened(self.fun, self.nondiff, args)

        def rule(primals, tangents):
            tangents = [_symbolic(t) if self.symbolic else instantiated(t) if t.type.dtype == x.dtype else t
                        for t, x in zip(tangents, map(typeof, primals), strict=True)]
            out, t_out = self.rule(*nondiff, tuple(tree.unflatten(structure, primals)),
                                   tuple(tree.unflatten(structure, tangents)))
            outs, made = tree.flatten(out)
            ts, made_t = tree.flatten(t_out)
            if made != made_t:
                raise TypeError(f"the jvp rule of {self.__name__} returns a value of structure {made} and a tangent of "
                                f"structure {made_t}; they must be equal")
            out_tree[:] = [made]
            return list(outs), list(map(_plain, ts))

        outs = call_custom_jvp(fun, rule, flat)
        return tree.unflatten(out_tree[0], outs)


def _constant(x):
    """An argument that is not differentiated: arrays in it are taken as constants."""
    return tree.map(lambda v: stop_gradient(v) if isinstance(v, Value) else v, x)


def _flattened(fun: Callable, nondiff: tuple[int, ...], args: tuple):
    """The differentiable arguments flat, the function on them, and a cell that learns the structure of its result."""
    fixed = {i % len(args): args[i] for i in nondiff}
    dynamic = tuple(x for i, x in enumerate(args) if i not in fixed)
    flat, structure = tree.flatten(dynamic)
    out_tree: list = []

    def flat_fun(*leaves):
        values = iter(tree.unflatten(structure, leaves))
        out = fun(*(fixed[i] if i in fixed else next(values) for i in range(len(args))))
        outs, made = tree.flatten(out)
        out_tree[:] = [made]
        return outs

    return flat, flat_fun, structure, tuple(args[i] for i in nondiff), out_tree


@dataclass(frozen=True, slots=True)
class CustomVJPPrimal:
    """An argument as forward rules with `symbolic_zeros=True` see it: its value, and whether it is differentiated."""

    value: Any
    perturbed: bool


class custom_vjp:
    """A function whose reverse-mode derivative is given by two rules.

        @custom_vjp
        def f(x, y): ...
        f.defvjp(fwd, bwd)       # fwd(x, y) -> (f(x, y), residuals);  bwd(residuals, ct) -> (ct_x, ct_y)

    The type of every cotangent that `bwd` returns is checked: that of its argument with U and R exchanged. `None` stands for
    zero. `nondiff_argnums`, `nondiff_argnames`: arguments that are no arrays, handed to `bwd` first. Keyword arguments are put in
    their places.
    """

    def __init__(self, fun: Callable, nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: str | Sequence[str] = ()):
        update_wrapper(self, fun)
        self.fun, self.signed = fun, _signature(fun)
        self.nondiff = _positions(self.signed, nondiff_argnums, nondiff_argnames)
        self.fwd = self.bwd = None
        self.symbolic = False

    def defvjp(self, fwd: Callable, bwd: Callable, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Set the forward and the backward rule.

        symbolic_zeros: `fwd` gets each array as `CustomVJPPrimal` (`.value`, `.perturbed`), and `bwd` a cotangent that is known to be
        zero as `SymbolicZero`. `optimize_remat` is accepted: what nobody reads is never computed.
        """
        self.fwd, self.bwd, self.symbolic = fwd, bwd, symbolic_zeros

    def __get__(self, instance, owner=None):
        return self if instance is None else partial(self, instance)

    def __call__(self, *args, **kwargs):
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"no vjp rule was defined for custom_vjp function {self.__name__}: use defvjp")
        args = _resolved(self.__name__, self.signed, args, kwargs)
        flat, fun, structure, nondiff, out_tree = _flattened(self.fun, self.nondiff, args)
        if any(isinstance(x, Tracer) for x in tree.leaves(nondiff)):
            raise UnexpectedTracerError(f"{self.__name__}: an argument of nondiff_argnums is a traced value. Let it be an ordinary "
                                        "argument, and return None for its cotangent.")
        fixed = {i % len(args): args[i] for i in self.nondiff}
        cell: list = []

        def fwd(active, *leaves):
            if self.symbolic:
                leaves = map(CustomVJPPrimal, leaves, active)
            values = iter(tree.unflatten(structure, list(leaves)))
            pair = self.fwd(*(fixed[i] if i in fixed else next(values) for i in range(len(args))))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"the forward rule of {self.__name__} must return a pair (value, residuals), got {pair!r}")
            outs, made = tree.flatten(pair[0])
            residuals, res_tree = tree.flatten(pair[1])
            out_tree[:], cell[:] = [made], [res_tree]
            return list(outs), list(residuals)

        types = [typeof(x) for x in flat]

        def bwd(residuals, cts):
            cts = list(map(_symbolic if self.symbolic else instantiated, cts))
            found = self.bwd(*nondiff, tree.unflatten(cell[0], residuals), tree.unflatten(out_tree[0], cts))
            return _checked(self.__name__, found, types, structure)

        outs = call_custom_vjp(fun, fwd, bwd, flat)
        return tree.unflatten(out_tree[0], outs)


def _checked(name: str, found, types, structure) -> list:
    """The cotangents a backward rule returned, flat, of the types that the arguments ask for."""
    if not isinstance(found, (tuple, list)):
        raise TypeError(f"the backward rule of {name} must return a tuple with a cotangent for each argument, got {found!r}")
    primals = tree.unflatten(structure, types)
    if len(found) != len(primals):
        raise TypeError(f"the backward rule of {name} must return a cotangent for each of its {len(primals)} arguments, got "
                        f"{len(found)}. None stands for zero.")
    given = [_plain(ct) for ct in tree.broadcast_prefix(tuple(found), primals, is_leaf=lambda x: x is None)]
    paths = [tree.keystr(path) for path, _ in tree.flatten_with_path(primals)[0]]
    for path, ct, t in zip(paths, given, types, strict=True):
        if ct is None or ct.__class__ is Zero or t.tangent().dtype != t.dtype:
            continue
        got, want = typeof(ct).update(weak_type=False), t.dual().update(weak_type=False)
        if got != want and not (got.mesh.empty or want.mesh.empty):
            raise ValueError(f"the backward rule of {name}, a custom_vjp function, returned a cotangent ct of type {got} for "
                             f"argument {path} of type {t}; it must be of type {want}. {towards(got, want, 'ct')}")
    return [Zero(t.dual()) if ct is None else ct for ct, t in zip(given, types, strict=True)]


# ---- what a function closes over

def closure_convert(fun: Callable, *example_args: Any) -> tuple[Callable, list]:
    """The function with the traced arrays that it closes over as more arguments, and these arrays: `converted(*args, *hoisted)`.

    For a function that a custom rule shall differentiate although it is made inside of what is differentiated. Of `example_args`
    only the types matter.

        converted, hoisted = closure_convert(f, x)
        y = solve(converted, x, *hoisted)
    """
    leaves, structure = tree.flatten(example_args)
    cell: list = []

    def flat(*xs):
        outs, made = tree.flatten(fun(*tree.unflatten(structure, xs)))
        cell[:] = [made]
        return [as_value(y, 'the result of closure_convert') for y in outs]

    jaxpr, consts = stage_closed(flat, [typeof(as_value(x, 'closure_convert')) for x in leaves])
    out_tree = cell[0]
    moved = [isinstance(x, Tracer) and dtypes.is_float(x.dtype) for x in consts]

    def converted(*args: Any) -> Any:
        count = len(args) - sum(moved)
        given, hoisted = tree.leaves(args[:count]), iter(args[count:])
        values = [next(hoisted) if on else x for on, x in zip(moved, consts, strict=True)]
        return tree.unflatten(out_tree, evaluate(jaxpr, *values, *(as_value(x, 'closure_convert') for x in given)))

    return converted, [x for on, x in zip(moved, consts, strict=True) if on]


__all__ = ['CustomVJPPrimal', 'SymbolicZero', 'closure_convert', 'custom_jvp', 'custom_vjp']
