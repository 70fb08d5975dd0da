"""Distributions over the reals, by the inverse of their distribution function applied to uniform floats."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from distad import numpy as jnp
from distad.core.value import Value, is_scalar, typeof
from distad.lax.creation import on_mesh_of
from distad.lax.dims import shape_of
from distad.lax.kind import kindly, with_sharding
from distad.lax.shape import Sharding
from distad.ops.arithmetic import add, div, mul, neg
from distad.ops.complex import abs, complex, part_dtype, sign
from distad.ops.elementary import log, log1p
from distad.ops.random import random_split
from distad.ops.rounding import nextafter
from distad.ops.special import erf, erf_inv
from distad.ops.stop import stop_gradient
from distad.random.draws import (
    Shape,
    broadcast,
    float_dtype,
    mantissa_bits,
    parameter,
    place,
    random_between,
    random_pair,
    random_unit,
    root_two,
)
from distad.random.keys import single
from distad.types.sharding import NamedSharding


def normal(key: Any, shape: int | Sequence[int] = (), dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """Floats of the standard normal distribution: mean 0, variance 1.

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ...
      dtype: a float or complex dtype, by default float32 (float64 with x64). Complex numbers have independent parts, each of
        variance 1/2.
      out_sharding: where the result lies.
    Returns: float32[m, n, ...].
    Communication: none.
    Raises: ValueError for another dtype.

    >>> w = 0.1 * random.normal(random.key(0), (8, 4))
    """
    dtype, shape = float_dtype('normal', dtype, or_complex=True), shape_of('normal', shape)
    with on_mesh_of(out_sharding):
        return with_sharding(_normal(single('normal', key), shape, dtype, place(shape, out_sharding)), out_sharding)


def _normal(key: Value, shape: Shape, dtype: np.dtype, sharding: NamedSharding | None) -> Value:
    if dtype.kind == 'c':
        keys = random_split(key, shape=(2,))
        re, im = (_normal(k, shape, part_dtype(dtype), sharding) for k in (keys[0], keys[1]))
        return div(complex(re, im), root_two(dtype))
    above = np.nextafter(dtype.type(-1), dtype.type(0))        # at -1 itself the inverse is infinite
    return mul(root_two(dtype), erf_inv(random_between(key, shape, dtype, above, dtype.type(1), sharding)))


def truncated_normal(key: Any, lower: Any, upper: Any, shape: int | Sequence[int] | None = None, dtype: Any = None, *,
                     out_sharding: Sharding = None) -> Value:
    """Floats of the standard normal distribution, given that they lie between two bounds.

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ...; by default the common one of the bounds.
      lower, upper: numbers, or arrays that broadcast to the shape. The result can be differentiated by them.
      dtype: a float dtype, by default float32 (float64 with x64).
      out_sharding: where the result lies; by default as the bounds do.
    Returns: float32[m, n, ...], in the open interval (lower, upper).
    Communication: none.
    Raises: ValueError for another dtype, and for bounds that do not broadcast.

    >>> w = 0.02 * random.truncated_normal(random.key(0), -2, 2, (8, 4))
    """
    dtype = float_dtype('truncated_normal', dtype)
    shape = broadcast('truncated_normal', None if shape is None else shape_of('truncated_normal', shape), lower, upper)
    low, high = parameter('truncated_normal', lower, dtype), parameter('truncated_normal', upper, dtype)
    root = root_two(dtype)
    with on_mesh_of(out_sharding):
        sharding = place(shape, out_sharding, low, high)
        ends = [erf(div(x, root)) for x in (low, high)]
        drawn = random_between(single('truncated_normal', key), shape, dtype, *ends, sharding)
        inner = [_next(x, to) for x, to in ((low, np.inf), (high, -np.inf))]
        return with_sharding(jnp.clip(mul(root, erf_inv(drawn)), *inner), out_sharding)


def _next(x: Any, to: float) -> Any:
    """The float next to a bound. It does not depend on the bound as far as derivatives go."""
    if is_scalar(x):
        return np.nextafter(x, x.dtype.type(to))
    return kindly(nextafter, stop_gradient(x), typeof(x).dtype.type(to))


def exponential(key: Any, shape: int | Sequence[int] = (), dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """Floats of the exponential distribution: density exp(-x), mean 1.

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ... dtype: a float dtype, by default float32 (float64 with x64).
      out_sharding: where the result lies.
    Returns: float32[m, n, ...], zero or more.
    Communication: none.
    Raises: ValueError for another dtype.

    >>> waits = random.exponential(random.key(0), (8, 4))
    """
    dtype, shape = float_dtype('exponential', dtype), shape_of('exponential', shape)
    with on_mesh_of(out_sharding):
        unit = random_unit(single('exponential', key), shape, dtype, place(shape, out_sharding))
        return with_sharding(neg(log1p(neg(unit))), out_sharding)


def laplace(key: Any, shape: int | Sequence[int] = (), dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """Floats of the Laplace distribution: density exp(-|x|) / 2, mean 0.

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ... dtype: a float dtype, by default float32 (float64 with x64).
      out_sharding: where the result lies.
    Returns: float32[m, n, ...].
    Communication: none.
    Raises: ValueError for another dtype.

    >>> x = random.laplace(random.key(0), (8, 4))
    """
    dtype, shape = float_dtype('laplace', dtype), shape_of('laplace', shape)
    above = dtype.type(float(ml_dtypes.finfo(dtype).epsneg) - 1)
    with on_mesh_of(out_sharding):
        drawn = random_between(single('laplace', key), shape, dtype, above, dtype.type(1), place(shape, out_sharding))
        return with_sharding(mul(sign(drawn), log1p(neg(abs(drawn)))), out_sharding)


def gumbel(key: Any, shape: int | Sequence[int] = (), dtype: Any = None, mode: str | None = None, *,
           out_sharding: Sharding = None) -> Value:
    """Floats of the Gumbel distribution: distribution function exp(-exp(-x)).

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ... dtype: a float dtype, by default float32 (float64 with x64).
      mode: 'low' (the default), or 'high' for twice the bits, so that large numbers are as frequent as they should be.
      out_sharding: where the result lies.
    Returns: float32[m, n, ...].
    Communication: none.
    Raises: ValueError for another dtype or mode.

    >>> x = random.gumbel(random.key(0), (8, 4))
    """
    dtype, shape = float_dtype('gumbel', dtype), shape_of('gumbel', shape)
    with on_mesh_of(out_sharding):
        drawn = random_gumbel('gumbel', single('gumbel', key), shape, dtype, mode, place(shape, out_sharding))
        return with_sharding(drawn, out_sharding)


def random_gumbel(name: str, key: Value, shape: Shape, dtype: np.dtype, mode: str | None,
                  sharding: NamedSharding | None) -> Value:
    if mode not in (None, 'low', 'high'):
        raise ValueError(f"{name}: the mode is 'low' or 'high', not {mode!r}")
    if mode != 'high':
        least = dtype.type(ml_dtypes.finfo(dtype).tiny)        # log(0) is infinite
        return neg(log(neg(log(random_between(key, shape, dtype, least, dtype.type(1), sharding)))))
    coarse, fine = random_pair(key, shape, dtype, sharding)
    step = 2.0 ** -mantissa_bits(dtype)
    below = add(add(coarse, mul(fine, dtype.type(step))), dtype.type(step * step / 2))
    drawn = jnp.where(coarse >= dtype.type(0.5), coarse, below)
    return neg(log(neg(log1p(neg(drawn)))))
