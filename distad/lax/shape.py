"""New shapes for the same elements: broadcast, reshape, transpose, squeeze.

None of these communicates, save where the elements of a reshape lie otherwise than the result asks for, or an `out_sharding`
says so; then a reshard stands in the program that can be seen.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.errors import ShardingTypeError
from distad.lax.dims import dims_of, inferred, shape_of
from distad.lax.kind import wanted, whole_along
from distad.ops import broadcast as broadcast_ops
from distad.ops import shape as ops
from distad.ops.cast import cast
from distad.ops.reshape import groups, laid_out, leading_axes, meeting, reshaped
from distad.ops.reshape import reshape as reshape_p
from distad.runtime import moves
from distad.types.array_type import ArrayType, Partitions
from distad.types.sharding import NamedSharding
from distad.types.spec import P

Sharding = NamedSharding | P | None


# ---- broadcast

def broadcast_in_dim(operand, shape: Sequence[int], broadcast_dimensions: Sequence[int], *,
                     out_sharding: Sharding = None) -> Value:
    """Repeat an array along new dimensions, and along those of size 1.

    operand: [1 or n, ..], its dimension i becomes dimension `broadcast_dimensions[i]` of `shape`. The result keeps the split of
    the operand's dimensions and its unreduced and reduced axes; new dimensions are whole. With `out_sharding` it lies as asked
    for: splitting new dimensions is free, and the gradient is then summed over these axes.

        broadcast_in_dim(jnp.arange(3.), (2, 3), (1,))
    """
    x = as_value(operand, 'broadcast_in_dim')
    t = typeof(x)
    shape, dims = shape_of('broadcast_in_dim', shape), tuple(broadcast_dimensions)
    if len(dims) != t.ndim or any(not 0 <= d < len(shape) or t.shape[i] not in (1, shape[d]) for i, d in enumerate(dims)):
        raise TypeError(f"broadcast_in_dim cannot bring {t} to shape {shape} along dimensions {dims}")
    grown = [i for i, d in enumerate(dims) if t.shape[i] != shape[d]]
    if out_sharding is None:
        return broadcast_ops.broadcast_in_dim(whole_along(x, grown), shape=shape, broadcast_dimensions=dims, sharding=None)
    goal = wanted(t.update(shape=shape, partitions=((),) * len(shape)), out_sharding)
    kept = tuple(() if i in grown else goal.partitions[d] for i, d in enumerate(dims))
    fresh = goal.split_axes.difference(*kept)                     # these axes split what the operand does not have
    x = cast(x, goal.update(shape=t.shape, partitions=kept, reduced=goal.reduced | fresh))
    return broadcast_ops.broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims, sharding=goal.sharding if fresh else None)


def broadcast(operand, sizes: Sequence[int], *, out_sharding: Sharding = None) -> Value:
    """Repeat an array along new leading dimensions of these sizes. See `broadcast_in_dim`.

        broadcast(jnp.arange(3.), (2,))           # float32[2,3]
    """
    x = as_value(operand, 'broadcast')
    sizes = shape_of('broadcast', sizes)
    n = len(sizes) + x.ndim
    if not sizes and out_sharding is None:
        return x
    return broadcast_in_dim(x, (*sizes, *x.shape), range(len(sizes), n), out_sharding=out_sharding)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape of shapes that broadcast by NumPy's rule.

        broadcast_shapes((3, 1), (4,))            # (3, 4)
    """
    n = max((len(s) for s in shapes), default=0)
    out = []
    for sizes in zip(*((1,) * (n - len(s)) + tuple(s) for s in shapes), strict=True):
        proper = set(sizes) - {1} or {1}
        if len(proper) > 1:
            raise ValueError(f"incompatible shapes for broadcasting: {', '.join(str(tuple(s)) for s in shapes)}")
        out.append(proper.pop())
    return tuple(out)


def broadcast_to_rank(x, rank: int) -> Value:
    """An array with dimensions of size 1 in front, `rank` in all. Nothing is communicated.

        broadcast_to_rank(jnp.ones(3), 2)         # float32[1,3]
    """
    x = as_value(x, 'broadcast_to_rank')
    if x.ndim > rank:
        raise ValueError(f"broadcast_to_rank: {x.type} has more than {rank} dimensions")
    return expand_dims(x, range(rank - x.ndim)) if x.ndim < rank else x


def expand_dims(array, dimensions: Sequence[int]) -> Value:
    """New dimensions of size 1, at `dimensions` of the result. Nothing is communicated.

        expand_dims(jnp.arange(3.), (0,))         # float32[1,3]
    """
    x = as_value(array, 'expand_dims')
    dimensions = tuple(dimensions)
    dims = dims_of('expand_dims', dimensions, x.ndim + len(dimensions))
    return broadcast_ops.expand_dims(x, dims) if dims else x


def squeeze(array, dimensions: Sequence[int]) -> Value:
    """Drop dimensions of size 1. Nothing is communicated. Raises ValueError for dimensions of other sizes.

        squeeze(jnp.ones((1, 3)), (0,))           # float32[3]
    """
    x = as_value(array, 'squeeze')
    dims = dims_of('squeeze', dimensions, x.ndim)
    for d in dims:
        if x.shape[d] != 1:
            raise ValueError(f"cannot select an axis to squeeze out which has size not equal to one, got {x.type} and "
                             f"dimension {d}")
    return ops.squeeze(whole_along(x, dims), dimensions=tuple(sorted(dims))) if dims else x


def transpose(operand, permutation: Sequence[int]) -> Value:
    """Reorder dimensions: dimension i of the result is dimension `permutation[i]` of the operand, with its split.

    Nothing is communicated.

        transpose(jnp.ones((2, 3)), (1, 0))       # float32[3,2]
    """
    x = as_value(operand, 'transpose')
    permutation = dims_of('transpose', permutation, x.ndim)
    if len(permutation) != x.ndim:
        raise TypeError(f"transpose: {permutation} is not a permutation of the dimensions of {x.type}")
    return x if permutation == tuple(range(x.ndim)) else ops.transpose(x, permutation=permutation)


# ---- reshape

def reshape(operand, new_sizes: int | Sequence[int], dimensions: Sequence[int] | None = None, *,
            out_sharding: Sharding = None) -> Value:
    """The elements in row-major order in another shape.

    operand: any shape; one of `new_sizes` may be -1. `dimensions` transposes first. Without `out_sharding` the result's split
    follows where it is unambiguous: dimensions of size 1 come and go, one dimension is cut in several, or one group of
    neighbours is merged. With it, any result may be asked for.
    Communication: none where each rank can reshape its own block, else one collective.
    Raises ShardingTypeError where the result's split is ambiguous.

        reshape(jnp.arange(6.), (2, 3))
    """
    x = as_value(operand, 'reshape')
    t = typeof(x)
    sizes = inferred('reshape', new_sizes, t.size)
    order = None if dimensions is None or tuple(dimensions) == tuple(range(t.ndim)) else tuple(dimensions)
    plain = t.update(shape=sizes, partitions=((),) * len(sizes))
    goal = (plain.update(partitions=implied_partitions(t, sizes, reordered=order is not None)) if out_sharding is None
            else wanted(plain, out_sharding))
    if order is not None:
        x = transpose(x, order)
    if x.shape == sizes:
        return cast(x, goal)
    return cast(reshape_p(cast(x, meeting_type(typeof(x), goal)), new_sizes=sizes), goal)


def implied_partitions(t: ArrayType, sizes: tuple[int, ...], *, reordered: bool = False) -> Partitions:
    """How a reshaped array is split when nobody says: the axes of each dimension stay on what becomes of it.

    `reordered`: its dimensions are transposed first; then a split dimension must neither be cut nor merged.
    """
    if t.shape == sizes:
        return t.partitions
    out: list[tuple[str, ...]] = [()] * len(sizes)
    if not any(t.partitions):
        return tuple(out)
    found = groups(t.shape, sizes)
    changed = [g for g in found if len(g[0]) != 1 or len(g[1]) != 1]
    if len(changed) > 1 or any(len(old) != 1 and len(new) != 1 for old, new in changed):
        raise _ambiguous(t, sizes)
    for group in found:
        old, new = group
        parts = [t.partitions[d] for d in old]
        while parts and not parts[-1]:
            parts.pop()
        laid = laid_out(sum(parts, ()), [sizes[d] for d in new], t.mesh)
        if not all(parts) or laid is None or parts and reordered and group in changed:
            raise _ambiguous(t, sizes)
        for d, axes in zip(new, laid, strict=True):
            out[d] = axes
    return tuple(out)


def _ambiguous(t: ArrayType, sizes: tuple[int, ...]) -> ShardingTypeError:
    whole = t.update(partitions=((),) * t.ndim)
    return ShardingTypeError(
        f"reshape of {t} to {sizes}: it is ambiguous how the result should be split. Say so by out_sharding=, such as "
        f"reshape(x, {sizes}, out_sharding={written(whole.update(shape=sizes))}), or gather first: "
        f"reshard(x, {written(whole)}).")


@lru_cache(maxsize=4096)
def meeting_type(x: ArrayType, goal: ArrayType) -> ArrayType:
    """The type to bring `x` to, so that a reshape of blocks leads to `goal` or to where one more move leads there.

    Tried are the axes that the operand is split over, those that the result will be, what is common to both, and none; the
    fewest messages count, then the fewest bytes that a rank receives.
    """
    if not any(x.partitions) and not any(goal.partitions):
        return x
    if x.mesh.empty:
        x = x.update(mesh=goal.mesh)

    def of_operand(group):
        return leading_axes(x, group[0])

    def of_goal(group):
        return leading_axes(goal, group[1])

    def common(group):
        pairs = zip(of_operand(group), of_goal(group))
        return tuple(a for k, (a, b) in enumerate(pairs) if of_operand(group)[:k + 1] == of_goal(group)[:k + 1])

    sizes = goal.shape
    tried = [x.update(partitions=meeting(x, sizes, axes_of)) for axes_of in (of_operand, common, lambda group: ())]
    tried.append(x.update(partitions=meeting(x, sizes, of_goal), unreduced=goal.unreduced, reduced=goal.reduced,
                          kind=goal.kind))

    def cost(via: ArrayType) -> tuple[int, float]:
        y = via.update(shape=sizes, partitions=reshaped(via, sizes))
        sent = (*moves.messages(moves.plan(x, via)), *moves.messages(moves.plan(y, goal)))
        return len(sent), sum(map(_received, sent))

    return min(tried, key=cost)


def _received(step: moves.Step) -> float:
    """The bytes that one rank gets from others: of all ranks' blocks, or of one part from each."""
    n = step.operand.mesh.axis_size(step.axes)
    return step.bytes * (n - 1) / {'all-gather': 1, 'all-reduce': n / 2}.get(step.kind, n)


def collapse(operand, start_dimension: int, stop_dimension: int | None = None) -> Value:
    """Merge the dimensions from `start_dimension` up to `stop_dimension` (excluded) into one. See `reshape`.

        collapse(jnp.ones((2, 3, 4)), 0, 2)       # float32[6,4]
    """
    x = as_value(operand, 'collapse')
    lo, hi, _ = slice(start_dimension, stop_dimension).indices(x.ndim)
    if hi < lo:
        raise ValueError(f"collapse: dimensions {start_dimension} to {stop_dimension} of {x.type} are none")
    return reshape(x, (*x.shape[:lo], math.prod(x.shape[lo:hi]), *x.shape[hi:]))


def written(t: ArrayType) -> str:
    """The spec of a type as a user writes it: `P('X', None, unreduced={'Y'})`."""
    parts = [*map(repr, t.spec.partitions)]
    for state in ('unreduced', 'reduced'):
        axes = t.mesh.in_order(getattr(t, state))
        if axes:
            parts.append(f"{state}={{{', '.join(map(repr, axes))}}}")
    return f"P({', '.join(parts)})"


__all__ = ['broadcast', 'broadcast_in_dim', 'broadcast_shapes', 'broadcast_to_rank', 'collapse', 'expand_dims', 'reshape', 'squeeze',
           'transpose']
