"""Where truth is, and which values there are: results of a fixed size, so that they have a type.

What is missing has the number of elements for its position, which is beyond the bounds. All of the operand has to be whole.
"""

import numpy as np

from distad.core.primitive import NoRule, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.ops.broadcast import LATER
from distad.types.array_type import ArrayType
from distad.types.inference import infer


def _fixed(found: np.ndarray, size: int, missing: int, dtype: np.dtype) -> np.ndarray:
    out = np.full(size, missing, dtype)
    out[:min(size, found.size)] = found[:size]
    return out


POSITION = np.dtype(np.int32)


def _nonzero_labels(mask: ArrayType, *, size: int):
    return signature('nonzero', [[None] * mask.ndim], [[None]])


nonzero = Primitive(
    'nonzero',
    type=by_labels(_nonzero_labels, lambda mask, *, size: ((size,), POSITION)),
    labels=_nonzero_labels,
    impl=lambda mask, *, out, size: _fixed(np.flatnonzero(mask), size, mask.size, out.dtype),
    jvp=(None,),
    transpose=NoRule('it is not linear'),
    batch=LATER)


# ---- unique: for each value in rising order where it is first and how often; and for each element the number of its value

def _unique_type(x: ArrayType, *, size: int) -> list[ArrayType]:
    if x.ndim != 1:
        raise TypeError(f"unique takes an array of one dimension, got {x}")
    agreement = infer(signature('unique', [[None]], [[None]] * 3), (x,))
    return [agreement.out(i, (n,), POSITION) for i, n in enumerate((size, size, x.shape[0]))]


def _unique_impl(x, *, out, size):
    """What is missing has the position of the first value, and is there 0 times."""
    _, first, number, count = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    missing = int(first[0]) if first.size else 0
    return _fixed(first, size, missing, POSITION), _fixed(count, size, 0, POSITION), number.reshape(x.shape).astype(POSITION)


def _unique_jvp(primals, tangents, *, size):
    outs = unique(*primals, size=size)
    return outs, [Zero(typeof(y).tangent()) for y in outs]


unique = Primitive(
    'unique',
    type=_unique_type,
    impl=_unique_impl,
    jvp=_unique_jvp,
    transpose=NoRule('it is not linear'),
    batch=LATER,
    multiple=True)
