"""Sums, products and extrema over segments of an array: jax.ops.segment_sum and its kin.

The rows of an array are put together by the number of their segment. Where the rows are split over ranks, each rank puts together its
own, and one all-reduce of the segments' size follows, or none if a sum may stay unreduced; products are gathered and multiplied.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from distad.core.lift import as_value, read
from distad.core.primitive import Primitive
from distad.core.value import Value, typeof
from distad.errors import ConcretizationTypeError
from distad.lax.indexing import bounds, scattered, unmarked, vectors
from distad.lax.kind import settle, whole_along, with_sharding
from distad.lax.reduction import reduce_prod
from distad.lax.shape import Sharding
from distad.numpy.creation import full_like
from distad.numpy.known import known
from distad.ops import gather as ops
from distad.ops import scatter as scattering
from distad.ops.reduction import limit
from distad.ops.reshape import reshape
from distad.ops.windows import Windows

_DOC = """{what}

    data: [n, ..]; segment_ids: integers [n], or of all of data's first dimensions; numbers out of range, negative ones too, count
    for no segment. The result is [num_segments, ..], without `num_segments` as many as there are numbers, which then have to
    be known. {empty} `indices_are_sorted`, `unique_indices` and `bucket_size` are accepted and not needed.
    Communication: {how} where rows are split. The other dimensions keep their split, reduced axes stay{unreduced}.
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
        parts = primitive is scattering.scatter_mul and any(t.partitions[:k])
        x, ids = _in_parts(x, ids) if parts else (x, ids)
        rows, first = typeof(x), (0,) if parts else ()
        behind = len(first) + k
        whole = rows.update(shape=(*rows.shape[:len(first)], n, *rows.shape[behind:]), weak_type=False,
                            partitions=(*rows.partitions[:len(first)], (), *rows.partitions[behind:]))
        windows = Windows(offset_dims=tuple(range(behind, rows.ndim)), collapsed_slice_dims=(len(first),),
                          start_index_map=(len(first),), operand_batching_dims=first, start_indices_batching_dims=first)
        y = scattered(primitive, full_like(whole, start(t.dtype)), vectors([ids], ids.shape), x, windows=windows,
                      slice_sizes=(*[1] * len(first), 1, *rows.shape[behind:]), mode=bounds(mode))
        y = reduce_prod(y, first) if parts else settle(y, x) if out_sharding is None else y
        return with_sharding(y, out_sharding)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _DOC.format(
        name=name, what=what, empty=empty, unreduced=', and unreduced ones too' if summed else '',
        how="an all-gather of the ranks' products" if primitive is scattering.scatter_mul else 'an all-reduce of the result',
        refused='' if summed else ', and for unreduced data')
    return f


def _in_parts(x: Value, ids: Value) -> tuple[Value, Value]:
    """Rows in the parts that ranks have of them, one after the other along a new dimension."""
    x = whole_along(x, range(1, ids.ndim))
    t = typeof(x)
    n = t.mesh.axis_size(t.partitions[0])
    return tuple(reshape(v, new_sizes=(n, v.shape[0] // n, *v.shape[1:])) for v in (x, ids))


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
