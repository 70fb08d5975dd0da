"""Reductions under NumPy's names.

All take `axis` as a number, a tuple, a negative number or None (all dimensions). What goes may be split: then one small
message over its mesh axes, an all-reduce of the result, comes after the local work. A reduced value (R) stays reduced; sums
and means of an unreduced one stay unreduced, all else refuses it.
"""

import builtins
from collections.abc import Callable, Sequence

import numpy as np

from distad.core.lift import as_value
from distad.core.value import is_scalar, typeof
from distad.lax import reduction as lax
from distad.lax.dims import dim_of, dims_of
from distad.lax.kind import kindly, whole_along
from distad.numpy.promotion import converted, same_rank
from distad.ops import arithmetic
from distad.ops.basic import zero_scalar
from distad.ops.broadcast import expand_dims
from distad.ops.compare import ne, select_n
from distad.ops.makers import scalar
from distad.ops.reduction import limit
from distad.ops.reshape import reshape
from distad.types import dtypes

__all__ = ['all', 'amax', 'amin', 'any', 'argmax', 'argmin', 'count_nonzero', 'max', 'min', 'minmax', 'prod', 'ptp', 'sum']

Axis = int | Sequence[int] | None


# ---- what they share

def start(name: str, a, axis: Axis, out):
    """The array and the dimensions that go."""
    if out is not None:
        raise NotImplementedError(f"{name}: arrays are immutable, so there is no out=. Use the result.")
    x = as_value(a, name)
    return x, tuple(range(x.ndim)) if axis is None else dims_of(name, axis, x.ndim)


def end(y, axes: tuple[int, ...], keepdims: bool):
    """The result, with its dimensions that went as ones of size 1 if asked for."""
    return expand_dims(y, axes) if keepdims and axes else y


def _join(fold, y, initial):
    """The result together with the value the reduction starts from."""
    if initial is None:
        return y
    t = typeof(y)
    start = t.dtype.type(initial) if is_scalar(initial) else converted(as_value(initial, fold.name), t.dtype, False)
    return kindly(fold, y, start)


def mask_of(name: str, where, x):
    """A mask that broadcasts to x."""
    mask = as_value(where, name)
    if mask.dtype != bool:
        mask = kindly(ne, mask, scalar(0, mask))
    mask = same_rank([mask, x])[0]
    if mask.ndim and (mask.ndim > x.ndim or builtins.any(m not in (1, n) for m, n in zip(mask.shape, x.shape, strict=True))):
        raise ValueError(f"{name}: where= of shape {where.shape} does not broadcast to the array's shape {x.shape}")
    return mask


def chosen(name: str, x, where, other):
    """x where the mask is true, a number elsewhere. Beside an unreduced x there can only be zeros."""
    if where is None:
        return x
    return kindly(select_n, mask_of(name, where, x), x.dtype.type(other) if other else zero_scalar(typeof(x)), x)


def _summable(x, dtype, promote_integers: bool = True):
    """The array in the dtype that it is added or multiplied up in: asked for, or int32 (uint32) for narrow integers."""
    if dtype is None:
        narrow = promote_integers and x.dtype.kind in 'biu'
        wide = dtypes.canonical(np.uint64 if x.dtype.kind == 'u' else np.int64)
        dtype = wide if narrow and x.dtype.itemsize < wide.itemsize else x.dtype
    return converted(x, dtypes.canonical(dtype), typeof(x).weak_type)


def half(dtype: np.dtype) -> bool:
    return dtypes.is_float(dtype) and dtype.itemsize == 2


def _rounded_once(f: Callable, x, axes: tuple[int, ...]):
    """f over dimensions, in float32 for half types where the ranks' results are still to be combined."""
    t = typeof(x)
    if not (half(t.dtype) and builtins.any(t.partitions[d] for d in axes)):
        return f(x, axes)
    return converted(f(converted(x, np.dtype(np.float32), t.weak_type), axes), t.dtype, t.weak_type)


def elements(x, axes: tuple[int, ...]) -> int:
    return int(np.prod([x.shape[d] for d in axes], dtype=int))


# ---- sum and product

def sum(a, axis: Axis = None, dtype=None, out: None = None, keepdims: bool = False, initial=None, where=None,
        promote_integers: bool = True):
    """Sum.

    Args:
      a: [..., n@X, ...], any dtype; bool and narrow integers are added up in int32 (uint32), half types in float32.
      axis: the dimensions that go. dtype: of the sum. initial: a number to start from. where: a mask that broadcasts to a.
    Returns: the kept dimensions, split as they were; with `keepdims` the others have size 1.
    Communication: one all-reduce of the result over the mesh axes that split a summed dimension. None for what is unreduced
      already: it stays so.

    >>> sum(np.float32([[1, 2], [3, 4]]), axis=0)
    Array([4., 6.], dtype=float32)
    """
    x, axes = start('sum', a, axis, out)
    x = chosen('sum', _summable(x, dtype, promote_integers), where, 0)
    return end(_join(arithmetic.add, _rounded_once(lax.reduce_sum, x, axes), initial), axes, keepdims)


def prod(a, axis: Axis = None, dtype=None, out: None = None, keepdims: bool = False, initial=None, where=None,
         promote_integers: bool = True):
    """Product.

    Args: as `sum`.
    Communication: one all-gather of the ranks' products, where a dimension that goes is split.
    Raises: ShardingTypeError for an unreduced array.

    >>> prod(np.float32([[1, 2], [3, 4]]), axis=0)
    Array([3., 8.], dtype=float32)
    """
    x, axes = start('prod', a, axis, out)
    x = chosen('prod', _summable(x, dtype, promote_integers), where, 1)
    return end(_join(arithmetic.mul, _rounded_once(lax.reduce_prod, x, axes), initial), axes, keepdims)


# ---- max and min

def _extremum(name: str, f: Callable, fold, a, axis: Axis, out, keepdims: bool, initial, where):
    x, axes = start(name, a, axis, out)
    if initial is None:
        if where is not None:
            raise ValueError(f"{name}: with where= there may be nothing left to take the {fold.name} of: give initial=")
        if 0 in [x.shape[d] for d in axes]:
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity: {typeof(x)}")
    x = chosen(name, x, where, limit(x.dtype, -1 if fold is arithmetic.max else 1))
    return end(_join(fold, f(x, axes), initial), axes, keepdims)


def max(a, axis: Axis = None, out: None = None, keepdims: bool = False, initial=None, where=None):
    """Maximum; NaN wins.

    Args:
      a: [..., n@X, ...], any real dtype. axis: the dimensions that go. initial: a value to start from, which `where`, a mask
        that broadcasts to a, needs.
    Returns: the kept dimensions, split as they were. Its derivative is shared evenly among equal maxima, also of several ranks.
    Communication: one all-reduce of the result over the mesh axes that split a dimension that goes; one more in a gradient.
    Raises: ValueError for no elements; ShardingTypeError for an unreduced array.

    >>> max(np.float32([[1, 2], [4, 3]]), axis=0)
    Array([4., 3.], dtype=float32)
    """
    return _extremum('max', lax.reduce_max, arithmetic.max, a, axis, out, keepdims, initial, where)


def min(a, axis: Axis = None, out: None = None, keepdims: bool = False, initial=None, where=None):
    """Minimum; NaN wins. All else as `max`.

    >>> min(np.float32([[1, 2], [4, 3]]), axis=0)
    Array([1., 2.], dtype=float32)
    """
    return _extremum('min', lax.reduce_min, arithmetic.min, a, axis, out, keepdims, initial, where)


amax, amin = max, min


def minmax(a, axis: Axis = None, out: None = None, keepdims: bool = False, initial=None, where=None):
    """Minimum and maximum; `initial` is one for both, or a pair. All else as `max`, twice.

    >>> minmax(np.float32([3, 1, 2]))
    (Array(1., dtype=float32), Array(3., dtype=float32))
    """
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return min(a, axis, out, keepdims, low, where), max(a, axis, out, keepdims, high, where)


def ptp(a, axis: Axis = None, out: None = None, keepdims: bool = False):
    """Maximum minus minimum.

    Args: as `max`. Communication: two all-reduces where a dimension that goes is split.

    >>> ptp(np.float32([[1, 2], [4, 3]]), axis=0)
    Array([3., 1.], dtype=float32)
    """
    x, axes = start('ptp', a, axis, out)
    return end(kindly(arithmetic.sub, max(x, axes), min(x, axes)), axes, keepdims)


def _index(name: str, f: Callable, a, axis: int | None, out, keepdims: bool | None):
    x, _ = start(name, a, axis, out)
    n = x.ndim
    if axis is None and n != 1:
        x = reshape(whole_along(x, range(n)), new_sizes=(x.size,))
    d = 0 if axis is None else dim_of(name, axis, n)
    if not x.shape[d]:
        raise ValueError(f"attempt to get {name} of an empty sequence: {typeof(x)}")
    y = f(x, d, np.int64)
    return end(y, tuple(range(n)) if axis is None else (d,), bool(keepdims))


def argmax(a, axis: int | None = None, out: None = None, keepdims: bool | None = None):
    """Index of the first maximum; NaN counts as one.

    Args:
      a: [..., n@X, ...], any real dtype. axis: the dimension that goes; None for the index into the flat array.
    Returns: int32, the kept dimensions split as they were.
    Communication: two small all-gathers where the dimension is split; for the flat array one, of the whole.

    >>> argmax(np.float32([[1, 2], [4, 3]]), axis=0)
    Array([1, 1], dtype=int32)
    """
    return _index('argmax', lax.argmax, a, axis, out, keepdims)


def argmin(a, axis: int | None = None, out: None = None, keepdims: bool | None = None):
    """Index of the first minimum; NaN counts as one. All else as `argmax`.

    >>> argmin(np.float32([[1, 2], [4, 3]]), axis=0)
    Array([0, 0], dtype=int32)
    """
    return _index('argmin', lax.argmin, a, axis, out, keepdims)


# ---- truth

def _truth(name: str, f: Callable, a, axis: Axis, out, keepdims: bool, where, neutral: bool):
    x, axes = start(name, a, axis, out)
    if x.dtype != bool:
        x = kindly(ne, x, scalar(0, x))
    return end(f(chosen(name, x, where, neutral), axes), axes, keepdims)


def any(a, axis: Axis = None, out: None = None, keepdims: bool = False, *, where=None):
    """Whether some element is true (or not zero).

    Args:
      a: [..., n@X, ...], any dtype. axis: the dimensions that go. where: a mask that broadcasts to a.
    Returns: bool, the kept dimensions split as they were.
    Communication: one all-reduce of the result over the mesh axes that split a dimension that goes.

    >>> any(np.array([[True, False], [True, True]]), axis=0)
    Array([ True,  True], dtype=bool)
    """
    return _truth('any', lax.reduce_or, a, axis, out, keepdims, where, False)


def all(a, axis: Axis = None, out: None = None, keepdims: bool = False, *, where=None):
    """Whether every element is true (or not zero). All else as `any`.

    >>> all(np.array([[True, False], [True, True]]), axis=0)
    Array([ True, False], dtype=bool)
    """
    return _truth('all', lax.reduce_and, a, axis, out, keepdims, where, True)


def count_nonzero(a, axis: Axis = None, keepdims: bool = False):
    """How many elements are not zero: int32. Args and communication as `sum`.

    >>> count_nonzero(np.float32([[1, 0], [4, 3]]), axis=0)
    Array([2, 1], dtype=int32)
    """
    x, axes = start('count_nonzero', a, axis, None)
    return sum(kindly(ne, x, scalar(0, x)), axes, keepdims=keepdims)
