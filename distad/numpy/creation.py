"""Arrays from nothing, and from NumPy arrays, numbers and lists.

New arrays lie replicated on the current mesh, or as `out_sharding` says; `device` takes a NamedSharding too. Every rank makes
its own block, and nothing is communicated. An unreduced one is the value on the first rank along the axis and zeros on the
others.
"""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from distad.core.lift import as_value, host
from distad.core.value import Array, Value, is_scalar, typeof
from distad.lax import creation as lax_creation
from distad.lax import shape as lax_shape
from distad.lax.creation import new_type, numbered, on_mesh_of
from distad.lax.dims import dim_of, shape_of
from distad.lax.kind import kindly, with_sharding
from distad.lax.shape import Sharding
from distad.numpy.joining import stack
from distad.numpy.promotion import inexact, operands
from distad.numpy.shapes import atleast_1d, broadcast_to
from distad.ops import arithmetic, compare, convert
from distad.ops.basic import zero_scalar
from distad.types import dtypes
from distad.types.mesh import Device

FLOAT = np.float64                  # float32 unless x64 is enabled


def placement(device: Any, out_sharding: Sharding) -> Sharding:
    """Where a new array is to lie: `device` and `out_sharding` are two names for it."""
    if device is not None and out_sharding is not None:
        raise ValueError('hand device or out_sharding, not both')
    return out_sharding if device is None or isinstance(device, Device) else device


# ---- one number everywhere

def zeros(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None, out_sharding: Sharding = None) -> Value:
    """An array of zeros, float32 by default.

        jnp.zeros((2, 3))
    """
    return full(shape, 0, FLOAT if dtype is None else dtype, device=device, out_sharding=out_sharding)


def ones(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None, out_sharding: Sharding = None) -> Value:
    """An array of ones, float32 by default.

        jnp.ones((2, 3))
    """
    return full(shape, 1, FLOAT if dtype is None else dtype, device=device, out_sharding=out_sharding)


def empty(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None, out_sharding: Sharding = None) -> Value:
    """An array of zeros: arrays do not change, so there are none without content.

        jnp.empty((2, 3))
    """
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full(shape: int | Sequence[int], fill_value, dtype: Any = None, *, device: Any = None,
         out_sharding: Sharding = None) -> Value:
    """An array with one number everywhere, or with an array repeated to its shape.

    Without `dtype` it has that of the number, weak if it is a Python number.

        jnp.full((2, 3), 1.5)
    """
    where = placement(device, out_sharding)
    shape = shape_of('full', shape)
    if not typeof(fill_value).ndim:
        return lax_creation.full(shape, fill_value, dtype, sharding=where)
    return broadcast_to(asarray(fill_value, dtype), shape, out_sharding=where)


def zeros_like(a, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Sharding = None) -> Value:
    """Zeros of the type of an array. See `full_like`.

        jnp.zeros_like(jnp.ones((2, 3)))
    """
    return full_like(a, 0, dtype, shape, device=device, out_sharding=out_sharding)


def ones_like(a, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Sharding = None) -> Value:
    """Ones of the type of an array. See `full_like`.

        jnp.ones_like(jnp.zeros((2, 3)))
    """
    return full_like(a, 1, dtype, shape, device=device, out_sharding=out_sharding)


def empty_like(prototype, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Value:
    """Zeros of the type of an array. See `full_like`.

        jnp.empty_like(jnp.ones((2, 3)))
    """
    return full_like(prototype, 0, dtype, shape, device=device)


def full_like(a, fill_value, dtype: Any = None, shape: Any = None, *, device: Any = None,
              out_sharding: Sharding = None) -> Value:
    """An array of the type of another, with one number everywhere, or with an array repeated to its shape.

    It lies as the other array does, unreduced and reduced axes included; with a `shape` of its own it is replicated.

        jnp.full_like(jnp.zeros((2, 3)), 7)
    """
    where = placement(device, out_sharding)
    t = typeof(a)
    if not typeof(fill_value).ndim:
        return lax_creation.full_like(a, fill_value, dtype, None if shape is None else shape_of('full_like', shape), where)
    if where is None and shape is None and not t.mesh.empty:
        where = t.sharding
    shape = t.shape if shape is None else shape_of('full_like', shape)
    return broadcast_to(asarray(fill_value, t.dtype if dtype is None else dtype), shape, out_sharding=where)


# ---- from NumPy, numbers and lists

def array(object: Any, dtype: Any = None, *, copy: bool = True, order: str = 'K', ndmin: int = 0, device: Any = None,
          out_sharding: Sharding = None) -> Value:
    """An array of a NumPy array, a number, an array, or nested lists of them.

    Data is copied, and every rank hands the same. 64-bit dtypes become 32-bit unless x64 is enabled; a Python number gives a
    weak type, a list does not.

        jnp.array([[1., 2.], [3., 4.]])
    """
    x = _value(object)
    if dtype is not None:
        x = _converted(x, dtype)
    if x.ndim < ndmin:
        x = lax_shape.expand_dims(x, range(ndmin - x.ndim))
    where = placement(device, out_sharding)
    with on_mesh_of(where):
        y = with_sharding(x, where)
    # Nobody writes to blocks, so a copy may share its block; it lives on where the other is donated or deleted.
    return Array(y.type, y.mesh, y.block) if copy and y is object and isinstance(y, Array) else y


def asarray(a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, device: Any = None,
            out_sharding: Sharding = None) -> Value:
    """An array of a NumPy array, a number, an array, or nested lists of them. See `array`.

        jnp.asarray([1, 2])
    """
    return array(a, dtype, copy=bool(copy), device=device, out_sharding=out_sharding)


def copy(a, order: str | None = None) -> Value:
    """The array itself: arrays do not change.

        jnp.copy(jnp.arange(3))
    """
    return array(a)


def _value(object: Any) -> Value:
    if isinstance(object, (list, tuple)):
        if _has_values(object):
            return stack([_value(x) for x in object])
    elif isinstance(object, Value) or is_scalar(object):
        return as_value(object, 'array')
    value = np.asarray(object)
    if value.dtype.kind not in 'biufcV':
        raise TypeError(f"arrays hold numbers, got {object!r} of Python type {type(object).__name__}")
    return as_value(value, 'array')


def _has_values(object: Any) -> bool:
    return isinstance(object, Value) or isinstance(object, (list, tuple)) and any(map(_has_values, object))


def _converted(x: Value, dtype: Any) -> Value:
    dtype = dtypes.canonical(dtype)
    t = typeof(x)
    return x if t.dtype == dtype and not t.weak_type else convert.convert_element_type(x, new_dtype=dtype, weak_type=False)


# ---- numbers in a row

def arange(start, stop=None, step=None, dtype: Any = None, *, device: Any = None, out_sharding: Sharding = None) -> Value:
    """Numbers from `start` (0) up to `stop` (excluded) in steps of `step` (1), all known to Python.

        jnp.arange(1, 6, 2)                       # 1, 3, 5
    """
    where = placement(device, out_sharding)
    given = [start, stop, step]
    if dtype is None:
        dtype, _ = dtypes.promote(*((typeof(g).dtype, typeof(g).weak_type) for g in given if g is not None))
    dtype = dtypes.canonical(dtype)
    first, last, by = (None if g is None else host(g).item() for g in given)
    if stop is None:
        first, last = 0, first
    by = 1 if by is None else by
    if not by:
        raise ValueError('arange: the step must not be zero')
    whole = all(isinstance(v, int) for v in (first, last, by))
    count = len(range(first, last, by)) if whole else max(int(np.ceil((last - first) / by)), 0)
    with on_mesh_of(where):
        t = new_type((count,), dtype, where)
        if dtype.kind in 'iu' and first == int(first) and by == int(by) or (first, by) == (0, 1):
            return _line(t, int(first), int(by))
        return with_sharding(as_value(np.asarray(first + np.arange(count) * by).astype(dtype), 'arange'), where)


def _line(t, first: int, by: int) -> Value:
    """The numbers first, first + by, ..: every rank those of its block."""
    x = numbered(t.update(unreduced=(), kind='sum'), 0)
    x = x if by == 1 else kindly(arithmetic.mul, x, t.dtype.type(by))
    x = x if not first else kindly(arithmetic.add, x, t.dtype.type(first))
    return with_sharding(x, t.sharding) if t.unreduced else x


def linspace(start, stop, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
             device: Any = None) -> Value | tuple[Value, Value]:
    """`num` numbers at equal distances from `start` to `stop`, this one included if `endpoint`.

    start, stop: numbers or arrays that broadcast, split alike; the new dimension `axis` is whole. With `retstep` also the
    distance.

        jnp.linspace(0, 1, 3)                     # 0., 0.5, 1.
    """
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace: the number of samples is zero or more, got {num}")
    parts = max(num - 1 if endpoint else num, 1)
    where = placement(device, None)
    if all(is_scalar(v) or isinstance(v, np.ndarray) for v in (start, stop)):
        result = _result_dtype(dtype, start, stop)
        y, distance = np.linspace(start, stop, num, endpoint, True, axis=axis)
        with on_mesh_of(where):
            y = with_sharding(as_value(_cast_down(y, result), 'linspace'), where)
        return (y, as_value(np.asarray(distance).astype(_result_dtype(None, start, stop)), 'linspace')) if retstep else y
    a, b = (inexact(v, 'linspace') for v in operands('linspace', start, stop))
    distance = kindly(arithmetic.div, kindly(arithmetic.sub, b, a), a.dtype.type(parts))
    d = dim_of('linspace', axis, distance.ndim + 1)
    weights = np.arange(num).reshape([num if i == d else 1 for i in range(distance.ndim + 1)]) / parts
    a, b = (lax_shape.expand_dims(broadcast_to(v, distance.shape), (d,)) for v in (a, b))
    y = kindly(arithmetic.add, kindly(arithmetic.mul, a, as_value((1 - weights).astype(a.dtype), 'linspace')),
               kindly(arithmetic.mul, b, as_value(weights.astype(a.dtype), 'linspace')))
    y = with_sharding(y if dtype is None else _converted(y, dtype), where)
    return (y, distance) if retstep else y


def _result_dtype(dtype: Any, *given: Any) -> np.dtype:
    if dtype is not None:
        return dtypes.canonical(dtype)
    found, _ = dtypes.promote(*((typeof(g).dtype, typeof(g).weak_type) for g in given), dtypes.of_scalar(1.))
    return found


def _cast_down(y: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats to integers by rounding down, as NumPy's linspace does."""
    return (np.floor(y) if dtype.kind in 'iu' else y).astype(dtype)


def logspace(start, stop, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Value:
    """`base` to the power of `num` numbers at equal distances from `start` to `stop`, all known to Python.

        jnp.logspace(0, 2, 3)                     # 1., 10., 100.
    """
    start, stop, base = host(start), host(stop), host(base)
    y = np.logspace(start, stop, num, endpoint, base, axis=axis)
    return as_value(_cast_down(y, _result_dtype(dtype, start, stop)), 'logspace')


def geomspace(start, stop, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Value:
    """`num` numbers with equal quotients from `start` to `stop`, all known to Python.

        jnp.geomspace(1, 100, 3)                  # 1., 10., 100.
    """
    start, stop = host(start), host(stop)
    y = np.geomspace(start, stop, num, endpoint, axis=axis)
    return as_value(_cast_down(y, _result_dtype(dtype, start, stop)), 'geomspace')


# ---- by the places of rows and columns

def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Value:
    """[N, M] with ones on the k-th diagonal, zeros elsewhere. Every rank makes its block.

        jnp.eye(3)
    """
    return _by_place(compare.eq, N, M, k, dtype, placement(device, None))


def identity(n: int, dtype: Any = None) -> Value:
    """[n, n] with ones on the diagonal, zeros elsewhere.

        jnp.identity(3)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Value:
    """[N, M] with ones on and below the k-th diagonal, zeros elsewhere.

        jnp.tri(3)
    """
    return _by_place(compare.ge, N, M, k, dtype, None)


def _by_place(relation, n: int, m: int | None, k: int, dtype: Any, where: Sharding) -> Value:
    shape = shape_of('eye', (n, n if m is None else m))
    with on_mesh_of(where):
        t = new_type(shape, np.int32, where)
        mask = relation(*_places(t.update(unreduced=(), kind='sum'), operator.index(k)))
        y = convert.convert_element_type(mask, new_dtype=dtypes.canonical(FLOAT if dtype is None else dtype), weak_type=False)
        return with_sharding(y, t.sharding) if t.unreduced else y


def _places(t, k: int) -> tuple[Value, Value]:
    """Row number plus k, and column number, of the last two dimensions."""
    rows, columns = numbered(t, t.ndim - 2), numbered(t, t.ndim - 1)
    return (arithmetic.add(rows, np.int32(k)) if k else rows), columns


def tril(m, k: int = 0) -> Value:
    """An array [.., m, n] with zeros above the k-th diagonal. The type stays, and nothing is communicated.

        jnp.tril(jnp.ones((3, 3)))
    """
    return _triangle(m, k, lower=True)


def triu(m, k: int = 0) -> Value:
    """An array [.., m, n] with zeros below the k-th diagonal. The type stays, and nothing is communicated.

        jnp.triu(jnp.ones((3, 3)))
    """
    return _triangle(m, k - 1, lower=False)


def _triangle(m, k: int, *, lower: bool) -> Value:
    x = as_value(m, 'tril' if lower else 'triu')
    t = typeof(x)
    if t.ndim < 2:
        raise ValueError(f"a triangle is taken of arrays of at least two dimensions, got {t}")
    axes = t.unreduced.union(t.reduced, *t.partitions[:-2])
    flat = t.update(shape=t.shape[-2:], dtype=np.int32, weak_type=False, partitions=t.partitions[-2:], unreduced=(), kind='sum',
                    reduced=axes)
    mask = compare.ge(*_places(flat, operator.index(k)))
    if t.ndim > 2:
        mask = lax_shape.broadcast_in_dim(mask, t.shape, (t.ndim - 2, t.ndim - 1), out_sharding=t.update(
            unreduced=(), reduced=t.unreduced | t.reduced, kind='sum').sharding if not t.mesh.empty else None)
    zero = zero_scalar(t)
    return kindly(compare.select_n, mask, *((zero, x) if lower else (x, zero)))


# ---- grids

def meshgrid(*xi, copy: bool = True, sparse: bool = False, indexing: str = 'xy') -> tuple[Value, ...]:
    """Coordinates of a grid: each of the arrays [n_i] repeated along the dimensions of the others. Nothing is communicated.

        jnp.meshgrid(jnp.arange(2), jnp.arange(3), indexing='ij')     # both int32[2,3]
    """
    xs = [as_value(x, 'meshgrid') for x in xi]
    if any(x.ndim > 1 for x in xs):
        raise ValueError(f"meshgrid takes arrays of one dimension, got {', '.join(str(x.type) for x in xs)}")
    if indexing not in ('xy', 'ij'):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', got {indexing!r}")
    xs = [atleast_1d(x) for x in xs]
    place = list(range(len(xs)))
    if indexing == 'xy' and len(xs) > 1:
        place[0], place[1] = 1, 0
    sizes = [x.shape[0] for _, x in sorted(zip(place, xs, strict=True), key=lambda pair: pair[0])]
    return tuple(lax_shape.broadcast_in_dim(x, [n if d == at or not sparse else 1 for d, n in enumerate(sizes)], (at,))
                 for at, x in zip(place, xs, strict=True))


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Value | tuple[Value, ...]:
    """The index of every place of a shape along each dimension: [number of dimensions, *dimensions].

        jnp.indices((2, 3))                       # int32[2,2,3]
    """
    shape = shape_of('indices', dimensions)
    dtype = np.int64 if dtype is None else dtype
    parts = tuple(lax_creation.broadcasted_iota(dtype, [n if d == i or not sparse else 1 for d, n in enumerate(shape)], i)
                  for i in range(len(shape)))
    if sparse:
        return parts
    return stack(parts) if parts else zeros((0,), dtype)


__all__ = ['arange', 'array', 'asarray', 'copy', 'empty', 'empty_like', 'eye', 'full', 'full_like', 'geomspace', 'identity',
           'indices', 'linspace', 'logspace', 'meshgrid', 'ones', 'ones_like', 'tri', 'tril', 'triu', 'zeros', 'zeros_like']
