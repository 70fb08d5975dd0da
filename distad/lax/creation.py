"""Arrays from nothing: each rank makes its own block, and nothing is sent.

A value that is to be unreduced is made whole and kept on the first rank along the axis, as everywhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax.dims import dim_of, shape_of
from distad.lax.kind import named
from distad.lax.shape import Sharding, broadcast_in_dim
from distad.ops import basic, convert
from distad.ops import broadcast as broadcast_ops
from distad.ops import shape as ops
from distad.ops.cast import cast
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh, get_abstract_mesh, get_mesh, set_mesh
from distad.types.sharding import NamedSharding
from distad.types.spec import P


def new_type(shape: Sequence[int], dtype: Any, sharding: Sharding = None, *, weak_type: bool = False) -> ArrayType:
    """The type of a new array: in the sharding asked for, else replicated on the current mesh."""
    dtype = dtypes.canonical(dtype)
    sharding = NamedSharding(get_abstract_mesh(), P()) if sharding is None else named(sharding)
    return ArrayType(shape, dtype, weak_type=weak_type, sharding=sharding)


@contextmanager
def on_mesh_of(sharding: Sharding) -> Iterator[None]:
    """Make the mesh that a sharding brings along the current one, so that new arrays lie on it."""
    mesh = sharding.mesh if isinstance(sharding, NamedSharding) else None
    if not isinstance(mesh, Mesh) or mesh == get_mesh():
        yield
    else:
        with set_mesh(mesh):
            yield


def filled(t: ArrayType, value) -> Value:
    """A new array of a type with one number everywhere."""
    value = t.dtype.type(value)
    if t.weak_type:                                      # a Python number gives a weak type, if that has its dtype
        t = t.update(weak_type=typeof(value.item()).dtype == t.dtype)
    if not value and not t.weak_type:
        return basic.zeros(type=t)
    number = value.item() if t.weak_type else value
    return cast(broadcast_ops.broadcast_in_dim(number, shape=t.shape, broadcast_dimensions=(), sharding=_summed(t)), t)


def numbered(t: ArrayType, dimension: int) -> Value:
    """A new array of a type that holds its indices along a dimension."""
    return cast(ops.iota(dtype=t.dtype, shape=t.shape, dimension=dimension, sharding=_summed(t)), t)


def _summed(t: ArrayType) -> NamedSharding | None:
    """Where to make the value that a free cast makes one of type `t`."""
    return None if t.mesh.empty else t.update(unreduced=(), kind='sum').sharding


def iota(dtype: Any, size: int) -> Value:
    """0, 1, .. up to `size` (excluded), replicated.

        iota(jnp.int32, 4)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding: Sharding = None) -> Value:
    """An array of a shape that holds its index along a dimension. Each rank makes its block; nothing is communicated.

        broadcasted_iota(jnp.int32, (2, 3), 1)
    """
    shape = shape_of('broadcasted_iota', shape)
    with on_mesh_of(out_sharding):
        return numbered(new_type(shape, dtype, out_sharding), dim_of('broadcasted_iota', dimension, len(shape)))


def full(shape: Sequence[int], fill_value, dtype: Any = None, *, sharding: Sharding = None) -> Value:
    """An array with one number everywhere. Without `dtype` it has that of the number, weak if it is a Python number.

    fill_value: a number, or a value of rank 0. Each rank makes its block; nothing is communicated.

        full((2, 3), 1.5)
    """
    shape = shape_of('full', shape)
    t = typeof(fill_value)
    if t.ndim:
        raise TypeError(f"full takes a fill value of rank 0, got {t}")
    weak = dtype is None and t.weak_type
    dtype = t.dtype if dtype is None else dtypes.canonical(dtype)
    with on_mesh_of(sharding):
        if is_scalar(fill_value):
            return filled(new_type(shape, dtype, sharding, weak_type=weak), fill_value)
        value = convert.convert_element_type(as_value(fill_value, 'full'), new_dtype=dtype, weak_type=weak)
        return broadcast_in_dim(value, shape, (), out_sharding=sharding)


def full_like(x, fill_value, dtype: Any = None, shape: Sequence[int] | None = None, sharding: Sharding = None) -> Value:
    """An array of the type of another with one number everywhere; of a `shape` of its own it is replicated.

    Under shard_map it varies where the other does, and is the same on all ranks where that is unreduced or reduced.

        full_like(jnp.ones((2, 3)), 7)
    """
    t = typeof(x)
    weak = dtype is None and t.weak_type
    dtype = t.dtype if dtype is None else dtypes.canonical(dtype)
    manual = t.mesh.manual_axes
    with on_mesh_of(sharding):
        if sharding is None and shape is None and not t.mesh.empty:
            like = t.update(dtype=dtype, weak_type=weak, unreduced=t.unreduced.difference(manual),
                            reduced=t.reduced.difference(manual))
        else:
            like = new_type(t.shape if shape is None else shape_of('full_like', shape), dtype, sharding, weak_type=weak)
            like = like.update(varying=t.varying)
        if is_scalar(fill_value):
            return filled(like, fill_value)
        value = convert.convert_element_type(as_value(fill_value, 'full_like'), new_dtype=dtype, weak_type=weak)
        return cast(broadcast_in_dim(value, like.shape, (), out_sharding=None if like.mesh.empty else like.sharding), like)


def zeros_like_array(x) -> Value:
    """Zeros of the type of an array."""
    return full_like(x, 0)


def empty(shape: Sequence[int], dtype: Any, *, out_sharding: Sharding = None) -> Value:
    """An array of zeros: arrays do not change, so there are none without content.

        empty((2, 3), jnp.float32)
    """
    return full(shape, 0, dtype, sharding=out_sharding)


def rng_uniform(a, b, shape: Sequence[int]) -> None:
    """Refused: random numbers are functions of a key here, so that all ranks and all runs draw the same."""
    raise NotImplementedError('rng_uniform has a hidden state. Draw with a key: distad.random.uniform(key, shape, minval=a, maxval=b)')


__all__ = ['broadcasted_iota', 'empty', 'full', 'full_like', 'iota', 'rng_uniform', 'zeros_like_array']
