"""slice and pad: taking regular parts of an array, and putting an array into a larger one, are adjoint.

A split dimension can be changed where what each rank needs of it is what it has: when every s-th index is kept and s divides
the blocks, for example, or when the ends are cut off so that the blocks in between stay where they are. Then the ranks cut at
places of their own. All other dimensions that change have to be whole.
"""

import numpy as np

from distad.core.batching import inserted
from distad.core.primitive import BY_LINEARITY, Primitive, by_labels, signature
from distad.core.value import Linear, typeof
from distad.ops.arithmetic import sub
from distad.ops.basic import zero_scalar, zeros
from distad.ops.broadcast import Dims, reduce_sum
from distad.ops.compare import select_n
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


def slices_within_blocks(parts: int, size: int, start: int, limit: int, stride: int) -> bool:
    """Whether the slice of a dimension in so many parts gives each rank indices that it has."""
    count = -(-(limit - start) // stride)
    return parts == 1 or not count % parts and _fits(parts, size // parts, count // parts, start, stride)


def _fits(parts: int, large: int, small: int, start: int, stride: int) -> bool:
    """Whether index i of the smaller blocks is index start + i * stride of the larger ones, on every rank.

    Both bounds are linear in the rank, so it is enough to look at the first and the last.
    """
    return all(r * large <= start + r * small * stride and start + ((r + 1) * small - 1) * stride < (r + 1) * large
               for r in (0, parts - 1)) if small else True


def _start_here(start: int, stride: int, first: int, small: int, large: int) -> int:
    """Where a rank's slice starts in its larger block: `first` is the index of its smaller block in the whole."""
    return start + first * stride - (first // small * large if small else 0)


def _slice_labels(x: ArrayType, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None):
    bounds = zip(x.shape, start_indices, limit_indices, strides or (1,) * x.ndim, strict=True)
    labels = [d if slices_within_blocks(x.mesh.axis_size(x.partitions[d]), *bound) else None for d, bound in enumerate(bounds)]
    return signature('slice', [labels], [labels], linearity=STRUCTURAL)


def _slice_impl(x, *, out, start_indices, limit_indices, strides):
    cuts = []
    for d, (start, stride) in enumerate(zip(start_indices, strides or (1,) * x.ndim, strict=True)):
        a = _start_here(start, stride, out.starts[d], out.shape[d], x.shape[d])
        cuts.append(slice(a, a + max(out.shape[d] - 1, 0) * stride + 1, stride) if out.shape[d] else slice(0, 0))
    return x[tuple(cuts)]


def _slice_transpose(ct, x, *, start_indices, limit_indices, strides):
    step = strides or (1,) * x.type.ndim
    config = tuple(
        (a, n - a - ((b - a - 1) // s * s + 1 if b > a else 0), s - 1)
        for a, b, s, n in zip(start_indices, limit_indices, step, x.type.shape, strict=True))
    return pad(ct, zero_scalar(typeof(ct)), padding_config=config)


def _slice_batch(axis, values, dims, *, start_indices: Dims, limit_indices: Dims, strides: Dims | None):
    (x,), (d,) = values, dims
    return slice_p(x, start_indices=inserted(start_indices, d, 0), limit_indices=inserted(limit_indices, d, axis.size),
                   strides=None if strides is None else inserted(strides, d, 1)), d


slice_p = Primitive(
    'slice',
    type=by_labels(_slice_labels, lambda x, **params: (sliced_shape(x, **params), x.dtype)),
    labels=_slice_labels,
    impl=_slice_impl,
    jvp=BY_LINEARITY,
    transpose=(_slice_transpose,),
    batch=_slice_batch,
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


def pads_within_blocks(parts: int, size: int, low: int, high: int, interior: int) -> bool:
    """Whether padding a dimension in so many parts leaves each rank its indices: the inverse of a slice within blocks."""
    padded = size + low + high + max(size - 1, 0) * interior
    return parts == 1 or not padded % parts and _fits(parts, padded // parts, size // parts, low, interior + 1)


def _pad_labels(x: ArrayType, value: ArrayType, *, padding_config: PaddingConfig):
    labels = [d if pads_within_blocks(x.mesh.axis_size(x.partitions[d]), n, *c) else None
              for d, (n, c) in enumerate(zip(x.shape, padding_config, strict=True))]
    return signature('pad', [labels, ()], [labels], linearity=PAD)


def _pad_impl(x, value, *, out, padding_config):
    y = np.full(out.shape, value, out.dtype)
    to, of = [], []
    for d, (low, _, inner) in enumerate(padding_config):
        step = inner + 1
        if out.starts[d]:
            low = _start_here(low, step, out.starts[d] // out.shape[d] * x.shape[d], x.shape[d], out.shape[d])
        first = -(low // step) if low < 0 else 0                         # what is cut off at the low end ...
        last = min(x.shape[d], (out.shape[d] - 1 - low) // step + 1)     # ... and at the high end
        last = max(last, first)
        begin = low + first * step
        of.append(slice(first, last))
        to.append(slice(begin, begin + (last - first - 1) * step + 1, step) if last > first else slice(0, 0))
    y[tuple(to)] = x[tuple(of)]
    return y


def _pad_transpose(ct, x, value, *, padding_config):
    # zeros where negative padding cut off, then the slice of what was put in
    restored = tuple((max(-low, 0), max(-high, 0), 0) for low, high, _ in padding_config)
    whole = pad(ct, zero_scalar(typeof(ct)), padding_config=restored) if any(r != (0, 0, 0) for r in restored) else ct
    starts = tuple(max(low, 0) for low, _, _ in padding_config)
    limits = tuple(size - max(high, 0) for size, (_, high, _) in zip(whole.shape, padding_config, strict=True))
    steps = tuple(inner + 1 for *_, inner in padding_config)
    inside = slice_p(whole, start_indices=starts, limit_indices=limits, strides=steps)
    ct_value = None
    if value.__class__ is Linear:
        # the difference is taken before the sum, where what is not padding cancels exactly
        padding = sub(ct, pad(inside, zero_scalar(typeof(inside)), padding_config=padding_config))
        ct_value = reduce_sum(padding, axes=tuple(range(typeof(ct).ndim)))
    return [inside if x.__class__ is Linear else None, ct_value]


def _pad_batch(axis, values, dims, *, padding_config: PaddingConfig):
    (x, value), (d, of_value) = values, dims
    if of_value is None:
        return pad(x, value, padding_config=inserted(padding_config, d, (0, 0, 0))), d
    # Each element has a padding of its own: pad with zeros, then choose by what is padding.
    x = axis.whole(x, d)
    t = typeof(x)
    padded = pad(x, zero_scalar(t), padding_config=inserted(padding_config, 0, (0, 0, 0)))
    inside = zeros(type=axis.hidden(t, 0).update(dtype=np.bool_, unreduced=(), kind='sum', weak_type=False))
    padding = axis.front(pad(inside, np.True_, padding_config=padding_config), None)
    return axis.bind(select_n, padding, padded, axis.beside(value, of_value, t.ndim - 1)), 0


pad = Primitive(
    'pad',
    type=by_labels(_pad_labels, lambda x, value, **params: (padded_shape(x, value, **params), x.dtype)),
    labels=_pad_labels,
    impl=_pad_impl,
    jvp=BY_LINEARITY,
    transpose=_pad_transpose,
    batch=_pad_batch,
    linearity=PAD)
