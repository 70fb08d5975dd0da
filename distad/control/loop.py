"""The primitive `scan`: a loop that carries values along, reads slices of arrays and writes slices of others.

The body is a program `(*consts, *carry, *slices) -> (*carry, *slices)`. Carries keep their type from one round to the next,
states included; so a carry may be unreduced, and summing gradients in it costs nothing until the loop is done.
"""

from collections.abc import Callable

from distad.compiler.codegen import compile_alone
from distad.compiler.dce import dce
from distad.control.rounds import emit_scan
from distad.core.jaxpr import Equation, Jaxpr, chosen, evaluate, others
from distad.core.primitive import Place, Primitive
from distad.core.trace import use_trace
from distad.core.value import Linear, Zero, typeof
from distad.errors import ShardingTypeError
from distad.ops.basic import add_any, instantiated, zeros_of
from distad.transforms.batch import AxisData, batch_jaxpr
from distad.transforms.linearize import LinearTrace, split_jaxpr
from distad.transforms.programs import closed, jvp_jaxpr, transpose_jaxpr
from distad.transforms.stage import StageTrace, stage
from distad.types.array_type import ArrayType


def stacked(t: ArrayType, length: int) -> ArrayType:
    """The type of `length` values of a type: a leading dimension that is not split."""
    return t.update(shape=(length, *t.shape), partitions=((), *t.partitions))


def unstacked(t: ArrayType) -> ArrayType:
    """The type of one slice along the leading dimension."""
    if t.partitions[0]:
        raise ShardingTypeError(
            f"scan takes slices along dimension 0, which is split over {', '.join(t.partitions[0])} in {t}. Gather the "
            "dimension with reshard first, or move the split to another dimension.")
    return t.update(shape=t.shape[1:], partitions=t.partitions[1:])


def same_type(got: ArrayType, want: ArrayType) -> bool:
    return got.update(weak_type=False) is want.update(weak_type=False) or got.update(weak_type=False) == want.update(
        weak_type=False)


def _type(*types: ArrayType, jaxpr: Jaxpr, length: int, reverse: bool, num_consts: int, num_carry: int):
    before = num_consts + num_carry
    for t in types[before:]:
        if t.ndim == 0 or t.shape[0] != length:
            raise ValueError(f"scan of length {length} got a scanned-over array of type {t}")
    entering = (*types[:before], *map(unstacked, types[before:]))
    for got, want in zip(entering, jaxpr.in_types, strict=True):
        if not same_type(got, want):
            raise TypeError(f"scan: the body takes {want}, got {got}")
    for got, want in zip(jaxpr.out_types[:num_carry], jaxpr.in_types[num_consts:before], strict=True):
        if not same_type(got, want):
            raise TypeError(f"scan: the carry enters a round as {want} and leaves it as {got}; the types must be equal")
    return (*jaxpr.out_types[:num_carry], *(stacked(t, length) for t in jaxpr.out_types[num_carry:]))


def _kernel(place: Place, ins, outs, params) -> Callable:
    return compile_alone(scan, place, ins, outs, params)


def _cut(flags, num_consts: int, num_carry: int):
    flags = list(flags)
    return flags[:num_consts], flags[num_consts:num_consts + num_carry], flags[num_consts + num_carry:]


def _jvp(primals, tangents, *, jaxpr: Jaxpr, length: int, reverse: bool, num_consts: int, num_carry: int):
    on_consts, on_carry, on_xs = _cut((t.__class__ is not Zero for t in tangents), num_consts, num_carry)
    while True:                                     # a carry that gets a tangent in the body needs one from the start
        want = (*on_carry, *([False] * (len(jaxpr.outs) - num_carry)))
        program, live = jvp_jaxpr(jaxpr, (*on_consts, *on_carry, *on_xs), want)
        if list(live[:num_carry]) == on_carry:
            break
        on_carry = list(live[:num_carry])
    consts, carry, xs = _cut(primals, num_consts, num_carry)
    t_consts, t_carry, t_xs = _cut(tangents, num_consts, num_carry)
    t_consts = chosen(t_consts, on_consts)
    t_carry = [instantiated(t) for t, on in zip(t_carry, on_carry, strict=True) if on]
    t_xs = chosen(t_xs, on_xs)
    # the staged program takes all primals, then all tangents: bring them to the order of a scan's body
    body = _reorder(program, [len(consts), len(carry), len(xs), len(t_consts), len(t_carry), len(t_xs)],
                    (0, 3, 1, 4, 2, 5), [num_carry, len(jaxpr.outs) - num_carry, len(t_carry), 0], (0, 2, 1, 3))
    made = scan(*consts, *t_consts, *carry, *t_carry, *xs, *t_xs, jaxpr=body, length=length, reverse=reverse,
                num_consts=num_consts + len(t_consts), num_carry=num_carry + len(t_carry))
    many_ys = len(jaxpr.outs) - num_carry
    carry_out, made = made[:num_carry], made[num_carry:]
    t_carry_out, made = iter(made[:len(t_carry)]), made[len(t_carry):]
    ys, t_ys = made[:many_ys], iter(made[many_ys:])
    outs = [*carry_out, *ys]
    given = [*(next(t_carry_out) if on else None for on in on_carry), *(next(t_ys) if on else None for on in live[num_carry:])]
    return outs, [Zero(y.type.tangent()) if t is None else t for y, t in zip(outs, given, strict=True)]


def _reorder(jaxpr: Jaxpr, in_sizes, in_order, out_sizes, out_order) -> Jaxpr:
    """The same program with groups of its inputs and outputs in another order. The last group takes what is left."""
    def groups(atoms, sizes):
        parts, rest = [], list(atoms)
        for n in sizes:
            parts.append(rest[:n])
            rest = rest[n:]
        parts[-1].extend(rest)
        return parts
    ins, outs = groups(jaxpr.ins, in_sizes), groups(jaxpr.outs, out_sizes)
    return jaxpr.changed(ins=tuple(v for i in in_order for v in ins[i]), outs=tuple(a for i in out_order for a in outs[i]))


def _split(trace: LinearTrace, owned, args, params):
    jaxpr, num_consts, num_carry = params['jaxpr'], params['num_consts'], params['num_carry']
    u_consts, u_carry, u_xs = _cut(owned, num_consts, num_carry)
    while True:
        force = [*u_carry, *([False] * (len(jaxpr.outs) - num_carry))]
        known, linear, out_unknown, residuals = split_jaxpr(jaxpr, [*u_consts, *u_carry, *u_xs], force)
        if out_unknown[:num_carry] == u_carry:
            break
        u_carry = out_unknown[:num_carry]
    consts, carry, xs = _cut(args, num_consts, num_carry)
    k_consts, k_carry, k_xs = (others(part, flags) for part, flags in
                               ((consts, u_consts), (carry, u_carry), (xs, u_xs)))
    n_consts, n_carry = len(k_consts), len(k_carry)
    # A residual that is a constant of the loop, or a slice of a known array, is handed on as it is; others are stacked.
    stack = [i for i, p in enumerate(residuals) if p is None or n_consts <= p < n_consts + n_carry]
    keep = len(known.outs) - len(residuals)
    program = known.changed(outs=(*known.outs[:keep], *(known.outs[keep + i] for i in stack)))
    with use_trace(trace.parent):
        made = scan(*k_consts, *k_carry, *k_xs, jaxpr=program, length=params['length'], reverse=params['reverse'],
                    num_consts=n_consts, num_carry=n_carry)
    known_outs, stacks = made[:keep], dict(zip(stack, made[keep:], strict=True))
    as_const = [i for i, p in enumerate(residuals) if p is not None and p < n_consts]
    as_slice = [i for i in range(len(residuals)) if i not in as_const]
    sliced = [stacks[i] if i in stacks else k_xs[residuals[i] - n_consts - n_carry] for i in as_slice]
    rest = linear.ins[len(residuals):]
    l_consts, l_carry, l_xs = _cut(rest, sum(u_consts), sum(u_carry))
    body = linear.changed(ins=(*(linear.ins[i] for i in as_const), *l_consts, *l_carry,
                               *(linear.ins[i] for i in as_slice), *l_xs))
    operands = (*(k_consts[residuals[i]] for i in as_const), *chosen(consts, u_consts), *chosen(carry, u_carry),
                *sliced, *chosen(xs, u_xs))
    outs = iter(StageTrace.process(trace, scan, operands, dict(
        params, jaxpr=body, num_consts=len(as_const) + len(l_consts), num_carry=len(l_carry))))
    known_iter = iter(known_outs)
    return [next(outs) if u else next(known_iter) for u in out_unknown]


def _transpose(cts, *operands, jaxpr: Jaxpr, length: int, reverse: bool, num_consts: int, num_carry: int):
    """A scan the other way: cotangents of the constants are summed in the carry, those of slices come out as slices."""
    lin_consts, _, lin_xs = _cut((x.__class__ is Linear for x in operands), num_consts, num_carry)
    consts, carry, xs = _cut(operands, num_consts, num_carry)
    ct_carry, ct_ys = cts[:num_carry], cts[num_carry:]
    linear = (*lin_consts, *([True] * num_carry), *lin_xs)
    program, _ = transpose_jaxpr(jaxpr, linear, (True,) * len(jaxpr.outs), True)
    known_consts = others(consts, lin_consts)
    known_xs = others(xs, lin_xs)
    n_acc, n_known = sum(lin_consts), len(known_consts)
    ct_types = program.out_types[:n_acc]                   # duals; that of a constant that was never placed is on the mesh

    def body(*args):
        given, args = args[:n_known], args[n_known:]
        sums, args = args[:n_acc], args[n_acc:]
        ct_c, args = args[:num_carry], args[num_carry:]
        slices, ct_y = args[:len(known_xs)], args[len(known_xs):]
        made = evaluate(program, *given, *slices, *ct_c, *ct_y)
        new, made = made[:n_acc], made[n_acc:]
        return [*(add_any(a, b) for a, b in zip(sums, new, strict=True)), *made]

    x_types = jaxpr.in_types[num_consts + num_carry:]
    types = [*(t for t, lin in zip(jaxpr.in_types[:num_consts], lin_consts, strict=True) if not lin), *ct_types,
             *(t.dual() for t in jaxpr.out_types[:num_carry]),
             *(t for t, lin in zip(x_types, lin_xs, strict=True) if not lin), *(t.dual() for t in jaxpr.out_types[num_carry:])]
    backwards = closed(stage(body, types, jaxpr.name))
    made = scan(*known_consts, *(zeros_of(t) for t in ct_types), *map(instantiated, ct_carry), *known_xs,
                *map(instantiated, ct_ys), jaxpr=backwards, length=length, reverse=not reverse, num_consts=n_known,
                num_carry=n_acc + num_carry)
    ct_consts, made = iter(made[:n_acc]), made[n_acc:]
    ct_init, ct_xs = made[:num_carry], iter(made[num_carry:])
    return [*(next(ct_consts) if lin else None for lin in lin_consts),
            *(ct if x.__class__ is Linear else None for ct, x in zip(ct_init, carry, strict=True)),
            *(next(ct_xs) if lin else None for lin in lin_xs)]


def _prune(eqn: Equation, used: list[bool]) -> Equation:
    """Drop results that nobody reads: slices at once, carries when no kept result depends on them."""
    jaxpr, num_consts, num_carry = eqn.params['jaxpr'], eqn.params['num_consts'], eqn.params['num_carry']
    used_carry, used_ys = used[:num_carry], used[num_carry:]
    carry_ins = jaxpr.ins[num_consts:num_consts + num_carry]
    while True:
        program = dce(jaxpr, [*used_carry, *used_ys])
        read = {a for e in program.equations for a in e.ins} | set(program.outs)
        needed = [u or v in read for u, v in zip(used_carry, carry_ins, strict=True)]
        if needed == used_carry:
            break
        used_carry = needed
    keep = [*([True] * num_consts), *used_carry, *([True] * (len(jaxpr.ins) - num_consts - num_carry))]
    program = program.changed(ins=chosen(program.ins, keep))
    return eqn.changed(ins=chosen(eqn.ins, keep), outs=chosen(eqn.outs, [*used_carry, *used_ys]),
                       params=dict(eqn.params, jaxpr=program, num_carry=sum(used_carry)))


def _batch(axis: AxisData, values, dims, *, jaxpr: Jaxpr, num_consts: int, num_carry: int, **params):
    """A scan of the batch: carries and slices have the batch in front of what a round sees of them.

    A carry has a batch if it enters with one, or if a round gives it one.
    """
    d_consts, d_carry, d_xs = _cut(dims, num_consts, num_carry)
    consts, carry, xs = _cut(values, num_consts, num_carry)
    xs = [x if d is None else axis.move(x, d, 1) for x, d in zip(xs, d_xs, strict=True)]
    slices = [None if d is None else 0 for d in d_xs]
    x_types = [unstacked(typeof(x)) for x in xs]
    on = [d is not None for d in d_carry]
    many_ys = len(jaxpr.outs) - num_carry
    while True:
        carry_types = [axis.batched(t, 0) if b else typeof(c) for t, b, c in zip(
            axis.inner(carry, d_carry), on, carry, strict=True)]
        program, out_dims = batch_jaxpr(jaxpr, axis, [*map(typeof, consts), *carry_types, *x_types],
                                        [*d_consts, *(0 if b else None for b in on), *slices], [*on, *([False] * many_ys)])
        grown = [d is not None for d in out_dims[:num_carry]]
        if grown == on:
            break
        on = grown
    wanted = [*on, *(d is not None for d in out_dims[num_carry:])]
    program, out_dims = batch_jaxpr(jaxpr, axis, [*map(typeof, consts), *carry_types, *x_types],
                                    [*d_consts, *(0 if b else None for b in on), *slices], wanted)
    carry = [axis.whole(c, d) if b else c for c, d, b in zip(carry, d_carry, on, strict=True)]
    outs = scan(*consts, *carry, *xs, jaxpr=program, num_consts=num_consts, num_carry=num_carry, **params)
    return outs, [None if d is None else d + (i >= num_carry) for i, d in enumerate(out_dims)]


scan = Primitive(
    'scan',
    type=_type,
    kernel=_kernel,
    emit=emit_scan,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    split=_split,
    prune=_prune,
    multiple=True)
