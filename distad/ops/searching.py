"""Where truth is, and which values there are: results of a fixed size, so that they have a type.

What is missing has the number of elements for its position, which is beyond the bounds. The dimension that is searched has to be whole;
those before it are a batch.
"""

import numpy as np

from distad.core.batching import leading
from distad.core.primitive import NoRule, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import infer

POSITION = np.dtype(np.int32)


def _put_first(row: np.ndarray, found: np.ndarray) -> None:
    row[:min(row.size, found.size)] = found[:row.size]


# ---- nonzero: the positions, rising

def _nonzero_labels(mask: ArrayType, *, size: int):
    labels = [*range(mask.ndim - 1), None]
    return signature('nonzero', [labels], [labels])


def _nonzero_impl(mask, *, out, size):
    found = np.full(out.shape, mask.shape[-1], POSITION)
    for i in np.ndindex(*mask.shape[:-1]):
        _put_first(found[i], np.flatnonzero(mask[i]))
    return found


nonzero = Primitive(
    'nonzero',
    type=by_labels(_nonzero_labels, lambda mask, *, size: ((*mask.shape[:-1], size), POSITION)),
    labels=_nonzero_labels,
    impl=_nonzero_impl,
    jvp=(None,),
    transpose=NoRule('it is not linear'),
    batch=leading())


# ---- unique: for each row in rising order where it is first and how often; and for each row the number of its value

def _unique_labels(x: ArrayType, *, size: int, equal_nan: bool):
    batch = range(x.ndim - 2)
    return signature('unique', [[*batch, None, None]], [[*batch, None]] * 3)


def _unique_type(x: ArrayType, *, size: int, equal_nan: bool) -> list[ArrayType]:
    if x.ndim < 2:
        raise TypeError(f"unique takes rows [..., n, k], got {x}")
    agreement = infer(_unique_labels(x, size=size, equal_nan=equal_nan), (x,))
    return [agreement.out(i, (*x.shape[:-2], n), POSITION) for i, n in enumerate((size, size, x.shape[-2]))]


def distinct(rows: np.ndarray, equal_nan: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of rows [n, k]: where each value is first, how often it is there, and for each row the number of its value."""
    if dtypes.is_half(rows.dtype):
        rows = rows.astype(np.float32)
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))       # stable: of equal rows the first comes first
    there = rows[order]
    differ = there[1:] != there[:-1]
    if equal_nan and rows.dtype.kind in 'fc':
        differ &= ~(np.isnan(there[1:]) & np.isnan(there[:-1]))
    starts = np.concatenate([np.ones(min(len(rows), 1), bool), differ.any(1)])
    numbers = np.empty(len(rows), POSITION)
    numbers[order] = np.cumsum(starts) - 1
    return order[starts], np.diff(np.flatnonzero(np.append(starts, True))), numbers


def _unique_impl(x, *, out, size, equal_nan):
    """What is missing has the position of the first value, and is there 0 times."""
    first, count, number = (np.zeros(o.shape, POSITION) for o in out)
    for i in np.ndindex(*x.shape[:-2]):
        at, times, number[i] = distinct(x[i], equal_nan)
        first[i] = at[0] if at.size else 0
        _put_first(first[i], at)
        _put_first(count[i], times)
    return first, count, number


def _unique_jvp(primals, tangents, **params):
    outs = unique(*primals, **params)
    return outs, [Zero(typeof(y).tangent()) for y in outs]


unique = Primitive(
    'unique',
    type=_unique_type,
    labels=_unique_labels,
    impl=_unique_impl,
    jvp=_unique_jvp,
    transpose=NoRule('it is not linear'),
    batch=leading(),
    multiple=True)
