"""The primitive `cond`: one of several programs, chosen by an index.

Two rules make it safe. Where the index differs between ranks along a manual axis, so does the result: it must be varying there.
And then no branch may hold a collective over that axis, since not all ranks would come to it: that is the type error that
keeps programs from deadlocks.
"""

from collections.abc import Callable, Iterable, Sequence

from distad.compiler.codegen import Writer, compile_alone
from distad.compiler.dce import dce
from distad.compiler.text import messages
from distad.control.call import call
from distad.core.jaxpr import Equation, Jaxpr, as_function, chosen, others, sub_jaxprs
from distad.core.primitive import Place, Primitive
from distad.core.trace import use_trace
from distad.core.value import Linear, Zero, typeof
from distad.errors import ShardingTypeError, VaryingPredicateError
from distad.ops.basic import instantiated, zeros_of
from distad.ops.cast import cast
from distad.ops.compare import not_, select_n, takes
from distad.ops.stop import stopped
from distad.transforms.batch import AxisData, batch_jaxpr, program_mentions
from distad.transforms.linearize import LinearTrace, split_jaxpr
from distad.transforms.programs import closed, jvp_jaxpr, transpose_jaxpr
from distad.transforms.stage import StageTrace, stage
from distad.types import dtypes
from distad.types.array_type import ArrayType

Branches = tuple[Jaxpr, ...]


# ---- what a choice may decide

def varying_axes(name: str, predicate: ArrayType) -> frozenset[str]:
    """The axes along which ranks choose differently; a predicate that no rank knows is refused."""
    if predicate.unreduced:
        raise ShardingTypeError(f"{name}: the predicate is unreduced, got {predicate}: no rank knows its value. Reduce it first, "
                                "with reshard(p, P()) or, in a shard_map, psum.")
    return predicate.varying


def check_choice(name: str, predicate: ArrayType, programs: Iterable[Jaxpr], outs: Iterable[ArrayType]) -> None:
    """Whether programs may be run by ranks that choose by this predicate."""
    axes = varying_axes(name, predicate)
    if not axes:
        return
    for program in programs:
        for eqn, op, over in collectives_in(program):
            if axes & set(over):
                raise VaryingPredicateError(
                    f"{name}: the predicate {predicate} differs between ranks over {', '.join(sorted(axes & set(over)))}, and an "
                    f"{op} over {', '.join(over)} ({eqn.primitive.name} at {eqn.source}) stands where only some of them would "
                    "come: it would wait for ever. Make the predicate the same on all ranks (psum, pmax), or move the collective "
                    "out.")
    for t in outs:
        if axes - t.varying:
            raise VaryingPredicateError(
                f"{name}: the predicate {predicate} differs between ranks over {', '.join(sorted(axes - t.varying))}, so a value "
                f"of type {t} would not be the same on all of them. Make it varying: pcast(x, "
                f"{tuple(sorted(axes - t.varying))!r}, to='varying').")


def collectives_in(jaxpr: Jaxpr) -> Iterable[tuple[Equation, str, tuple[str, ...]]]:
    """The collectives of a program and of those inside it: equation, kind, mesh axes."""
    for eqn in jaxpr.equations:
        for op, axes, _ in messages(eqn):
            yield eqn, op, axes
        for inner in sub_jaxprs(eqn.params):
            yield from collectives_in(inner)


# ---- the primitive

def _type(index: ArrayType, *types: ArrayType, branches: Branches):
    first = branches[0]
    for other in branches[1:]:
        if [t.update(weak_type=False) for t in other.out_types] != [t.update(weak_type=False) for t in first.out_types]:
            raise TypeError(f"cond: branches give {', '.join(map(str, first.out_types))} and "
                            f"{', '.join(map(str, other.out_types))}; the types must be equal")
    check_choice('cond', index, branches, first.out_types)
    return first.out_types


def _kernel(place: Place, ins, outs, params) -> Callable:
    return compile_alone(cond, place, ins, outs, params)


def _emit(writer: Writer, eqn: Equation, operands: list[str], place: Place) -> list[str]:
    index, *xs = operands
    branches = eqn.params['branches']
    which, made = writer.fresh('i'), [writer.fresh('v') for _ in eqn.outs]
    writer.line(f"{which} = min(max(int({index}), 0), {len(branches) - 1})")
    for i, branch in enumerate(branches):
        with writer.block(f"if {which} == {i}:"):
            results = writer.body(branch, xs, f"{place.path}cond/branch_{i}/", keep=xs)
            if made:
                writer.line(f"{', '.join(made)} = {', '.join(results)}")
    return made


def _jvp(primals, tangents, *, branches: Branches):
    (index, *xs), ts = primals, tangents[1:]
    active = tuple(t.__class__ is not Zero for t in ts)
    live = [any(column) for column in zip(*(jvp_jaxpr(b, active)[1] for b in branches), strict=True)]
    programs = tuple(jvp_jaxpr(b, active, tuple(live))[0] for b in branches)
    made = cond(index, *xs, *chosen(ts, active), branches=programs)
    outs, given = made[:len(live)], iter(made[len(live):])
    return outs, [next(given) if on else Zero(y.type.tangent()) for y, on in zip(outs, live, strict=True)]


def _split(trace: LinearTrace, owned, args, params):
    index, *xs = args
    unknown = owned[1:]
    branches: Branches = params['branches']
    out_unknown = [any(column) for column in zip(*(split_jaxpr(b, unknown)[2] for b in branches), strict=True)]
    parts = [split_jaxpr(b, unknown, out_unknown) for b in branches]
    count = len(out_unknown) - sum(out_unknown)
    types = [[v.type for v in known.outs[count:]] for known, *_ in parts]
    known_programs = tuple(_with_all_residuals(known, count, types, i) for i, (known, *_) in enumerate(parts))
    linear_programs = tuple(_from_all_residuals(linear, types, i) for i, (_, linear, *_) in enumerate(parts))
    known_xs = others(xs, unknown)
    with use_trace(trace.parent):
        made = cond(index, *known_xs, branches=known_programs)
    outs_known, residuals = iter(made[:count]), made[count:]
    unknown_xs = chosen(xs, unknown)
    outs = iter(StageTrace.process(trace, cond, (index, *residuals, *unknown_xs), {'branches': linear_programs}))
    return [next(outs) if u else next(outs_known) for u in out_unknown]


def _with_all_residuals(known: Jaxpr, count: int, types: Sequence[list[ArrayType]], mine: int) -> Jaxpr:
    """A branch that gives the residuals of every branch: its own, and zeros for the others."""
    def f(*args):
        made = as_function(known)(*args)
        outs, own = made[:count], made[count:]
        return [*outs, *(r for i, ts in enumerate(types) for r in (own if i == mine else map(zeros_of, ts)))]
    return closed(stage(f, known.in_types, known.name))


def _from_all_residuals(linear: Jaxpr, types: Sequence[list[ArrayType]], mine: int) -> Jaxpr:
    """A linear branch that takes the residuals of every branch and reads its own."""
    before, after = sum(map(len, types[:mine])), sum(map(len, types[:mine + 1]))
    total = sum(map(len, types))

    def f(*args):
        return as_function(linear)(*args[before:after], *args[total:])
    return closed(stage(f, [*(t for ts in types for t in ts), *linear.in_types[after - before:]], linear.name))


def _transpose(cts, *operands, branches: Branches):
    index, *xs = operands
    linear = tuple(x.__class__ is Linear for x in xs)
    programs = tuple(transpose_jaxpr(b, linear, (True,) * len(cts), True)[0] for b in branches)
    made = iter(cond(index, *(x for x in xs if x.__class__ is not Linear), *map(instantiated, cts), branches=programs))
    return [None, *(next(made) if lin else None for lin in linear)]


def _prune(eqn: Equation, used: list[bool]) -> Equation:
    return eqn.changed(outs=chosen(eqn.outs, used), params={'branches': tuple(dce(b, used) for b in eqn.params['branches'])})


def _batch(axis: AxisData, values, dims, *, branches: Branches):
    """One choice for all elements stays a choice. Where elements choose for themselves, all branches run, and one is selected."""
    (index, *xs), (d_index, *d_xs) = values, dims
    types = [typeof(x) for x in xs]
    if d_index is None:
        found = [batch_jaxpr(b, axis, types, d_xs)[1] for b in branches]
        want = [any(d is not None for d in column) for column in zip(*found, strict=True)]
        programs = tuple(batch_jaxpr(b, axis, types, d_xs, want)[0] for b in branches)
        return cond(index, *xs, branches=programs), [0 if w else None for w in want]
    if any(program_mentions(b, axis.name) for b in branches if axis.name is not None):
        raise ValueError(f"cond: a collective over the mapped axis {axis.name!r} stands in a branch, and the predicate differs along "
                         "that axis: not all elements would come to it. Move the collective out of the branch.")
    index = axis.move(index, d_index, 0)
    t = typeof(index)
    index = cast(index, t.update(reduced=t.reduced.intersection(t.mesh.manual_axes)))     # what is selected says what the result is
    made = []
    for i, b in enumerate(branches):
        chosen_here = takes(index, i, len(branches)) if typeof(index).dtype != bool else index if i else not_(index)
        mine = [_guarded(axis, x, d, chosen_here) for x, d in zip(xs, d_xs, strict=True)]
        program, out_dims = batch_jaxpr(b, axis, [typeof(x) for x, _ in mine], [d for _, d in mine], [True] * len(b.outs))
        made.append(call(*(x for x, _ in mine), jaxpr=program, name=f"branch_{i}"))
    return [axis.bind(select_n, axis.beside(index, 0, typeof(ys[0]).ndim - 1), *ys) if len(ys) > 1 else ys[0]
            for ys in zip(*made, strict=True)], [0] * len(made[0])


def _guarded(axis: AxisData, x, dim: int | None, chosen_here):
    """An operand of a branch: where the branch is not chosen no derivative flows back, so a NaN of it harms nobody."""
    if not dtypes.is_float(typeof(x).dtype):
        return x, dim
    x = axis.whole(x, dim)
    return axis.bind(select_n, axis.beside(chosen_here, 0, typeof(x).ndim - 1), stopped(x), x), 0


cond = Primitive(
    'cond',
    type=_type,
    kernel=_kernel,
    emit=_emit,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    split=_split,
    prune=_prune,
    multiple=True)
