"""NumPy's functions that join, cut and turn round.

They share their rules with `lax.slicing`: where the dimension in question is split, it is gathered by one all-gather and the
result is split again; sizes then have to divide. All of them keep unreduced and reduced axes.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from distad.core.lift import as_value, host
from distad.core.value import Value
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.dims import dim_of, dims_of, shape_of
from distad.numpy.promotion import promoted
from distad.numpy.shapes import atleast_1d, atleast_2d, atleast_3d, ravel, reshape
from distad.ops.convert import convert_element_type
from distad.types import dtypes

# ---- join

def concatenate(arrays: Sequence, axis: int | None = 0, dtype: Any = None) -> Value:
    """Join arrays along a dimension they have; with axis=None all elements in one dimension.

    arrays: of one shape but for the size along `axis`; they are brought to one dtype and to one split.
    Communication: one all-gather where `axis` is split, else none.
    Raises ShardingTypeError for arrays split differently, or unreduced and not.

        jnp.concatenate([jnp.zeros(2), jnp.ones(1)])
    """
    xs = _of_one_dtype('concatenate', arrays, dtype)
    if axis is None:
        return slicing.concatenate([ravel(x) for x in xs], 0)
    if not xs[0].ndim:
        raise ValueError('zero-dimensional arrays cannot be concatenated')
    return slicing.concatenate(xs, dim_of('concatenate', axis, xs[0].ndim))


def concat(arrays: Sequence, /, *, axis: int | None = 0) -> Value:
    """Join arrays along a dimension they have. See `concatenate`.

        jnp.concat([jnp.zeros(2), jnp.ones(1)])
    """
    return concatenate(arrays, axis)


def _of_one_dtype(name: str, arrays: Sequence, dtype: Any) -> list:
    if isinstance(arrays, Value):
        arrays = tuple(arrays)
    if not isinstance(arrays, (list, tuple, np.ndarray)):
        raise TypeError(f"{name} takes a sequence of arrays, got {type(arrays).__name__}")
    if not len(arrays):
        raise ValueError(f"{name} needs at least one array")
    xs = promoted(name, *(as_value(x, name) for x in arrays))
    if dtype is None:
        return xs
    return [convert_element_type(x, new_dtype=dtypes.canonical(dtype), weak_type=False) for x in xs]


def stack(arrays: Sequence, axis: int = 0, out: None = None, dtype: Any = None) -> Value:
    """Join arrays of one shape along a new dimension, which is whole. Nothing is communicated.

        jnp.stack([jnp.zeros(2), jnp.ones(2)])    # float32[2,2]
    """
    _no_out('stack', out)
    return slicing.stack(_of_one_dtype('stack', arrays, dtype), axis)


def _no_out(name: str, out: None) -> None:
    if out is not None:
        raise NotImplementedError(f"the 'out' argument of {name} is not supported: arrays are immutable")


def hstack(tup: Sequence, dtype: Any = None) -> Value:
    """Join along the second dimension, or along the first if there is but one. See `concatenate`.

        jnp.hstack([jnp.zeros((2, 1)), jnp.ones((2, 3))])     # float32[2,4]
    """
    xs = [atleast_1d(x) for x in tup]
    return concatenate(xs, 0 if xs and xs[0].ndim == 1 else 1, dtype)


def vstack(tup: Sequence, dtype: Any = None) -> Value:
    """Join along the first dimension; arrays of one dimension are rows. See `concatenate`.

        jnp.vstack([jnp.zeros(3), jnp.ones((2, 3))])          # float32[3,3]
    """
    return concatenate([atleast_2d(x) for x in tup], 0, dtype)


def dstack(tup: Sequence, dtype: Any = None) -> Value:
    """Join along the third dimension. See `concatenate`.

        jnp.dstack([jnp.zeros((2, 3)), jnp.ones((2, 3))])     # float32[2,3,2]
    """
    return concatenate([atleast_3d(x) for x in tup], 2, dtype)


def column_stack(tup: Sequence) -> Value:
    """Join along the second dimension; arrays of one dimension are columns. See `concatenate`.

        jnp.column_stack([jnp.zeros(2), jnp.ones(2)])         # float32[2,2]
    """
    xs = [as_value(x, 'column_stack') for x in tup]
    return concatenate([x if x.ndim > 1 else lax_shape.expand_dims(atleast_1d(x), (1,)) for x in xs], 1)


def block(arrays: Any) -> Value:
    """An array of nested lists of blocks: the innermost are joined along the last dimension, the next along the one before.

        jnp.block([[jnp.ones((2, 2)), jnp.zeros((2, 1))], [jnp.zeros((1, 2)), jnp.ones((1, 1))]])
    """
    def depth(xs: Any) -> int:
        return 1 + depth(xs[0]) if isinstance(xs, list) else 0

    def leaves(xs: Any) -> list:
        return [leaf for x in xs for leaf in leaves(x)] if isinstance(xs, list) else [as_value(xs, 'block')]

    levels = depth(arrays)
    ndim = max(levels, *(x.ndim for x in leaves(arrays)))

    def joined(xs: Any, level: int) -> Value:
        if isinstance(xs, list) != (level < levels):
            raise ValueError('block: lists are nested to different depths')
        if isinstance(xs, list):
            return concatenate([joined(x, level + 1) for x in xs], level - levels)
        x = as_value(xs, 'block')
        return lax_shape.expand_dims(x, range(ndim - x.ndim))

    return joined(arrays, 0)


def append(arr, values, axis: int | None = None) -> Value:
    """An array with values after it; with axis=None all elements in one dimension. See `concatenate`.

        jnp.append(jnp.zeros(2), 1.)
    """
    return concatenate([atleast_1d(arr), atleast_1d(values)], axis)


# ---- cut

def split(ary, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Value]:
    """Cut an array in so many equal parts, or at indices.

    The parts are split as the array. Communication: one all-gather where `axis` is split, else none.
    Raises ValueError where equal parts do not divide, ShardingTypeError where the parts of a split dimension do not.

        jnp.split(jnp.arange(6), 3)
    """
    x = as_value(ary, 'split')
    n = x.shape[dim_of('split', axis, x.ndim)]
    if not _is_sequence(indices_or_sections) and n % operator.index(indices_or_sections):
        raise ValueError(f"array split does not result in an equal division: {indices_or_sections} parts of dimension {axis} "
                         f"of {x.type}. Use array_split for unequal parts.")
    return array_split(x, indices_or_sections, axis)


def array_split(ary, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Value]:
    """Cut an array in so many parts, the first ones longer by one where it does not divide, or at indices. See `split`.

        jnp.array_split(jnp.arange(5), 2)         # parts of 3 and 2
    """
    x = as_value(ary, 'array_split')
    d = dim_of('array_split', axis, x.ndim)
    n = x.shape[d]
    if _is_sequence(indices_or_sections):
        at = [_clipped(operator.index(i), n) for i in host(np.asarray(indices_or_sections)).reshape(-1)]
        cuts = [0, *at, n]
        sizes = [max(b - a, 0) for a, b in zip(cuts, cuts[1:], strict=False)]
        if sum(sizes) != n or any(b < a for a, b in zip(cuts, cuts[1:], strict=False)):
            return [slicing.slice_in_dim(x, a, max(a, b), axis=d) for a, b in zip(cuts, cuts[1:], strict=False)]
        return slicing.split(x, sizes, d)
    parts = operator.index(indices_or_sections)
    if parts < 1:
        raise ValueError(f"array_split: the number of parts is positive, got {parts}")
    return slicing.split(x, [n // parts + (i < n % parts) for i in range(parts)], d)


def _clipped(i: int, n: int) -> int:
    return min(max(i + n if i < 0 else i, 0), n)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, (list, tuple)) or bool(getattr(x, 'ndim', 0))


def hsplit(ary, indices_or_sections: int | Sequence[int]) -> list[Value]:
    """Cut along the second dimension, or along the first if there is but one. See `split`.

        jnp.hsplit(jnp.ones((2, 4)), 2)
    """
    x = as_value(ary, 'hsplit')
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


def vsplit(ary, indices_or_sections: int | Sequence[int]) -> list[Value]:
    """Cut along the first dimension. See `split`.

        jnp.vsplit(jnp.ones((4, 2)), 2)
    """
    return split(ary, indices_or_sections, 0)


def dsplit(ary, indices_or_sections: int | Sequence[int]) -> list[Value]:
    """Cut along the third dimension. See `split`.

        jnp.dsplit(jnp.ones((2, 3, 4)), 2)
    """
    return split(ary, indices_or_sections, 2)


def unstack(x, /, *, axis: int = 0) -> tuple[Value, ...]:
    """The slices of an array along a dimension, which they lose. It must not be split. Nothing is communicated.

        a, b = jnp.unstack(jnp.ones((2, 3)))
    """
    return slicing.unstack(x, axis)


# ---- turn round

def flip(m, axis: int | Sequence[int] | None = None) -> Value:
    """Dimensions turned round, by default all. The type stays. Communication: an all-gather where one of them is split.

        jnp.flip(jnp.arange(3))                   # 2, 1, 0
    """
    x = as_value(m, 'flip')
    return slicing.rev(x, range(x.ndim) if axis is None else dims_of('flip', axis, x.ndim))


def fliplr(m) -> Value:
    """The second dimension turned round. See `flip`.

        jnp.fliplr(jnp.eye(2))
    """
    return flip(m, 1)


def flipud(m) -> Value:
    """The first dimension turned round. See `flip`.

        jnp.flipud(jnp.eye(2))
    """
    return flip(m, 0)


# ---- repeat to fill

def resize(a, new_shape: int | Sequence[int]) -> Value:
    """The elements in another shape, repeated or cut off to fill it. See `reshape` and `concatenate`.

        jnp.resize(jnp.arange(3), (2, 2))         # [[0, 1], [2, 0]]
    """
    x = as_value(a, 'resize')
    sizes = shape_of('resize', new_shape)
    count = math.prod(sizes)
    if not x.size or not count:
        if count:
            raise ValueError(f"resize: {x.type} has no elements to fill {sizes} with")
        return reshape(slicing.slice_in_dim(ravel(x), 0, 0), sizes)
    flat = ravel(x)
    flat = slicing.concatenate([flat] * -(-count // x.size), 0)
    return reshape(slicing.slice_in_dim(flat, 0, count), sizes)


__all__ = ['append', 'array_split', 'block', 'column_stack', 'concat', 'concatenate', 'dsplit', 'dstack', 'flip', 'fliplr',
           'flipud', 'hsplit', 'hstack', 'resize', 'split', 'stack', 'unstack', 'vsplit', 'vstack']
