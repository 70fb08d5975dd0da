"""Ops that move elements without computing: transpose, squeeze, reshape, slice, pad, concatenate, split, flip.

Each is linear, so types of unreduced values, jvp and transpose follow from its dimension labels and one adjoint.
"""

import math

import numpy as np

from distad.core.primitive import BY_LINEARITY, NoRule, Primitive, by_labels, signature
from distad.core.value import Linear, typeof
from distad.errors import ShardingTypeError
from distad.ops.arithmetic import sub
from distad.ops.basic import instantiated, zero_scalar
from distad.ops.broadcast import LATER, Dims, expand_dims, reduce_sum
from distad.types.array_type import ArrayType
from distad.types.inference import STRUCTURAL, Linearity, infer, show
from distad.types.sharding import NamedSharding

# ---- transpose

def _transpose_labels(x: ArrayType, *, permutation: Dims):
    return signature('transpose', [range(x.ndim)], [permutation], linearity=STRUCTURAL)


def _transpose_shape(x: ArrayType, *, permutation: Dims):
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(f"transpose: {permutation} is not a permutation of the dimensions of {x}")
    return tuple(x.shape[d] for d in permutation), x.dtype


transpose = Primitive(
    'transpose',
    type=by_labels(_transpose_labels, _transpose_shape),
    labels=_transpose_labels,
    impl=lambda x, *, out, permutation: np.transpose(x, permutation),
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, *, permutation: transpose(ct, permutation=tuple(int(d) for d in np.argsort(permutation))),),
    batch=LATER,
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
    batch=LATER,
    linearity=STRUCTURAL)


# ---- reshape: labels would be factors of dimensions; the rule is written on these factors directly

def _reshape_type(x: ArrayType, *, new_sizes: Dims) -> ArrayType:
    if math.prod(new_sizes) != x.size:
        raise TypeError(f"reshape: {x} has {x.size} elements, {new_sizes} has {math.prod(new_sizes)}")
    base = x.update(shape=new_sizes, partitions=((),) * len(new_sizes))
    if not any(x.partitions):
        return base
    return base.update(partitions=reshaped(x, new_sizes))


def reshaped(x: ArrayType, new_sizes: Dims) -> tuple[tuple[str, ...], ...]:
    """How the dimensions of a reshaped array are split, when every rank can reshape its own block.

    Sizes are matched in groups of equal product. In a group, the blocks stay contiguous as long as the axes fill the
    dimensions from the left: only the last split dimension of the group, in the operand and in the result, may have a block
    longer than 1.
    """
    out: list[tuple[str, ...]] = [()] * len(new_sizes)
    for old, new in _groups(x.shape, new_sizes):
        axes: list[str] = []
        whole = True                                # so far every dimension of the group is split to single elements
        for d in old:
            if x.partitions[d]:
                if not whole:
                    raise _ambiguous(x, new_sizes)
                axes.extend(x.partitions[d])
            whole = whole and x.local_shape[d] == 1
        if len(old) > 1 and len(new) > 1 and axes:
            raise _ambiguous(x, new_sizes)
        for d in new:
            size, mine = new_sizes[d], []
            while axes and size > 1:
                n = x.mesh.shape[axes[0]]
                if size % n:
                    raise _ambiguous(x, new_sizes)
                size //= n
                mine.append(axes.pop(0))
            out[d] = tuple(mine)
        if axes:
            raise _ambiguous(x, new_sizes)
    return tuple(out)


def _groups(old: Dims, new: Dims) -> list[tuple[list[int], list[int]]]:
    """The finest cut of two shapes into runs of equal product, dimensions of size 1 left out."""
    a = [d for d, n in enumerate(old) if n != 1]
    b = [d for d, n in enumerate(new) if n != 1]
    groups, i, j = [], 0, 0
    while i < len(a) or j < len(b):
        left, right = [a[i]], [b[j]]
        m, n = old[a[i]], new[b[j]]
        i, j = i + 1, j + 1
        while m != n:
            if m < n:
                m, left, i = m * old[a[i]], [*left, a[i]], i + 1
            else:
                n, right, j = n * new[b[j]], [*right, b[j]], j + 1
        groups.append((left, right))
    return groups


def _ambiguous(x: ArrayType, new_sizes: Dims) -> ShardingTypeError:
    return ShardingTypeError(
        f"reshape of {x} to {new_sizes}: it is ambiguous how the result should be sharded, since the blocks of the split "
        "dimensions are not blocks of the result. Give out_sharding=, or gather the dimension with reshard first.")


reshape = Primitive(
    'reshape',
    type=_reshape_type,
    impl=lambda x, *, out, new_sizes: np.reshape(x, out.shape),
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, *, new_sizes: reshape(ct, new_sizes=x.type.shape),),
    batch=LATER,
    linearity=STRUCTURAL)


# ---- slice and pad are adjoint

def _slice_labels(x: ArrayType, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None):
    same = [d if _untouched(x, d, start_indices, limit_indices, strides) else None for d in range(x.ndim)]
    return signature('slice', [same], [same], linearity=STRUCTURAL)


def _untouched(x: ArrayType, d: int, start: Dims, limit: Dims, strides: Dims | None) -> bool:
    return start[d] == 0 and limit[d] == x.shape[d] and (strides is None or strides[d] == 1)


def _slice_shape(x: ArrayType, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None):
    step = strides or (1,) * x.ndim
    if not len(start_indices) == len(limit_indices) == len(step) == x.ndim:
        raise TypeError(f"slice: {start_indices}, {limit_indices}, {step} must have an entry for each dimension of {x}")
    for d, (a, b, s) in enumerate(zip(start_indices, limit_indices, step, strict=True)):
        if not (0 <= a <= b <= x.shape[d] and s > 0):
            raise TypeError(f"slice: {a}:{b}:{s} is out of bounds for dimension {d} of {x}")
    return tuple(-(-(b - a) // s) for a, b, s in zip(start_indices, limit_indices, step, strict=True)), x.dtype


def _slice_impl(x, *, out, start_indices, limit_indices, strides):
    step = strides or (1,) * len(start_indices)
    return x[tuple(slice(None) if out.shape[d] != out.type.shape[d] else slice(start_indices[d], limit_indices[d], step[d])
                   for d in range(x.ndim))]


def _slice_transpose(ct, x, *, start_indices, limit_indices, strides):
    t, step = x.type, strides or (1,) * x.type.ndim
    config = tuple(
        (a, n - a - ((b - a - 1) // s * s + 1 if b > a else 0), s - 1)
        for a, b, s, n in zip(start_indices, limit_indices, step, t.shape, strict=True))
    return pad(ct, zero_scalar(typeof(ct)), padding_config=config)


slice_p = Primitive(
    'slice',
    type=by_labels(_slice_labels, _slice_shape),
    labels=_slice_labels,
    impl=_slice_impl,
    jvp=BY_LINEARITY,
    transpose=(_slice_transpose,),
    batch=LATER,
    linearity=STRUCTURAL)


# The padding value is an operand like the other: the op is linear in both together. So a number cannot slip into every
# summand of an unreduced value; what pads one is a zero that is unreduced itself.

PAD = Linearity(groups=((0, 1),))


def _pad_labels(x: ArrayType, value: ArrayType, *, padding_config):
    same = [d if c == (0, 0, 0) else None for d, c in enumerate(padding_config)]
    return signature('pad', [same, ()], [same], linearity=PAD)


def _pad_shape(x: ArrayType, value: ArrayType, *, padding_config):
    if value.ndim or value.dtype != x.dtype or len(padding_config) != x.ndim:
        raise TypeError(f"pad takes a padding value of rank 0 and a (low, high, interior) triple for each dimension, got "
                        f"{show((x, value))} and {padding_config}")
    sizes = tuple(max(n + low + high + max(n - 1, 0) * inner, 0)
                  for n, (low, high, inner) in zip(x.shape, padding_config, strict=True))
    return sizes, x.dtype


def _pad_impl(x, value, *, out, padding_config):
    y = np.full(out.shape, value, out.dtype)
    dst, src = [], []
    for d, (low, _, inner) in enumerate(padding_config):
        step = inner + 1
        first = -(low // step) if low < 0 else 0                         # elements cut off at the low end ...
        last = min(x.shape[d], (out.shape[d] - 1 - low) // step + 1)     # ... and at the high end
        last = max(last, first)
        begin = low + first * step
        src.append(slice(first, last))
        dst.append(slice(begin, begin + (last - first - 1) * step + 1, step) if last > first else slice(0, 0))
    y[tuple(dst)] = x[tuple(src)]
    return y


def _pad_transpose(ct, x, value, *, padding_config):
    t = typeof(x)
    negative = tuple((-low, -high, 0) for low, high, _ in padding_config)
    cut = pad(ct, zero_scalar(typeof(ct)), padding_config=negative)
    inside = slice_p(cut, start_indices=(0,) * t.ndim, limit_indices=typeof(cut).shape,
                     strides=tuple(inner + 1 for _, _, inner in padding_config))
    ct_value = None
    if value.__class__ is Linear:
        every = tuple(range(t.ndim))
        ct_value = sub(reduce_sum(ct, axes=every), reduce_sum(inside, axes=every))
    return [inside if x.__class__ is Linear else None, ct_value]


pad = Primitive(
    'pad',
    type=by_labels(_pad_labels, _pad_shape),
    labels=_pad_labels,
    impl=_pad_impl,
    jvp=BY_LINEARITY,
    transpose=_pad_transpose,
    batch=LATER,
    linearity=PAD)


# ---- concatenate and split are adjoint

def _concatenate_labels(*types: ArrayType, dimension: int):
    labels = [None if d == dimension else d for d in range(types[0].ndim)]
    return signature('concatenate', [labels] * len(types), [labels], linearity=STRUCTURAL)


def _concatenate_shape(*types: ArrayType, dimension: int):
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
    type=by_labels(_concatenate_labels, _concatenate_shape),
    labels=_concatenate_labels,
    impl=lambda *xs, out, dimension: np.concatenate(xs, axis=dimension),
    jvp=BY_LINEARITY,
    transpose=_concatenate_transpose,
    batch=LATER,
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
    batch=LATER,
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
    batch=LATER,
    linearity=STRUCTURAL)


# ---- iota: numbers along a dimension, each rank its own

def _iota_type(*, dtype, shape: Dims, dimension: int, sharding: NamedSharding | None) -> ArrayType:
    return ArrayType(shape, dtype, sharding=sharding)


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
