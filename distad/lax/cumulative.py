"""Accumulation along a dimension, also a split one, and the scan with any associative function.

A split dimension is (ranks, rest): each rank accumulates its own block; the blocks' totals, one element for each rank, are gathered;
each rank combines what was before its block with every element of it. One small message, whatever the size.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distad import tree
from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import Value, typeof
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.dims import dim_of
from distad.lax.kind import kindly, whole_along
from distad.lax.reduction import numbers_along
from distad.ops import arithmetic, elementary
from distad.ops import cumulative as ops
from distad.ops.basic import zero_scalar
from distad.ops.broadcast import broadcast_in_dim, expand_dims
from distad.ops.cast import cast
from distad.ops.compare import eq, select_n
from distad.ops.reduction import limit
from distad.ops.reshape import reshape
from distad.ops.shape import squeeze
from distad.ops.slicing import pad, slice_p
from distad.types.array_type import ArrayType

__all__ = ['associative_scan', 'cumlogsumexp', 'cummax', 'cummin', 'cumprod', 'cumsum']


# ---- split dimensions as (ranks, rest)

def ranks_along(t: ArrayType, d: int) -> int:
    """The number of parts of a dimension."""
    return t.mesh.axis_size(t.partitions[d]) if t.partitions[d] else 1


def in_parts(x, d: int):
    """The array with a split dimension d as two: d for the ranks, which is split, and d + 1 for the rest. Nothing moves."""
    t, n = typeof(x), ranks_along(typeof(x), d)
    return reshape(x, new_sizes=(*t.shape[:d], n, t.shape[d] // n, *t.shape[d + 1:]))


def _cut(x, d: int, start: int, limit: int, step: int = 1):
    n = typeof(x).ndim
    return slice_p(x, start_indices=tuple(start if k == d else 0 for k in range(n)),
                   limit_indices=tuple(limit if k == d else m for k, m in enumerate(typeof(x).shape)),
                   strides=None if step == 1 else tuple(step if k == d else 1 for k in range(n)))


def _accumulated(primitive: Primitive, combine: Primitive, neutral: Callable, operand, axis: int, reverse: bool) -> Value:
    x = as_value(operand, primitive.name)
    d, reverse, t = dim_of(primitive.name, axis, x.ndim), bool(reverse), typeof(x)
    if not t.partitions[d] or not t.size:
        return kindly(primitive, x, axis=d, reverse=reverse)
    if ranks_along(t, d) == 1:
        return cast(kindly(primitive, whole_along(x, (d,)), axis=d, reverse=reverse), t)
    y = primitive(in_parts(x, d), axis=d + 1, reverse=reverse)
    m = typeof(y).shape[d + 1]
    last = squeeze(_cut(y, d + 1, 0, 1) if reverse else _cut(y, d + 1, m - 1, m), dimensions=(d + 1,))
    totals = whole_along(last, (d,))
    config = tuple(((-1, 1, 0) if reverse else (1, -1, 0)) if k == d else (0, 0, 0) for k in range(t.ndim))
    earlier = primitive(pad(totals, neutral(typeof(totals)), padding_config=config), axis=d, reverse=reverse)
    mine = expand_dims(cast(earlier, typeof(last)), (d + 1,))
    return reshape(combine(y, mine), new_sizes=t.shape)


def cumsum(operand, axis: int = 0, reverse: bool = False) -> Value:
    """The sum of all elements up to each one.

    Args:
      operand: [..., n@X, ...], any number type, which the result keeps.
      axis: the dimension n. reverse: start from its end.
    Returns: an array of the type of the operand; unreduced and reduced stay so.
    Communication: where the dimension is split, one all-gather of the ranks' totals.
    Raises: TypeError for truth values.
    Source: G. Blelloch, "Prefix sums and their applications", CMU-CS-90-190 (1990).

    >>> cumsum(np.float32([1, 2, 3]))
    Array([1., 3., 6.], dtype=float32)
    """
    return _accumulated(ops.cumsum, arithmetic.add, zero_scalar, operand, axis, reverse)


def cumprod(operand, axis: int = 0, reverse: bool = False) -> Value:
    """The product of all elements up to each one; unreduced operands are refused. All else as `cumsum`.

    >>> cumprod(np.float32([1, 2, 3]))
    Array([1., 2., 6.], dtype=float32)
    """
    return _accumulated(ops.cumprod, arithmetic.mul, lambda t: t.dtype.type(1), operand, axis, reverse)


def cummax(operand, axis: int = 0, reverse: bool = False) -> Value:
    """The greatest of all elements up to each one; NaN wins, unreduced operands are refused. All else as `cumsum`.

    >>> cummax(np.float32([1, 3, 2]))
    Array([1., 3., 3.], dtype=float32)
    """
    return _accumulated(ops.cummax, arithmetic.max, lambda t: limit(t.dtype, -1), operand, axis, reverse)


def cummin(operand, axis: int = 0, reverse: bool = False) -> Value:
    """The least of all elements up to each one; NaN wins, unreduced operands are refused. All else as `cumsum`.

    >>> cummin(np.float32([2, 3, 1]))
    Array([2., 2., 1.], dtype=float32)
    """
    return _accumulated(ops.cummin, arithmetic.min, lambda t: limit(t.dtype, 1), operand, axis, reverse)


def cumlogsumexp(operand, axis: int = 0, reverse: bool = False) -> Value:
    """The logarithm of the sum of the exponentials of all elements up to each one, without overflow.

    Args: a real float operand; unreduced ones are refused. All else as `cumsum`.

    >>> cumlogsumexp(np.zeros(3, np.float32))
    Array([0.       , 0.6931472, 1.0986123], dtype=float32)
    """
    return _accumulated(ops.cumlogsumexp, elementary.logaddexp, lambda t: limit(t.dtype, -1), operand, axis, reverse)


# ---- any associative function

def associative_scan(fn: Callable, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Combine all elements up to each one by an associative function.

    Args:
      fn: `(before, next) -> both`, of pytrees like `elems`, whose leaves are slices [..., m, ...] along the axis for any m; it
        treats the m places independently of one another.
      elems: a pytree of arrays [..., n@X, ...].
      axis: the dimension n, which all of them have. reverse: start from its end, which is `before` then.
    Returns: a pytree like `elems`. `fn` is traced about 2 log2(n) times, and applied to 2 n elements in all.
    Communication: where the dimension is split, one all-gather of the ranks' totals, for each array.
    Raises: ValueError for arrays that differ in n.
    Source: G. Blelloch, "Prefix sums and their applications", CMU-CS-90-190 (1990), the scan by odd and even places.

    >>> associative_scan(lambda a, b: a * b, np.float32([1, 2, 3]))
    Array([1., 2., 6.], dtype=float32)
    """
    if not callable(fn):
        raise TypeError(f"associative_scan takes a function, got {fn!r}")
    leaves, structure = tree.flatten(elems)
    leaves = [as_value(x, 'associative_scan') for x in leaves]
    if not leaves:
        return elems
    dims = [dim_of('associative_scan', axis, x.ndim) for x in leaves]
    if len(set(dims)) > 1:
        raise ValueError(f"associative_scan: axis {axis} is another dimension for each of {', '.join(str(x.type) for x in leaves)}; "
                         "count it from the front")
    d, sizes = dims[0], {x.shape[k] for x, k in zip(leaves, dims, strict=True)}
    if len(sizes) > 1:
        raise ValueError(f"associative_scan: all arrays must have the same size along axis {axis}, got "
                         f"{', '.join(str(x.type) for x in leaves)}")

    def combine(a: Sequence, b: Sequence) -> list:
        both = fn(tree.unflatten(structure, a), tree.unflatten(structure, b))
        return [as_value(x, 'associative_scan') for x in tree.leaves(both)]

    return tree.unflatten(structure, _scanned(combine, leaves, d, reverse))


def _scanned(combine: Callable, xs: list, d: int, reverse: bool) -> list:
    if not sizes_agree(xs, d):
        return _scanned_whole(combine, [whole_along(x, (d,)) for x in xs], d, reverse)
    if ranks_along(typeof(xs[0]), d) == 1 or not xs[0].shape[d]:
        return _scanned_whole(combine, xs, d, reverse)
    ranks = ranks_along(typeof(xs[0]), d)

    def within(a: Sequence, b: Sequence) -> list:
        """The function of blocks, whose places are places of one dimension to the user's function."""
        m = typeof(a[0]).shape[d + 1]
        joined = [[lax_shape.reshape(x, (*x.shape[:d], ranks * m, *x.shape[d + 2:])) for x in v] for v in (a, b)]
        return [lax_shape.reshape(y, (*y.shape[:d], ranks, m, *y.shape[d + 1:])) for y in combine(*joined)]

    inside = _scanned_whole(within, [in_parts(x, d) for x in xs], d + 1, reverse)
    m = typeof(inside[0]).shape[d + 1]
    at = (0, 1) if reverse else (m - 1, m)
    last = [squeeze(_cut(y, d + 1, *at), dimensions=(d + 1,)) for y in inside]
    totals = _scanned_whole(combine, [whole_along(x, (d,)) for x in last], d, reverse)
    earlier = [_from_neighbour(total, typeof(x), typeof(y), d, reverse) for total, x, y in zip(totals, last, inside, strict=True)]
    first = ranks - 1 if reverse else 0
    both = [_unless_first(y, z, d, first) for y, z in zip(inside, within(earlier, inside), strict=True)]
    return [lax_shape.reshape(y, (*y.shape[:d], ranks * m, *y.shape[d + 2:])) for y in both]


def sizes_agree(xs: Sequence, d: int) -> bool:
    """Whether the arrays are split alike along a dimension."""
    return len({typeof(x).partitions[d] for x in xs}) == 1


def _from_neighbour(total, one: ArrayType, block: ArrayType, d: int, reverse: bool):
    """On each rank the total up to its neighbour, for every place of its block. The first one's own is not used."""
    n = typeof(total).shape[d]
    parts = [_cut(total, d, 1, n), _cut(total, d, n - 1, n)] if reverse else [_cut(total, d, 0, 1), _cut(total, d, 0, n - 1)]
    mine = cast(slicing.concatenate(parts, d), one)
    places = tuple(k for k in range(block.ndim) if k != d + 1)
    return broadcast_in_dim(mine, shape=block.shape, broadcast_dimensions=places, sharding=None)


def _unless_first(own, combined, d: int, first: int):
    number = numbers_along(own, d, np.dtype(np.int32))
    return kindly(select_n, kindly(eq, number, np.int32(first)), combined, own)


def _scanned_whole(combine: Callable, xs: Sequence, d: int, reverse: bool) -> list:
    """Pairs are combined, scanned, and combined with every second element once more."""
    n = typeof(xs[0]).shape[d]
    if n < 2:
        return list(xs)
    if reverse:
        flipped = _scanned_whole(combine, [slicing.rev(x, (d,)) for x in xs], d, False)
        return [slicing.rev(y, (d,)) for y in flipped]
    pairs = combine([_cut(x, d, 0, n - 1, 2) for x in xs], [_cut(x, d, 1, n, 2) for x in xs])
    odd = _scanned_whole(combine, pairs, d, False)
    later = [_cut(x, d, 2, n, 2) for x in xs]
    half = (n - 1) // 2
    even = combine([_cut(y, d, 0, half) for y in odd], later) if half else later
    first = [_cut(x, d, 0, 1) for x in xs]
    even = [slicing.concatenate([f, e], d) if half else f for f, e in zip(first, even, strict=True)]
    return [_interleaved(e, o, d) for e, o in zip(even, odd, strict=True)]


def _interleaved(even, odd, d: int):
    """e0 o0 e1 o1 ..., of as many, or one more even than odd ones."""
    n, m = typeof(even).shape[d], typeof(odd).shape[d]
    if n == m:
        pairs = slicing.concatenate([expand_dims(even, (d + 1,)), expand_dims(odd, (d + 1,))], d + 1)
        return lax_shape.reshape(pairs, (*even.shape[:d], 2 * n, *even.shape[d + 1:]))
    return slicing.concatenate([_interleaved(_cut(even, d, 0, m), odd, d), _cut(even, d, m, n)], d)
