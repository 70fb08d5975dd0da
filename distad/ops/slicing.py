"""slice and pad: taking regular parts of an array, and putting an array into a larger one, are adjoint.

A dimension they change has to be whole on every rank, with one exception: a slice with stride s that keeps one of every s
indices of each block, and the padding that undoes it, stay within the blocks.
"""

import numpy as np

from distad.core.primitive import BY_LINEARITY, Primitive, by_labels, signature
from distad.core.value import Linear, typeof
from distad.ops.arithmetic import sub
from distad.ops.basic import zero_scalar
from distad.ops.broadcast import LATER, Dims, reduce_sum
from distad.types.array_type import ArrayType
from distad.types.inference import STRUCTURAL, Linearity, show

PaddingConfig = tuple[tuple[int, int, int], ...]


# ---- slice

def sliced_shape(x: ArrayType, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None) -> Dims:
    """The shape of a slice; checks the bounds."""
    step = strides or (1,) * x.ndim
    if not len(start_indices) == len(limit_indices) == len(step) == x.ndim:
        raise TypeError(f"slice: {start_indices}, {limit_indices}, {step} must have an entry for each dimension of {x}")
    for d, (a, b, s) in enumerate(zip(start_indices, limit_indices, step, strict=True)):
        if not (0 <= a <= b <= x.shape[d] and s > 0):
            raise TypeError(f"slice: {a}:{b}:{s} is out of bounds for dimension {d} of {x}")
    return tuple(-(-(b - a) // s) for a, b, s in zip(start_indices, limit_indices, step, strict=True))


def slices_within_blocks(size: int, start: int, limit: int, stride: int) -> bool:
    """Whether a slice keeps each index, or one of every `stride` indices at the same place of each run."""
    return start < stride and -(-(limit - start) // stride) * stride == size if size else True


def _slice_labels(x: ArrayType, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None):
    step = strides or (1,) * x.ndim
    labels = [d if slices_within_blocks(*args) else None
              for d, args in enumerate(zip(x.shape, start_indices, limit_indices, step, strict=True))]
    return signature('slice', [labels], [labels], linearity=STRUCTURAL)


def _slice_impl(x, *, out, start_indices, limit_indices, strides):
    step = strides or (1,) * x.ndim
    return x[tuple(slice(a, None if axes else b, s)
                   for axes, a, b, s in zip(out.type.partitions, start_indices, limit_indices, step, strict=True))]


def _slice_transpose(ct, x, *, start_indices, limit_indices, strides):
    step = strides or (1,) * x.type.ndim
    config = tuple(
        (a, n - a - ((b - a - 1) // s * s + 1 if b > a else 0), s - 1)
        for a, b, s, n in zip(start_indices, limit_indices, step, x.type.shape, strict=True))
    return pad(ct, zero_scalar(typeof(ct)), padding_config=config)


slice_p = Primitive(
    'slice',
    type=by_labels(_slice_labels, lambda x, **params: (sliced_shape(x, **params), x.dtype)),
    labels=_slice_labels,
    impl=_slice_impl,
    jvp=BY_LINEARITY,
    transpose=(_slice_transpose,),
    batch=LATER,
    linearity=STRUCTURAL)


# ---- pad
# The padding value is an operand like the other: the op is linear in both together. So a number cannot slip into every
# summand of an unreduced value; what pads one is a zero that is unreduced itself.

PAD = Linearity(groups=((0, 1),), moves=True)


def padded_shape(x: ArrayType, value: ArrayType, *, padding_config: PaddingConfig) -> Dims:
    """The shape of a padded array; checks the operands."""
    if value.ndim or value.dtype != x.dtype or len(padding_config) != x.ndim or any(inner < 0 for *_, inner in padding_config):
        raise TypeError(f"pad takes a padding value of rank 0 and of the array's dtype, and a (low, high, interior) triple for "
                        f"each dimension, got {show((x, value))} and {padding_config}")
    sizes = tuple(n + low + high + max(n - 1, 0) * inner for n, (low, high, inner) in zip(x.shape, padding_config, strict=True))
    if any(n < 0 for n in sizes):
        raise ValueError(f"pad: {padding_config} takes more from {x} than there is")
    return sizes


def pads_within_blocks(size: int, low: int, high: int, interior: int) -> bool:
    """Whether each index becomes one run of the result: the inverse of a slice within blocks."""
    return low == high == 0 and interior == 0 or size > 0 and low >= 0 and high >= 0 and low + high == interior


def _pad_labels(x: ArrayType, value: ArrayType, *, padding_config: PaddingConfig):
    labels = [d if pads_within_blocks(n, *c) else None for d, (n, c) in enumerate(zip(x.shape, padding_config, strict=True))]
    return signature('pad', [labels, ()], [labels], linearity=PAD)


def _pad_impl(x, value, *, out, padding_config):
    y = np.full(out.shape, value, out.dtype)
    to, of = [], []
    for d, (low, _, inner) in enumerate(padding_config):
        step = inner + 1
        first = -(low // step) if low < 0 else 0                         # what is cut off at the low end ...
        last = min(x.shape[d], (out.shape[d] - 1 - low) // step + 1)     # ... and at the high end
        last = max(last, first)
        begin = low + first * step
        of.append(slice(first, last))
        to.append(slice(begin, begin + (last - first - 1) * step + 1, step) if last > first else slice(0, 0))
    y[tuple(to)] = x[tuple(of)]
    return y


def _pad_transpose(ct, x, value, *, padding_config):
    n = typeof(x).ndim
    # zeros where negative padding cut off, then the slice of what was put in
    restored = tuple((max(-low, 0), max(-high, 0), 0) for low, high, _ in padding_config)
    whole = pad(ct, zero_scalar(typeof(ct)), padding_config=restored) if any(r != (0, 0, 0) for r in restored) else ct
    starts = tuple(max(low, 0) for low, _, _ in padding_config)
    limits = tuple(size - max(high, 0) for size, (_, high, _) in zip(whole.shape, padding_config, strict=True))
    steps = tuple(inner + 1 for *_, inner in padding_config)
    inside = slice_p(whole, start_indices=starts, limit_indices=limits, strides=steps)
    ct_value = None
    if value.__class__ is Linear:
        every = tuple(range(n))
        ct_value = sub(reduce_sum(ct, axes=every), reduce_sum(inside, axes=every))
    return [inside if x.__class__ is Linear else None, ct_value]


pad = Primitive(
    'pad',
    type=by_labels(_pad_labels, lambda x, value, **params: (padded_shape(x, value, **params), x.dtype)),
    labels=_pad_labels,
    impl=_pad_impl,
    jvp=BY_LINEARITY,
    transpose=_pad_transpose,
    batch=LATER,
    linearity=PAD)
