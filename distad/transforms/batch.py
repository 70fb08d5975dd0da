"""Batching: run a function written for one element on a whole batch, by one rule for each primitive.

A tracer holds the whole batch and hides its dimension: the function sees the type of one element. What has no batch is never
wrapped, and calls that no batch enters go to the parent as they are, at no cost.

The batch dimension may be split over mesh axes. These axes are out of the function's sight: one element has no place along them.
Outside they are there, and a value without batch then has to become a reduced copy beside the split one. The rules need not
know: they run under a trace that casts operands as the inference asks (`Casting`), and each cast is an equation.
"""

from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache

from distad.core.batching import inserted, named_axis
from distad.core.jaxpr import Jaxpr, evaluate, replayed_source, sub_jaxprs
from distad.core.primitive import NoRule, Primitive
from distad.core.trace import Trace, Tracer, current_trace, use_trace
from distad.core.value import typeof
from distad.errors import ShardingTypeError
from distad.ops.broadcast import broadcast_in_dim, expand_dims
from distad.ops.cast import cast
from distad.ops.shape import squeeze, transpose
from distad.source import Source, user_source
from distad.transforms.programs import closed
from distad.transforms.stage import stage
from distad.types.array_type import ArrayType
from distad.types.inference import agree, is_literal
from distad.types.mesh import EMPTY_MESH, AbstractMesh
from distad.types.sharding import NamedSharding


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisData:
    """The mapped axis: its name (or None), its size, and the mesh axes that the batch is split over. Rules move values with it.

    `varying`: manual mesh axes along which each rank has a part of the batch; what is batched then varies over them.
    """

    size: int
    name: Hashable = None
    axes: tuple[str, ...] = ()
    varying: tuple[str, ...] = ()
    mesh: AbstractMesh = EMPTY_MESH

    @property
    def explicit_mesh_axis(self) -> tuple[str, ...] | None:
        return self.axes or None

    # ---- types

    def batched(self, t: ArrayType, dim: int) -> ArrayType:
        """The type of a batch of elements of this type."""
        return t.update(shape=inserted(t.shape, dim, self.size), partitions=inserted(t.partitions, dim, self.axes),
                        varying=t.varying.union(self.varying), mesh=self.mesh if t.mesh.empty and self.axes else t.mesh)

    def hidden(self, t: ArrayType, dim: int | None) -> ArrayType:
        """The type of one element: without the batch dimension, and without a state along the axes it is split over."""
        if dim is not None:
            t = t.update(shape=t.shape[:dim] + t.shape[dim + 1:], partitions=t.partitions[:dim] + t.partitions[dim + 1:],
                         varying=t.varying.difference(self.varying))
        return t.update(reduced=t.reduced.difference(self.axes)) if t.reduced.intersection(self.axes) else t

    def sharding(self, sharding: NamedSharding | None, ndim: int, dim: int) -> NamedSharding | None:
        """A sharding of one element of rank `ndim` as sharding of the batch."""
        if sharding is None:
            return None
        return self.batched(ArrayType((0,) * ndim, 'bool', sharding=sharding), dim).sharding

    # ---- values

    def move(self, x, dim: int, to: int):
        """The batch dimension at another place."""
        if dim == to:
            return x
        order = [d for d in range(typeof(x).ndim) if d != dim]
        order.insert(to, dim)
        return transpose(x, permutation=tuple(order))

    def front(self, x, dim: int | None):
        """The batch dimension in front; a dimension of size 1 for a value without batch."""
        return expand_dims(x, (0,)) if dim is None else self.move(x, dim, 0)

    def single(self, x):
        """A value without batch that went along with a dimension of size 1 in front."""
        return squeeze(x, dimensions=(0,))

    def beside(self, x, dim: int | None, rank: int):
        """An operand for an op that broadcasts: batch in front, `rank` dimensions behind. One of rank 0 without batch stays."""
        t = typeof(x)
        if dim is None:
            return expand_dims(x, (0,)) if t.ndim else x
        x = self.move(x, dim, 0)
        return expand_dims(x, tuple(range(1, rank + 1))) if t.ndim == 1 and rank else x

    def spread(self, x, dim: int = 0):
        """A value without batch, once for each element. Nothing is copied before an op reads it; a split batch sends nothing."""
        t = typeof(x)
        kept = tuple(d for d in range(t.ndim + 1) if d != dim)
        want = self.batched(self.hidden(t, None), dim)
        return broadcast_in_dim(x, shape=want.shape, broadcast_dimensions=kept, sharding=want.sharding if self.axes else None)

    def whole(self, x, dim: int | None, to: int = 0):
        """A batch, at a place, of a value with or without."""
        return self.spread(x, to) if dim is None else self.move(x, dim, to)

    def aligned(self, values: Sequence, dims: Sequence[int | None]) -> tuple[list, int]:
        """Operands that all have the batch at one place, where the first one that has a batch has it."""
        place = next(d for d in dims if d is not None)
        return [self.whole(x, d, place) for x, d in zip(values, dims, strict=True)], place

    def bind(self, primitive: Primitive, *operands, **params):
        """Call a primitive on operands that may still have to be cast for it."""
        with use_trace(Casting(current_trace())):
            return primitive(*operands, **params)

    def settled(self, y):
        """The value reduced over the axes that the batch is split over: for a result that has summed over the batch."""
        t = typeof(y)
        left = t.unreduced.difference(self.axes)
        return cast(y, t.update(unreduced=left, kind=t.kind if left else 'sum')) if left != t.unreduced else y

    def inner(self, values: Sequence, dims: Sequence[int | None]) -> tuple[ArrayType, ...]:
        return tuple(self.hidden(typeof(x), d) for x, d in zip(values, dims, strict=True))


class BatchTracer(Tracer):
    """One element of a batch, as the mapped function sees it: `val` is the batch, `batch_dim` its dimension in it."""

    __slots__ = ('val', 'batch_dim', 'source_info')

    def __init__(self, trace: 'BatchTrace', val, batch_dim: int | None, type: ArrayType, source_info: Source | None = None):
        super().__init__(trace, type)
        self.val, self.batch_dim, self.source_info = val, batch_dim, source_info


class BatchTrace(Trace):
    """Applies batching rules."""

    __slots__ = ('parent', 'inner', 'axis', 'tag')

    def __init__(self, parent: Trace, axis: AxisData, tag: object = None):
        self.parent, self.axis = parent, axis
        self.tag = self if tag is None else tag             # traces of one tag are one, at different times
        self.inner = Casting(parent) if axis.axes or axis.varying else parent

    def process(self, primitive: Primitive, args: tuple, params: dict) -> list:
        values, dims = zip(*map(self.parts, args), strict=True) if args else ((), ())
        with use_trace(self.inner):
            if all(d is None for d in dims) and not primitive.always_batched and not mentions(primitive, params, self.axis.name):
                outs = self.inner.process(primitive, values, params)
                return outs if not self.axis.axes else [self.wrap(y, None) for y in outs]
            rule = primitive.batch
            if isinstance(rule, NoRule):
                raise NotImplementedError(f"Batching rule for '{primitive.name}' not implemented: {rule.why}")
            outs, out_dims = rule(self.axis, values, dims, **params)
            if not primitive.multiple:
                outs, out_dims = (outs,), (out_dims,)
            return [self.wrap(y, d) for y, d in zip(outs, out_dims, strict=True)]

    def parts(self, x) -> tuple:
        """Value and batch dimension of an argument; one from outside has none."""
        if x.__class__ is BatchTracer and x.owner.tag is self.tag:
            return x.val, x.batch_dim
        return x, None

    def wrap(self, y, dim: int | None):
        """A result for the function. Where the batch is split, its dimension is split so in every value."""
        axis, t = self.axis, typeof(y)
        if dim is None:
            inner = axis.hidden(t, None)
            return y if inner is t else BatchTracer(self, y, None, inner)
        if t.partitions[dim] != axis.axes or not t.varying.issuperset(axis.varying):
            want = t.update(partitions=(*t.partitions[:dim], axis.axes, *t.partitions[dim + 1:]), varying=t.varying.union(axis.varying),
                            mesh=axis.mesh if t.mesh.empty else t.mesh, reduced=t.reduced.difference(axis.axes),
                            unreduced=t.unreduced.difference(axis.axes))
            y, t = cast(y, want), want
        return BatchTracer(self, y, dim, axis.hidden(t, dim), replayed_source() or user_source())


class Casting(Trace):
    """Casts operands to the states that an op needs, then hands the call on."""

    __slots__ = ('parent',)

    def __init__(self, parent: Trace):
        self.parent = parent

    def process(self, primitive: Primitive, args: tuple, params: dict) -> list:
        with use_trace(self.parent):
            if primitive.labels is not None:
                types = tuple(map(typeof, args))
                need = agree(primitive.labels(*types, **params), types).operands
                args = tuple(x if is_literal(t) else cast(x, want) for x, t, want in zip(args, types, need, strict=True))
            return self.parent.process(primitive, args, params)


def mentions(primitive: Primitive, params: dict, name: Hashable) -> bool:
    """Whether an op works over the mapped axis of this name, itself or in a program that it runs."""
    if name is None:
        return False
    return name in params.get('names', ()) or any(program_mentions(jaxpr, name) for jaxpr in sub_jaxprs(params))


@lru_cache(maxsize=4096)
def program_mentions(jaxpr: Jaxpr, name: Hashable) -> bool:
    return any(mentions(eqn.primitive, eqn.params, name) for eqn in jaxpr.equations)


def batch_flat(f, axis: AxisData, values: Sequence, dims: Sequence[int | None], tag: object = None) -> tuple[list, list]:
    """Run a flat function of one element on a batch: results and their batch dimensions.

    `tag`: that of a trace whose tracers the function closes over.
    """
    trace = BatchTrace(current_trace(), axis, tag)
    args = [x if d is None and not axis.axes else trace.wrap(x, d) for x, d in zip(values, dims, strict=True)]
    with use_trace(trace), named_axis(axis.name, axis.size) if axis.name is not None else nullcontext():
        outs = f(*args)                                   # a rule of the user's may run long after the vmap has returned
    pairs = [trace.parts(y) for y in outs]
    return [y for y, _ in pairs], [d for _, d in pairs]


Flags = tuple[bool, ...]


@lru_cache(maxsize=1024)
def _batch_jaxpr(jaxpr: Jaxpr, axis: AxisData, types: tuple[ArrayType, ...], dims: tuple, want: Flags) -> tuple[Jaxpr, tuple]:
    out_dims: list = []

    def f(*values):
        outs, found = batch_flat(lambda *xs: evaluate(jaxpr, *xs), axis, values, dims)
        with use_trace(Casting(current_trace())):
            outs = [axis.whole(y, d) if force else y for y, d, force in zip(outs, found, want, strict=True)]
        out_dims[:] = [0 if force else d for d, force in zip(found, want, strict=True)]
        return outs

    return closed(stage(f, types, jaxpr.name)), tuple(out_dims)


def batch_jaxpr(jaxpr: Jaxpr, axis: AxisData, types: Sequence[ArrayType], dims: Sequence[int | None],
                want: Sequence[bool] | None = None) -> tuple[Jaxpr, tuple]:
    """The program on batches: operands of these types with their batch at `dims`; results, and where they have theirs.

    A result in `want` has its batch in front, even if it does not depend on one.
    """
    flags = tuple(want) if want is not None else (False,) * len(jaxpr.outs)
    return _batch_jaxpr(jaxpr, axis, tuple(types), tuple(dims), flags)


def check_free(axis: AxisData, t: ArrayType, what: str) -> None:
    """A value without batch has no place along the mesh axes that the batch is split over."""
    used = (t.split_axes | t.unreduced).intersection(axis.axes)
    if used:
        raise ShardingTypeError(f"{what} of type {t} is not mapped, and the mapped axis is split over {', '.join(sorted(used))}. "
                                "Inside the function that mesh axis cannot be seen: bring the value to a type without it, with "
                                "reshard.")
