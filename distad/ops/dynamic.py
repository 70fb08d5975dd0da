"""dynamic_slice and dynamic_update_slice: windows whose corner is known only when they run. They are adjoint to one another.

The corner is moved inside so that the window fits. A dimension that is taken whole may be split; others have to be whole.
"""

import numpy as np

from distad.core.batching import inserted
from distad.core.primitive import BY_LINEARITY, Primitive, by_labels, signature
from distad.core.value import Linear, typeof
from distad.ops.basic import zeros_of
from distad.ops.broadcast import expand_dims
from distad.ops.convert import convert_element_type
from distad.ops.gather import gather, scatter
from distad.ops.shape import concatenate
from distad.ops.windows import Dims, Windows
from distad.types.array_type import ArrayType
from distad.types.inference import LINEAR_IN_FIRST, Linearity, show

INDEX = np.dtype(np.int32)


def _corner(starts, x: np.ndarray, sizes: Dims) -> list[int]:
    return [min(max(int(s), 0), n - size) for s, n, size in zip(starts, x.shape, sizes, strict=True)]


def _check(name: str, x: ArrayType, sizes: Dims, starts: tuple[ArrayType, ...]) -> None:
    if len(sizes) != x.ndim or any(not 0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)):
        raise TypeError(f"{name}: a window of sizes {sizes} does not fit in {x}")
    if len(starts) != x.ndim or any(s.ndim or s.dtype.kind not in 'iu' for s in starts):
        raise TypeError(f"{name} takes an integer of rank 0 for each dimension of {x}, got {show(starts)}")


def _slice_labels(x: ArrayType, *starts: ArrayType, slice_sizes: Dims):
    labels = [d if slice_sizes[d] == x.shape[d] else None for d in range(x.ndim)]
    return signature('dynamic_slice', [labels, *([()] * len(starts))], [labels], linearity=LINEAR_IN_FIRST)


def _slice_shape(x: ArrayType, *starts: ArrayType, slice_sizes: Dims):
    _check('dynamic_slice', x, slice_sizes, starts)
    return slice_sizes, x.dtype


def _slice_impl(x, *starts, out, slice_sizes):
    at = _corner(starts, x, out.shape)
    return x[tuple(slice(a, a + n) for a, n in zip(at, out.shape, strict=True))]


def _cut(shape: Dims, sizes: Dims) -> Dims:
    """The dimensions along which it matters where a window starts."""
    return tuple(d for d, (n, size) in enumerate(zip(shape, sizes, strict=True)) if n != size)


def _windows(rank: int, cut: Dims) -> Windows:
    """Windows that keep all dimensions, at one place."""
    return Windows(offset_dims=tuple(range(rank)), collapsed_slice_dims=(), start_index_map=cut)


def _corners(axis, starts, dims):
    """The corners of a batch as index vectors: integers [batch, number of starts]."""
    whole = [expand_dims(axis.whole(s, d), (1,)) for s, d in zip(starts, dims, strict=True)]
    same = [convert_element_type(s, new_dtype=INDEX, weak_type=False) if typeof(s).dtype != INDEX else s for s in whole]
    return concatenate(*same, dimension=1)


def _slice_batch(axis, values, dims, *, slice_sizes: Dims):
    (x, *starts), (d, *of_starts) = values, dims
    cut = _cut(axis.hidden(typeof(x), d).shape, slice_sizes)
    if all(of_starts[i] is None for i in cut):
        starts = [s if i in cut else INDEX.type(0) for i, s in enumerate(starts)]
        if d is not None:
            starts, slice_sizes = inserted(starts, d, INDEX.type(0)), inserted(slice_sizes, d, axis.size)
        return dynamic_slice(x, *starts, slice_sizes=slice_sizes), d
    indices = _corners(axis, [starts[i] for i in cut], [of_starts[i] for i in cut])
    return gather.batch(axis, (x, indices), (d, 0), windows=_windows(len(starts), cut), slice_sizes=slice_sizes, mode='clip',
                        fill=typeof(x).dtype.type(0))


dynamic_slice = Primitive(
    'dynamic_slice',
    type=by_labels(_slice_labels, _slice_shape),
    labels=_slice_labels,
    impl=_slice_impl,
    jvp=BY_LINEARITY,
    transpose=lambda ct, x, *starts, slice_sizes: [dynamic_update_slice(zeros_of(x.type.dual()), ct, *starts),
                                                   *([None] * len(starts))],
    batch=_slice_batch,
    linearity=LINEAR_IN_FIRST)


UPDATE = Linearity(groups=((0, 1),))


def _update_labels(x: ArrayType, update: ArrayType, *starts: ArrayType):
    labels = [d if update.shape[d] == x.shape[d] else None for d in range(x.ndim)]
    return signature('dynamic_update_slice', [labels, labels, *([()] * len(starts))], [labels], linearity=UPDATE)


def _update_shape(x: ArrayType, update: ArrayType, *starts: ArrayType):
    if update.ndim != x.ndim or update.dtype != x.dtype:
        raise TypeError(f"dynamic_update_slice takes an update of the rank and dtype of its operand, got {show((x, update))}")
    _check('dynamic_update_slice', x, update.shape, starts)
    return x.shape, x.dtype


def _update_impl(x, update, *starts, out):
    at = _corner(starts, x, update.shape)
    y = np.array(x)
    y[tuple(slice(a, a + n) for a, n in zip(at, update.shape, strict=True))] = update
    return y


def _update_transpose(ct, x, update, *starts):
    u = typeof(update)
    return [dynamic_update_slice(ct, zeros_of(u.dual()), *starts) if x.__class__ is Linear else None,
            dynamic_slice(ct, *starts, slice_sizes=u.shape) if update.__class__ is Linear else None, *([None] * len(starts))]


def _update_batch(axis, values, dims):
    (x, update, *starts), (d, of_update, *of_starts) = values, dims
    sizes = axis.hidden(typeof(update), of_update).shape
    cut = _cut(axis.hidden(typeof(x), d).shape, sizes)
    if all(of_starts[i] is None for i in cut):
        starts = [s if i in cut else INDEX.type(0) for i, s in enumerate(starts)]
        return dynamic_update_slice(axis.whole(x, d), axis.whole(update, of_update), INDEX.type(0), *starts), 0
    corners = _corners(axis, [starts[i] for i in cut], [of_starts[i] for i in cut])
    return scatter.batch(axis, (x, corners, update), (d, 0, of_update), windows=_windows(len(starts), cut), slice_sizes=sizes,
                         mode='clip')


dynamic_update_slice = Primitive(
    'dynamic_update_slice',
    type=by_labels(_update_labels, _update_shape),
    labels=_update_labels,
    impl=_update_impl,
    jvp=BY_LINEARITY,
    transpose=_update_transpose,
    batch=_update_batch,
    linearity=UPDATE)
