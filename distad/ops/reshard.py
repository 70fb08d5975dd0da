"""reshard: the one primitive of explicit mode that moves data.

It takes any number of arrays; those whose moves are alike travel in one message. Its transpose is computed, not written: the
cotangent of the result, of type ct(result), is resharded to ct(operand). Since every move and every cast is a row of the
table in `runtime.moves`, and the table is closed under that map, no other rule exists. With `exact=True` the sums that it makes are
rounded once.
"""

from distad.core.primitive import Message, Place, Primitive
from distad.core.value import Zero, typeof
from distad.errors import ShardingTypeError
from distad.runtime import moves
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE


def _type(*operands: ArrayType, to: tuple[ArrayType, ...], exact: bool = False) -> tuple[ArrayType, ...]:
    for x, want in zip(operands, to, strict=True):
        if x.shape != want.shape or x.dtype != want.dtype:
            raise TypeError(f"reshard keeps shape and dtype, got {x} and {want}")
        if not x.mesh.empty and x.mesh != want.mesh:
            raise ValueError(f"reshard stays on one mesh, got {x} on {x.mesh} and {want} on {want.mesh}. Use device_put to "
                             "move to another mesh.")
        if want.unreduced and want.kind != 'sum' and (want.unreduced != x.unreduced or want.kind != x.kind):
            raise ValueError(f"reshard cannot make a value unreduced of kind {want.kind}, got {x} to {want}")
        if x.unreduced and x.kind != 'sum' and want.unreduced and want != x.update(reduced=want.reduced):
            raise ValueError(f"a value whose {x.kind} is still to come can only be reduced whole, got {x} to {want}")
        if x.varying != want.varying:
            raise ShardingTypeError(f"reshard cannot change manual axes, got {x} to {want}. Use pcast.")
    return tuple(want.update(weak_type=x.weak_type) for x, want in zip(operands, to, strict=True))


def _kernel(place: Place, ins, outs, params):
    return moves.mover(place, tuple(_placed(t, want) for t, want in zip(ins, outs, strict=True)), outs,
                       params.get('exact', False))


def _placed(t: ArrayType, want: ArrayType) -> ArrayType:
    """A value that was never placed is whole on every rank: replicated on the mesh it enters."""
    return t.update(mesh=want.mesh) if t.mesh.empty else t


def _transpose(cts, *operands, to, **how):
    live = [i for i, ct in enumerate(cts) if ct.__class__ is not Zero]
    back = reshard(*(cts[i] for i in live), to=tuple(_home(operands[i].type, typeof(cts[i])) for i in live), **how)
    out = [None] * len(operands)
    for i, ct in zip(live, back, strict=True):
        out[i] = ct
    return out


def _home(operand: ArrayType, ct: ArrayType) -> ArrayType:
    """The cotangent type of an operand; one that was never placed gets it on the mesh it entered."""
    dual = operand.dual()
    return dual.update(mesh=ct.mesh) if dual.mesh.empty else dual


def _jvp(primals, tangents, *, to, **how):
    outs = reshard(*primals, to=to, **how)
    live = [i for i, t in enumerate(tangents) if t.__class__ is not Zero]
    moved = iter(reshard(*(tangents[i] for i in live), to=tuple(to[i] for i in live), **how))
    return outs, [next(moved) if i in live else Zero(to[i].tangent()) for i in range(len(tangents))]


def _messages(ins, outs, params) -> list[Message]:
    plans = [moves.plan(_placed(t, want), want, params.get('exact', False)) for t, want in zip(ins, outs, strict=True)]
    return [Message(steps[0].kind, steps[0].axes, sum(step.bytes for step in steps))
            for members in moves.alike(plans).values() for steps in zip(*(moves.messages(plans[i]) for i in members), strict=True)]


def _batch(axis, values, dims, *, to, **how):
    """The batch stays where it is; so does a value without one along the axes that the batch is split over."""
    def outside(x, d, want: ArrayType) -> ArrayType:
        if d is not None:
            return axis.batched(want, d)
        return want.update(reduced=want.reduced | typeof(x).reduced.intersection(axis.axes))
    return reshard(*values, to=tuple(map(outside, values, dims, to)), **how), list(dims)


def _show(params: dict) -> dict:
    return {k: v for k, v in params.items() if k != 'to'}


reshard = Primitive(
    'reshard',
    type=_type,
    kernel=_kernel,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    linearity=ADDITIVE,
    multiple=True,
    show=_show,
    messages=_messages)

