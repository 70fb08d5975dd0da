"""sample_sort and permute: order in an array of one dimension that is split over ranks.

sample_sort is `sort` of arrays that need not be whole; `permute` takes the elements with given numbers, or puts them back, which is
its adjoint and its inverse. Both send every element at most twice and keep the blocks as large as they were. So the derivative of a
distributed sort is a distributed permutation, forward and backward.
"""

from collections.abc import Callable

import numpy as np

from distad.core.primitive import BY_LINEARITY, Message, NoRule, Place, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.ops.basic import zeros_of
from distad.ops.broadcast import expand_dims
from distad.ops.gather import scatter
from distad.ops.reshard import reshard
from distad.ops.sorting import check_sort, numbers_like, picked, sort
from distad.ops.windows import Windows
from distad.runtime import mpi
from distad.runtime import sample_sort as runtime
from distad.runtime.world import Group
from distad.types.array_type import ArrayType, Partitions
from distad.types.inference import LINEAR_IN_FIRST, infer


def _group(place: Place, t: ArrayType) -> Group | None:
    """The ranks that the array is split over."""
    return mpi.group(place.mesh, t.partitions[0]) if t.partitions[0] else None


def _sent(kinds: tuple[str, ...], t: ArrayType) -> list[Message]:
    several = t.size and t.partitions[0] and t.mesh.axis_size(t.partitions[0]) > 1
    return [Message(kind, t.partitions[0]) for kind in kinds] if several else []


# ---- batches: rows [batch, n] in which each has an order of its own

def _by_rows(axis, f: Callable, values, dims) -> list:
    """`f` on whole rows. Ranks that each have a part of all rows come to have some rows, and back, by an all-to-all; where the rows
    are too few to share, they are gathered."""
    values = [axis.whole(x, d) for x, d in zip(values, dims, strict=True)]
    t = typeof(values[0])
    over, axes = t.partitions
    shared = (*over, *axes) if not t.shape[0] % max(t.mesh.axis_size((*over, *axes)), 1) else over
    return _placed(f(*_placed(values, (shared, ()))), t.partitions)


def _placed(values, partitions: Partitions) -> list:
    types = [typeof(x).update(partitions=partitions) for x in values]
    return list(values) if types[0] == typeof(values[0]) else reshard(*values, to=tuple(types))


# ---- sample_sort

def _sort_labels(*types: ArrayType, num_keys: int):
    return signature('sample_sort', [[0]] * len(types), [[0]] * len(types))


def _sort_type(*types: ArrayType, num_keys: int):
    check_sort('sample_sort', types, num_keys)
    if types[0].ndim != 1:
        raise ValueError(f"sample_sort takes arrays of one dimension, got {types[0]}")
    agreement = infer(_sort_labels(*types, num_keys=num_keys), types)
    return [agreement.out(i, t.shape, t.dtype, weak_type=t.weak_type) for i, t in enumerate(types)]


def _sort_kernel(place: Place, ins, outs, params) -> Callable:
    group = _group(place, outs[0])
    if group is None:
        at = runtime.order
        return lambda *xs: [x[at(xs[:params['num_keys']])] for x in xs]
    return lambda *xs: runtime.sample_sort(group, list(xs), params['num_keys'], place)


def _sort_jvp(primals, tangents, *, num_keys: int):
    if all(t.__class__ is Zero for t in tangents):
        outs = sample_sort(*primals, num_keys=num_keys)
        return outs, [Zero(typeof(y).tangent()) for y in outs]
    *outs, numbers = sample_sort(*primals, numbers_like(primals[0], 0), num_keys=num_keys)
    return outs, [Zero(typeof(y).tangent()) if t.__class__ is Zero else permute(t, numbers, back=False)
                  for t, y in zip(tangents, outs, strict=True)]


def _sort_batch(axis, values, dims, *, num_keys: int):
    outs = _by_rows(axis, lambda *xs: sort(*xs, dimension=1, is_stable=True, num_keys=num_keys), values, dims)
    return outs, [0] * len(outs)


sample_sort = Primitive(
    'sample_sort',
    type=_sort_type,
    labels=_sort_labels,
    kernel=_sort_kernel,
    jvp=_sort_jvp,
    transpose=NoRule('it is not linear'),
    batch=_sort_batch,
    multiple=True,
    separate=True,
    messages=lambda ins, outs, params: _sent(runtime.SORT_MESSAGES, outs[0]))


# ---- permute: y[i] = x[numbers[i]], or back: y[numbers[i]] = x[i]

def _permute_labels(x: ArrayType, numbers: ArrayType, *, back: bool):
    return signature('permute', [[0], [0]], [[0]], linearity=LINEAR_IN_FIRST)


def _permute_shape(x: ArrayType, numbers: ArrayType, *, back: bool):
    if x.ndim != 1 or numbers.shape != x.shape or numbers.dtype.kind not in 'iu':
        raise TypeError(f"permute takes an array of one dimension and the number of each of its places, got {x} and {numbers}")
    return x.shape, x.dtype


def _permute_kernel(place: Place, ins, outs, params) -> Callable:
    group, back = _group(place, outs[0]), params['back']
    if group is None or not outs[0].size:
        return _put_here if back else lambda x, numbers: x[numbers]
    move = runtime.put if back else runtime.take
    return lambda x, numbers: move(group, x, numbers, place)


def _put_here(x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    y[numbers] = x
    return y


def _permute_batch(axis, values, dims, *, back: bool):
    def moved(x, numbers) -> list:
        if not back:
            return [picked(x, numbers, 1)]
        windows = Windows(offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,),
                          start_indices_batching_dims=(0,))
        return [scatter(zeros_of(typeof(x)), expand_dims(numbers, (2,)), x, windows=windows, slice_sizes=(1, 1), mode='clip')]
    y, = _by_rows(axis, moved, values, dims)
    return y, 0


permute = Primitive(
    'permute',
    type=by_labels(_permute_labels, _permute_shape),
    labels=_permute_labels,
    kernel=_permute_kernel,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, numbers, *, back: permute(ct, numbers, back=not back), None),
    batch=_permute_batch,
    linearity=LINEAR_IN_FIRST,
    messages=lambda ins, outs, params: _sent(runtime.PUT_MESSAGES if params['back'] else runtime.TAKE_MESSAGES, outs[0]))
