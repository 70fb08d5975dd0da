"""Places of a grid: coordinates by slice notation, positions of triangles and diagonals, and one number for several and back.

What follows from sizes alone is made on every rank and replicated; what is computed from arrays lies as they do.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distad.control.vmap import vmap
from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.errors import ConcretizationTypeError
from distad.lax import shape as lax_shape
from distad.lax.dims import shape_of
from distad.numpy.creation import arange, asarray, linspace, meshgrid, ones, zeros
from distad.numpy.elementwise import floor_divide, remainder
from distad.numpy.joining import concatenate, stack
from distad.numpy.known import known
from distad.numpy.logic import clip, logical_or
from distad.numpy.promotion import ArrayLike, promoted
from distad.numpy.reductions import any
from distad.numpy.searching import flatnonzero, nonzero

# ---- by slice notation

def _line(item: slice) -> Value:
    """The numbers of a slice; an imaginary step says how many of them there are, the last one included."""
    start = 0 if item.start is None else item.start
    if isinstance(item.step, complex):
        return linspace(start, item.stop, int(abs(item.step)))
    return arange(start, item.stop, item.step)


class Grid:
    """`mgrid[a:b, c:d]` and `ogrid[a:b, c:d]`: the coordinates of a grid, repeated along the other dimensions or not.

    A slice `a:b:s` gives numbers as `arange(a, b, s)`, with an imaginary step `a:b:5j` five of them as `linspace(a, b, 5)`. One slice
    gives one line. The arrays are replicated.

        jnp.mgrid[0:2, 0:3]                       # int32[2,2,3]
        jnp.ogrid[0:2, 0:3]                       # int32[2,1] and int32[1,3]
    """

    def __init__(self, name: str, sparse: bool):
        self.name, self.sparse = name, sparse

    def __getitem__(self, key: Any) -> Value | list[Value]:
        if isinstance(key, slice):
            return _line(key)
        parts = meshgrid(*promoted(self.name, *map(_line, key)), indexing='ij', sparse=self.sparse) if key else ()
        return list(parts) if self.sparse else stack(parts) if parts else zeros((0,))

    def __repr__(self) -> str:
        return f"<jnp.{self.name}>"


class Rows:
    """`r_[..]` and `c_[..]`: arrays, numbers and slices laid one after the other.

    Slices are read as by `mgrid`. A text in front says `axis,ndim,place`: along which dimension they are laid, how many dimensions
    each has at least, and where those of an array with fewer come to stand ('0,1,-1' for `r_`, '-1,2,0' for `c_`). All else as
    `concatenate`.

        jnp.r_[0:3, 7, jnp.arange(2)]             # 0, 1, 2, 7, 0, 1
        jnp.c_[jnp.arange(3), jnp.ones(3)]        # float32[3,2]
    """

    def __init__(self, name: str, axis: int, ndim: int, place: int):
        self.name, self.default = name, (axis, ndim, place)

    def __getitem__(self, key: Any) -> Value:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndim, place = self.default
        if items and isinstance(items[0], str):
            text = items.pop(0)
            try:
                given = [int(number) for number in text.split(',')]
                axis, ndim, place = *given, *self.default[len(given):]
            except ValueError:
                raise NotImplementedError(f"{self.name}: a text in front is of up to three numbers 'axis,ndim,place', got {text!r}. "
                                          'There are no matrices apart from arrays of two dimensions.') from None
        return concatenate([_raised(_line(x) if isinstance(x, slice) else asarray(x), ndim, place) for x in items], axis)

    def __repr__(self) -> str:
        return f"<jnp.{self.name}>"


def _raised(x: Value, ndim: int, place: int) -> Value:
    """An array with dimensions of size 1 beside its own, the first of which comes to stand at `place` of the result."""
    missing = ndim - x.ndim
    if missing <= 0:
        return x
    before = min(max(place if place >= 0 else missing + 1 + place, 0), missing)
    return lax_shape.expand_dims(x, [*range(before), *range(before + x.ndim, ndim)])


mgrid, ogrid = Grid('mgrid', sparse=False), Grid('ogrid', sparse=True)
r_, c_ = Rows('r_', 0, 1, -1), Rows('c_', -1, 2, 0)
s_, index_exp = np.s_, np.index_exp


def ix_(*args: ArrayLike) -> tuple[Value, ...]:
    """Lines of indices, shaped so that together they pick the product of them; a mask stands for the places where it is true.

    args: vectors [n_i]. Returns for each [1, .., n_i, .., 1], split as it is. Nothing is communicated. A mask has to be known.

        x = jnp.arange(12).reshape(3, 4); x[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 3]))]
    """
    lines = []
    for i, arg in enumerate(args):
        x = as_value(arg, 'ix_')
        if x.ndim != 1:
            raise ValueError(f"ix_ takes arrays of one dimension, got {x.type}")
        x = flatnonzero(x) if x.dtype == bool else x
        lines.append(lax_shape.expand_dims(x, [d for d in range(len(args)) if d != i]))
    return tuple(lines)


def fromfunction(function: Callable[..., Any], shape: int | Sequence[int], *, dtype: Any = float, **kwargs: Any) -> Any:
    """A function of the index at every place of a shape; it is called once, with numbers that stand for all of them (see `vmap`).

    function: of one number of `dtype` for each dimension. kwargs: handed to it. Returns its results, with dimensions of the shape in
    front, replicated.

        jnp.fromfunction(lambda i, j: i + j, (2, 3), dtype=int)           # int32[2,3]
    """
    shape = shape_of('fromfunction', shape)

    def f(*places: Any) -> Any:
        return function(*places, **kwargs)
    for d in reversed(range(len(shape))):
        f = vmap(f, in_axes=tuple(0 if k == d else None for k in range(len(shape))))
    return f(*(arange(n, dtype=dtype) for n in shape))


# ---- triangles and diagonals

def _from_shape(name: str, arr: ArrayLike) -> tuple[int, int]:
    t = typeof(arr)
    if t.ndim != 2:
        raise ValueError(f"{name} takes a matrix, got {t}")
    return t.shape


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Value, Value]:
    """Rows and columns of the places on and below the k-th diagonal of [n, m], row by row.

        jnp.tril_indices(2)                       # (0, 1, 1), (0, 0, 1)
    """
    rows, columns = np.tril_indices(n, k, m)
    return asarray(rows), asarray(columns)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Value, Value]:
    """Rows and columns of the places on and above the k-th diagonal of [n, m], row by row.

        jnp.triu_indices(2)                       # (0, 0, 1), (0, 1, 1)
    """
    rows, columns = np.triu_indices(n, k, m)
    return asarray(rows), asarray(columns)


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Value, Value]:
    """`tril_indices` of the shape of a matrix.

        jnp.tril_indices_from(jnp.ones((2, 3)))
    """
    n, m = _from_shape('tril_indices_from', arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Value, Value]:
    """`triu_indices` of the shape of a matrix.

        jnp.triu_indices_from(jnp.ones((2, 3)))
    """
    n, m = _from_shape('triu_indices_from', arr)
    return triu_indices(n, k, m)


def diag_indices(n: int, ndim: int = 2) -> tuple[Value, ...]:
    """The places of the diagonal of an array with `ndim` dimensions of size n: for each dimension 0, 1, .., n - 1.

        jnp.ones((3, 3)).at[jnp.diag_indices(3)].set(0)
    """
    if n < 0 or ndim < 0:
        raise ValueError(f"diag_indices: n and ndim are zero or more, got {n} and {ndim}")
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Value, ...]:
    """`diag_indices` of an array of two or more dimensions of one size.

        jnp.diag_indices_from(jnp.ones((3, 3)))
    """
    t = typeof(arr)
    if t.ndim < 2 or len(set(t.shape)) > 1:
        raise ValueError(f"diag_indices_from takes an array of two or more dimensions of one size, got {t}")
    return diag_indices(t.shape[0], t.ndim)


def mask_indices(n: int, mask_func: Callable[[Value, int], Value], k: int = 0, *, size: int | None = None) -> tuple[Value, Value]:
    """Rows and columns where a function such as `triu` leaves ones of a matrix of them. `size` as of `nonzero`.

        jnp.mask_indices(3, jnp.triu)
    """
    rows, columns = nonzero(mask_func(ones((n, n)), k), size=size)
    return rows, columns


# ---- one number for several

def unravel_index(indices: ArrayLike, shape: int | Sequence[int]) -> tuple[Value, ...]:
    """For each dimension of a shape the index, of elements that are numbered row by row.

    indices: integers [..]; negative ones count from the end, those beyond an end stand for it. The results lie as it does. Nothing is
    communicated. Raises ShardingTypeError for unreduced indices.

        jnp.unravel_index(jnp.array([4, 5]), (2, 3))          # (1, 1), (1, 2)
    """
    shape = shape_of('unravel_index', shape)
    size = math.prod(shape)
    numbers = _integers('unravel_index', indices)
    place = remainder(clip(numbers, -size, size - 1), max(size, 1))
    strides = [math.prod(shape[d + 1:]) for d in range(len(shape))]
    return tuple(remainder(floor_divide(place, stride), n) for stride, n in zip(strides, shape, strict=True))


def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = 'raise', order: str = 'C', *,
                      dtype: Any = None) -> Value:
    """The numbers of elements, row by row, from their indices along each dimension.

    multi_index: for each dimension integers [..] that broadcast. dims: the sizes. mode: of indices out of bounds 'raise' makes an
    error, for which they have to be known; 'wrap' takes them modulo the size, 'clip' to the nearest. order: 'C', or 'F' for column by
    column.
    The result lies as the indices do. Communication: none, with 'raise' an all-reduce of a truth value where they are split.
    Raises ValueError for an index out of bounds, ConcretizationTypeError for traced indices and 'raise'.

        jnp.ravel_multi_index((jnp.array([1, 1]), jnp.array([1, 2])), (2, 3))     # 4, 5
    """
    sizes = shape_of('ravel_multi_index', dims)
    if len(multi_index) != len(sizes):
        raise ValueError(f"ravel_multi_index: there are {len(multi_index)} arrays of indices for {len(sizes)} dimensions")
    if mode not in ('raise', 'wrap', 'clip') or order not in ('C', 'F'):
        raise ValueError(f"ravel_multi_index: mode is 'raise', 'wrap' or 'clip', order 'C' or 'F', got {mode!r} and {order!r}")
    places = [_bounded(_integers('ravel_multi_index', x), n, mode) for x, n in zip(multi_index, sizes, strict=True)]
    number: Any = 0
    for place, n in list(zip(places, sizes, strict=True))[::1 if order == 'C' else -1]:
        number = number * n + place
    return asarray(number, dtype)


def _integers(name: str, x: ArrayLike) -> Value:
    value = as_value(x, name) if isinstance(x, Value) or is_scalar(x) else asarray(x)
    if value.dtype.kind not in 'iu':
        raise TypeError(f"{name} takes integers, got {value.type}")
    return value


def _bounded(x: Value, n: int, mode: str) -> Value:
    if mode == 'wrap':
        return remainder(x, n)
    if mode == 'clip':
        return clip(x, 0, n - 1)
    if known(x) is None:
        raise ConcretizationTypeError(f"ravel_multi_index of traced indices of type {x.type} cannot raise an error for those out of "
                                      "bounds. Say mode='wrap' or mode='clip'.")
    if any(logical_or(x < 0, x >= n)):
        raise ValueError(f"ravel_multi_index: an index is out of bounds for a dimension of size {n}. Or say mode='clip'.")
    return x


__all__ = ['c_', 'diag_indices', 'diag_indices_from', 'fromfunction', 'index_exp', 'ix_', 'mask_indices', 'mgrid', 'ogrid', 'r_',
           'ravel_multi_index', 's_', 'tril_indices', 'tril_indices_from', 'triu_indices', 'triu_indices_from', 'unravel_index']
