"""Sums, products and extrema over segments of an array: jax.ops.segment_sum and its kin.

The rows of an array are put together by the number of their segment. Where the rows are split over ranks, each rank adds up its
own, and one all-reduce of the segments' size follows, or none if the sum may stay unreduced.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from distad.core.lift import as_value, read
from distad.core.primitive import Primitive
from distad.core.value import Value, typeof
from distad.errors import ConcretizationTypeError
from distad.lax.indexing import bounds, unmarked, vectors
from distad.lax.kind import kindly, settle, with_sharding
from distad.lax.shape import Sharding
from distad.numpy.creation import full_like
from distad.numpy.known import known
from distad.ops import gather as ops
from distad.ops import scatter as scattering
from distad.ops.reduction import limit
from distad.ops.windows import Windows

_DOC = """{what}

    data: [n, ..]; segment_ids: integers [n], or of all of data's first dimensions; numbers out of range, negative ones too, count
    for no segment. The result is [num_segments, ..], without `num_segments` as many as there are numbers, which then have to
    be known. {empty} `indices_are_sorted`, `unique_indices` and `bucket_size` are accepted and not needed.
    {communication} The other dimensions keep their split, reduced axes stay{unreduced}.
    Raises ConcretizationTypeError for traced numbers without `num_segments`, ShardingTypeError for unreduced ones{refused}.

        jax.ops.{name}(jnp.ones(4), jnp.array([0, 1, 1, 5]), 2)
    """


def _segments(name: str, primitive: Primitive, start: Callable[[np.dtype], Any], what: str, empty: str):
    summed = primitive is ops.scatter_add

    def f(data, segment_ids, num_segments: int | None = None, indices_are_sorted: bool = False, unique_indices: bool = False,
          bucket_size: int | None = None, mode: Any = None, *, out_sharding: Sharding = None) -> Value:
        x, ids = as_value(data, name), unmarked(as_value(segment_ids, name))
        t, k = typeof(x), ids.ndim
        if ids.shape != t.shape[:k] or ids.dtype.kind not in 'iu':
            raise ValueError(f"{name} takes an integer for each row of its data, got {t} and {ids.type}")
        n = _count(name, ids) if num_segments is None else int(num_segments)
        if n < 0:
            raise ValueError(f"{name}: num_segments is zero or more, got {n}")
        whole = t.update(shape=(n, *t.shape[k:]), partitions=((), *t.partitions[k:]), weak_type=False)
        windows = Windows(offset_dims=tuple(range(k, t.ndim)), collapsed_slice_dims=(0,), start_index_map=(0,))
        y = kindly(primitive, full_like(whole, start(t.dtype)), vectors([ids], ids.shape), x, windows=windows,
                   slice_sizes=(1, *t.shape[k:]), mode=bounds(mode))
        return settle(y, x) if out_sharding is None else with_sharding(y, out_sharding)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _DOC.format(
        name=name, what=what, empty=empty, unreduced=', and unreduced ones too' if summed else '',
        communication='Communication: an all-reduce of the result where rows are split.' if summed else 'Communication: none.',
        refused='' if summed else ', for rows that are split, and for unreduced data')
    return f


def _count(name: str, ids: Value) -> int:
    array = known(ids)
    if array is None:
        raise ConcretizationTypeError(f"{name} of traced segment_ids of type {ids.type} needs num_segments=n: how many there are "
                                      "is not known while the program is traced.")
    return int(read(array).max(initial=-1)) + 1


segment_sum = _segments('segment_sum', ops.scatter_add, lambda dtype: 0, 'The sum of the rows of each segment.',
                        'Of no rows it is 0.')
segment_prod = _segments('segment_prod', scattering.scatter_mul, lambda dtype: 1, 'The product of the rows of each segment.',
                         'Of no rows it is 1.')
segment_max = _segments('segment_max', scattering.scatter_max, lambda dtype: limit(dtype, -1),
                        'The greatest of the rows of each segment.', "Of no rows it is the dtype's least value.")
segment_min = _segments('segment_min', scattering.scatter_min, lambda dtype: limit(dtype, 1),
                        'The least of the rows of each segment.', "Of no rows it is the dtype's greatest value.")

__all__ = ['segment_max', 'segment_min', 'segment_prod', 'segment_sum']
