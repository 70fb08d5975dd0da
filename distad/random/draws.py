"""What all samplers share: where the numbers are to lie, and bits and uniform floats there."""

import math
from typing import Any

import ml_dtypes
import numpy as np

from distad import numpy as jnp
from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax.creation import new_type
from distad.lax.kind import named
from distad.lax.shape import Sharding
from distad.numpy.promotion import converted
from distad.ops.arithmetic import sub
from distad.ops.bits import bitcast_convert_type, shift_right_logical
from distad.ops.compare import or_
from distad.ops.convert import convert_element_type
from distad.ops.random import random_bits
from distad.types import dtypes
from distad.types.sharding import NamedSharding
from distad.types.spec import P

Shape = tuple[int, ...]


def float_dtype(name: str, dtype: Any, *, or_complex: bool = False) -> np.dtype:
    """The float dtype asked for, by default float32 (float64 with x64)."""
    dtype = dtypes.canonical(np.float64 if dtype is None else dtype)
    if not dtypes.is_float(dtype) or (dtype.kind == 'c' and not or_complex):
        raise ValueError(f'{name}: the dtype must be a float{" or complex" if or_complex else ""} one, not '
                         f'{dtypes.name(dtype)}')
    return dtype


def place(shape: Shape, out_sharding: Sharding, *parameters: Any) -> NamedSharding | None:
    """Where to draw: as asked for, with what will be unreduced or reduced drawn whole; else as the parameters lie.

    None is the placement of a value without a mesh.
    """
    if out_sharding is not None:
        spec = named(out_sharding).spec
        t = new_type(shape, np.uint32, named(out_sharding).update(spec=P(*spec.partitions)))
    else:
        t = new_type(shape, np.uint32)
        for x in map(typeof, parameters):
            if not x.mesh.empty:
                t = t.update(mesh=x.mesh, partitions=_joined(shape, t.partitions, x.shape, x.partitions))
    return None if t.mesh.empty else t.sharding


def _joined(shape: Shape, partitions: tuple, own: Shape, more: tuple) -> tuple:
    """The axes of each dimension, completed by those of an array that broadcasts to the shape."""
    partitions = list(partitions)
    for d, (size, axes) in enumerate(zip(own, more, strict=True), len(shape) - len(own)):
        if size == shape[d] and not partitions[d] and not any(set(axes) & set(p) for p in partitions):
            partitions[d] = axes
    return tuple(partitions)


def broadcast(name: str, shape: Shape | None, *parameters: Any) -> Shape:
    """The shape of the result: by default the common one of the parameters, else one that they broadcast to."""
    own = [typeof(x).shape for x in parameters]
    try:
        common = np.broadcast_shapes(*own)
        if shape is None:
            return common
        if np.broadcast_shapes(shape, common) == shape:
            return shape
    except ValueError:
        pass
    raise ValueError(f'{name}: parameters of shapes {", ".join(map(str, own))} do not broadcast to '
                     f'{"one shape" if shape is None else shape}')


def parameter(name: str, x: Any, dtype: np.dtype) -> Any:
    """A parameter of a distribution in a dtype: a number, or a value."""
    if is_scalar(x):
        return dtype.type(x)
    return converted(as_value(x, name), dtype, False)


def random_uint(key: Value, width: int, shape: Shape, sharding: NamedSharding | None) -> Value:
    return random_bits(key, bit_width=width, shape=shape, sharding=sharding)


def mantissa_bits(dtype: np.dtype) -> int:
    return int(ml_dtypes.finfo(dtype).nmant)


def random_unit(key: Value, shape: Shape, dtype: np.dtype, sharding: NamedSharding | None) -> Value:
    """Uniform floats in [0, 1): random bits as mantissa of a number in [1, 2), less 1."""
    width = dtype.itemsize * 8
    mantissa = mantissa_bits(dtype)
    drawn = 8 if mantissa < 8 else width                      # bfloat16 has a use for 7 bits only
    uint = np.dtype(f'u{dtype.itemsize}')
    words = random_uint(key, drawn, shape, sharding)
    if drawn != width:
        words = convert_element_type(words, new_dtype=uint, weak_type=False)
    one = np.ones((), dtype).view(uint)[()]
    words = or_(shift_right_logical(words, uint.type(drawn - mantissa)), one)
    return sub(bitcast_convert_type(words, new_dtype=dtype), dtype.type(1))


def random_pair(key: Value, shape: Shape, dtype: np.dtype, sharding: NamedSharding | None) -> tuple[Value, Value]:
    """Two arrays of uniform floats in [0, 1), for twice the bits: one draw with a leading dimension of size 2."""
    if sharding is not None:
        sharding = sharding.update(spec=P(None, *sharding.spec.partitions))
    both = random_unit(key, (2, *shape), dtype, sharding)
    return both[0], both[1]


def random_between(key: Value, shape: Shape, dtype: np.dtype, low: Any, high: Any, sharding: NamedSharding | None) -> Value:
    """Uniform floats in [low, high), which are numbers or values of the dtype. Rounding does not lead below `low`."""
    unit = random_unit(key, shape, dtype, sharding)
    if is_scalar(low) and is_scalar(high) and low == 0 and high == 1:
        return unit
    return jnp.maximum(low, unit * (high - low) + low)


def root_two(dtype: np.dtype) -> np.generic:
    return dtype.type(math.sqrt(2))
