"""Collectives over a mapped axis: what they do for one element of a batch, and what becomes of them on the whole batch.

    mapped_sum         <->  itself                 sums over the batch
    mapped_gather      <->  mapped_scatter         the batch becomes a dimension; a sum whose dimension becomes the batch
    mapped_exchange    <->  itself, turned round   the batch and a dimension change places
    mapped_permute     <->  itself, turned round   elements change places
    mapped_max, mapped_min                         the tangent of the winner, shared by ties
    mapped_index                                   the place in the batch

For one element they are local in their types: no mesh axis is concerned, and states pass as through any op that is as linear. They
are never run: the batching rule of the axis that they name (`names`, always one) makes them into ordinary ops over its batch
dimension, and any other axis leaves them as they are. Where the batch is split over mesh axes, these ordinary ops communicate.
"""

from collections.abc import Callable, Hashable

import numpy as np

from distad.core.batching import behind
from distad.core.primitive import BY_LINEARITY, NoRule, Place, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.ops.arithmetic import div, mul
from distad.ops.basic import zeros_of
from distad.ops.broadcast import Dims, reduce_sum
from distad.ops.cast import cast
from distad.ops.compare import eq
from distad.ops.convert import convert_element_type
from distad.ops.reduction import reduce_max, reduce_min
from distad.ops.reshape import reshape
from distad.ops.roll import roll
from distad.ops.shape import concatenate, iota, transpose
from distad.ops.slicing import slice_p
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, NONLINEAR, STRUCTURAL, Linearity
from distad.types.mesh import AbstractMesh

Names = tuple[Hashable]
Perm = tuple[tuple[int, int], ...]


def _unbound(place: Place, ins, outs, params) -> Callable:
    raise NameError(f"unbound axis name: {params['names'][0]}. A collective over a mapped axis runs inside the vmap that has the name, "
                    'and this program has left it.')


def _rule(primitive: Callable[[], Primitive], over_batch: Callable, moved: Callable[[dict], dict] = lambda params: {}) -> Callable:
    """The batching rule: over the axis of the name `over_batch`, over others the op itself, the batch dimension led along in front.

    `moved(params)`: the parameters that hold dimensions, moved on.
    """
    def rule(axis, values, dims, *, names: Names, **params):
        if axis.name == names[0]:
            primitive().infer(axis.inner(values, dims), dict(names=names, **params))           # nobody has asked for its type yet
            return over_batch(axis, values[0], dims[0], **params)
        x = axis.front(values[0], dims[0])
        return primitive()(x, names=names, **{**params, **moved(params)}), 0
    return rule


def _op(name: str, labels: Callable, shape: Callable, over_batch: Callable, transpose: Callable, linearity: Linearity = STRUCTURAL,
        moved: Callable[[dict], dict] = lambda params: {}) -> Primitive:
    """A linear op of one operand. `labels` and `shape` of its type and parameters, `names` not among them."""
    def signed(x: ArrayType, *, names: Names, **params):
        return signature(name, [labels(x, **params)[0]], [labels(x, **params)[1]], linearity=linearity)

    made: list[Primitive] = []
    made.append(Primitive(
        name, type=by_labels(signed, lambda x, *, names, **params: (shape(x, **params), x.dtype)), labels=signed, kernel=_unbound,
        jvp=BY_LINEARITY, transpose=(transpose,), batch=_rule(lambda: made[0], over_batch, moved), linearity=linearity))
    return made[0]


def _same_labels(x: ArrayType, **params):
    return range(x.ndim), range(x.ndim)


# ---- the sum. Nothing tells a sum of copies from a sum of parts here, so it is its own transpose.

def _sum_of_batch(axis, x, dim):
    if dim is None:
        return mul(x, typeof(x).dtype.type(axis.size)), None
    return axis.settled(reduce_sum(x, axes=(dim,))), None


mapped_sum = _op('mapped_sum', _same_labels, lambda x: x.shape, _sum_of_batch, lambda ct, x, *, names: mapped_sum(ct, names=names),
                 linearity=ADDITIVE)


# ---- max and min

def _extremum(name: str, reduce: Primitive) -> Primitive:
    def labels(x: ArrayType, *, names: Names):
        return signature(name, [range(x.ndim)], [range(x.ndim)], linearity=NONLINEAR)

    def over_batch(axis, x, dim):
        if dim is None:
            return x, None
        if dtypes.is_float(typeof(x).dtype):             # an extremum that is still to come over ranks has no derivative
            x = _undivided(x, dim)
        return axis.settled(reduce(x, axes=(dim,))), None

    def jvp(primals, tangents, *, names: Names):
        (x,), (t,) = primals, tangents
        y = made[0](x, names=names)
        if t.__class__ is Zero:
            return [y], [Zero(typeof(y).tangent())]
        wins = convert_element_type(eq(x, y), new_dtype=typeof(x).dtype, weak_type=False)
        return [y], [div(mapped_sum(mul(t, wins), names=names), mapped_sum(wins, names=names))]

    made = [Primitive(name, type=by_labels(labels, lambda x, *, names: (x.shape, x.dtype)), labels=labels, kernel=_unbound, jvp=jvp,
                      transpose=NoRule('it is not linear'), batch=_rule(lambda: made[0], over_batch))]
    return made[0]


mapped_max = _extremum('mapped_max', reduce_max)
mapped_min = _extremum('mapped_min', reduce_min)


# ---- gather and scatter. `dimension` holds the parts one after the other (`tiled`), or has their number as size.

def _gather_labels(x: ArrayType, *, size: int, dimension: int, tiled: bool):
    whole = [None if tiled and d == dimension else d for d in range(x.ndim)]
    return whole, whole if tiled else [*whole[:dimension], None, *whole[dimension:]]


def _gather_shape(x: ArrayType, *, size: int, dimension: int, tiled: bool) -> Dims:
    shape = x.shape
    return (*shape[:dimension], shape[dimension] * size, *shape[dimension + 1:]) if tiled else (*shape[:dimension], size,
                                                                                                 *shape[dimension:])


def _scatter_labels(x: ArrayType, *, size: int, dimension: int, tiled: bool):
    whole = [None if d == dimension else d for d in range(x.ndim)]
    return whole, whole if tiled else [*whole[:dimension], *whole[dimension + 1:]]


def _scatter_shape(x: ArrayType, *, size: int, dimension: int, tiled: bool) -> Dims:
    n = x.shape[dimension]
    if n % size if tiled else n != size:
        raise ValueError(f"psum_scatter: dimension {dimension} of {x} has size {n}, and the mapped axis {size}; it must be "
                         + ('a multiple.' if tiled else 'the same, or tiled=True.'))
    return (*x.shape[:dimension], *([n // size] if tiled else []), *x.shape[dimension + 1:])


def _moved_dimension(params: dict) -> dict:
    return {'dimension': behind(params['dimension'], 0)}


def _undivided(x, dim: int):
    """A value whose batch dimension is whole on every rank: an all-gather where it is split."""
    t = typeof(x)
    return cast(x, t.update(partitions=(*t.partitions[:dim], (), *t.partitions[dim + 1:])))


def _joined(x, dim: int):
    """A dimension and the one behind it as one."""
    shape = typeof(x).shape
    return reshape(x, new_sizes=(*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2:]))


def _cut(x, dim: int, count: int):
    """A dimension as `count` parts, and what is in one part."""
    shape = typeof(x).shape
    return reshape(x, new_sizes=(*shape[:dim], count, shape[dim] // count, *shape[dim + 1:]))


def _placed(x, dim: int, to: int):
    """A dimension at another place."""
    order = [d for d in range(typeof(x).ndim) if d != dim]
    order.insert(to, dim)
    return x if dim == to else transpose(x, permutation=tuple(order))


def _gather_of_batch(axis, x, dim, *, size: int, dimension: int, tiled: bool):
    x = axis.spread(x, dimension) if dim is None else _placed(x, dim, dimension)
    x = _undivided(x, dimension)
    return (_joined(x, dimension) if tiled else x), None


def _scatter_of_batch(axis, x, dim, *, size: int, dimension: int, tiled: bool):
    """The sum stays to come where the batch is split: who takes the result splits it along its batch, by a reduce-scatter."""
    x = mul(x, typeof(x).dtype.type(size)) if dim is None else reduce_sum(x, axes=(dim,))
    return (_cut(x, dimension, size) if tiled else x), dimension


mapped_gather = _op('mapped_gather', _gather_labels, _gather_shape, _gather_of_batch,
                    lambda ct, x, **params: mapped_scatter(ct, **params), moved=_moved_dimension)
mapped_scatter = _op('mapped_scatter', _scatter_labels, _scatter_shape, _scatter_of_batch,
                     lambda ct, x, **params: mapped_gather(ct, **params), linearity=ADDITIVE, moved=_moved_dimension)


# ---- exchange: part j of dimension `split_axis` goes to element j; what comes stands one after the other along `concat_axis`

def _exchange_labels(x: ArrayType, *, size: int, split_axis: int, concat_axis: int):
    labels = [None if d in (split_axis, concat_axis) else d for d in range(x.ndim)]
    return labels, labels


def _exchange_shape(x: ArrayType, *, size: int, split_axis: int, concat_axis: int) -> Dims:
    shape = list(x.shape)
    if shape[split_axis] % size:
        raise ValueError(f"all_to_all: dimension {split_axis} of {x} is not divisible by the size {size} of the mapped axis")
    shape[split_axis] //= size
    shape[concat_axis] *= size
    return tuple(shape)


def _exchange_of_batch(axis, x, dim, *, size: int, split_axis: int, concat_axis: int):
    x = _cut(axis.whole(x, dim), split_axis + 1, size)                        # [batch, ..., part, within the part, ...]
    t = typeof(x)
    x = cast(x, t.update(partitions=((), *t.partitions[1:split_axis + 1], axis.axes, *t.partitions[split_axis + 2:])))
    x = _placed(x, split_axis + 1, 0)                                          # [part, batch, ..., within the part, ...]
    return _joined(_placed(x, 1, concat_axis + 1), concat_axis + 1), 0


mapped_exchange = _op(
    'mapped_exchange', _exchange_labels, _exchange_shape, _exchange_of_batch,
    lambda ct, x, *, split_axis, concat_axis, **params: mapped_exchange(ct, split_axis=concat_axis, concat_axis=split_axis, **params),
    moved=lambda params: {d: behind(params[d], 0) for d in ('split_axis', 'concat_axis')})


# ---- permute: along pairs (source, target), zero where nothing comes

def _permute_shape(x: ArrayType, *, perm: Perm) -> Dims:
    sources, targets = [s for s, _ in perm], [d for _, d in perm]
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ValueError(f"ppermute: sources and destinations must be unique, got {list(perm)}")
    return x.shape


def _permute_of_batch(axis, x, dim, *, perm: Perm):
    n = axis.size
    if any(not 0 <= i < n for pair in perm for i in pair):
        raise ValueError(f"ppermute: {list(perm)} names elements outside 0 to {n - 1} of the mapped axis {axis.name!r}")
    if dim is None and len(perm) == n:
        return x, None
    x = axis.whole(x, dim)
    shifts = {(target - source) % n for source, target in perm}
    if len(perm) == n and len(shifts) == 1:
        return roll(x, shift=shifts.pop(), axis=0), 0
    x, rows = _undivided(x, 0), []
    for source, count in _stretches(list(map({target: source for source, target in perm}.get, range(n)))):
        shape = typeof(x).shape
        rows.append(zeros_of(typeof(x).update(shape=(count, *shape[1:]))) if source is None else slice_p(
            x, start_indices=(source,) + (0,) * len(shape[1:]), limit_indices=(source + count, *shape[1:]), strides=None))
    return (concatenate(*rows, dimension=0) if len(rows) > 1 else rows[0]), 0


def _stretches(sources: list[int | None]) -> list[tuple[int | None, int]]:
    """The numbers in pieces (first, how many) of such as follow one another, and pieces of None."""
    pieces: list[list] = []
    for source in sources:
        if pieces and (source is None if pieces[-1][0] is None else source == sum(pieces[-1])):
            pieces[-1][1] += 1
        else:
            pieces.append([source, 1])
    return [tuple(piece) for piece in pieces]


mapped_permute = _op('mapped_permute', _same_labels, _permute_shape, _permute_of_batch,
                     lambda ct, x, *, perm, names: mapped_permute(ct, perm=tuple((d, s) for s, d in perm), names=names))


# ---- index

def _index_type(*, names: Names, mesh: AbstractMesh) -> ArrayType:
    return ArrayType((), np.int32).update(mesh=mesh)


def _index_batch(axis, values, dims, *, names: Names, mesh: AbstractMesh):
    if axis.name != names[0]:
        return mapped_index(names=names, mesh=mesh), None
    t = axis.batched(_index_type(names=names, mesh=mesh), 0)
    return iota(dtype=np.dtype(np.int32), shape=t.shape, dimension=0, sharding=None if t.mesh.empty else t.sharding), 0


mapped_index = Primitive('mapped_index', type=_index_type, kernel=_unbound, jvp=(), transpose=NoRule('it has no operands'),
                         batch=_index_batch)
