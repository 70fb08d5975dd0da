"""checkpoint: forget intermediate values and compute them again in the backward pass."""

import functools
from collections.abc import Callable
from typing import Any

from distad import tree
from distad.compiler.codegen import compile_jaxpr
from distad.compiler.dce import dce
from distad.core.jaxpr import Equation, Jaxpr, as_function, chosen, others
from distad.core.lift import as_value
from distad.core.primitive import Place, Primitive
from distad.core.trace import use_trace
from distad.core.value import Linear, Zero, typeof
from distad.transforms.batch import AxisData, batch_jaxpr
from distad.transforms.linearize import LinearTrace, split_jaxpr
from distad.transforms.programs import jvp_jaxpr, stage_closed, transpose_jaxpr
from distad.transforms.stage import StageTrace


def _kernel(place: Place, ins, outs, params):
    return compile_jaxpr(params['jaxpr'], place.mesh, f"{place.path}checkpoint/").run


def _jvp(primals, tangents, *, jaxpr: Jaxpr):
    active = tuple(t.__class__ is not Zero for t in tangents)
    program, live = jvp_jaxpr(jaxpr, active)
    made = remat(*primals, *chosen(tangents, active), jaxpr=program)
    outs, given = made[:len(live)], iter(made[len(live):])
    return outs, [next(given) if on else Zero(y.type.tangent()) for y, on in zip(outs, live, strict=True)]


def _split(trace: LinearTrace, owned, args, params):
    """Compute the known results now; stage the whole body, which starts again from the known operands."""
    jaxpr = params['jaxpr']
    known, _, out_unknown, _ = split_jaxpr(jaxpr, owned)
    count = len(out_unknown) - sum(out_unknown)
    program = known.changed(outs=known.outs[:count])
    with use_trace(trace.parent):
        outs_known = iter(remat(*others(args, owned), jaxpr=program))
    rest = dce(jaxpr, out_unknown)
    outs = iter(StageTrace.process(trace, remat, args, {'jaxpr': rest}))
    return [next(outs) if u else next(outs_known) for u in out_unknown]


def _transpose(cts, *operands, jaxpr: Jaxpr):
    linear = tuple(x.__class__ is Linear for x in operands)
    known, rest, _, _ = split_jaxpr(jaxpr, linear, [True] * len(jaxpr.outs))
    given = tuple(ct.__class__ is not Zero for ct in cts)
    residuals = as_function(known)(*(x for x in operands if x.__class__ is not Linear))
    program, live = transpose_jaxpr(rest, (*([False] * len(residuals)), *([True] * sum(linear))), given)
    made = iter(as_function(program)(*residuals, *(ct for ct in cts if ct.__class__ is not Zero)))
    found = iter([next(made) if on else None for on in live])
    return [next(found) if lin else None for lin in linear]


def _prune(eqn: Equation, used: list[bool]) -> Equation:
    return eqn.changed(outs=chosen(eqn.outs, used), params={'jaxpr': dce(eqn.params['jaxpr'], used)})


def _batch(axis: AxisData, values, dims, *, jaxpr: Jaxpr):
    program, out_dims = batch_jaxpr(jaxpr, axis, map(typeof, values), dims)
    return remat(*values, jaxpr=program), out_dims


remat = Primitive(
    'checkpoint',
    type=lambda *types, jaxpr: jaxpr.out_types,
    kernel=_kernel,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    split=_split,
    prune=_prune,
    multiple=True)


def checkpoint(fun: Callable) -> Callable:
    """The same function, whose intermediate values are not kept for the backward pass but computed again there.

    Types and values are those of `fun`. Communication: that of `fun`, and once more in the backward pass as far as its
    results are needed there.

        y = lax.scan(lambda c, _: (checkpoint(step)(c), None), x, None, length=200)
    """
    @functools.wraps(fun)
    def forgetful(*args: Any) -> Any:
        leaves, structure = tree.flatten(args)
        values = [as_value(x, 'checkpoint') for x in leaves]
        cell: list = []

        def flat(*xs):
            outs, made = tree.flatten(fun(*tree.unflatten(structure, xs)))
            cell[:] = [made]
            return [as_value(y, 'the result of checkpoint') for y in outs]

        jaxpr, consts = stage_closed(flat, [x.type for x in values], getattr(fun, '__name__', 'f'))
        return tree.unflatten(cell[0], remat(*consts, *values, jaxpr=jaxpr))

    return forgetful
