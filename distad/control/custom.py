"""Calls of functions with a derivative of their own; `custom_rules` has what users write.

Outside of a transformation the function just runs. Forward mode asks the trace (`custom_jvp`, `custom_vjp` below), which
runs the user's rule; a staged program keeps function and rule together in one equation, for whoever differentiates it later.
"""

from collections.abc import Callable, Sequence

from distad.compiler.codegen import compile_jaxpr
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

    def fun_of_batch(*xs):
        outs, places.outs = _each_its_own(axis, *batch_flat(fun, axis, xs, dims, tag))
        return outs

    def fwd_of_batch(active, *xs):
        def f(*args):
            outs, residuals = fwd(active, *args)
            places.outs = [None] * len(outs)
            return [*outs, *residuals]
        found, where = batch_flat(f, axis, xs, dims, tag)
        n = len(places.outs)
        outs, places.outs = _each_its_own(axis, found[:n], where[:n])
        places.residuals = where[n:]
        return outs, found[n:]

    outs = call_custom_vjp(fun_of_batch, fwd_of_batch, _bwd_of_batch(axis, bwd, places, values, dims, tag), values)
    return outs, places.outs


def _bwd_of_batch(axis: AxisData, bwd: Callable, places: _Places, values: Sequence, dims: Sequence, tag: object) -> Callable:
    """The backward rule on batches, whose residuals and cotangents have theirs at `places`; `values` are what it is linear in."""
    def rule(residuals, cts):
        live: list[bool] = []
        given_cts = [ct.__class__ is not Zero for ct in cts]

        def f(*args):
            arrived = iter(args[len(residuals):])
            made = bwd(args[:len(residuals)], [next(arrived) if on else Zero(axis.hidden(ct.type, d))
                                               for on, ct, d in zip(given_cts, cts, places.outs, strict=True)])
            live[:] = [ct.__class__ is not Zero for ct in made]
            return list(chosen(made, live))

        found, where = batch_flat(f, axis, [*residuals, *chosen(cts, given_cts)],
                                  [*places.residuals, *chosen(places.outs, given_cts)], tag)
        given = iter(zip(found, where, strict=True))
        return [_home(axis, *next(given), d) if on else Zero(typeof(x).dual()) for on, x, d in zip(live, values, dims, strict=True)]
    return rule


def _each_its_own(axis: AxisData, outs: Sequence, places: Sequence[int | None]) -> tuple[list, list[int | None]]:
    """Results as the backward rule is told of them: where collectives over the axis may make them the same for all elements, each
    element still has a cotangent of its own."""
    if axis.name is None:
        return list(outs), list(places)
    return [axis.whole(y, d) for y, d in zip(outs, places, strict=True)], [0] * len(places)


def _home(axis: AxisData, ct, have: int | None, want: int | None):
    """A cotangent where its argument has the batch; of an argument without batch all elements' cotangents add up."""
    if want is not None:
        return axis.whole(ct, have, want)
    return ct if have is None else axis.settled(reduce_sum(ct, axes=(have,)))


def _wrapped(trace: JVPTrace, outs, tangents) -> list:
    return [y if t.__class__ is Zero else JVPTracer(trace, y, t) for y, t in zip(outs, tangents, strict=True)]


# ---- custom_vjp

def _vjp_jvp(primals, tangents, *, jaxpr: Jaxpr, fwd: Callable, bwd: Callable, num_consts: int):
    _no_closure(tangents, num_consts, 'custom_vjp')
    return _forward(fwd, bwd, primals[num_consts:], tangents[num_consts:])


def _forward(fwd: Callable, bwd: Callable, primals, tangents):
    outs, residuals = fwd(tuple(t.__class__ is not Zero for t in tangents), *primals)
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
    found = bwd(operands[:num_res], cts)
    return [*([None] * num_res), *(ct if x.__class__ is Linear else None
                                   for ct, x in zip(found, operands[num_res:], strict=True))]


def _lin_batch(axis: AxisData, values, dims, *, bwd: Callable, num_res: int, out_types):
    places = _Places()
    places.residuals, places.outs = list(dims[:num_res]), [0] * len(out_types)
    rule = _bwd_of_batch(axis, bwd, places, values[num_res:], dims[num_res:], None)
    return custom_lin(*values, bwd=rule, num_res=num_res, out_types=tuple(axis.batched(t, 0) for t in out_types)), places.outs


custom_lin = Primitive(
    'custom_lin',
    type=lambda *types, bwd, num_res, out_types: out_types,
    kernel=lambda *a: _no_forward(),
    jvp=NoRule('it stands for the tangent of a custom_vjp function, which has no forward mode'),
    transpose=_lin_transpose, batch=_lin_batch, multiple=True, fleeting=True)


def _no_forward():
    raise TypeError('a custom_vjp function has no forward-mode derivative: use custom_jvp, or reverse mode (grad, vjp)')


def call_custom_vjp(fun: Callable, fwd: Callable, bwd: Callable, args: Sequence) -> list:
    """Call a flat function with flat rules: `fwd(active, *xs) -> (outs, residuals)`, told which arguments are differentiated, and
    `bwd(residuals, cts) -> cts`, in which cotangents may be Zero."""
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
