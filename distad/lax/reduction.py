"""Reductions, also over split dimensions: what JAX's lax has under these names.

A dimension that is split is reduced in place first; what each rank holds then is small, and one message brings it together:
by an all-reduce for sum, max, min, and for any and all of truth values, by an all-gather for the others. With
`out_sharding=P(..., unreduced={'X'})` the message is left for later.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from distad.control.custom import call_custom_jvp
from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import is_scalar, typeof
from distad.errors import ShardingTypeError
from distad.lax.creation import numbered
from distad.lax.dims import dims_of
from distad.lax.kind import kindly, named, settle, whole_along
from distad.lax.shape import Sharding
from distad.ops import arithmetic
from distad.ops import reduction as ops
from distad.ops.broadcast import broadcast_in_dim, expand_dims
from distad.ops.broadcast import reduce_sum as sum_p
from distad.ops.cast import cast
from distad.ops.compare import and_, eq, or_, select_n, xor
from distad.ops.reshape import reshape
from distad.transforms.programs import stage_closed
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.sharding import NamedSharding

__all__ = ['argmax', 'argmin', 'reduce', 'reduce_and', 'reduce_max', 'reduce_min', 'reduce_or', 'reduce_prod', 'reduce_sum',
           'reduce_xor']



# ---- sum

def reduce_sum(operand, axes: Sequence[int], *, out_sharding: Sharding = None):
    """Sum over dimensions.

    Args:
      operand: [..., n@X, ...], any number type; the result keeps the dtype.
      axes: the dimensions that go.
      out_sharding: where the result lies. With `unreduced={'X'}` a sum over a dimension split over X stays to come; what the
        operand is unreduced or reduced over stays so in any case.
    Returns: the kept dimensions, split as they were.
    Communication: one all-reduce of the result over the axes that split a summed dimension; none if they are in `unreduced`.
    Raises: ShardingTypeError for an axis in `unreduced` that no sum over ranks is left of.

    >>> reduce_sum(np.ones((3, 4), np.float32), (1,))
    Array([4., 4., 4.], dtype=float32)
    """
    x = as_value(operand, 'reduce_sum')
    y = kindly(sum_p, x, axes=dims_of('reduce_sum', axes, x.ndim))
    return settle(y, x) if out_sharding is None else cast(y, _asked('reduce_sum', 'sum', x, typeof(y), out_sharding))


def _asked(name: str, kind: str, x, y: ArrayType, out_sharding: Sharding) -> ArrayType:
    """The type that `out_sharding` asks for, given that of the result before anything is sent."""
    s = named(out_sharding, y.mesh)
    asked = s.spec.unreduced
    if asked and s.spec.unreduced_kind.name != kind:
        raise ShardingTypeError(f"{name} can leave a {kind} to come, not a {s.spec.unreduced_kind.name}, got {typeof(x)} and "
                                f"out_sharding={s.spec}. Say unreduced_kind={kind!r}.")
    if extra := asked - y.unreduced:
        raise ShardingTypeError(
            f"{name}: out_sharding={s.spec} asks for a result unreduced over {', '.join(sorted(extra))}, but no {kind} over it "
            f"is left to do, got {typeof(x)}. Leave it out of unreduced, or reshard the result.")
    t = ArrayType(y.shape, y.dtype, weak_type=y.weak_type, sharding=NamedSharding(s.mesh, s.spec.update(
        unreduced=frozenset(), unreduced_kind=None)))
    left = asked or typeof(x).unreduced
    if both := t.split_axes & (left | y.reduced):
        raise ValueError(f"{name}: out_sharding={s.spec} splits a dimension over {', '.join(sorted(both))}, but the operand "
                         f"is unreduced or reduced over it and stays so, got {typeof(x)}. Reshard the operand first.")
    return t.update(unreduced=left, kind=kind if asked else typeof(x).kind, reduced=t.reduced | (y.reduced - left))


# ---- max and min

def reduce_max(operand, axes: Sequence[int], *, out_sharding: Sharding = None):
    """Maximum over dimensions; NaN wins.

    Args:
      operand: [..., n@X, ...], any type but complex; the result keeps the dtype.
      axes: the dimensions that go.
      out_sharding: where the result lies; with `unreduced={'X'}, unreduced_kind='max'` the maximum over X stays to come, of
        type {U_max:X}, which has no derivative.
    Returns: the kept dimensions, split as they were. The derivative is shared evenly among equal maxima, also among those on
      several ranks.
    Communication: one all-reduce of the result over the axes that split a reduced dimension, and one more in a gradient.
    Raises: ShardingTypeError for an unreduced operand.

    >>> reduce_max(np.float32([[1, 2], [4, 3]]), (1,))
    Array([2., 4.], dtype=float32)
    """
    return _extremum('max', ops.reduce_max, operand, axes, out_sharding)


def reduce_min(operand, axes: Sequence[int], *, out_sharding: Sharding = None):
    """Minimum over dimensions; NaN wins. All else as `reduce_max`, with kind 'min'.

    >>> reduce_min(np.float32([[1, 2], [4, 3]]), (1,))
    Array([1., 3.], dtype=float32)
    """
    return _extremum('min', ops.reduce_min, operand, axes, out_sharding)


def _extremum(kind: str, primitive: Primitive, operand, axes: Sequence[int], out_sharding: Sharding):
    x = as_value(operand, primitive.name)
    axes = dims_of(primitive.name, axes, x.ndim)
    if out_sharding is None:
        return _settled(primitive, x, axes)
    later = named(out_sharding, typeof(x).mesh).spec.unreduced
    y = kindly(primitive, x, axes=axes) if later else _settled(primitive, x, axes)
    return cast(y, _asked(primitive.name, kind, x, typeof(y), out_sharding))


def _settled(primitive: Primitive, x, axes: tuple[int, ...]):
    """The extremum, reduced also over the ranks. Its derivative looks for the winners among all of them."""
    if not any(typeof(x).partitions[d] for d in axes):
        return kindly(primitive, x, axes=axes)

    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        y = _settled(primitive, x, axes)
        wins = ops.winners(x, spread(y, x, axes))
        return [y], [kindly(arithmetic.div, reduce_sum(kindly(arithmetic.mul, t, wins), axes), reduce_sum(wins, axes))]

    return call_custom_jvp(lambda x: [settle(kindly(primitive, x, axes=axes), x)], rule, [x])[0]


def spread(y, x, axes: tuple[int, ...]):
    """What is left of a reduction of x over `axes`, broadcast to the shape and the splits of x."""
    t = typeof(x)
    return kindly(broadcast_in_dim, y, shape=t.shape, broadcast_dimensions=ops.kept(x, axes), sharding=t.sharding)


# ---- the others

def reduce_prod(operand, axes: Sequence[int]):
    """Product over dimensions.

    Args:
      operand: [..., n@X, ...], any number type; the result keeps the dtype.
      axes: the dimensions that go.
    Returns: the kept dimensions, split as they were.
    Communication: one all-gather of the ranks' products, where a reduced dimension is split.
    Raises: ShardingTypeError for an unreduced operand.

    >>> reduce_prod(np.float32([[1, 2], [4, 3]]), (1,))
    Array([ 2., 12.], dtype=float32)
    """
    return _in_two_steps(ops.reduce_prod, operand, axes)


def reduce_and(operand, axes: Sequence[int]):
    """`and` over dimensions: of all elements, or of their bits.

    Args:
      operand: [..., n@X, ...], bool or integer; the result keeps the dtype.
      axes: the dimensions that go.
    Communication: where a reduced dimension is split, an all-reduce of truth values, an all-gather of the ranks' integers.

    >>> reduce_and(np.array([True, False]), (0,))
    Array(False, dtype=bool)
    """
    return _logic(ops.reduce_and, operand, axes)


def reduce_or(operand, axes: Sequence[int]):
    """`or` over dimensions: of all elements, or of their bits. All else as `reduce_and`.

    >>> reduce_or(np.array([True, False]), (0,))
    Array(True, dtype=bool)
    """
    return _logic(ops.reduce_or, operand, axes)


def reduce_xor(operand, axes: Sequence[int]):
    """Exclusive `or` over dimensions, bit by bit. All else as `reduce_and`, but never an all-reduce.

    >>> reduce_xor(np.array([True, True]), (0,))
    Array(False, dtype=bool)
    """
    return _in_two_steps(ops.reduce_xor, operand, axes)


def _logic(primitive: Primitive, operand, axes: Sequence[int]):
    x = as_value(operand, primitive.name)
    if typeof(x).dtype != bool:
        return _in_two_steps(primitive, x, axes)
    return settle(kindly(primitive, x, axes=dims_of(primitive.name, axes, x.ndim)), x)


def _in_two_steps(primitive: Primitive, operand, axes: Sequence[int]):
    """Split dimensions become (ranks, rest); reduce the rest in place, gather what is left, reduce over the ranks."""
    x = as_value(operand, primitive.name)
    t, axes = typeof(x), dims_of(primitive.name, axes, x.ndim)
    ranks = {d: n for d in axes if (n := math.prod(t.mesh.shape[a] for a in t.partitions[d])) > 1}
    x = whole_along(x, [d for d in axes if d not in ranks])
    if not ranks:
        return kindly(primitive, x, axes=axes)
    sizes, parts, rest = [], [], []
    for d, n in enumerate(t.shape):
        if d in ranks:
            parts.append(len(sizes))
            sizes.append(ranks[d])
        if d in axes:
            rest.append(len(sizes))
        sizes.append(n // ranks.get(d, 1))
    y = kindly(primitive, reshape(x, new_sizes=tuple(sizes)), axes=tuple(rest))
    left = tuple(p - sum(r < p for r in rest) for p in parts)
    return kindly(primitive, whole_along(y, left), axes=left)


def argmax(operand, axis: int, index_dtype):
    """Index of the first maximum along a dimension; NaN counts as one.

    Args:
      operand: [..., n@X, ...], any real type.
      axis: the dimension that goes. index_dtype: the integer type of the result.
    Communication: two all-gathers, of each rank's best and of where it is, if the dimension is split.

    >>> argmax(np.float32([[1, 2], [4, 3]]), 1, np.int32)
    Array([1, 0], dtype=int32)
    """
    return _arg(ops.argmax, ops.reduce_max, operand, axis, index_dtype)


def argmin(operand, axis: int, index_dtype):
    """Index of the first minimum along a dimension; NaN counts as one. All else as `argmax`.

    >>> argmin(np.float32([[1, 2], [4, 3]]), 1, np.int32)
    Array([0, 1], dtype=int32)
    """
    return _arg(ops.argmin, ops.reduce_min, operand, axis, index_dtype)


def _arg(primitive: Primitive, extremum: Primitive, operand, axis: int, index_dtype):
    x = as_value(operand, primitive.name)
    t, (d,), dtype = typeof(x), dims_of(primitive.name, axis, x.ndim), dtypes.canonical(index_dtype)
    ranks = t.mesh.axis_size(t.partitions[d])
    if ranks == 1:
        return kindly(primitive, whole_along(x, (d,)), axes=(d,), index_dtype=dtype)
    length = t.shape[d] // ranks
    parts = reshape(x, new_sizes=(*t.shape[:d], ranks, length, *t.shape[d + 1:]))
    best = kindly(extremum, parts, axes=(d + 1,))
    before = kindly(arithmetic.mul, numbers_along(best, d, dtype), dtype.type(length))
    place = kindly(arithmetic.add, kindly(primitive, parts, axes=(d + 1,), index_dtype=dtype), before)
    best, place = whole_along(best, (d,)), whole_along(place, (d,))
    winner = expand_dims(kindly(primitive, best, axes=(d,), index_dtype=dtype), (d,))
    return kindly(sum_p, kindly(select_n, kindly(eq, numbers_along(best, d, dtype), winner), dtype.type(0), place), axes=(d,))


def numbers_along(x, d: int, dtype: np.dtype):
    """0, 1, 2, ... along a dimension of x, split as it is; the other dimensions have size 1."""
    t = typeof(x)
    return numbered(t.update(shape=tuple(n if k == d else 1 for k, n in enumerate(t.shape)), dtype=dtype, weak_type=False,
                             partitions=tuple(p if k == d else () for k, p in enumerate(t.partitions)), unreduced=(),
                             kind='sum'), d)


# ---- reduce: by a function, which has to be one of the above

_FOLDS = {fold.name: (fold, f) for fold, f in (
    (arithmetic.add, reduce_sum), (arithmetic.max, reduce_max), (arithmetic.min, reduce_min), (arithmetic.mul, reduce_prod),
    (and_, reduce_and), (or_, reduce_or), (xor, reduce_xor))}


def reduce(operands, init_values, computation: Callable, dimensions: Sequence[int], out_sharding: Sharding = None):
    """Reduce one array by add, mul, max, min, and, or, xor: those of `lax`, or a function that does the same.

    Args:
      operands: [..., n@X, ...]. init_values: a number, where the reduction starts. dimensions: those that go.
      computation: `(x, y) -> z` on scalars.
      out_sharding: where the result lies (add, max and min only).
    Communication: as that of `reduce_sum`, `reduce_max`, ...
    Raises: NotImplementedError for another function.

    >>> reduce(np.ones((3, 4), np.float32), 1.0, lambda x, y: x + y, (1,))
    Array([5., 5., 5.], dtype=float32)
    """
    x = as_value(operands, 'reduce')
    dtype = typeof(x).dtype
    name, found = monoid(computation, dtype)
    if name is None:
        raise NotImplementedError(f"reduce takes add, mul, max, min, and, or, xor as its computation, got a function that does "
                                  f"{found}. Write another one as a loop over slices.")
    fold, f = _FOLDS[name]
    y = f(x, dimensions) if out_sharding is None else f(x, dimensions, out_sharding=out_sharding)
    start = dtype.type(init_values) if is_scalar(init_values) else as_value(init_values, 'reduce')
    if is_scalar(start) and start == neutral(name, dtype):
        return y
    return kindly(fold, y, start)


def monoid(computation: Callable, dtype: np.dtype) -> tuple[str | None, str]:
    """Which of add, mul, max, min, and, or, xor a function of two scalars is, if it is one; and what it does, in words."""
    scalar = ArrayType((), dtype)
    jaxpr, consts = stage_closed(lambda x, y: [computation(x, y)], [scalar, scalar])
    names = [eqn.primitive.name for eqn in jaxpr.equations]
    known = not consts and len(names) == 1 and names[0] in _FOLDS and set(jaxpr.equations[0].ins) == set(jaxpr.ins)
    return names[0] if known else None, ', '.join(names) or 'nothing'


def neutral(name: str, dtype: np.dtype):
    """The value that changes nothing."""
    if name in ('max', 'min'):
        return ops.limit(dtype, -1 if name == 'max' else 1)
    return ~dtype.type(0) if name == 'and' else dtype.type(name == 'mul')
