"""checkpoint: forget intermediate values and compute them again in the backward pass, but for those that a policy keeps.

The known part of the program runs now. What the derivative needs of it is computed again by the equations that made it; where a policy
keeps the results of one they are handed over instead, and what is then needed by nothing is not computed again.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from distad import tree
from distad.compiler.codegen import Writer, compile_alone
from distad.compiler.dce import dce
from distad.control.call import call
from distad.control.policies import Policy, named, nothing_saveable
from distad.core.jaxpr import Equation, Jaxpr, Literal, Var, as_function, at_equation, chosen, others
from distad.core.lift import as_value
from distad.core.primitive import Place, Primitive
from distad.core.trace import current_trace, use_trace
from distad.core.value import Linear, Zero, typeof
from distad.transforms.batch import AxisData, batch_jaxpr
from distad.transforms.linearize import LinearTrace, split_jaxpr
from distad.transforms.programs import closed, jvp_jaxpr, stage_closed, transpose_jaxpr
from distad.transforms.stage import StageTrace, stage


def _kernel(place: Place, ins, outs, params):
    return compile_alone(remat, place, ins, outs, params)


def _emit(writer: Writer, eqn: Equation, operands: list[str], place: Place) -> list[str]:
    return writer.body(eqn.params['jaxpr'], operands, f"{place.path}checkpoint/", keep=operands)


def _jvp(primals, tangents, *, jaxpr: Jaxpr, policy: Policy):
    active = tuple(t.__class__ is not Zero for t in tangents)
    program, live = jvp_jaxpr(jaxpr, active)
    made = remat(*primals, *chosen(tangents, active), jaxpr=program, policy=policy)
    outs, given = made[:len(live)], iter(made[len(live):])
    return outs, [next(given) if on else Zero(y.type.tangent()) for y, on in zip(outs, live, strict=True)]


def _split(trace: LinearTrace, owned, args, params):
    """Compute the known results now; stage the rest, which starts again from the known operands and what was kept."""
    policy = params['policy']
    known, linear, out_unknown, _ = split_jaxpr(params['jaxpr'], owned)
    known = _without_calls(known)
    count = len(out_unknown) - sum(out_unknown)
    kept = list(dict.fromkeys(v for eqn in known.equations for v in _kept(eqn, policy) if v not in known.ins))
    again = dce(known.changed(ins=(*known.ins, *kept), outs=known.outs[count:],
                              equations=tuple(_but_for(eqn, kept) for eqn in known.equations if not set(eqn.outs) <= set(kept))))
    read = {a for eqn in again.equations for a in eqn.ins} | set(again.outs)
    kept = [v for v in kept if v in read]
    again = again.changed(ins=(*known.ins, *kept))
    forward = dce(known.changed(outs=(*known.outs[:count], *kept)))
    known_args, unknown_args = others(args, owned), chosen(args, owned)
    with use_trace(trace.parent):
        made = remat(*known_args, jaxpr=forward, policy=policy)
    n = len(again.ins)
    rest = closed(stage(lambda *xs: as_function(linear)(*as_function(again)(*xs[:n]), *xs[n:]),
                        [*again.in_types, *(typeof(x) for x in unknown_args)], known.name))
    outs_known = iter(made[:count])
    outs = iter(StageTrace.process(trace, remat, (*known_args, *made[count:], *unknown_args), {'jaxpr': rest, 'policy': policy}))
    return [next(outs) if u else next(outs_known) for u in out_unknown]


def _kept(eqn: Equation, policy: Policy) -> Iterable[Var]:
    """What is kept of an equation: its results, or, of a name, what it names, which others may have used before it had the name."""
    if eqn.primitive.effect:                                 # what is called once gives its results once
        return eqn.outs
    if not policy(eqn.primitive, *(a.type for a in eqn.ins), **eqn.params):
        return ()
    return (a for a in eqn.ins if a.__class__ is Var) if eqn.primitive is named else eqn.outs


def _but_for(eqn: Equation, kept: Sequence[Var]) -> Equation:
    """An equation whose results go by other variables where they are there already."""
    return eqn.changed(outs=tuple(Var(v.type) if v in kept else v for v in eqn.outs))


def _without_calls(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with the jitted functions in it in line, so that a policy is asked of what they do."""
    if not any(eqn.primitive is call for eqn in jaxpr.equations):
        return jaxpr
    return closed(stage(lambda *xs: _in_line(jaxpr, xs), jaxpr.in_types, jaxpr.name))


def _in_line(jaxpr: Jaxpr, args) -> list:
    env = dict(zip(jaxpr.ins, args, strict=True))

    def read(a):
        return a.value if a.__class__ is Literal else env[a]

    for eqn in jaxpr.equations:
        operands = tuple(map(read, eqn.ins))
        with at_equation(eqn):
            outs = (_in_line(eqn.params['jaxpr'], operands) if eqn.primitive is call else
                    current_trace().process(eqn.primitive, operands, eqn.params))
        env.update(zip(eqn.outs, outs, strict=True))
    return list(map(read, jaxpr.outs))


def _transpose(cts, *operands, jaxpr: Jaxpr, policy: Policy):
    linear = tuple(x.__class__ is Linear for x in operands)
    known, rest, _, _ = split_jaxpr(jaxpr, linear, [True] * len(jaxpr.outs))
    given = tuple(ct.__class__ is not Zero for ct in cts)
    residuals = as_function(known)(*(x for x in operands if x.__class__ is not Linear))
    program, live = transpose_jaxpr(rest, (*([False] * len(residuals)), *([True] * sum(linear))), given)
    made = iter(as_function(program)(*residuals, *(ct for ct in cts if ct.__class__ is not Zero)))
    found = iter([next(made) if on else None for on in live])
    return [next(found) if lin else None for lin in linear]


def _prune(eqn: Equation, used: list[bool]) -> Equation:
    return eqn.changed(outs=chosen(eqn.outs, used), params={**eqn.params, 'jaxpr': dce(eqn.params['jaxpr'], used)})


def _batch(axis: AxisData, values, dims, *, jaxpr: Jaxpr, policy: Policy):
    program, out_dims = batch_jaxpr(jaxpr, axis, map(typeof, values), dims)
    return remat(*values, jaxpr=program, policy=policy), out_dims


remat = Primitive(
    'checkpoint',
    type=lambda *types, jaxpr, policy: jaxpr.out_types,
    kernel=_kernel,
    emit=_emit,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    split=_split,
    prune=_prune,
    show=lambda params: {'jaxpr': params['jaxpr']},
    multiple=True)


def checkpoint(fun: Callable, *, prevent_cse: bool = True, policy: Policy | None = None,
               static_argnums: int | Sequence[int] = ()) -> Callable:
    """The same function, whose intermediate values are not kept for the backward pass but computed again there.

    policy: which values are kept after all, one of `checkpoint_policies` or a function `(primitive, *types, **params) -> bool`; of a
    loop it is asked as a whole. static_argnums: positions of arguments that are no arrays. `prevent_cse` is accepted: what is
    computed again is never taken from the forward pass. Types and values are those of `fun`. Communication: that of `fun`, and
    once more in the backward pass as far as its results are needed there and not kept.

        y = lax.scan(lambda c, _: (checkpoint(step)(c), None), x, None, length=200)
        f = checkpoint(f, policy=checkpoint_policies.dots_saveable)
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @functools.wraps(fun)
    def forgetful(*args: Any, **kwargs: Any) -> Any:
        fixed = {i % len(args): args[i] for i in static}
        leaves, structure = tree.flatten(([x for i, x in enumerate(args) if i not in fixed], kwargs))
        values = [as_value(x, 'checkpoint') for x in leaves]
        cell: list = []

        def flat(*xs):
            given, named = tree.unflatten(structure, xs)
            rest = iter(given)
            outs, made = tree.flatten(fun(*(fixed[i] if i in fixed else next(rest) for i in range(len(args))), **named))
            cell[:] = [made]
            return [as_value(y, 'the result of checkpoint') for y in outs]

        jaxpr, consts = stage_closed(flat, [x.type for x in values], getattr(fun, '__name__', 'f'))
        return tree.unflatten(cell[0], remat(*consts, *values, jaxpr=jaxpr, policy=policy or nothing_saveable))

    return forgetful
