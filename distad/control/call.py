"""The primitive `jit`: a call of a program. Eagerly it runs compiled; in a program it is one equation with a program inside."""

from distad.compiler.codegen import compile_jaxpr
from distad.compiler.dce import dce
from distad.core.collector import collector_waits
from distad.core.jaxpr import Equation, Jaxpr, chosen, others
from distad.core.primitive import Place, Primitive
from distad.core.trace import use_trace
from distad.core.value import Linear, Zero, typeof
from distad.transforms.batch import AxisData, batch_jaxpr
from distad.transforms.linearize import LinearTrace, split_jaxpr
from distad.transforms.programs import jvp_jaxpr, transpose_jaxpr
from distad.transforms.stage import StageTrace


def _kernel(place: Place, ins, outs, params):
    with collector_waits():
        return compile_jaxpr(params['jaxpr'], place.mesh, f"{place.path}jit({params['name']})/").run


def _jvp(primals, tangents, *, jaxpr: Jaxpr, name: str):
    active = tuple(t.__class__ is not Zero for t in tangents)
    program, live = jvp_jaxpr(jaxpr, active)
    made = call(*primals, *(t for t in tangents if t.__class__ is not Zero), jaxpr=program, name=name)
    outs, given = made[:len(live)], iter(made[len(live):])
    return outs, [next(given) if on else Zero(y.type.tangent()) for y, on in zip(outs, live, strict=True)]


def _split(trace: LinearTrace, owned, args, params):
    known, linear, out_unknown, _ = split_jaxpr(params['jaxpr'], owned)
    with use_trace(trace.parent):
        made = call(*others(args, owned), jaxpr=known, name=params['name'])
    count = len(out_unknown) - sum(out_unknown)
    outs_known, residuals = iter(made[:count]), made[count:]
    unknown_args = chosen(args, owned)
    outs = iter(StageTrace.process(trace, call, (*residuals, *unknown_args), dict(params, jaxpr=linear)))
    return [next(outs) if u else next(outs_known) for u in out_unknown]


def _transpose(cts, *operands, jaxpr: Jaxpr, name: str):
    linear = tuple(x.__class__ is Linear for x in operands)
    given = tuple(ct.__class__ is not Zero for ct in cts)
    program, live = transpose_jaxpr(jaxpr, linear, given)
    made = iter(call(*(x for x in operands if x.__class__ is not Linear), *(ct for ct in cts if ct.__class__ is not Zero),
                     jaxpr=program, name=name))
    found = iter([next(made) if on else None for on in live])
    return [next(found) if lin else None for lin in linear]


def _prune(eqn: Equation, used: list[bool]) -> Equation:
    return eqn.changed(outs=chosen(eqn.outs, used), params=dict(eqn.params, jaxpr=dce(eqn.params['jaxpr'], used)))


def _batch(axis: AxisData, values, dims, *, jaxpr: Jaxpr, name: str):
    program, out_dims = batch_jaxpr(jaxpr, axis, map(typeof, values), dims)
    return call(*values, jaxpr=program, name=name), out_dims


call = Primitive(
    'jit',
    type=lambda *types, jaxpr, name: jaxpr.out_types,
    kernel=_kernel,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    split=_split,
    prune=_prune,
    multiple=True)
