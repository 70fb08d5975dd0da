"""sort and top_k, also along split dimensions.

One dimension that is split is sorted where it lies, by a sample sort. Of several dimensions another one is split instead while the
elements are sorted, which is an all-to-all there and one back. The greatest k are the greatest among those of each rank.
"""

import operator

from distad.core.lift import as_value
from distad.core.primitive import signature
from distad.core.value import Value, typeof
from distad.lax.cumulative import in_parts, ranks_along
from distad.lax.dims import dim_of
from distad.lax.kind import kindly, placed, whole_along
from distad.lax.reduction import numbers_along
from distad.lax.slicing import cast_all
from distad.ops import arithmetic
from distad.ops import sample_sort as distributed
from distad.ops import sorting as ops
from distad.ops.cast import cast
from distad.ops.reshape import reshape
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import agree

__all__ = ['approx_max_k', 'approx_min_k', 'sort', 'sort_key_val', 'top_k']


def sort(operand, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Value | tuple[Value, ...]:
    """Sort along a dimension; NaN comes last, and equal elements keep their order.

    Args:
      operand: [..., n@X, ...], or a sequence of such arrays of one shape, which are sorted together.
      dimension: n. num_keys: so many of the operands are compared, the first one first; the others go along.
      is_stable: accepted for its name; the sort is stable in any case.
    Returns: an array like the operand, or a tuple of them. The derivative is the permutation.
    Communication: none where the dimension is whole. Where it is split, for one dimension a sample sort: two small all-gathers and
      two exchanges, in which each element travels at most twice; for several, two all-to-alls.
    Raises: ShardingTypeError for unreduced operands, and where no other dimension can be split instead.
    Source: H. Shi, J. Schaeffer, "Parallel sorting by regular sampling", J. Parallel Distrib. Comput. 14 (1992).

    >>> sort(np.float32([3, 1, 2]))
    Array([1., 2., 3.], dtype=float32)
    """
    one = not isinstance(operand, (list, tuple))
    xs = [as_value(x, 'sort') for x in ([operand] if one else operand)]
    if not xs or any(x.shape != xs[0].shape for x in xs):
        raise TypeError(f"sort takes arrays of one shape, got {', '.join(str(x.type) for x in xs) or 'none'}")
    ops.check_sort('sort', [x.type for x in xs], num_keys)
    d = dim_of('sort', dimension, xs[0].ndim)
    alike = signature('sort', [range(xs[0].ndim)] * len(xs), [range(xs[0].ndim)])
    types = agree(alike, [x.type for x in xs]).operands
    xs = [placed(x, t) for x, t in zip(xs, types, strict=True)]
    outs = _sorted(xs, d, {'is_stable': bool(is_stable), 'num_keys': num_keys})
    return outs[0] if one else tuple(outs)


def _sorted(xs: list, d: int, params: dict) -> list:
    types = [typeof(x) for x in xs]
    if not types[0].partitions[d]:
        return ops.sort(*xs, dimension=d, **params)
    if types[0].ndim == 1:
        return distributed.sample_sort(*xs, num_keys=params['num_keys'])
    other = _elsewhere(types[0], d)
    if other is None:
        return ops.sort(*xs, dimension=d, **params)                        # which says what is wrong
    moved = cast_all(xs, [t.update(partitions=other) for t in types])
    return cast_all(ops.sort(*moved, dimension=d, **params), types)


def sort_key_val(keys, values, dimension: int = -1, is_stable: bool = True) -> tuple[Value, Value]:
    """Keys sorted along a dimension, and values in the order of the keys. Two arrays of one shape; all else as `sort`.

    >>> sort_key_val(np.float32([3, 1]), np.int32([7, 8]))
    (Array([1., 3.], dtype=float32), Array([8, 7], dtype=int32))
    """
    return sort((keys, values), dimension, is_stable, 1)


def in_order(x: Value, d: int) -> Value:
    """The array sorted along a dimension, and left where it was sorted: maybe another dimension is split than before."""
    t = typeof(x)
    other = _elsewhere(t, d) if t.partitions[d] and t.ndim > 1 else None
    return sort(x if other is None else cast(x, t.update(partitions=other)), dimension=d)


def _elsewhere(t: ArrayType, d: int):
    """The partitions with the axes of a dimension on another one, if there is one that divides."""
    n = ranks_along(t, d)
    found = next((k for k, m in enumerate(t.local_shape) if k != d and not m % n), None)
    if found is None:
        return None
    return tuple(() if k == d else axes + t.partitions[d] if k == found else axes for k, axes in enumerate(t.partitions))


def top_k(operand, k: int, *, axis: int = -1, is_stable: bool = True) -> tuple[Value, Value]:
    """The k greatest elements along a dimension, the greatest first, and their indices.

    Args:
      operand: [..., n@X, ...], any real type. k: at most n. axis: the dimension n.
      is_stable: accepted for its name; of equal elements the first comes first in any case.
    Returns: values [..., k, ...] and indices int32[..., k, ...]; the other dimensions are split as they were. NaN is the greatest.
    Communication: where the dimension is split, an all-gather of each rank's k values, and one of their indices.
    Raises: ShardingTypeError for an unreduced operand; ValueError for k above n.

    >>> top_k(np.float32([3, 1, 2]), 2)
    (Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    x, k = as_value(operand, 'top_k'), operator.index(k)
    if not x.ndim:
        raise ValueError(f"top_k: {x.type} has no dimension")
    d = dim_of('top_k', axis, x.ndim)
    if not 0 <= k <= x.shape[d]:
        raise ValueError(f"top_k: there are no {k} elements along dimension {d} of {x.type}")
    params = {'is_stable': bool(is_stable)}
    ranks = ranks_along(x.type, d)
    if ranks == 1:
        values, places = kindly(ops.top_k, whole_along(x, (d,)), k=k, axis=d, **params)
        return values, places
    block = x.shape[d] // ranks
    values, places = ops.top_k(in_parts(x, d), k=min(max(k, 1), block), axis=d + 1, **params)
    offsets = kindly(arithmetic.mul, numbers_along(values, d, ops.INDEX), ops.INDEX.type(block))
    places = kindly(arithmetic.add, places, offsets)
    values, places = (_in_line(y, d) for y in (values, places))
    values, among = ops.top_k(values, k=k, axis=d, **params)
    return values, ops.picked(cast(places, typeof(among).update(shape=places.shape)), among, d)


def _in_line(y, d: int):
    """What each rank has, one after the other, on all of them."""
    y = whole_along(y, (d,))
    return reshape(y, new_sizes=(*y.shape[:d], y.shape[d] * y.shape[d + 1], *y.shape[d + 2:]))


def approx_max_k(operand, k: int, reduction_dimension: int = -1, recall_target: float = 0.95, reduction_input_size_override: int = -1,
                 aggregate_to_topk: bool = True) -> tuple[Value, Value]:
    """The k greatest elements along a dimension and their indices: exactly, so the other arguments have no effect. See `top_k`.

    >>> approx_max_k(np.float32([3, 1, 2]), 2)
    (Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(operand, k: int, reduction_dimension: int = -1, recall_target: float = 0.95, reduction_input_size_override: int = -1,
                 aggregate_to_topk: bool = True) -> tuple[Value, Value]:
    """The k least elements along a dimension and their indices, exactly. See `top_k`.

    >>> approx_min_k(np.float32([3, 1, 2]), 2)
    (Array([1., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    x = as_value(operand, 'approx_min_k')
    if not dtypes.is_float(x.dtype):
        raise TypeError(f"approx_min_k takes floats, got {x.type}. Convert it with astype.")
    values, places = top_k(kindly(arithmetic.neg, x), k, axis=reduction_dimension)
    return kindly(arithmetic.neg, values), places
