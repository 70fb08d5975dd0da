"""NumPy's functions that give the same elements another shape, or tell the shape.

They share their rules with `lax.shape`: split dimensions keep their mesh axes, unreduced and reduced axes stay, and nothing is
communicated unless a docstring says so.
"""

import math
from collections.abc import Sequence

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.errors import ShardingTypeError
from distad.lax import shape as lax_shape
from distad.lax.dims import dim_of, dims_of, inferred, shape_of
from distad.lax.kind import wanted
from distad.lax.shape import Sharding, written
from distad.ops.makers import elementwise_labels
from distad.types.array_type import ArrayType
from distad.types.inference import agree

broadcast_shapes = lax_shape.broadcast_shapes


# ---- reshape

def reshape(a, shape: int | Sequence[int], order: str = 'C', *, copy: bool | None = None,
            out_sharding: Sharding = None) -> Value:
    """The elements in another shape; one size may be -1.

    order: 'C' reads and writes row by row, 'F' column by column. Placement, communication and errors are those of
    `lax.reshape`: without `out_sharding` the split must follow from the shapes, and nothing is sent.

        jnp.reshape(jnp.arange(6), (2, 3))
    """
    x = as_value(a, 'reshape')
    sizes = inferred('reshape', shape, x.size)
    if order == 'C':
        return lax_shape.reshape(x, sizes, out_sharding=out_sharding)
    if order != 'F':
        raise ValueError(f"reshape: order is 'C' or 'F', got {order!r}")
    if out_sharding is not None:
        goal = wanted(typeof(x).update(shape=sizes, partitions=((),) * len(sizes)), out_sharding)
        out_sharding = goal.update(shape=sizes[::-1], partitions=goal.partitions[::-1]).sharding
    y = lax_shape.reshape(x, sizes[::-1], tuple(range(x.ndim))[::-1], out_sharding=out_sharding)
    return lax_shape.transpose(y, tuple(range(y.ndim))[::-1])


def ravel(a, order: str = 'C', *, out_sharding: Sharding = None) -> Value:
    """All elements in one dimension. See `reshape`.

        jnp.ravel(jnp.ones((2, 3)))
    """
    return reshape(a, (typeof(as_value(a, 'ravel')).size,), 'C' if order in ('K', 'A') else order, out_sharding=out_sharding)


# ---- dimensions reordered

def transpose(a, axes: Sequence[int] | None = None) -> Value:
    """Dimensions in the order `axes`, or turned round.

        jnp.transpose(jnp.ones((2, 3)))           # float32[3,2]
    """
    x = as_value(a, 'transpose')
    order = tuple(range(x.ndim))[::-1] if axes is None else dims_of('transpose', axes, x.ndim)
    if len(order) != x.ndim:
        raise ValueError(f"transpose: axes {axes} do not name each dimension of {x.type} once")
    return lax_shape.transpose(x, order)


def permute_dims(a, /, axes: Sequence[int]) -> Value:
    """Dimensions in the order `axes`.

        jnp.permute_dims(jnp.ones((2, 3)), (1, 0))
    """
    return transpose(a, axes)


def matrix_transpose(x, /) -> Value:
    """The last two dimensions exchanged.

        jnp.matrix_transpose(jnp.ones((4, 2, 3)))     # float32[4,3,2]
    """
    x = as_value(x, 'matrix_transpose')
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose takes at least two dimensions, got {x.type}")
    return swapaxes(x, -1, -2)


def swapaxes(a, axis1: int, axis2: int) -> Value:
    """Two dimensions exchanged.

        jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2)   # float32[4,3,2]
    """
    x = as_value(a, 'swapaxes')
    order = list(range(x.ndim))
    i, j = dim_of('swapaxes', axis1, x.ndim), dim_of('swapaxes', axis2, x.ndim)
    order[i], order[j] = j, i
    return lax_shape.transpose(x, order)


def moveaxis(a, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    """Dimensions `source` moved to `destination`, the others in their order.

        jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1)  # float32[3,4,2]
    """
    x = as_value(a, 'moveaxis')
    start, end = dims_of('moveaxis', source, x.ndim), dims_of('moveaxis', destination, x.ndim)
    if len(start) != len(end):
        raise ValueError(f"moveaxis: {source} and {destination} name different numbers of dimensions")
    order = [d for d in range(x.ndim) if d not in start]
    for to, d in sorted(zip(end, start, strict=True)):
        order.insert(to, d)
    return lax_shape.transpose(x, order)


def rollaxis(a, axis: int, start: int = 0) -> Value:
    """Dimension `axis` moved before `start`.

        jnp.rollaxis(jnp.ones((2, 3, 4)), 2)      # float32[4,2,3]
    """
    x = as_value(a, 'rollaxis')
    d = dim_of('rollaxis', axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise ValueError(f"rollaxis: start {start} is out of bounds for array of dimension {x.ndim}")
    to = start if start >= 0 else start + x.ndim
    return moveaxis(x, d, to - 1 if d < to else to)


# ---- dimensions of size 1

def expand_dims(a, axis: int | Sequence[int]) -> Value:
    """New dimensions of size 1, at `axis` of the result.

        jnp.expand_dims(jnp.ones(3), 0)           # float32[1,3]
    """
    return lax_shape.expand_dims(a, axis if isinstance(axis, (tuple, list)) else (axis,))


def squeeze(a, axis: int | Sequence[int] | None = None) -> Value:
    """Without the dimensions `axis`, which have size 1; by default without all that have.

        jnp.squeeze(jnp.ones((1, 3)))             # float32[3]
    """
    x = as_value(a, 'squeeze')
    return lax_shape.squeeze(x, [d for d, n in enumerate(x.shape) if n == 1] if axis is None else
                             axis if isinstance(axis, (tuple, list)) else (axis,))


def atleast_1d(*arys) -> Value | tuple[Value, ...]:
    """Arrays with at least one dimension; a tuple if several are given.

        jnp.atleast_1d(jnp.float32(2))            # float32[1]
    """
    return _each(arys, lambda x: x if x.ndim else lax_shape.expand_dims(x, (0,)))


def atleast_2d(*arys) -> Value | tuple[Value, ...]:
    """Arrays with at least two dimensions, new ones in front.

        jnp.atleast_2d(jnp.ones(3))               # float32[1,3]
    """
    return _each(arys, lambda x: lax_shape.expand_dims(x, range(max(2 - x.ndim, 0))))


def atleast_3d(*arys) -> Value | tuple[Value, ...]:
    """Arrays with at least three dimensions: [n] becomes [1, n, 1], and [m, n] becomes [m, n, 1].

        jnp.atleast_3d(jnp.ones(3))               # float32[1,3,1]
    """
    return _each(arys, lambda x: lax_shape.expand_dims(x, {0: (0, 1, 2), 1: (0, 2), 2: (2,)}.get(x.ndim, ())))


def _each(arys: tuple, function) -> Value | tuple[Value, ...]:
    out = tuple(function(as_value(x, 'atleast_nd')) for x in arys)
    return out[0] if len(out) == 1 else out


# ---- broadcast

def broadcast_to(array, shape: int | Sequence[int], *, out_sharding: Sharding = None) -> Value:
    """An array repeated to a shape by NumPy's rule: new dimensions in front, those of size 1 repeated.

    With `out_sharding` the result lies as asked for. Dimensions of the array that are split must be split there as they are;
    splitting whole and new ones is free. A replicated array then gets its gradient by an all-reduce, a reduced one unreduced
    and by none.
    Raises ShardingTypeError where the array's own dimensions would have to be split otherwise.

        jnp.broadcast_to(jnp.arange(3.), (2, 3))
    """
    x = as_value(array, 'broadcast_to')
    shape = shape_of('broadcast_to', shape)
    front = len(shape) - x.ndim
    if front < 0 or any(m not in (1, n) for m, n in zip(x.shape, shape[front:], strict=True)):
        raise ValueError(f"Incompatible shapes for broadcasting: {x.shape} and requested shape {shape}")
    if out_sharding is not None:
        _check_kept(typeof(x), wanted(typeof(x).update(shape=shape, partitions=((),) * len(shape)), out_sharding), front)
    if x.shape == shape and out_sharding is None:
        return x
    return lax_shape.broadcast_in_dim(x, shape, range(front, len(shape)), out_sharding=out_sharding)


def _check_kept(t: ArrayType, goal: ArrayType, front: int) -> None:
    for d, (size, axes) in enumerate(zip(t.shape, t.partitions, strict=True)):
        if axes and size == goal.shape[front + d] and axes != goal.partitions[front + d]:
            asked = goal.update(shape=t.shape, partitions=goal.partitions[front:])
            raise ShardingTypeError(
                f"broadcast_to of {t} cannot split dimension {d} otherwise, as {goal} asks for. Reshard the array first: "
                f"reshard(x, {written(asked.update(unreduced=(), reduced=()))}).")


def broadcast_arrays(*args) -> tuple[Value, ...]:
    """Arrays repeated to their common shape, and split alike.

        jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))
    """
    xs = [as_value(x, 'broadcast_arrays') for x in args]
    shape = broadcast_shapes(*(x.shape for x in xs))
    placed = [t for t in map(typeof, xs) if not t.mesh.empty]
    if not any(axes for t in placed for axes in t.partitions):
        return tuple(broadcast_to(x, shape) for x in xs)
    aligned = [t.update(shape=(1,) * (len(shape) - t.ndim) + t.shape, partitions=((),) * (len(shape) - t.ndim) + t.partitions,
                        unreduced=(), reduced=(), kind='sum') for t in placed]
    split = agree(elementwise_labels('broadcast_arrays')(*aligned), aligned).outs[0]
    return tuple(_broadcast_split(x, shape, split) for x in xs)


def _broadcast_split(x, shape: tuple[int, ...], split) -> Value:
    axes = {a for names in split for a in names}
    t = typeof(x)
    if t.unreduced & axes:
        raise ShardingTypeError(f"broadcast_arrays meets {t} and dimensions split over the axes that it is unreduced over. "
                                f"Reduce it first: reshard(x, {written(t.update(unreduced=(), kind='sum'))}).")
    goal = t.update(shape=shape, partitions=split, reduced=t.reduced - axes)
    return lax_shape.broadcast_in_dim(x, shape, range(len(shape) - x.ndim, len(shape)), out_sharding=goal.sharding)


# ---- what a shape is

def shape(a) -> tuple[int, ...]:
    """The global shape of an array or number.

        jnp.shape(jnp.ones((2, 3)))               # (2, 3)
    """
    return typeof(a).shape


def ndim(a) -> int:
    """The number of dimensions.

        jnp.ndim(jnp.ones((2, 3)))                # 2
    """
    return len(shape(a))


def size(a, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements of the whole array, or along some dimensions.

        jnp.size(jnp.ones((2, 3)))                # 6
    """
    sizes = shape(a)
    return math.prod(sizes if axis is None else (sizes[d] for d in dims_of('size', axis, len(sizes))))


__all__ = ['atleast_1d', 'atleast_2d', 'atleast_3d', 'broadcast_arrays', 'broadcast_shapes', 'broadcast_to', 'expand_dims',
           'matrix_transpose', 'moveaxis', 'ndim', 'permute_dims', 'ravel', 'reshape', 'rollaxis', 'shape', 'size',
           'squeeze', 'swapaxes', 'transpose']
