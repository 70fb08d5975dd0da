"""Reductions other than the sum, each over whole dimensions.

max and min of a split dimension leave a value whose max or min over the ranks is still to come ({U_max:X}); any and all of
truth values are the max and the min of them. The others need the whole dimension; `lax.reduction` takes them in two steps
where it is split.
"""

from collections.abc import Callable

import numpy as np

from distad.core.batching import shifting
from distad.core.primitive import NoRule, Primitive, by_labels, signature
from distad.core.value import typeof
from distad.ops.arithmetic import div, mul
from distad.ops.basic import add_any
from distad.ops.broadcast import Dims, broadcast_in_dim, reduce_sum, reduction_labels, reduction_shape
from distad.ops.compare import eq
from distad.ops.convert import convert_element_type
from distad.ops.makers import ANY, INT, NUMBER, check_dtype
from distad.ops.shape import squeeze
from distad.ops.slicing import slice_p
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import NONLINEAR


def _reduction(name: str, impl: Callable, accepts: str, *, labels: Callable | None = None, jvp) -> Primitive:
    """A reduction over `axes`, of the operand's dtype. `impl(x, axes, dtype)`."""
    labels = labels or reduction_labels(name, None, NONLINEAR)

    def shape(x: ArrayType, *, axes: Dims):
        check_dtype(name, accepts, x)
        return reduction_shape(name)(x, axes=axes)

    return Primitive(name, type=by_labels(labels, shape), labels=labels, jvp=jvp, batch=shifting('axes', gone='axes'),
                     transpose=NoRule('it is not linear'), show=lambda params: {**params, 'out_sharding': None},
                     impl=lambda x, *, out, axes: np.asarray(impl(x, axes, out.dtype)).astype(out.dtype, copy=False))


# ---- max and min

def _extremum(ufunc: np.ufunc, least: float) -> Callable:
    """Reduce by max or min; of no elements it is the dtype's least or greatest value."""
    def impl(x, axes, dtype):
        if x.size:
            return ufunc.reduce(x, axis=axes)
        return np.full([n for d, n in enumerate(x.shape) if d not in axes], limit(dtype, least), dtype)
    return impl


def limit(dtype: np.dtype, sign: float):
    """The least (sign < 0) or greatest value of a dtype: an infinity where it has one."""
    if dtypes.is_float(dtype):
        return dtype.type(sign * np.inf)
    if dtype.kind == 'b':
        return np.bool_(sign > 0)
    return dtype.type(np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max)


def _share_of_ties(t, y, x, *, axes: Dims):
    """The tangent of a max or min: that of the winner, the mean of the winners' where there are several."""
    if typeof(y).unreduced:
        raise NotImplementedError(f"a reduction of {typeof(x)} to {typeof(y)} has no derivative while its {typeof(y).kind} "
                                  "over the ranks is still to come. Reduce without unreduced in out_sharding.")
    wins = winners(x, broadcast_in_dim(y, shape=typeof(x).shape, broadcast_dimensions=kept(x, axes), sharding=None))
    return div(reduce_sum(mul(t, wins), axes=axes), reduce_sum(wins, axes=axes))


def kept(x, axes: Dims) -> Dims:
    """The dimensions that a reduction over `axes` leaves."""
    return tuple(d for d in range(typeof(x).ndim) if d not in axes)


def winners(x, y):
    """1 where an element of x is the extremum y, else 0."""
    return convert_element_type(eq(x, y), new_dtype=typeof(x).dtype, weak_type=False)


reduce_max = _reduction('reduce_max', _extremum(np.maximum, -1), ANY, jvp=(_share_of_ties,),
                        labels=reduction_labels('reduce_max', 'max', NONLINEAR))
reduce_min = _reduction('reduce_min', _extremum(np.minimum, 1), ANY, jvp=(_share_of_ties,),
                        labels=reduction_labels('reduce_min', 'min', NONLINEAR))


# ---- logic: bitwise on integers; of truth values `or` is the max over the ranks, `and` the min

def _logic_labels(name: str, reducer: str) -> Callable:
    truth, bits = reduction_labels(name, reducer, NONLINEAR), reduction_labels(name, None, NONLINEAR)
    return lambda x, *, axes: (truth if x.dtype == bool else bits)(x, axes=axes)


reduce_or = _reduction('reduce_or', lambda x, axes, dtype: np.bitwise_or.reduce(x, axis=axes), INT, jvp=(None,),
                       labels=_logic_labels('reduce_or', 'max'))
reduce_and = _reduction('reduce_and', lambda x, axes, dtype: np.bitwise_and.reduce(x, axis=axes), INT, jvp=(None,),
                        labels=_logic_labels('reduce_and', 'min'))
reduce_xor = _reduction('reduce_xor', lambda x, axes, dtype: np.bitwise_xor.reduce(x, axis=axes), INT, jvp=(None,))


# ---- product

def _prod(x, axes, dtype):
    work = np.float32 if dtypes.is_float(dtype) and dtype.itemsize == 2 else dtype       # half types: round once
    return np.multiply.reduce(x, axis=axes, dtype=work)


def _tangent_of_product(t, y, x, *, axes: Dims):
    """The sum over i of t_i times all x_j but x_i, in a binary tree: no division, so zeros are no exception."""
    for d in sorted(axes, reverse=True):
        x, t = _products(x, t, d)
    return t


def _products(x, t, d: int):
    """Products along a dimension and their tangents: those of pairs, then of pairs of pairs."""
    if not typeof(x).shape[d]:
        return reduce_prod(x, axes=(d,)), reduce_sum(t, axes=(d,))
    left = []
    while (n := typeof(x).shape[d]) > 1:
        half = n // 2
        if n % 2:
            left.append([_part(v, d, n - 1, n) for v in (x, t)])
        x, t = _pair(*([_part(v, d, k, k + half) for v in (x, t)] for k in (0, half)))
    for rest in left:
        x, t = _pair((x, t), rest)
    return squeeze(x, dimensions=(d,)), squeeze(t, dimensions=(d,))


def _pair(a, b):
    (x, s), (y, t) = a, b
    return mul(x, y), add_any(mul(s, y), mul(x, t))


def _part(x, d: int, start: int, stop: int):
    t = typeof(x)
    return slice_p(x, start_indices=tuple(start if i == d else 0 for i in range(t.ndim)),
                   limit_indices=tuple(stop if i == d else n for i, n in enumerate(t.shape)), strides=None)


reduce_prod = _reduction('reduce_prod', _prod, NUMBER, jvp=(_tangent_of_product,))


# ---- argmax and argmin: the first of equals; NaN wins, as in NumPy

def _index_of(name: str, f: Callable) -> Primitive:
    def labels(x: ArrayType, *, axes: Dims, index_dtype: np.dtype):
        kept = [d for d in range(x.ndim) if d not in axes]
        return signature(name, [[d if d in kept else None for d in range(x.ndim)]], [kept])

    def shape(x: ArrayType, *, axes: Dims, index_dtype: np.dtype):
        check_dtype(name, ANY, x)
        if len(axes) != 1 or not x.shape[axes[0]]:
            raise ValueError(f"{name} takes one dimension of size 1 or more, got {axes} of {x}")
        return reduction_shape(name)(x, axes=axes)[0], index_dtype

    return Primitive(name, type=by_labels(labels, shape), labels=labels, jvp=(None,), transpose=NoRule('it is not linear'),
                     batch=shifting('axes', gone='axes'),
                     impl=lambda x, *, out, axes, index_dtype: np.asarray(f(x, axis=axes[0]), index_dtype))


argmax = _index_of('argmax', np.argmax)
argmin = _index_of('argmin', np.argmin)
