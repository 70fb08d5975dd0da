"""Order: sort and top_k along a dimension that is whole, and searchsorted in one that may be split.

Sorting is stable and puts NaN last; of equal elements the first comes first. Its derivative is the permutation: the tangent at
each place is that of the element that came there. Counting the elements of a sorted array below a value is a sum over the array,
so where that is split each rank counts its own, and the result is unreduced.
"""

from collections.abc import Sequence

import numpy as np

from distad.core.batching import shifting
from distad.core.primitive import NoRule, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.ops.broadcast import expand_dims
from distad.ops.cast import cast
from distad.ops.gather import gather
from distad.ops.makers import ANY, REAL, accepted, check_dtype
from distad.ops.shape import iota
from distad.ops.windows import Windows
from distad.runtime.ordering import comparable, order, reversed_order
from distad.types.array_type import ArrayType
from distad.types.inference import infer, show

INDEX = np.dtype(np.int32)


# ---- permutations and their derivatives

def numbers_like(x, dimension: int):
    """0, 1, 2, ... along a dimension, in the shape and the states of x (but never unreduced)."""
    t = typeof(x).update(dtype=INDEX, weak_type=False, unreduced=(), kind='sum')
    return cast(iota(dtype=INDEX, shape=t.shape, dimension=dimension, sharding=t.update(varying=()).sharding), t)


def picked(x, places, dimension: int):
    """The elements of x at places along a dimension; along the other dimensions both lie alike."""
    t = typeof(x)
    others = tuple(d for d in range(t.ndim) if d != dimension)
    windows = Windows(offset_dims=(), collapsed_slice_dims=(dimension,), start_index_map=(dimension,),
                      operand_batching_dims=others, start_indices_batching_dims=others)
    return gather(x, expand_dims(places, (t.ndim,)), windows=windows, slice_sizes=(1,) * t.ndim, mode='clip',
                  fill=t.dtype.type(0))


# ---- sort: several operands at once, the first `num_keys` of which are compared

def _sort_labels(*types: ArrayType, dimension: int, is_stable: bool, num_keys: int):
    labels = [None if d == dimension else d for d in range(types[0].ndim)]
    return signature('sort', [labels] * len(types), [labels] * len(types))


def check_sort(name: str, types: Sequence[ArrayType], num_keys: int) -> None:
    """Operands of one shape, some of them keys that have an order."""
    if not types or any(t.shape != types[0].shape for t in types):
        raise TypeError(f"{name} takes arrays of one shape, got {show(types)}")
    if not 1 <= num_keys <= len(types):
        raise ValueError(f"{name}: num_keys must be from 1 to the number of operands, {len(types)}, got {num_keys}")
    for t in types[:num_keys]:
        if not accepted(t.dtype, ANY):
            raise TypeError(f"{name}: the keys must have an order, got {show(types)}")


def _sort_type(*types: ArrayType, dimension: int, is_stable: bool, num_keys: int):
    check_sort('sort', types, num_keys)
    if not 0 <= dimension < types[0].ndim:
        raise ValueError(f"sort: {types[0]} has no dimension {dimension}")
    agreement = infer(_sort_labels(*types, dimension=dimension, is_stable=is_stable, num_keys=num_keys), types)
    return [agreement.out(i, t.shape, t.dtype, weak_type=t.weak_type) for i, t in enumerate(types)]


def _sort_impl(*xs, out, dimension, is_stable, num_keys):
    if len(xs) == 1 and xs[0].dtype.kind in 'biu':                  # equal integers are the same: any way will do
        return [np.sort(xs[0], axis=dimension)]
    at = order(xs[:num_keys], dimension)
    return [np.take_along_axis(x, at, dimension) for x in xs]


def _sort_jvp(primals, tangents, *, dimension: int, **params):
    if all(t.__class__ is Zero for t in tangents):
        outs = sort(*primals, dimension=dimension, **params)
        return outs, [Zero(typeof(y).tangent()) for y in outs]
    *outs, places = sort(*primals, numbers_like(primals[0], dimension), dimension=dimension, **params)
    return outs, [Zero(typeof(y).tangent()) if t.__class__ is Zero else picked(t, places, dimension)
                  for t, y in zip(tangents, outs, strict=True)]


sort = Primitive(
    'sort',
    type=_sort_type,
    labels=_sort_labels,
    impl=_sort_impl,
    jvp=_sort_jvp,
    transpose=NoRule('it is not linear'),
    batch=shifting('dimension'),
    multiple=True)


# ---- top_k

def _top_labels(x: ArrayType, *, k: int, axis: int, is_stable: bool):
    labels = [None if d == axis else d for d in range(x.ndim)]
    return signature('top_k', [labels], [labels, labels])


def _top_type(x: ArrayType, *, k: int, axis: int, is_stable: bool):
    check_dtype('top_k', REAL, x)
    if not 0 <= axis < x.ndim or not 0 <= k <= x.shape[axis]:
        raise ValueError(f"top_k: there are no {k} elements along dimension {axis} of {x}")
    agreement = infer(_top_labels(x, k=k, axis=axis, is_stable=is_stable), (x,))
    shape = tuple(k if d == axis else n for d, n in enumerate(x.shape))
    return [agreement.out(0, shape, x.dtype, weak_type=x.weak_type), agreement.out(1, shape, INDEX)]


def _top_impl(x, *, out, k, axis, is_stable):
    at = np.take(reversed_order([x], axis), range(k), axis)
    return [np.take_along_axis(x, at, axis), at.astype(INDEX)]


def _top_jvp(primals, tangents, *, axis: int, **params):
    values, places = top_k(*primals, axis=axis, **params)
    t, none = tangents[0], Zero(typeof(places).tangent())
    return [values, places], [Zero(typeof(values).tangent()) if t.__class__ is Zero else picked(t, places, axis), none]


top_k = Primitive(
    'top_k',
    type=_top_type,
    labels=_top_labels,
    impl=_top_impl,
    jvp=_top_jvp,
    transpose=NoRule('it is not linear'),
    batch=shifting('axis'),
    multiple=True)


# ---- searchsorted: how many elements of a sorted array lie before each value

def _search_labels(a: ArrayType, v: ArrayType, *, side: str):
    return signature('searchsorted', [[*range(a.ndim - 1), 'sorted'], range(v.ndim)], [range(v.ndim)], reducer='sum')


def _search_shape(a: ArrayType, v: ArrayType, *, side: str):
    check_dtype('searchsorted', ANY, a, v)
    if not a.ndim or v.shape[:a.ndim - 1] != a.shape[:-1] or side not in ('left', 'right'):
        raise ValueError(f"searchsorted takes sorted arrays [..., n], values of the same leading dimensions, and a side, left or "
                         f"right, got {a}, {v} and {side!r}")
    return v.shape, INDEX


def _search_impl(a, v, *, out, side):
    a, v = comparable(a), comparable(v)
    if a.ndim == 1:
        return np.asarray(np.searchsorted(a, v, side), INDEX)
    y = np.empty(v.shape, INDEX)
    for i in np.ndindex(a.shape[:-1]):
        y[i] = np.searchsorted(a[i], v[i], side)
    return y


def _search_batch(axis, values, dims, **params):
    """Values looked for in one array stay where they are; arrays of a batch are leading dimensions of both."""
    (a, v), (of_a, of_v) = values, dims
    if of_a is None and typeof(a).ndim == 1:
        return searchsorted(a, v, **params), of_v
    return searchsorted(axis.whole(a, of_a), axis.whole(v, of_v), **params), 0


searchsorted = Primitive(
    'searchsorted',
    type=by_labels(_search_labels, _search_shape),
    labels=_search_labels,
    impl=_search_impl,
    jvp=(None, None),
    transpose=NoRule('it is not linear'),
    batch=_search_batch)
