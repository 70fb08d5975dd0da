"""roll: elements moved along a dimension, those that leave at one end come in at the other.

Where the dimension is split a block of the result is made of parts of at most two blocks, so there is no need to gather: each
part comes as one message from the rank that has it, and what stays on its rank is not sent.
"""

import numpy as np

from distad.core.batching import shifting
from distad.core.primitive import BY_LINEARITY, Message, Place, Primitive, by_labels, signature
from distad.runtime import mpi
from distad.runtime.permute import permute
from distad.types.array_type import ArrayType
from distad.types.inference import STRUCTURAL


def _labels(x: ArrayType, *, shift: int, axis: int):
    return signature('roll', [range(x.ndim)], [range(x.ndim)], linearity=STRUCTURAL)


def _shape(x: ArrayType, *, shift: int, axis: int):
    if not 0 <= axis < x.ndim:
        raise ValueError(f"roll: {x} has no dimension {axis}")
    return x.shape, x.dtype


def _parts(x: ArrayType, shift: int, axis: int) -> list[tuple[int, int, int]]:
    """What a block is made of: (how many blocks before, from which element, to which)."""
    ranks = x.mesh.axis_size(x.partitions[axis])
    size = x.shape[axis] // ranks
    if not size:
        return [(0, 0, 0)]
    blocks, rest = divmod(shift % x.shape[axis], size)
    return [*([((blocks + 1) % ranks, size - rest, size)] if rest else []), (blocks, 0, size - rest)]


def _kernel(place: Place, ins, outs, params):
    x, shift, axis = ins[0], params['shift'], params['axis']
    if not x.partitions[axis]:
        return lambda block: np.roll(block, shift, axis)
    group = mpi.group(place.mesh, x.partitions[axis])
    before = (slice(None),) * axis
    parts = [((*before, slice(start, stop)), [(i, (i + back) % group.size) for i in range(group.size)])
             for back, start, stop in _parts(x, shift, axis)]
    return lambda block: np.concatenate([permute(group, block[part], pairs, where=place) for part, pairs in parts], axis)


def _messages(ins, outs, params) -> list[Message]:
    x, axis = ins[0], params['axis']
    row = x.local_bytes // max(x.local_shape[axis], 1)
    return [Message('collective-permute', x.partitions[axis], (stop - start) * row) for back, start, stop in _parts(x, **params)
            if x.partitions[axis] and back]


roll = Primitive(
    'roll',
    type=by_labels(_labels, _shape),
    labels=_labels,
    kernel=_kernel,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, *, shift, axis: roll(ct, shift=-shift, axis=axis),),
    batch=shifting('axis'),
    linearity=STRUCTURAL,
    messages=_messages)
