"""Bits and what is uniform: floats, integers, coins."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from distad import numpy as jnp
from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax.creation import on_mesh_of
from distad.lax.dims import shape_of
from distad.lax.kind import with_sharding
from distad.lax.shape import Sharding
from distad.numpy.promotion import converted
from distad.ops.arithmetic import add, mul, rem, sub
from distad.ops.convert import convert_element_type
from distad.ops.random import random_split
from distad.random.draws import (
    Shape,
    broadcast,
    float_dtype,
    mantissa_bits,
    parameter,
    place,
    random_between,
    random_pair,
    random_uint,
    random_unit,
)
from distad.random.keys import single
from distad.types import dtypes
from distad.types.sharding import NamedSharding


def bits(key: Any, shape: int | Sequence[int] = (), dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """Random bits, as unsigned integers.

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ... dtype: uint8, uint16, uint32 (default; uint64 with x64) or uint64.
      out_sharding: where the result lies.
    Returns: uint32[m, n, ...].
    Communication: none.
    Raises: ValueError for another dtype.

    >>> random.bits(random.key(0), (2,), np.uint8)
    Array([167, 146], dtype=uint8)
    """
    dtype = dtypes.canonical(np.uint64 if dtype is None else dtype)
    if dtype.kind != 'u':
        raise ValueError(f'bits: the dtype must be an unsigned integer one, not {dtypes.name(dtype)}')
    shape = shape_of('bits', shape)
    with on_mesh_of(out_sharding):
        drawn = random_uint(single('bits', key), dtype.itemsize * 8, shape, place(shape, out_sharding))
        return with_sharding(drawn, out_sharding)


def uniform(key: Any, shape: int | Sequence[int] = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, *,
            out_sharding: Sharding = None) -> Value:
    """Floats, uniform in [minval, maxval).

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ... dtype: a float dtype, by default float32 (float64 with x64).
      minval, maxval: numbers, or arrays that broadcast to the shape. The result can be differentiated by them.
      out_sharding: where the result lies; by default as minval and maxval do.
    Returns: float32[m, n, ...].
    Communication: none.
    Raises: ValueError for another dtype, and for bounds that do not broadcast.

    >>> x = random.uniform(random.key(0), (8, 4), minval=-1, maxval=1)
    """
    dtype, shape = float_dtype('uniform', dtype), shape_of('uniform', shape)
    low, high = parameter('uniform', minval, dtype), parameter('uniform', maxval, dtype)
    broadcast('uniform', shape, low, high)
    with on_mesh_of(out_sharding):
        sharding = place(shape, out_sharding, low, high)
        return with_sharding(random_between(single('uniform', key), shape, dtype, low, high, sharding), out_sharding)


# ---- integers

def randint(key: Any, shape: int | Sequence[int], minval: Any, maxval: Any, dtype: Any = None, *,
            out_sharding: Sharding = None) -> Value:
    """Integers, uniform in [minval, maxval); minval where maxval is not larger.

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ... dtype: an integer dtype, by default int32 (int64 with x64).
      minval, maxval: integers, or arrays that broadcast to the shape. Bounds that the dtype does not have count as its ends,
        and a maxval beyond its last number includes that number.
      out_sharding: where the result lies; by default as minval and maxval do.
    Returns: int32[m, n, ...].
    Communication: none.
    Raises: TypeError for another dtype; ValueError for bounds that do not broadcast.

    >>> dice = random.randint(random.key(0), (100,), 1, 7)
    """
    dtype = dtypes.canonical(np.int64 if dtype is None else dtype)
    if dtype.kind not in 'iu':
        raise TypeError(f'randint: the dtype must be an integer one, not {dtypes.name(dtype)}')
    shape = shape_of('randint', shape)
    broadcast('randint', shape, minval, maxval)
    with on_mesh_of(out_sharding):
        sharding = place(shape, out_sharding, minval, maxval)
        return with_sharding(random_int(single('randint', key), shape, minval, maxval, dtype, sharding), out_sharding)


def random_int(key: Value, shape: Shape, minval: Any, maxval: Any, dtype: np.dtype, sharding: NamedSharding | None) -> Value:
    """Integers of a dtype: two draws H and L of its width w, as one number of twice the width, modulo the number of choices.

    (H * 2**w + L) % n = ((H % n) * (2**w % n) + L % n) % n, in arithmetic that wraps around. Where 2**w % n is zero, as for
    powers of two, H has no effect and is not drawn.
    """
    if dtype.itemsize < 4:                                    # narrow ones are drawn as int32, within their bounds
        info, wide = np.iinfo(dtype), np.dtype(np.int32)
        low, high = _clipped(minval, info.min, info.max, wide), _clipped(maxval, info.min, info.max + 1, wide)
        return convert_element_type(random_int(key, shape, low, high, wide, sharding), new_dtype=dtype, weak_type=False)
    width, uint = dtype.itemsize * 8, np.dtype(f'u{dtype.itemsize}')
    low, count = _choices(minval, maxval, dtype, uint)
    keys = random_split(key, shape=(2,))
    drawn = random_uint(keys[1], width, shape, sharding)
    half, last = 1 << width // 2, (1 << width) - 1
    if not is_scalar(count):
        safe = jnp.maximum(count, uint.type(1))
        power = uint.type(half) % safe
        high = random_uint(keys[0], width, shape, sharding)
        drawn = jnp.where(count == 0, drawn, (high % safe * (power * power % safe) + drawn % safe) % safe)
    elif count <= last:
        power = ((half % count) ** 2 & last) % count
        drawn = rem(drawn, uint.type(count))
        if power:
            high = rem(random_uint(keys[0], width, shape, sharding), uint.type(count))
            drawn = rem(add(mul(high, uint.type(power)), drawn), uint.type(count))
    drawn = convert_element_type(drawn, new_dtype=dtype, weak_type=False)
    return drawn if is_scalar(low) and not low else drawn + low


def _choices(minval: Any, maxval: Any, dtype: np.dtype, uint: np.dtype) -> tuple[Any, Any]:
    """The first number and how many there are, at least one: as numbers, or as values that count all 2**w as 0."""
    info = np.iinfo(dtype)
    if is_scalar(minval) and is_scalar(maxval):
        low, end = (min(max(int(b), info.min), most) for b, most in ((minval, info.max), (maxval, info.max + 1)))
        return dtype.type(low), max(end - low, 1)
    low, high = (_clipped(b, info.min, info.max, dtype) for b in (minval, maxval))
    count = jnp.asarray(high - low, uint) + jnp.asarray(maxval > info.max, uint)
    return low, jnp.where(high > low, count, uint.type(1))


def _clipped(bound: Any, least: int, most: int, dtype: np.dtype) -> Any:
    """A bound within a range, as number or value of a dtype."""
    if is_scalar(bound):
        return dtype.type(min(max(int(bound), least), most))
    bound = as_value(bound, 'randint')
    t = typeof(bound)
    if t.dtype.kind in 'iu':
        own = np.iinfo(t.dtype)
        if own.min < least or own.max > most:
            bound = jnp.clip(bound, t.dtype.type(max(least, own.min)), t.dtype.type(min(most, own.max)))
    return converted(bound, dtype, False)


# ---- coins

def bernoulli(key: Any, p: Any = 0.5, shape: int | Sequence[int] | None = None, mode: str = 'low', *,
              out_sharding: Sharding = None) -> Value:
    """True with probability p.

    Args:
      key: key<fry>[] or uint32[2]. p: a float, or an array that broadcasts to the shape.
      shape: m, n, ...; by default that of p.
      mode: 'low' compares p with a uniform float of its dtype; 'high' with one of twice the bits, for p close to 0.
      out_sharding: where the result lies; by default as p does.
    Returns: bool[m, n, ...].
    Communication: none.
    Raises: TypeError for p of another dtype; ValueError for p that does not broadcast and for another mode.

    >>> keep = random.bernoulli(random.key(0), 0.9, (8, 4))
    """
    if mode not in ('low', 'high'):
        raise ValueError(f"bernoulli: the mode is 'low' or 'high', not {mode!r}")
    t = typeof(p)
    if not dtypes.is_float(t.dtype) or t.dtype.kind == 'c':
        raise TypeError(f'bernoulli takes a probability of a float dtype, got {t}')
    shape = broadcast('bernoulli', None if shape is None else shape_of('bernoulli', shape), p)
    with on_mesh_of(out_sharding):
        made = _coins(single('bernoulli', key), parameter('bernoulli', p, t.dtype), shape, t.dtype, mode,
                      place(shape, out_sharding, p))
        return with_sharding(made, out_sharding)


def _coins(key: Value, p: Any, shape: Shape, dtype: np.dtype, mode: str, sharding: NamedSharding | None) -> Value:
    if mode == 'low':
        return random_unit(key, shape, dtype, sharding) < p
    coarse, fine = random_pair(key, shape, dtype, sharding)
    return fine * dtype.type(2.0 ** -mantissa_bits(dtype)) < p - coarse


def rademacher(key: Any, shape: int | Sequence[int] = (), dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """-1 or 1, each with probability 1/2.

    Args:
      key: key<fry>[] or uint32[2]. shape: m, n, ... dtype: of numbers, by default int32 (int64 with x64).
      out_sharding: where the result lies.
    Returns: int32[m, n, ...].
    Communication: none.

    >>> signs = random.rademacher(random.key(0), (8, 4), np.float32)
    """
    dtype, shape = dtypes.canonical(np.int64 if dtype is None else dtype), shape_of('rademacher', shape)
    single_float = dtypes.canonical(np.float64)
    with on_mesh_of(out_sharding):
        coins = _coins(single('rademacher', key), single_float.type(0.5), shape, single_float, 'low',
                       place(shape, out_sharding))
        signs = sub(mul(convert_element_type(coins, new_dtype=dtype, weak_type=False), dtype.type(2)), dtype.type(1))
        return with_sharding(signs, out_sharding)
