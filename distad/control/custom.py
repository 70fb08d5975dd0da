"""Functions with a derivative of their own: custom_jvp and custom_vjp.

Outside of a transformation the function just runs. Forward mode asks the trace (`custom_jvp`, `custom_vjp` below), which
runs the user's rule; a staged program keeps function and rule together in one equation, for whoever differentiates it later.
"""

from collections.abc import Callable, Sequence
from functools import update_wrapper

from distad import tree
from distad.compiler.codegen import compile_jaxpr
from distad.control.repair import towards
from distad.core.jaxpr import Jaxpr, evaluate
from distad.core.primitive import NoRule, Place, Primitive
from distad.core.trace import Trace, current_trace, use_trace
from distad.core.value import Linear, Zero, typeof
from distad.ops.basic import instantiated
from distad.transforms.jvp import JVPTrace, JVPTracer
from distad.transforms.linearize import LinearTrace
from distad.transforms.programs import stage_closed
from distad.transforms.stage import StageTrace

LATER = NoRule('vmap is not built yet')


def _kernel(place: Place, ins, outs, params):
    return compile_jaxpr(params['jaxpr'], place.mesh, place.path).run


def _inline(trace: LinearTrace, owned, args, params):
    with use_trace(trace):
        return evaluate(params['jaxpr'], *args)


def _out_types(*types, jaxpr: Jaxpr, **rules):
    return jaxpr.out_types


def _no_closure(tangents, count: int, what: str) -> None:
    if any(t.__class__ is not Zero for t in tangents[:count]):
        raise TypeError(f"{what}: the function closes over a value that is being differentiated. Pass it as an argument.")


# ---- custom_jvp

def _jvp_of_call(primals, tangents, *, jaxpr: Jaxpr, rule: Callable, num_consts: int):
    _no_closure(tangents, num_consts, 'custom_jvp')
    return rule(primals[num_consts:], tangents[num_consts:])


custom_jvp_call = Primitive(
    'custom_jvp_call', type=_out_types, kernel=_kernel, jvp=_jvp_of_call, transpose=NoRule('its function is not linear'),
    batch=LATER, split=_inline, multiple=True, show=lambda params: {'call_jaxpr': params['jaxpr']})


def call_custom_jvp(fun: Callable, rule: Callable, args: Sequence) -> list:
    """Call a flat function that has a flat jvp rule `(primals, tangents) -> (outs, tangents)` (tangents may be Zero)."""
    trace = current_trace()
    if isinstance(trace, JVPTrace):
        primals, tangents = zip(*map(trace.parts, args), strict=True) if args else ((), ())
        with use_trace(trace.parent):
            if all(t.__class__ is Zero for t in tangents):
                return call_custom_jvp(fun, rule, primals)
            return _wrapped(trace, *rule(primals, tangents))
    if _passes_on(trace, args):
        with use_trace(trace.parent):
            return call_custom_jvp(fun, rule, args)
    if _stages(trace):
        jaxpr, consts = stage_closed(fun, [typeof(x) for x in args])
        return custom_jvp_call(*consts, *args, jaxpr=jaxpr, rule=rule, num_consts=len(consts))
    return list(fun(*args))


def _passes_on(trace: Trace, args: Sequence) -> bool:
    """Whether a call is none of a linear trace's: nothing that it writes down enters. Then its parent takes the call whole."""
    return isinstance(trace, LinearTrace) and not any(map(trace.owns, args))


def _stages(trace: Trace) -> bool:
    """Whether the call is written down now."""
    return isinstance(trace, StageTrace) and not isinstance(trace, LinearTrace)


def _wrapped(trace: JVPTrace, outs, tangents) -> list:
    return [y if t.__class__ is Zero else JVPTracer(trace, y, t) for y, t in zip(outs, tangents, strict=True)]


class custom_jvp:
    """A function whose derivative is given by a rule.

        @custom_jvp
        def f(x, y): ...
        @f.defjvp
        def f_jvp(primals, tangents):        # -> (f(*primals), tangent of the result)

    `nondiff_argnums`: positions of Python arguments, handed to the rule first. Nothing is communicated but what the function
    and the rule say.
    """

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = ()):
        update_wrapper(self, fun)
        self.fun, self.nondiff, self.rule = fun, tuple(nondiff_argnums), None

    def defjvp(self, rule: Callable) -> Callable:
        """Set the rule `(*nondiff, primals, tangents) -> (out, tangent)`; usable as decorator."""
        self.rule = rule
        return rule

    def defjvps(self, *rules: Callable | None) -> None:
        """Set a rule `(t, out, *primals) -> tangent` for each argument (None: its derivative is zero)."""
        def rule(primals, tangents):
            out = self(*primals)
            terms = [one(t, out, *primals) for one, t in zip(rules, tangents, strict=True) if one is not None]
            total = terms[0] if terms else tree.map(lambda y: y * 0, out)
            for term in terms[1:]:
                total = tree.map(lambda a, b: a + b, total, term)
            return out, total
        self.rule = rule

    def __call__(self, *args):
        if self.rule is None:
            raise AttributeError(f"no jvp rule was defined for custom_jvp function {self.__name__}: use defjvp")
        flat, fun, structure, nondiff, out_tree = _flattened(self.fun, self.nondiff, args)

        def rule(primals, tangents):
            tangents = [instantiated(t) if t.type.dtype == x.dtype else t for t, x in
                        zip(tangents, map(typeof, primals), strict=True)]
            out, t_out = self.rule(*nondiff, tuple(tree.unflatten(structure, primals)),
                                   tuple(tree.unflatten(structure, tangents)))
            outs, made = tree.flatten(out)
            ts, made_t = tree.flatten(t_out)
            if made != made_t:
                raise TypeError(f"the jvp rule of {self.__name__} returns a value of structure {made} and a tangent of "
                                f"structure {made_t}; they must be equal")
            out_tree[:] = [made]
            return list(outs), list(ts)

        outs = call_custom_jvp(fun, rule, flat)
        return tree.unflatten(out_tree[0], outs)


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


# ---- custom_vjp

def _vjp_jvp(primals, tangents, *, jaxpr: Jaxpr, fwd: Callable, bwd: Callable, num_consts: int):
    _no_closure(tangents, num_consts, 'custom_vjp')
    return _forward(fwd, bwd, primals[num_consts:], tangents[num_consts:])


def _forward(fwd: Callable, bwd: Callable, primals, tangents):
    outs, residuals = fwd(*primals)
    types = tuple(typeof(y).tangent() for y in outs)
    made = custom_lin(*residuals, *map(instantiated, tangents), bwd=bwd, num_res=len(residuals), out_types=types)
    return outs, made


custom_vjp_call = Primitive(
    'custom_vjp_call', type=_out_types, kernel=_kernel, jvp=_vjp_jvp, transpose=NoRule('its function is not linear'),
    batch=LATER, split=_inline, multiple=True, show=lambda params: {'call_jaxpr': params['jaxpr']})


def _lin_transpose(cts, *operands, bwd: Callable, num_res: int, out_types):
    found = bwd(operands[:num_res], [instantiated(ct) for ct in cts])
    return [*([None] * num_res), *(ct if x.__class__ is Linear else None
                                   for ct, x in zip(found, operands[num_res:], strict=True))]


custom_lin = Primitive(
    'custom_lin',
    type=lambda *types, bwd, num_res, out_types: out_types,
    kernel=lambda *a: _no_forward(),
    jvp=NoRule('it stands for the tangent of a custom_vjp function, which has no forward mode'),
    transpose=_lin_transpose, batch=LATER, multiple=True, fleeting=True)


def _no_forward():
    raise TypeError('a custom_vjp function has no forward-mode derivative: use custom_jvp, or reverse mode (grad, vjp)')


def call_custom_vjp(fun: Callable, fwd: Callable, bwd: Callable, args: Sequence) -> list:
    """Call a flat function with flat rules `fwd(*xs) -> (outs, residuals)` and `bwd(residuals, cts) -> cts`."""
    trace = current_trace()
    if isinstance(trace, JVPTrace):
        primals, tangents = zip(*map(trace.parts, args), strict=True) if args else ((), ())
        with use_trace(trace.parent):
            if all(t.__class__ is Zero for t in tangents):
                return call_custom_vjp(fun, fwd, bwd, primals)
            return _wrapped(trace, *_forward(fwd, bwd, primals, tangents))
    if _passes_on(trace, args):
        with use_trace(trace.parent):
            return call_custom_vjp(fun, fwd, bwd, args)
    if _stages(trace):
        jaxpr, consts = stage_closed(fun, [typeof(x) for x in args])
        return custom_vjp_call(*consts, *args, jaxpr=jaxpr, fwd=fwd, bwd=bwd, num_consts=len(consts))
    return list(fun(*args))


class custom_vjp:
    """A function whose reverse-mode derivative is given by two rules.

        @custom_vjp
        def f(x, y): ...
        f.defvjp(fwd, bwd)       # fwd(x, y) -> (f(x, y), residuals);  bwd(residuals, ct) -> (ct_x, ct_y)

    The type of every cotangent that `bwd` returns is checked: that of its argument with U and R exchanged. `None` stands for
    zero. `nondiff_argnums` are handed to `bwd` first.
    """

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = ()):
        update_wrapper(self, fun)
        self.fun, self.nondiff = fun, tuple(nondiff_argnums)
        self.fwd = self.bwd = None

    def defvjp(self, fwd: Callable, bwd: Callable) -> None:
        """Set the forward and the backward rule."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args):
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"no vjp rule was defined for custom_vjp function {self.__name__}: use defvjp")
        flat, fun, structure, nondiff, out_tree = _flattened(self.fun, self.nondiff, args)
        fixed = {i % len(args): args[i] for i in self.nondiff}
        cell: list = []

        def fwd(*leaves):
            values = iter(tree.unflatten(structure, leaves))
            pair = self.fwd(*(fixed[i] if i in fixed else next(values) for i in range(len(args))))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"the forward rule of {self.__name__} must return a pair (value, residuals), got {pair!r}")
            outs, made = tree.flatten(pair[0])
            residuals, res_tree = tree.flatten(pair[1])
            out_tree[:], cell[:] = [made], [res_tree]
            return list(outs), list(residuals)

        types = [typeof(x) for x in flat]

        def bwd(residuals, cts):
            found = self.bwd(*nondiff, tree.unflatten(cell[0], residuals), tree.unflatten(out_tree[0], cts))
            return _checked(self.__name__, found, types, structure)

        outs = call_custom_vjp(fun, fwd, bwd, flat)
        return tree.unflatten(out_tree[0], outs)


def _checked(name: str, found, types, structure) -> list:
    """The cotangents a backward rule returned, flat, of the types that the arguments ask for."""
    if not isinstance(found, (tuple, list)):
        raise TypeError(f"the backward rule of {name} must return a tuple with a cotangent for each argument, got {found!r}")
    primals = tree.unflatten(structure, types)
    given = tree.broadcast_prefix(tuple(found), primals, is_leaf=lambda x: x is None)
    paths = [tree.keystr(path) for path, _ in tree.flatten_with_path(primals)[0]]
    for path, ct, t in zip(paths, given, types, strict=True):
        if ct is None or t.tangent().dtype != t.dtype:
            continue
        got, want = typeof(ct).update(weak_type=False), t.dual().update(weak_type=False)
        if got != want and not (got.mesh.empty or want.mesh.empty):
            raise ValueError(f"the backward rule of {name}, a custom_vjp function, returned a cotangent ct of type {got} for "
                             f"argument {path} of type {t}; it must be of type {want}. {towards(got, want, 'ct')}")
    return [Zero(t.dual()) if ct is None else ct for ct, t in zip(given, types, strict=True)]
