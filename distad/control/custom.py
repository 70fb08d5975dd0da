"""Functions with a derivative of their own: custom_jvp and custom_vjp.

Outside of a transformation the function just runs. Forward mode asks the trace (`custom_jvp`, `custom_vjp` below), which
runs the user's rule; a staged program keeps function and rule together in one equation, for whoever differentiates it later.
"""

from collections.abc import Callable, Sequence
from functools import update_wrapper

from distad import tree
from distad.compiler.codegen import compile_jaxpr
from distad.control.repair import towards
from distad.core.jaxpr import Jaxpr, chosen, evaluate
from distad.core.primitive import NoRule, Place, Primitive
from distad.core.trace import Trace, current_trace, use_trace
from distad.core.value import Linear, Zero, typeof
from distad.ops.basic import instantiated
from distad.ops.broadcast import reduce_sum
from distad.transforms.batch import AxisData, BatchTrace, Casting, batch_flat
from distad.transforms.jvp import JVPTrace, JVPTracer
from distad.transforms.linearize import LinearTrace
from distad.transforms.programs import stage_closed
from distad.transforms.stage import StageTrace


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


def _closed_over(axis: AxisData, values, dims, count: int) -> tuple[list, object]:
    """What a staged function closes over, as it sees it on a batch, and the tag of its tracers."""
    trace = BatchTrace(current_trace(), axis)
    return [x if d is None else trace.wrap(x, d) for x, d in zip(values[:count], dims[:count], strict=True)], trace.tag


# ---- custom_jvp

def _jvp_of_call(primals, tangents, *, jaxpr: Jaxpr, rule: Callable, num_consts: int):
    _no_closure(tangents, num_consts, 'custom_jvp')
    return rule(primals[num_consts:], tangents[num_consts:])


def _jvp_call_batch(axis: AxisData, values, dims, *, jaxpr: Jaxpr, rule: Callable, num_consts: int):
    consts, tag = _closed_over(axis, values, dims, num_consts)
    return _batch_custom_jvp(axis, lambda *xs: evaluate(jaxpr, *consts, *xs), rule, values[num_consts:], dims[num_consts:], tag)


custom_jvp_call = Primitive(
    'custom_jvp_call', type=_out_types, kernel=_kernel, jvp=_jvp_of_call, transpose=NoRule('its function is not linear'),
    batch=_jvp_call_batch, split=_inline, multiple=True, show=lambda params: {'call_jaxpr': params['jaxpr']})


def call_custom_jvp(fun: Callable, rule: Callable, args: Sequence) -> list:
    """Call a flat function that has a flat jvp rule `(primals, tangents) -> (outs, tangents)` (tangents may be Zero)."""
    trace = current_trace()
    if isinstance(trace, JVPTrace):
        primals, tangents = zip(*map(trace.parts, args), strict=True) if args else ((), ())
        with use_trace(trace.parent):
            if all(t.__class__ is Zero for t in tangents):
                return call_custom_jvp(fun, rule, primals)
            return _wrapped(trace, *rule(primals, tangents))
    if isinstance(trace, BatchTrace):
        values, dims = zip(*map(trace.parts, args), strict=True) if args else ((), ())
        with use_trace(trace.inner):
            outs, places = _batch_custom_jvp(trace.axis, fun, rule, values, dims, trace.tag)
            return [trace.wrap(y, d) for y, d in zip(outs, places, strict=True)]
    if isinstance(trace, Casting) or passes_on(trace, args):
        with use_trace(trace.parent):
            return call_custom_jvp(fun, rule, args)
    if stages(trace):
        jaxpr, consts = stage_closed(fun, [typeof(x) for x in args])
        return custom_jvp_call(*consts, *args, jaxpr=jaxpr, rule=rule, num_consts=len(consts))
    return list(fun(*args))


def passes_on(trace: Trace, args: Sequence) -> bool:
    """Whether a call is none of a linear trace's: nothing that it writes down enters. Then its parent takes the call whole."""
    return isinstance(trace, LinearTrace) and not any(map(trace.owns, args))


def stages(trace: Trace) -> bool:
    """Whether the call is written down now."""
    return isinstance(trace, StageTrace) and not isinstance(trace, LinearTrace)


# ---- on a batch: function and rules become functions of batches, and stay together

class _Places:
    """Where values of a batched function have their batch; written when it runs, read by who uses them."""

    def __init__(self) -> None:
        self.outs: list = []
        self.residuals: list = []


def _batched(axis: AxisData, f: Callable, dims: Sequence, tag: object, note: Callable[[list], None]) -> Callable:
    """A flat function on batches; `note` learns where the results have theirs."""
    def g(*values):
        outs, found = batch_flat(f, axis, values, dims, tag)
        note(found)
        return outs
    return g


def _batch_custom_jvp(axis: AxisData, fun: Callable, rule: Callable, values: Sequence, dims: Sequence, tag: object):
    places = _Places()

    def rule_of_batch(primals, tangents):
        live = [t.__class__ is not Zero for t in tangents]

        def f(*args):
            given = iter(args[len(primals):])
            ts = [next(given) if on else Zero(typeof(x).tangent()) for x, on in zip(args, live, strict=False)]
            outs, made = rule(args[:len(primals)], ts)
            kept[:] = [t.__class__ is not Zero for t in made]
            return [*outs, *chosen(made, kept)]

        kept: list[bool] = []
        found, where = batch_flat(f, axis, [*primals, *chosen(tangents, live)], [*dims, *chosen(dims, live)], tag)
        n = len(kept)
        outs, given = found[:n], iter(zip(found[n:], where[n:], strict=True))
        pairs = [next(given) if on else None for on in kept]
        places.outs = [0 if d is not None or (p is not None and p[1] is not None) else None
                       for d, p in zip(where[:n], pairs, strict=True)]
        outs = [y if to is None else axis.whole(y, d) for y, d, to in zip(outs, where[:n], places.outs, strict=True)]
        ts = [Zero(typeof(y).tangent()) if p is None else p[0] if to is None else axis.whole(*p)
              for y, p, to in zip(outs, pairs, places.outs, strict=True)]
        return outs, ts

    outs = call_custom_jvp(_batched(axis, fun, dims, tag, lambda d: setattr(places, 'outs', d)), rule_of_batch, values)
    return outs, places.outs


def _batch_custom_vjp(axis: AxisData, fun: Callable, fwd: Callable, bwd: Callable, values: Sequence, dims: Sequence, tag: object):
    places = _Places()

    def fwd_of_batch(*xs):
        def f(*args):
            outs, residuals = fwd(*args)
            places.outs = [None] * len(outs)
            return [*outs, *residuals]
        found, where = batch_flat(f, axis, xs, dims, tag)
        n = len(places.outs)
        places.outs, places.residuals = where[:n], where[n:]
        return found[:n], found[n:]

    def bwd_of_batch(residuals, cts):
        live: list[bool] = []

        def f(*args):
            made = bwd(args[:len(residuals)], list(args[len(residuals):]))
            live[:] = [ct.__class__ is not Zero for ct in made]
            return list(chosen(made, live))
        found, where = batch_flat(f, axis, [*residuals, *cts], [*places.residuals, *places.outs], tag)
        given = iter(zip(found, where, strict=True))
        return [_home(axis, *next(given), d) if on else Zero(typeof(x).dual()) for on, x, d in zip(live, values, dims, strict=True)]

    outs = call_custom_vjp(_batched(axis, fun, dims, tag, lambda d: setattr(places, 'outs', d)), fwd_of_batch, bwd_of_batch, values)
    return outs, places.outs


def _home(axis: AxisData, ct, have: int | None, want: int | None):
    """A cotangent where its argument has the batch; of an argument without batch all elements' cotangents add up."""
    if want is not None:
        return axis.whole(ct, have, want)
    return ct if have is None else axis.settled(reduce_sum(ct, axes=(have,)))


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


def _vjp_call_batch(axis: AxisData, values, dims, *, jaxpr: Jaxpr, fwd: Callable, bwd: Callable, num_consts: int):
    consts, tag = _closed_over(axis, values, dims, num_consts)
    return _batch_custom_vjp(axis, lambda *xs: evaluate(jaxpr, *consts, *xs), fwd, bwd, values[num_consts:], dims[num_consts:], tag)


custom_vjp_call = Primitive(
    'custom_vjp_call', type=_out_types, kernel=_kernel, jvp=_vjp_jvp, transpose=NoRule('its function is not linear'),
    batch=_vjp_call_batch, split=_inline, multiple=True, show=lambda params: {'call_jaxpr': params['jaxpr']})


def _lin_transpose(cts, *operands, bwd: Callable, num_res: int, out_types):
    found = bwd(operands[:num_res], [instantiated(ct) for ct in cts])
    return [*([None] * num_res), *(ct if x.__class__ is Linear else None
                                   for ct, x in zip(found, operands[num_res:], strict=True))]


custom_lin = Primitive(
    'custom_lin',
    type=lambda *types, bwd, num_res, out_types: out_types,
    kernel=lambda *a: _no_forward(),
    jvp=NoRule('it stands for the tangent of a custom_vjp function, which has no forward mode'),
    transpose=_lin_transpose, batch=NoRule('it is transposed before anything else is done to it'), multiple=True, fleeting=True)


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
    if isinstance(trace, BatchTrace):
        values, dims = zip(*map(trace.parts, args), strict=True) if args else ((), ())
        with use_trace(trace.inner):
            outs, places = _batch_custom_vjp(trace.axis, fun, fwd, bwd, values, dims, trace.tag)
            return [trace.wrap(y, d) for y, d in zip(outs, places, strict=True)]
    if isinstance(trace, Casting) or passes_on(trace, args):
        with use_trace(trace.parent):
            return call_custom_vjp(fun, fwd, bwd, args)
    if stages(trace):
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
