"""Cutting and joining: slice, pad, concatenate, split, rev.

A dimension that is cut, joined or turned round has to be whole. So where it is split, it is gathered first, and the result is
split again as before: both are reshards that can be seen in the program, the first is one all-gather for all operands, the
second sends nothing. Where blocks can be cut or padded by themselves nothing is gathered.
"""

import builtins
from collections.abc import Sequence

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.errors import ShardingTypeError
from distad.lax.dims import dim_of, dims_of
from distad.lax.kind import kindly, whole_along
from distad.lax.shape import expand_dims, squeeze, written
from distad.ops import shape as ops
from distad.ops import slicing
from distad.ops.basic import zero_scalar
from distad.ops.cast import cast
from distad.ops.reshard import reshard
from distad.types.array_type import ArrayType, Partitions
from distad.types.inference import agree, show


def resized(name: str, t: ArrayType, shape: Sequence[int], *, partitions: Partitions | None = None,
            operands: Sequence[ArrayType] = ()) -> ArrayType:
    """The type of an array whose split dimensions changed size: split as before, or whole where one element is left.

    Raises ShardingTypeError where a new size does not divide.
    """
    partitions = t.partitions if partitions is None else partitions
    if all(n == 1 for n in shape):
        return t.update(shape=shape, partitions=((),) * t.ndim)
    for d, (n, axes) in enumerate(zip(shape, partitions, strict=True)):
        if axes and n % t.mesh.axis_size(axes):
            over = axes[0] if len(axes) == 1 else f"({','.join(axes)})"
            raise ShardingTypeError(
                f"{name} of {show(operands or (t,))} gives size {n} in dimension {d}, which does not divide over mesh axis "
                f"{over} of size {t.mesh.axis_size(axes)}. Choose sizes that divide, or gather the dimension first: "
                f"reshard(x, {written(whole(t, (d,)))}).")
    return t.update(shape=shape, partitions=partitions)


def whole(t: ArrayType, dims: Sequence[int]) -> ArrayType:
    """The type with some dimensions gathered."""
    return t.update(partitions=tuple(() if d in dims else axes for d, axes in enumerate(t.partitions)))


def cast_all(xs: Sequence, wants: Sequence[ArrayType]) -> list:
    """Several values brought to types, in one message."""
    xs = list(xs)
    if any(want.mesh.manual_axes for want in wants):
        return [cast(x, want) for x, want in zip(xs, wants, strict=True)]
    changing = [i for i, (x, want) in enumerate(zip(xs, wants, strict=True)) if typeof(x) != want]
    if changing:
        moved = reshard(*(xs[i] for i in changing), to=tuple(wants[i] for i in changing))
        for i, y in zip(changing, moved, strict=True):
            xs[i] = y
    return xs


# ---- slice

def slice(operand, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None) -> Value:
    """The part of an array from `start_indices` up to `limit_indices` (excluded), in steps of `strides`.

    operand: [n, ..]; one bound for each dimension, none negative. The result is split as the operand; if one element is left,
    it is replicated. Unreduced and reduced axes stay.
    Communication: an all-gather where a split dimension is cut, unless each rank has what it needs, as it has for a stride
    that divides the blocks.
    Raises ShardingTypeError where a size of the result does not divide.

        slice(jnp.arange(6.), (1,), (5,), (2,))   # 1., 3.
    """
    x = as_value(operand, 'slice')
    t = typeof(x)
    params = {'start_indices': _ints(start_indices), 'limit_indices': _ints(limit_indices),
              'strides': None if strides is None else _ints(strides)}
    shape = slicing.sliced_shape(t, **params)
    if shape == t.shape:
        return x
    goal = resized('slice', t, shape)
    bounds = zip(t.shape, params['start_indices'], params['limit_indices'], params['strides'] or (1,) * t.ndim, strict=True)
    moving = [d for d, bound in enumerate(bounds) if goal.partitions[d] != t.partitions[d]
              or not slicing.slices_within_blocks(t.mesh.axis_size(t.partitions[d]), *bound)]
    return cast(slicing.slice_p(whole_along(x, moving), **params), goal)


def _ints(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(n) for n in numbers)


def slice_in_dim(operand, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Value:
    """A slice of one dimension, with bounds as in Python: negative ones count from the end, None is the end. See `slice`.

        slice_in_dim(jnp.arange(6.), -2, None)    # 4., 5.
    """
    x = as_value(operand, 'slice_in_dim')
    d = dim_of('slice_in_dim', axis, x.ndim)
    if stride < 1:
        raise ValueError(f"slice_in_dim: a stride is positive, got {stride}")
    start, limit, _ = builtins.slice(start_index, limit_index).indices(x.shape[d])
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[d], limits[d], strides[d] = start, max(start, limit), stride
    return slice(x, starts, limits, strides)


def index_in_dim(operand, index: int, axis: int = 0, keepdims: bool = True) -> Value:
    """One index of a dimension, kept with size 1 or dropped. See `slice`; the dimension must not be split.

        index_in_dim(jnp.arange(6.), -1, keepdims=False)    # 5.
    """
    x = as_value(operand, 'index_in_dim')
    d = dim_of('index_in_dim', axis, x.ndim)
    i = dim_of('index_in_dim', index, x.shape[d])
    y = slice_in_dim(x, i, i + 1, axis=d)
    return y if keepdims else squeeze(y, (d,))


# ---- pad

def pad(operand, padding_value, padding_config: Sequence[tuple[int, int, int]]) -> Value:
    """Put values before, after and between the elements.

    operand: [n, ..]; padding_value: a number, or a value of rank 0; padding_config: (before, after, between) for each
    dimension, where negative numbers cut off. The result is split as the operand. Zeros may pad an unreduced array; another
    number would be added once per rank, and is refused. Communication: an all-gather where a split dimension is padded,
    unless all blocks stay where they are.
    Raises ShardingTypeError where a size of the result does not divide.

        pad(jnp.ones(2), 0., [(1, 0, 2)])         # 0., 1., 0., 0., 1.
    """
    x = as_value(operand, 'pad')
    t = typeof(x)
    config = tuple(_ints(c) for c in padding_config)
    value = t.dtype.type(padding_value) if is_scalar(padding_value) else as_value(padding_value, 'pad')
    shape = slicing.padded_shape(t, typeof(value), padding_config=config)
    if not any(any(c) for c in config):
        return x
    goal = resized('pad', t, shape)
    moving = [d for d, (n, c) in enumerate(zip(t.shape, config, strict=True)) if goal.partitions[d] != t.partitions[d]
              or not slicing.pads_within_blocks(t.mesh.axis_size(t.partitions[d]), n, *c)]
    x = whole_along(x, moving)
    if isinstance(value, np.generic) and not value:
        value = zero_scalar(typeof(x))
    return cast(kindly(slicing.pad, x, value, padding_config=config), goal)


# ---- concatenate, split

def concatenate(operands: Sequence, dimension: int) -> Value:
    """Join arrays along a dimension.

    operands: arrays of one dtype that differ in the size of `dimension` only. All are split alike; replicated ones beside split
    ones are cut, and beside reduced ones become reduced, both free. Unreduced ones join unreduced ones only.
    Communication: where `dimension` is split, one all-gather of all operands.
    Raises ShardingTypeError for operands split differently, and where the result's size does not divide.

        concatenate([jnp.zeros(2), jnp.ones(1)], 0)
    """
    xs = [as_value(x, 'concatenate') for x in operands]
    if not xs:
        raise ValueError('concatenate needs at least one array')
    types = [typeof(x) for x in xs]
    d = dim_of('concatenate', dimension, types[0].ndim)
    shape, dtype = ops.concatenated_shape(*types, dimension=d)
    if len(xs) == 1:
        return xs[0]
    axes = _axes_along(types, d)
    gathered = [whole(t, (d,)) for t in types]
    need = agree(ops.concatenate.labels(*gathered, dimension=d), gathered)
    joined = need.out(0, shape, dtype)
    if joined.split_axes.intersection(axes) or joined.unreduced.intersection(axes):
        raise ShardingTypeError(f"concatenate along dimension {d}: the result would have two dimensions split over one mesh "
                                f"axis, got {show(types)}. Reshard the operands so that they are split alike.")
    goal = resized('concatenate', joined.update(reduced=joined.reduced.difference(axes)), shape, operands=types,
                   partitions=tuple(axes if i == d else p for i, p in enumerate(joined.partitions)))
    y = ops.concatenate(*cast_all(xs, need.operands), dimension=d)
    return cast(y, goal.update(weak_type=typeof(y).weak_type))


def _axes_along(types: Sequence[ArrayType], d: int) -> tuple[str, ...]:
    """The axes that the operands are split over along a dimension, where they are."""
    found = {t.partitions[d] for t in types} - {()}
    if len(found) > 1:
        raise ShardingTypeError(f"concatenate: dimension {d} is split differently in its operands, got {show(types)}. Reshard "
                                "them so that they agree.")
    return found.pop() if found else ()


def split(operand, sizes: Sequence[int], axis: int = 0) -> list[Value]:
    """Cut an array along a dimension into parts of these sizes.

    The parts are split as the operand. Communication: where `axis` is split, one all-gather.
    Raises ShardingTypeError where a size does not divide.

        split(jnp.arange(5.), (2, 3))
    """
    x = as_value(operand, 'split')
    t = typeof(x)
    d, sizes = dim_of('split', axis, t.ndim), _ints(sizes)
    if sum(sizes) != t.shape[d] or any(n < 0 for n in sizes):
        raise ValueError(f"split: sizes {sizes} do not add up to dimension {d} of {t}")
    goals = [resized('split', t, (*t.shape[:d], n, *t.shape[d + 1:])) for n in sizes]
    moving = [i for i in range(t.ndim) if i == d or any(g.partitions[i] != t.partitions[i] for g in goals)]
    return cast_all(ops.split(whole_along(x, moving), sizes=sizes, axis=d), goals)


# ---- along a new dimension

def stack(operands: Sequence, axis: int = 0) -> Value:
    """Join arrays of one shape and dtype along a new dimension, which is whole. Nothing is communicated.

        stack([jnp.zeros(2), jnp.ones(2)])        # float32[2,2]
    """
    xs = [as_value(x, 'stack') for x in operands]
    if len({x.shape for x in xs}) > 1:
        raise ValueError(f"all input arrays must have the same shape, got {', '.join(str(x.shape) for x in xs)}")
    if not xs:
        raise ValueError('stack needs at least one array')
    d = dim_of('stack', axis, xs[0].ndim + 1)
    return concatenate([expand_dims(x, (d,)) for x in xs], d)


def unstack(x, axis: int = 0) -> tuple[Value, ...]:
    """The slices of an array along a dimension, which they lose. It must not be split. Nothing is communicated.

        a, b = unstack(jnp.ones((2, 3)))
    """
    x = as_value(x, 'unstack')
    if not x.ndim:
        raise ValueError(f"unstack takes arrays with at least one dimension, got {x.type}")
    d = dim_of('unstack', axis, x.ndim)
    t = typeof(x)
    if t.mesh.axis_size(t.partitions[d]) > 1:
        raise ShardingTypeError(
            f"unstack takes {t} apart along dimension {d}, which is split over {', '.join(t.partitions[d])}. Gather it first: "
            f"reshard(x, {written(whole(t, (d,)))}).")
    return tuple(squeeze(part, (d,)) for part in split(x, (1,) * x.shape[d], d))


# ---- rev

def rev(operand, dimensions: Sequence[int]) -> Value:
    """Turn dimensions round. The type stays; communication: an all-gather where one of them is split.

        rev(jnp.arange(3.), (0,))                 # 2., 1., 0.
    """
    x = as_value(operand, 'rev')
    dims = tuple(sorted(dims_of('rev', dimensions, x.ndim)))
    if not dims:
        return x
    return cast(ops.rev(whole_along(x, dims), dimensions=dims), typeof(x))


__all__ = ['concatenate', 'index_in_dim', 'pad', 'rev', 'slice', 'slice_in_dim', 'split', 'stack', 'unstack']
