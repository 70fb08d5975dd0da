"""The convolution of two blocks by strided windows and GEMM.

The elements under the windows are copied into a matrix, a part of the images at a time so that it stays in the cache, and each part is
multiplied by the weights. Where that matrix is larger than one of all products of an element with a weight, as where a kernel spreads
few elements out (the transpose of a convolution with strides), the products come first, and are added up where they belong. With one
channel in a group (depthwise) there is nothing to sum but the window: a multiplication for each of its places.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from distad.ops.strided import Along, spaced, windows_of

Shape = tuple[int, ...]
# What multiplies windows [n, g, i, p.., k..]; an array for the result; and where its dimensions n, g, o, p.. are.
Form = tuple[Callable[[np.ndarray], np.ndarray], np.ndarray, Shape]

COLUMNS = 2**22                # bytes of the matrix of windows
WIDE = 64                      # from so many windows of an image on it is a matrix of its own


def kernel(x: Shape, w: Shape, out: Shape, dims: tuple, alongs: Sequence[Along], work: np.dtype,
           result: np.dtype) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function from blocks of these shapes to their convolution; `dims` is an `ops.conv.ConvDims`."""
    if not (all(x) and all(w) and all(out)):
        return lambda a, b: np.zeros(out, result)
    lhs, rhs, of_out = dims
    channels_last = len(x) - 1 in lhs.summed
    of_x, of_w = (*lhs.free, *lhs.shared, *lhs.summed, *lhs.space), (*rhs.shared, *rhs.free, *rhs.summed, *rhs.space)
    shape_of_x = (*(math.prod(x[d] for d in role) for role in (lhs.free, lhs.shared, lhs.summed)), *(x[d] for d in lhs.space))
    shape_of_w = (*(math.prod(w[d] for d in role) for role in (rhs.shared, rhs.free, rhs.summed)), *(w[d] for d in rhs.space))
    order = (*of_out.left, *of_out.shared, *of_out.right, *of_out.space)
    counts, shape, back = tuple(out[d] for d in of_out.space), tuple(out[d] for d in order), tuple(map(int, np.argsort(order)))

    def run(a, b):
        a = a.transpose(of_x).astype(work, copy=False).reshape(shape_of_x)
        b = b.transpose(of_w).astype(work, copy=False).reshape(shape_of_w)
        return convolve(a, b, alongs, counts, channels_last).reshape(shape).transpose(back).astype(result, copy=False)

    return run


def convolve(x: np.ndarray, w: np.ndarray, alongs: Sequence[Along], counts: Shape, channels_last: bool) -> np.ndarray:
    """[n, g, i, s..] with [g, o, i, k..]: [n, g, o, p..], a view of whatever is laid out best."""
    if all(along.stride == 1 for along in alongs) and w.shape[1] * math.prod(x.shape[3:]) < w.shape[2] * math.prod(counts):
        return _products_first(x, w, alongs, counts)
    windows = windows_of(spaced(x, alongs, counts, 0), alongs, counts)
    if windows.shape[2] == 1 and windows.shape[1] > 1:
        return _depthwise(windows, w)
    form = _last if channels_last else _per_image if math.prod(counts) >= WIDE else _merged
    multiply, out, places = form(w, len(x), counts)
    of_image = windows[:1].size * windows.itemsize
    for images, rows in _parts(len(x), counts, of_image):
        part = multiply(windows[images, :, :, rows] if counts else windows[images])
        at = [slice(None)] * out.ndim
        for d, some in zip((places[0], *places[3:4]), (images, rows), strict=False):
            at[d] = some
        out[tuple(at)] = part
    return out.transpose(places)


def _parts(n: int, counts: Shape, size: int) -> Iterator[tuple[slice, slice]]:
    """Slices of images, and where one image is too large of its first dimension, whose windows fit in COLUMNS bytes."""
    several = max(1, COLUMNS // size)
    rows = counts[0] if counts else 1
    few = max(1, min(rows, rows * COLUMNS // size))
    for a, b in product(range(0, n, several), range(0, rows, few)):
        yield slice(a, a + several), slice(b, b + few)


def _last(w: np.ndarray, n: int, counts: Shape) -> Form:
    """Rows are windows: [g, (n p), (k i)] times [g, (k i), o]. The result lies as [n, p, g, o]."""
    g, o, i = w.shape[:3]
    r = len(counts)
    weights = np.ascontiguousarray(w.transpose(0, *range(3, 3 + r), 2, 1)).reshape(g, -1, o)

    def multiply(windows):
        n, _, _, *p = windows.shape[:3 + r]
        rows = windows.transpose(1, 0, *range(3, 3 + 2 * r), 2).reshape(g, -1, weights.shape[1])
        return np.matmul(rows, weights).reshape(g, n, *p, o).transpose(*range(1, 2 + r), 0, 2 + r)

    return multiply, np.empty((n, *counts, g, o), w.dtype), (0, 1 + r, 2 + r, *range(1, 1 + r))


def _per_image(w: np.ndarray, n: int, counts: Shape) -> Form:
    """Columns are windows: for each image [g, o, (i k)] times [n, g, (i k), p]. The result lies as [n, g, o, p]."""
    g, o, _ = w.shape[:3]
    r = len(counts)
    weights = w.reshape(g, o, -1)

    def multiply(windows):
        n, _, _, *p = windows.shape[:3 + r]
        columns = windows.transpose(0, 1, 2, *range(3 + r, 3 + 2 * r), *range(3, 3 + r)).reshape(n, g, weights.shape[2], -1)
        return np.matmul(weights, columns).reshape(n, g, o, *p)

    return multiply, np.empty((n, g, o, *counts), w.dtype), tuple(range(3 + r))


def _merged(w: np.ndarray, n: int, counts: Shape) -> Form:
    """Columns are windows of all images: [g, o, (i k)] times [g, (i k), (n p)]. The result lies as [g, o, n, p]."""
    g, o, _ = w.shape[:3]
    r = len(counts)
    weights = w.reshape(g, o, -1)

    def multiply(windows):
        n, _, _, *p = windows.shape[:3 + r]
        columns = windows.transpose(1, 2, *range(3 + r, 3 + 2 * r), 0, *range(3, 3 + r)).reshape(g, weights.shape[2], -1)
        return np.matmul(weights, columns).reshape(g, o, n, *p)

    return multiply, np.empty((g, o, n, *counts), w.dtype), (2, 0, 1, *range(3, 3 + r))


def _depthwise(windows: np.ndarray, w: np.ndarray) -> np.ndarray:
    y = None
    for at in np.ndindex(w.shape[3:]):
        weight = w[(slice(None), slice(None), 0, *at)]
        term = windows[(..., *at)] * weight.reshape(*weight.shape, *(1,) * len(at))
        y = term if y is None else np.add(y, term, out=y)
    return y


def _products_first(x: np.ndarray, w: np.ndarray, alongs: Sequence[Along], counts: Shape) -> np.ndarray:
    """[g, (o k), i] times [n, g, i, s]; what is of place k in the kernel is then moved by k."""
    n, g, i, *size = x.shape
    o, places = w.shape[1], w.shape[3:]
    weights = np.moveaxis(w, 2, -1).reshape(g, -1, i)
    y = np.zeros((n, g, o, *counts), w.dtype)
    several = max(1, COLUMNS // (weights[..., 0].size * math.prod(size) * w.itemsize))
    for k in range(0, n, several):
        part = x[k:k + several]
        z = np.matmul(weights, part.reshape(len(part), g, i, -1)).reshape(len(part), g, o, *places, *size)
        for at in np.ndindex(*places):
            to, of = zip(*(_moved(*one) for one in zip(alongs, at, size, counts, strict=True)), strict=True)
            y[(slice(k, k + several), slice(None), slice(None), *to)] += z[(slice(None), slice(None), slice(None), *at, *of)]
    return y


def _moved(along: Along, k: int, size: int, count: int) -> tuple[slice, slice]:
    """Where the products with place k of the kernel belong, and which of them there are."""
    step, by = along.base_dilation, along.padding[0] - k * along.window_dilation
    start = max(0, -(by // step))
    stop = max(start, min(size, (count - 1 - by) // step + 1))
    begin = by + start * step
    return slice(begin, begin + (stop - start - 1) * step + 1, step) if stop > start else slice(0, 0), slice(start, stop)
