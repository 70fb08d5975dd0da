"""The primitive `shard_map`: a program per rank inside a global one.

At the boundary blocks stay where they are; only types change. Going in, a dimension split over a manual axis loses the axis and
shrinks to its block, and the value varies over the axis; unreduced and reduced stay what they are. Going out it is the other
way round. So the boundary never communicates, and since the spec of a cotangent is the spec with U and R exchanged, neither
does the backward boundary.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from distad.compiler.codegen import compile_jaxpr
from distad.compiler.dce import dce
from distad.core.batching import inserted
from distad.core.jaxpr import Equation, Jaxpr, as_function, chosen, others, sub_jaxprs
from distad.core.primitive import Place, Primitive
from distad.core.trace import use_trace
from distad.core.value import Linear, Zero, typeof
from distad.errors import ShardingTypeError
from distad.ops.arithmetic import div
from distad.ops.casts import psum
from distad.transforms.batch import AxisData, batch_jaxpr, program_mentions
from distad.transforms.linearize import LinearTrace, split_jaxpr
from distad.transforms.programs import closed, jvp_jaxpr, transpose_jaxpr
from distad.transforms.stage import StageTrace, stage
from distad.types.array_type import ArrayType
from distad.types.mesh import AbstractMesh, use_abstract_mesh
from distad.types.spec import P

Specs = tuple[P | None, ...]        # None: a residual, which passes the boundary as it is and is of use to no one outside


def inner_type(t: ArrayType, spec: P | None, mesh: AbstractMesh, manual: frozenset[str]) -> ArrayType:
    """The type inside the map of an argument whose type outside agrees with the spec."""
    if spec is None:
        return t
    shape, partitions, varying = [], [], set(t.varying)
    untracked = frozenset(mesh.auto_axes)
    for size, axes in zip(t.shape, t.partitions, strict=True):
        mine = tuple(a for a in axes if a in manual)
        varying.update(mine)
        partitions.append(axes[len(mine):])
        for a in mine:
            size //= mesh.shape[a]
        shape.append(size)
    return t.update(shape=shape, partitions=tuple(partitions), varying=varying - untracked, mesh=mesh,
                    unreduced=t.unreduced - untracked, reduced=t.reduced - untracked)


def outer_type(t: ArrayType, spec: P | None, mesh: AbstractMesh, manual: frozenset[str]) -> ArrayType:
    """The type outside the map of a result; `mesh` is the one outside."""
    if spec is None:
        return t
    shape, partitions = [], []
    for size, axes, entry in zip(t.shape, t.partitions, _padded(spec, t.ndim), strict=True):
        for a in entry:
            size *= mesh.shape[a]
        shape.append(size)
        partitions.append((*entry, *axes))
    return t.update(shape=shape, partitions=tuple(partitions), varying=t.varying - manual, mesh=mesh,
                    unreduced=t.unreduced - manual | spec.unreduced, reduced=t.reduced - manual | spec.reduced)


def _padded(spec: P, ndim: int) -> tuple[tuple[str, ...], ...]:
    return (*spec.axes, *(((),) * (ndim - len(spec.axes))))


def dual(spec: P | None) -> P | None:
    """The spec of a cotangent."""
    return None if spec is None else P(*spec.partitions, unreduced=spec.reduced, reduced=spec.unreduced)


def _type(*types: ArrayType, jaxpr: Jaxpr, mesh: AbstractMesh, outer_mesh: AbstractMesh, manual: frozenset[str],
          in_specs: Specs, out_specs: Specs, check_vma: bool):
    for t, spec, want in zip(types, in_specs, jaxpr.in_types, strict=True):
        got = inner_type(t, spec, mesh, manual) if not t.mesh.empty else t.update(mesh=mesh)
        if got.update(weak_type=False) != want.update(weak_type=False):
            raise TypeError(f"shard_map: an argument of type {t} under {spec!r} is {got} inside, the body takes {want}")
    return tuple(outer_type(t, spec, outer_mesh, manual) for t, spec in zip(jaxpr.out_types, out_specs, strict=True))


def _kernel(place: Place, ins, outs, params) -> Callable:
    return compile_jaxpr(params['jaxpr'], place.mesh, f"{place.path}shard_map/").run


def _jvp(primals, tangents, *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, mesh: AbstractMesh, **params):
    active = tuple(t.__class__ is not Zero for t in tangents)
    with use_abstract_mesh(mesh):
        program, live = jvp_jaxpr(jaxpr, active)
    made = shard_map(*primals, *chosen(tangents, active), jaxpr=program, mesh=mesh, **params,
                     in_specs=(*in_specs, *chosen(in_specs, active)), out_specs=(*out_specs, *chosen(out_specs, live)))
    outs, given = made[:len(live)], iter(made[len(live):])
    return outs, [next(given) if on else Zero(y.type.tangent()) for y, on in zip(outs, live, strict=True)]


def _split(trace: LinearTrace, owned, args, params):
    in_specs, out_specs = params['in_specs'], params['out_specs']
    with use_abstract_mesh(params['mesh']):
        known, linear, out_unknown, residuals = split_jaxpr(params['jaxpr'], owned)
    is_known, known_out = [not m for m in owned], [not u for u in out_unknown]
    known_args, known_specs = chosen(args, is_known), chosen(in_specs, is_known)
    # A residual that is an argument is there already; the others leave the first map as they are.
    made_here = [p is None for p in residuals]
    count = sum(known_out)
    program = known.changed(outs=(*known.outs[:count], *chosen(known.outs[count:], made_here)))
    with use_trace(trace.parent):
        made = shard_map(*known_args, **dict(params, jaxpr=program, in_specs=tuple(known_specs),
                                             out_specs=(*chosen(out_specs, known_out), *([None] * sum(made_here)))))
    outs_known, left = iter(made[:count]), iter(made[count:])
    kept = [next(left) if p is None else known_args[p] for p in residuals]
    kept_specs = [None if p is None else known_specs[p] for p in residuals]
    outs = iter(StageTrace.process(trace, shard_map, (*kept, *chosen(args, owned)), dict(
        params, jaxpr=linear, in_specs=(*kept_specs, *chosen(in_specs, owned)),
        out_specs=chosen(out_specs, out_unknown))))
    return [next(outs) if u else next(outs_known) for u in out_unknown]


def _transpose(cts, *operands, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, mesh: AbstractMesh, **params):
    linear = tuple(x.__class__ is Linear for x in operands)
    given = tuple(ct.__class__ is not Zero for ct in cts)
    lin_specs = chosen(in_specs, linear)
    with use_abstract_mesh(mesh):
        program, live = transpose_jaxpr(jaxpr, linear, given)
        if mesh.auto_axes:
            program = _mended(program, chosen(out_specs, given), chosen(lin_specs, live), mesh, params['manual'])
    made = iter(shard_map(
        *others(operands, linear), *chosen(cts, given), jaxpr=program, mesh=mesh, **params,
        in_specs=(*others(in_specs, linear), *map(dual, chosen(out_specs, given))),
        out_specs=tuple(map(dual, chosen(lin_specs, live)))))
    found = iter([next(made) if on else None for on in live])
    return [next(found) if lin else None for lin in linear]


def _mended(program: Jaxpr, ct_specs: Sequence[P | None], out_specs: Sequence[P | None], mesh: AbstractMesh,
            manual: frozenset[str]) -> Jaxpr:
    """The transposed body of a map that does not track states.

    Nothing inside says which values are copies; the specs do. The cotangent of a result that the spec takes for copies is shared
    out among them, and the cotangent of an argument that it hands to all ranks is summed over them.
    """
    def unnamed(spec: P | None) -> tuple[str, ...]:
        if spec is None:
            return ()
        named = {a for axes in spec.axes for a in axes} | spec.unreduced | spec.reduced
        return tuple(a for a in mesh.auto_axes if a in manual and a not in named)

    def f(*args):
        first = len(args) - len(ct_specs)
        cts = [div(ct, ct.dtype.type(mesh.axis_size(unnamed(s)))) if unnamed(s) else ct
               for ct, s in zip(args[first:], ct_specs, strict=True)]
        found = as_function(program)(*args[:first], *cts)
        return [psum(ct, axes=unnamed(s))[0] if unnamed(s) else ct for ct, s in zip(found, out_specs, strict=True)]

    return closed(stage(f, program.in_types, program.name))


def _prune(eqn: Equation, used: list[bool]) -> Equation:
    return eqn.changed(outs=chosen(eqn.outs, used), params=dict(
        eqn.params, jaxpr=dce(eqn.params['jaxpr'], used), out_specs=chosen(eqn.params['out_specs'], used)))


def _batch(axis: AxisData, values, dims, *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, mesh: AbstractMesh,
           manual: frozenset[str], **params):
    """The body on a batch, which is no business of the map: its dimension lies inside as it does outside.

    A batch that is split over axes which the map makes manual, but does not use, is cut at the boundary: each rank maps its part.
    """
    cut = tuple(a for a in axis.axes if a in manual)
    if cut and (len(cut) < len(axis.axes) or _uses(jaxpr, in_specs, out_specs, frozenset(cut)) or
                axis.name is not None and program_mentions(jaxpr, axis.name)):
        raise ShardingTypeError(f"vmap over a dimension that is split over {', '.join(axis.axes)} meets a shard_map inside that uses "
                                f"{', '.join(cut)}. Map over a dimension that is whole there, or put the vmap inside of the shard_map.")
    inside = replace(axis, mesh=mesh, axes=axis.axes if not cut else (), varying=tuple(a for a in cut if a in mesh.manual_axes),
                     size=axis.size // mesh.axis_size(cut) if cut else axis.size)
    specs = tuple(_with_batch(spec, d, typeof(x).ndim, cut) for spec, d, x in zip(in_specs, dims, values, strict=True))
    types = [inner_type(t, spec, mesh, manual) if not t.mesh.empty else t.update(mesh=mesh)
             for t, spec in zip(map(typeof, values), specs, strict=True)]
    with use_abstract_mesh(mesh):
        program, out_dims = batch_jaxpr(jaxpr, inside, types, dims)
    out_specs = tuple(_with_batch(spec, d, t.ndim, cut) for spec, d, t in zip(out_specs, out_dims, program.out_types, strict=True))
    return shard_map(*values, jaxpr=program, in_specs=specs, out_specs=out_specs, mesh=mesh, manual=manual, **params), out_dims


def _uses(jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs, axes: frozenset[str]) -> bool:
    """Whether a map or an equation of its body names one of these axes."""
    def named(spec: P | None) -> frozenset[str]:
        return frozenset() if spec is None else frozenset(a for entry in spec.axes for a in entry) | spec.unreduced | spec.reduced

    def in_program(program: Jaxpr) -> bool:
        return any(axes.intersection(eqn.params.get('axes', ())) or any(map(in_program, sub_jaxprs(eqn.params)))
                   for eqn in program.equations)

    return any(axes & named(spec) for spec in (*in_specs, *out_specs)) or in_program(jaxpr)


def _with_batch(spec: P | None, dim: int | None, ndim: int, axes: tuple[str, ...]) -> P | None:
    """A spec with an entry for a batch dimension, which is split over these axes of the map."""
    if spec is None or dim is None:
        return spec
    entries = (*spec.partitions, *([None] * (ndim - 1 - len(spec.partitions))))
    return P(*inserted(entries, dim, axes or None), unreduced=spec.unreduced, reduced=spec.reduced)


def _show(params: dict) -> dict:
    kept = {k: params[k] for k in ('check_vma', 'in_specs', 'jaxpr', 'mesh', 'out_specs')}
    return {**kept, 'mesh': params['outer_mesh'], 'newly_manual_axes': params['manual']}


shard_map = Primitive(
    'shard_map',
    type=_type,
    kernel=_kernel,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    split=_split,
    prune=_prune,
    show=_show,
    multiple=True)
