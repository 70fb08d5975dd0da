"""Broadcast and sum: the adjoint pair that every other rule leans on.

A dimension that arises in a broadcast may be split (a copy on every rank is cut, nothing is sent); its adjoint sums over a
split dimension, which leaves an unreduced value. That is where gradients become `{U:X}`, and the only place.
"""

import numpy as np

from distad.core.batching import shifting
from distad.core.primitive import BY_LINEARITY, Primitive, by_labels, finish, signature
from distad.core.value import typeof
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, STRUCTURAL, infer
from distad.types.sharding import NamedSharding

Dims = tuple[int, ...]


# ---- broadcast_in_dim: new dimensions, and dimensions of size 1 that grow. Its adjoint is reduce_sum.

def _broadcast_labels(x: ArrayType, *, shape: Dims, broadcast_dimensions: Dims, sharding: NamedSharding | None):
    grown = [x.shape[i] != shape[d] for i, d in enumerate(broadcast_dimensions)]
    ins = [None if g else d for g, d in zip(grown, broadcast_dimensions, strict=True)]
    given = {} if sharding is None else {
        d: axes for d, axes in enumerate(ArrayType(shape, x.dtype, sharding=sharding).partitions)
        if axes and d not in ins}
    return signature('broadcast_in_dim', [ins], [range(len(shape))], linearity=STRUCTURAL, given=given)


def _broadcast_shape(x: ArrayType, *, shape: Dims, broadcast_dimensions: Dims, sharding):
    if len(broadcast_dimensions) != x.ndim or any(
            x.shape[i] not in (1, shape[d]) for i, d in enumerate(broadcast_dimensions)):
        raise TypeError(f"broadcast_in_dim cannot bring {x} to shape {shape} along dimensions {broadcast_dimensions}")
    return shape, x.dtype


def _broadcast_type(x: ArrayType, *, shape: Dims, broadcast_dimensions: Dims, sharding: NamedSharding | None):
    dims, dtype = _broadcast_shape(x, shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding)
    labels = _broadcast_labels(x, shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding)
    if x.mesh.empty and sharding is not None:               # a number put on a mesh: any type but an unreduced one
        return ArrayType(shape, dtype, sharding=sharding, weak_type=x.weak_type)
    return finish(infer(labels, (x,)), dims, dtype, (x,))


def _broadcast_impl(x, *, out, shape, broadcast_dimensions, sharding):
    dims = [1] * len(out.shape)
    for i, d in enumerate(broadcast_dimensions):
        dims[d] = np.shape(x)[i]
    x = np.reshape(x, dims)
    return x if x.shape == out.shape else np.broadcast_to(x, out.shape)


def _broadcast_transpose(ct, x, *, shape, broadcast_dimensions, sharding):
    return unbroadcast(ct, x.type, broadcast_dimensions)


def _broadcast_batch(axis, values, dims, *, shape: Dims, broadcast_dimensions: Dims, sharding: NamedSharding | None):
    x = axis.front(values[0], dims[0])
    return broadcast_in_dim(x, shape=(axis.size, *shape), broadcast_dimensions=(0, *(d + 1 for d in broadcast_dimensions)),
                            sharding=axis.sharding(sharding, len(shape), 0)), 0


def _broadcast_shown(params: dict) -> dict:
    """Shape and sharding stand in the result type."""
    dims = params['broadcast_dimensions']
    return {'broadcast_dimensions': dims} if dims else {}


broadcast_in_dim = Primitive(
    'broadcast_in_dim',
    type=_broadcast_type,
    labels=_broadcast_labels,
    impl=_broadcast_impl,
    jvp=BY_LINEARITY,
    transpose=(_broadcast_transpose,),
    batch=_broadcast_batch,
    linearity=STRUCTURAL,
    show=_broadcast_shown)


def unbroadcast(ct, like: ArrayType, places: Dims | None = None):
    """The cotangent of an operand that was broadcast: summed over what it has not, or has with size 1.

    `places`: where the operand's dimensions lie in the cotangent's; by default one to one (or nowhere for rank 0).
    """
    t = typeof(ct)
    if places is None:
        if like.shape == t.shape:
            return ct
        places = tuple(range(like.ndim))
    kept = {d: i for i, d in enumerate(places) if like.shape[i] == t.shape[d]}
    axes = tuple(d for d in range(t.ndim) if d not in kept)
    if not axes:
        return ct
    ct = reduce_sum(ct, axes=axes)
    if len(kept) == like.ndim:
        return ct
    return broadcast_in_dim(ct, shape=like.shape, broadcast_dimensions=tuple(kept.values()), sharding=None)


def spread(t, like: ArrayType):
    """A tangent of an operand as tangent of the result of type `like` that the operand was broadcast to."""
    have = typeof(t)
    if have.shape == like.shape:
        return t
    places = tuple(range(like.ndim)) if have.ndim else ()
    return broadcast_in_dim(t, shape=like.shape, broadcast_dimensions=places,
                            sharding=like.sharding if any(like.partitions) else None)


def expand_dims(x, dims: Dims):
    """New dimensions of size 1 at `dims` of the result."""
    n = typeof(x).ndim + len(dims)
    kept = tuple(d for d in range(n) if d not in dims)
    sizes = iter(typeof(x).shape)
    shape = tuple(1 if d in dims else next(sizes) for d in range(n))
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept, sharding=None)


# ---- reduce_sum: its adjoint is broadcast_in_dim

def reduction_labels(name: str, reducer: str | None, linearity=ADDITIVE):
    """Labels of a reduction over `axes`: split dimensions that go leave a value unreduced of the kind `reducer`."""
    def labels(x: ArrayType, *, axes: Dims, **params):
        kept = [d for d in range(x.ndim) if d not in axes]
        ins = range(x.ndim) if reducer else [d if d in kept else None for d in range(x.ndim)]
        return signature(name, [ins], [kept], linearity=linearity, reducer=reducer)
    return labels


def reduction_shape(name: str):
    def shape(x: ArrayType, *, axes: Dims, **params):
        if len(set(axes)) != len(axes) or not all(0 <= d < x.ndim for d in axes):
            raise ValueError(f"{name}: {axes} are not distinct dimensions of {x}")
        return tuple(n for d, n in enumerate(x.shape) if d not in axes), x.dtype
    return shape


def _sum_impl(x, *, out, axes):
    if out.dtype.itemsize == 2 and out.dtype.kind in 'fV':           # half types: sum in float32, round once
        return np.sum(x, axis=axes, dtype=np.float32).astype(out.dtype)
    return np.sum(x, axis=axes, dtype=out.dtype)


def _sum_transpose(ct, x, *, axes):
    t = x.type
    kept = tuple(d for d in range(t.ndim) if d not in axes)
    gone = any(t.partitions[d] for d in axes)
    return broadcast_in_dim(ct, shape=t.shape, broadcast_dimensions=kept, sharding=t.sharding if gone else None)


reduce_sum = Primitive(
    'reduce_sum',
    type=by_labels(reduction_labels('reduce_sum', 'sum'), reduction_shape('reduce_sum')),
    labels=reduction_labels('reduce_sum', 'sum'),
    impl=_sum_impl,
    jvp=BY_LINEARITY,
    transpose=(_sum_transpose,),
    batch=shifting('axes', gone='axes'),
    linearity=ADDITIVE,
    show=lambda params: {**params, 'out_sharding': None})
