"""The primitive `while`: a loop whose number of rounds is not known before it runs.

It can be differentiated forwards. Backwards it cannot: the values of the rounds are nowhere kept; a scan keeps them.
"""

from collections.abc import Callable

import numpy as np

from distad.compiler.codegen import Writer, compile_alone
from distad.control.branch import check_choice
from distad.control.call import call
from distad.control.loop import same_type
from distad.control.rounds import carry_over
from distad.core.jaxpr import Equation, Jaxpr, as_function
from distad.core.primitive import NoRule, Place, Primitive
from distad.core.trace import use_trace
from distad.core.value import Zero, typeof
from distad.ops.basic import instantiated
from distad.ops.cast import cast
from distad.ops.compare import and_, gt, select_n
from distad.ops.convert import convert_element_type
from distad.ops.reduction import reduce_max
from distad.transforms.batch import AxisData, batch_jaxpr, program_mentions
from distad.transforms.linearize import LinearTrace, split_jaxpr
from distad.transforms.programs import closed, jvp_jaxpr
from distad.transforms.stage import StageTrace, stage
from distad.types.array_type import ArrayType


def _type(*types: ArrayType, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, cond_consts: int, body_consts: int):
    carry = types[cond_consts + body_consts:]
    for want, got in zip(carry, body_jaxpr.out_types, strict=True):
        if not same_type(got, want):
            raise TypeError(f"while_loop: the carry enters a round as {want} and leaves it as {got}; the types must be equal")
    predicate, = cond_jaxpr.out_types
    if predicate.shape or predicate.dtype != bool:
        raise TypeError(f"while_loop: the condition must give a bool of rank 0, got {predicate}")
    check_choice('while_loop', predicate, (cond_jaxpr, body_jaxpr), body_jaxpr.out_types)
    return body_jaxpr.out_types


def _kernel(place: Place, ins, outs, params) -> Callable:
    return compile_alone(while_p, place, ins, outs, params)


def _emit(writer: Writer, eqn: Equation, operands: list[str], place: Place) -> list[str]:
    cond_consts, body_consts, initial = _cut(operands, eqn.params)
    carry = [writer.fresh('v') for _ in initial]
    for name, first in zip(carry, initial, strict=True):
        writer.line(f"{name} = {first}")
    writer.release_early({*initial} - {*cond_consts, *body_consts})
    with writer.block("while True:"):
        since = writer.count
        go, = writer.body(eqn.params['cond_jaxpr'], [*cond_consts, *carry], f"{place.path}while/cond/", keep=[*cond_consts, *carry])
        with writer.block(f"if not {go}:"):
            writer.line("break")
        results = writer.body(eqn.params['body_jaxpr'], [*body_consts, *carry], f"{place.path}while/body/",
                              keep=[*cond_consts, *body_consts])
        carry_over(writer, carry, results)
        writer.release_made(results, since)
    return carry


def _cut(values, params) -> tuple[list, list, list]:
    values, nc, nb = list(values), params['cond_consts'], params['body_consts']
    return values[:nc], values[nc:nc + nb], values[nc + nb:]


def _jvp(primals, tangents, **params):
    cond_consts, body_consts, carry = _cut(primals, params)
    _, t_consts, t_carry = _cut(tangents, params)
    on_consts = [t.__class__ is not Zero for t in t_consts]
    on = [t.__class__ is not Zero for t in t_carry]
    while True:
        program, live = jvp_jaxpr(params['body_jaxpr'], (*on_consts, *on), tuple(on))
        if list(live) == on:
            break
        on = list(live)
    t_consts = [t for t, used in zip(t_consts, on_consts, strict=True) if used]
    t_carry = [instantiated(t) for t, used in zip(t_carry, on, strict=True) if used]
    n, k, c = len(carry), len(t_consts), len(body_consts)

    def body(*args):
        consts, rest = args[:c + k], args[c + k:]
        return as_function(program)(*consts[:c], *rest[:n], *consts[c:], *rest[n:])

    def cond(*args):
        return as_function(params['cond_jaxpr'])(*args[:len(cond_consts) + n])

    types = params['body_jaxpr'].in_types
    t_types = [t.type for t in t_carry]
    made = while_p(
        *cond_consts, *body_consts, *t_consts, *carry, *t_carry, cond_consts=len(cond_consts), body_consts=c + k,
        body_jaxpr=closed(stage(body, [*types[:c], *(t.type for t in t_consts), *types[c:], *t_types], 'body')),
        cond_jaxpr=closed(stage(cond, [*params['cond_jaxpr'].in_types, *t_types], 'cond')))
    outs, given = made[:n], iter(made[n:])
    return outs, [next(given) if used else Zero(y.type.tangent()) for y, used in zip(outs, on, strict=True)]


def _split(trace: LinearTrace, owned, args, params):
    """Run what is known now; stage the whole loop for the rest, which computes the known part once more."""
    u_cond, u_body, u_carry = _cut(owned, params)
    cond_consts, body_consts, carry = _cut(args, params)
    while True:
        known, _, out_unknown, residuals = split_jaxpr(params['body_jaxpr'], [*u_body, *u_carry], u_carry)
        if out_unknown == u_carry:
            break
        u_carry = out_unknown
    if not any(u_cond) and not all(u_carry):
        kept = [not u for u in u_carry]
        n_out = sum(kept)
        body = known.changed(outs=known.outs[:n_out])
        n = len(u_cond)

        def cond(*xs):
            rest = iter(xs[n:])
            zero = [instantiated(Zero(t)) for t in params['cond_jaxpr'].in_types[n:]]
            return as_function(params['cond_jaxpr'])(*xs[:n], *(next(rest) if k else z for k, z in zip(kept, zero, strict=True)))

        known_carry = [x for x, k in zip(carry, kept, strict=True) if k]
        known_consts = [x for x, u in zip(body_consts, u_body, strict=True) if not u]
        types = params['cond_jaxpr'].in_types
        cond_jaxpr = closed(stage(cond, [*types[:n], *(t for t, k in zip(types[n:], kept, strict=True) if k)], 'cond'))
        with use_trace(trace.parent):
            made = iter(while_p(*cond_consts, *known_consts, *known_carry, cond_jaxpr=cond_jaxpr, body_jaxpr=body,
                                cond_consts=n, body_consts=len(known_consts)))
        whole = StageTrace.process(trace, while_p, args, params)
        return [next(made) if k else y for k, y in zip(kept, whole, strict=True)]
    return StageTrace.process(trace, while_p, args, params)


def _batch(axis: AxisData, values, dims, *, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **counts):
    """A loop of the batch. Where elements end at different times, it runs until all have, and those that have are left alone."""
    d_cond, d_body, d_carry = _cut(dims, counts)
    cond_consts, body_consts, carry = _cut(values, counts)
    on = [d is not None for d in d_carry]
    while True:
        types = [axis.batched(t, 0) if b else typeof(c) for t, b, c in zip(axis.inner(carry, d_carry), on, carry, strict=True)]
        places = [0 if b else None for b in on]
        test, (d_test,) = batch_jaxpr(cond_jaxpr, axis, [*map(typeof, cond_consts), *types], [*d_cond, *places])
        if d_test is not None and not all(on):
            on = [True] * len(on)
            continue
        body, out_dims = batch_jaxpr(body_jaxpr, axis, [*map(typeof, body_consts), *types], [*d_body, *places], on)
        grown = [d is not None for d in out_dims]
        if grown == on:
            break
        on = grown
    carry = [axis.whole(c, d) if b else c for c, d, b in zip(carry, d_carry, on, strict=True)]
    if d_test is not None and axis.name is not None and any(program_mentions(p, axis.name) for p in (cond_jaxpr, body_jaxpr)):
        raise ValueError(f"while_loop: a collective over the mapped axis {axis.name!r} stands in the loop, and the condition differs "
                         "along that axis: elements that are done would not come to it. Make the condition the same for all, with pmax "
                         "or pmin, or move the collective out of the loop.")
    if d_test is None:
        return while_p(*cond_consts, *body_consts, *carry, cond_jaxpr=test, body_jaxpr=body, **counts), places
    test, _ = batch_jaxpr(cond_jaxpr, axis, [*map(typeof, cond_consts), *types], [*d_cond, *places], [True])
    return _until_all_done(axis, cond_consts, body_consts, carry, test, body), places


def _until_all_done(axis: AxisData, cond_consts: list, body_consts: list, carry: list, test: Jaxpr, body: Jaxpr) -> list:
    """The loop `(running, *carry)`, where `running` says which elements go on."""
    n, m = len(cond_consts), len(body_consts)

    def going_on(running, *carry):
        number = convert_element_type(running, new_dtype=np.dtype(np.int32), weak_type=False)
        return [gt(axis.settled(reduce_max(number, axes=(0,))), np.int32(0))]

    def advance(*args):
        consts, (running, *old) = args[:n + m], args[n + m:]
        new = as_function(body)(*consts[n:], *old)
        kept = [axis.bind(select_n, axis.beside(running, 0, typeof(a).ndim - 1), a, b) for a, b in zip(old, new, strict=True)]
        kept = [cast(y, typeof(a)) for y, a in zip(kept, old, strict=True)]
        return [and_(running, *as_function(test)(*consts[:n], *kept)), *kept]

    running, = call(*cond_consts, *carry, jaxpr=test, name='cond')
    types = [typeof(running), *map(typeof, carry)]
    consts = [*cond_consts, *body_consts]
    _, *outs = while_p(*consts, running, *carry, cond_jaxpr=closed(stage(going_on, types, 'cond')),
                       body_jaxpr=closed(stage(advance, [*map(typeof, consts), *types], 'body')),
                       cond_consts=0, body_consts=n + m)
    return outs


while_p = Primitive(
    'while',
    type=_type,
    kernel=_kernel,
    emit=_emit,
    jvp=_jvp,
    transpose=NoRule('the values of its rounds are not kept. Use scan, or fori_loop with bounds that are Python numbers'),
    batch=_batch,
    split=_split,
    multiple=True)
