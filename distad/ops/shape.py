"""Ops that move elements without computing: transpose, squeeze, concatenate, split, rev; and iota, which numbers them.

Each is linear, so types of unreduced values, jvp and transpose follow from its dimension labels and one adjoint. A dimension
that is cut, joined or turned round has to be whole on every rank.
"""

import numpy as np

from distad.core.batching import behind, leading, shifting
from distad.core.primitive import BY_LINEARITY, NoRule, Primitive, by_labels, signature
from distad.core.value import Linear, typeof
from distad.errors import ShardingTypeError
from distad.ops.basic import instantiated
from distad.ops.broadcast import Dims, expand_dims
from distad.types.array_type import ArrayType
from distad.types.inference import STRUCTURAL, infer, show
from distad.types.sharding import NamedSharding

# ---- transpose

def _transpose_labels(x: ArrayType, *, permutation: Dims):
    return signature('transpose', [range(x.ndim)], [permutation], linearity=STRUCTURAL)


def _transpose_shape(x: ArrayType, *, permutation: Dims):
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(f"transpose: {permutation} is not a permutation of the dimensions of {x}")
    return tuple(x.shape[d] for d in permutation), x.dtype


def _transpose_batch(axis, values, dims, *, permutation: Dims):
    (x,), (d,) = values, dims
    return transpose(x, permutation=(d, *behind(permutation, d))), 0


transpose = Primitive(
    'transpose',
    type=by_labels(_transpose_labels, _transpose_shape),
    labels=_transpose_labels,
    impl=lambda x, *, out, permutation: np.transpose(x, permutation),
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, *, permutation: transpose(ct, permutation=tuple(int(d) for d in np.argsort(permutation))),),
    batch=_transpose_batch,
    linearity=STRUCTURAL)


# ---- squeeze

def _squeeze_labels(x: ArrayType, *, dimensions: Dims):
    kept = [d for d in range(x.ndim) if d not in dimensions]
    return signature('squeeze', [[d if d in kept else None for d in range(x.ndim)]], [kept], linearity=STRUCTURAL)


def _squeeze_shape(x: ArrayType, *, dimensions: Dims):
    if any(x.shape[d] != 1 for d in dimensions):
        raise ValueError(f"squeeze: dimensions {dimensions} of {x} must have size 1")
    return tuple(n for d, n in enumerate(x.shape) if d not in dimensions), x.dtype


squeeze = Primitive(
    'squeeze',
    type=by_labels(_squeeze_labels, _squeeze_shape),
    labels=_squeeze_labels,
    impl=lambda x, *, out, dimensions: x.reshape(out.shape),
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, *, dimensions: expand_dims(ct, dimensions),),
    batch=leading('dimensions'),
    linearity=STRUCTURAL)


# ---- concatenate and split are adjoint

def _concatenate_labels(*types: ArrayType, dimension: int):
    labels = [None if d == dimension else d for d in range(types[0].ndim)]
    return signature('concatenate', [labels] * len(types), [labels], linearity=STRUCTURAL)


def concatenated_shape(*types: ArrayType, dimension: int):
    """Shape and dtype of a concatenation; checks the operands."""
    first = types[0]
    if not 0 <= dimension < first.ndim:
        raise ValueError(f"concatenate: {first} has no dimension {dimension}")
    if any(t.dtype != first.dtype for t in types):
        raise TypeError(f"concatenate requires arguments to have the same dtypes, got {show(types)}")
    if any(t.ndim != first.ndim or any(m != n for d, (m, n) in enumerate(zip(t.shape, first.shape, strict=True))
                                       if d != dimension) for t in types):
        raise TypeError(f"concatenate along dimension {dimension}: all other sizes must agree, got {show(types)}")
    return tuple(sum(t.shape[d] for t in types) if d == dimension else n for d, n in enumerate(first.shape)), first.dtype


def _concatenate_transpose(ct, *operands, dimension):
    sizes = tuple(typeof(x).shape[dimension] for x in operands)
    parts = split(ct, sizes=sizes, axis=dimension)
    return [part if x.__class__ is Linear else None for part, x in zip(parts, operands, strict=True)]


concatenate = Primitive(
    'concatenate',
    type=by_labels(_concatenate_labels, concatenated_shape),
    labels=_concatenate_labels,
    impl=lambda *xs, out, dimension: np.concatenate(xs, axis=dimension),
    jvp=BY_LINEARITY,
    transpose=_concatenate_transpose,
    batch=leading('dimension'),
    linearity=STRUCTURAL)


def _split_labels(x: ArrayType, *, sizes: Dims, axis: int):
    labels = [None if d == axis else d for d in range(x.ndim)]
    return signature('split', [labels], [labels] * len(sizes), linearity=STRUCTURAL)


def _split_type(x: ArrayType, *, sizes: Dims, axis: int):
    if sum(sizes) != x.shape[axis]:
        raise ValueError(f"split: sizes {sizes} do not add up to dimension {axis} of {x}")
    agreement = infer(_split_labels(x, sizes=sizes, axis=axis), (x,))
    return [agreement.out(i, (*x.shape[:axis], n, *x.shape[axis + 1:]), x.dtype, weak_type=x.weak_type)
            for i, n in enumerate(sizes)]


def _split_transpose(cts, x, *, sizes, axis):
    return [concatenate(*map(instantiated, cts), dimension=axis)]


split = Primitive(
    'split',
    type=_split_type,
    labels=_split_labels,
    impl=lambda x, *, out, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis=axis),
    jvp=BY_LINEARITY,
    transpose=_split_transpose,
    batch=shifting('axis'),
    linearity=STRUCTURAL,
    multiple=True)


# ---- rev

def _rev_labels(x: ArrayType, *, dimensions: Dims):
    labels = [None if d in dimensions else d for d in range(x.ndim)]
    return signature('rev', [labels], [labels], linearity=STRUCTURAL)


rev = Primitive(
    'rev',
    type=by_labels(_rev_labels, lambda x, *, dimensions: (x.shape, x.dtype)),
    labels=_rev_labels,
    impl=lambda x, *, out, dimensions: np.flip(x, dimensions),
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, *, dimensions: rev(ct, dimensions=dimensions),),
    batch=shifting('dimensions'),
    linearity=STRUCTURAL)


# ---- iota: numbers along a dimension, each rank its own

def _iota_type(*, dtype, shape: Dims, dimension: int, sharding: NamedSharding | None) -> ArrayType:
    t = ArrayType(shape, dtype, sharding=sharding)
    if t.unreduced:
        raise ShardingTypeError(f"iota makes the same numbers on every rank, and their sum would be too large: {t}. Make them "
                                "replicated, then unreduced with reshard.")
    return t


def _iota_impl(*, out, dtype, shape, dimension, sharding):
    start, count = out.starts[dimension], out.shape[dimension]
    line = np.arange(start, start + count).astype(out.dtype)
    return np.broadcast_to(line.reshape([-1 if d == dimension else 1 for d in range(len(out.shape))]), out.shape)


iota = Primitive(
    'iota',
    type=_iota_type,
    impl=_iota_impl,
    jvp=(),
    transpose=NoRule('it has no operands'),
    batch=NoRule('it has no operands'))
