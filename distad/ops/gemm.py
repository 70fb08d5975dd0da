"""The product of two blocks: which NumPy kernel computes it fastest, decided once from shapes and dtypes.

    a dimension free in x or in y, and a sum    GEMM: batch dimensions in front, the others merged into rows, columns and one sum
    no sum                                      multiply, several times faster than a GEMM with k = 1
    batch and sum only                          einsum: one pass, where 1 x k times k x 1 would be a call for each of the batch

BLAS takes transposed and strided operands as they are, so merging dimensions copies only where strides do not allow a view.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from distad.ops import blas

# ((contracting of x, contracting of y), (batch of x, batch of y))
DimensionNumbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]

FEW_ROWS = 128
SMALL = 64                     # below this a batch of transposed right operands is worth a copy


def product(x: Sequence[int], y: Sequence[int], dimension_numbers: DimensionNumbers, operand: np.dtype,
            result: np.dtype) -> Kernel:
    """A function from blocks of shapes x and y and dtype `operand` to their product, of dtype `result`."""
    (cx, cy), (bx, by) = dimension_numbers
    fx = [d for d in range(len(x)) if d not in cx and d not in bx]
    fy = [d for d in range(len(y)) if d not in cy and d not in by]
    if not cx:
        kernel = _outer(x, y, bx, by, fx, fy)
    elif not fx and not fy:
        kernel = _inner(x, y, dimension_numbers)
    else:
        kernel = _gemm(x, y, dimension_numbers, fx, fy)
    work = work_dtype(operand, result)
    if work == operand == result:
        return kernel
    return lambda a, b: kernel(a.astype(work, copy=False), b.astype(work, copy=False)).astype(result, copy=False)


def added(x: Sequence[int], y: Sequence[int], dimension_numbers: DimensionNumbers, dtype: np.dtype) -> Kernel | None:
    """A function `(total, x, y) -> total + product`, as one GEMM; None where a product and a sum are as fast.

    The total is part of the sums that GEMM takes: of more than some 300 products they may differ in the last bit from the sum of
    both. So the array to write into has no say in it: the total is brought there first, if it is not there.
    """
    (cx, cy), (bx, by) = dimension_numbers
    fx = [d for d in range(len(x)) if d not in cx]
    fy = [d for d in range(len(y)) if d not in cy]
    m, n, k = math.prod(x[d] for d in fx), math.prod(y[d] for d in fy), math.prod(x[d] for d in cx)
    if bx or not blas.pays(m, n, k, dtype):
        return None
    left, right, add = _laid(x, [*fx, *cx], (m, k)), _laid(y, [*cy, *fy], (k, n)), blas.adder(m, n, k, dtype)

    def into(total, a, b, out):
        if total.ctypes.data != out.ctypes.data or total.strides != out.strides:
            np.copyto(out, total)
        add(left(a), right(b), out.reshape(m, n))

    def kernel(total, a, b):
        out = np.empty(total.shape, dtype)
        into(total, a, b, out)
        return out
    return _writing(kernel, into)


def work_dtype(operand: np.dtype, result: np.dtype) -> np.dtype:
    """The dtype to multiply in: half types in float32 (BLAS has no other), else what holds operand and result."""
    if operand.itemsize == 2 and operand.kind in 'fV':
        return np.dtype(np.float32)
    return operand if operand == result else np.promote_types(operand, result)


def _gemm(x, y, dimension_numbers: DimensionNumbers, fx: list[int], fy: list[int]) -> Kernel:
    (cx, cy), (bx, by) = dimension_numbers
    batch, m, n = [x[d] for d in bx], [x[d] for d in fx], [y[d] for d in fy]
    k = math.prod(x[d] for d in cx)
    left = _laid(x, [*bx, *fx, *cx], (*batch, math.prod(m), k))
    right = _laid(y, [*by, *cy, *fy], (*batch, k, math.prod(n)))
    shape, flat = (*batch, *m, *n), (*batch, math.prod(m), math.prod(n))
    small = bool(batch) and max(k, math.prod(n)) <= SMALL
    if not batch and left is right is _as_it_is and math.prod(m) > FEW_ROWS:
        return _writing(lambda a, b: np.matmul(a, b), np.matmul)

    def operands(a, b):
        a, b = left(a), right(b)
        if small and b.strides[-1] != b.itemsize and a.strides[-1] == a.itemsize:
            b = np.ascontiguousarray(b)
        return a, b

    few = not batch and math.prod(m) <= FEW_ROWS <= min(k, math.prod(n)) // 2

    def into(a, b, out):
        a, b = operands(a, b)
        if few and b.strides[0] == b.itemsize and a.strides[1] == a.itemsize:
            out.reshape(flat)[...] = np.matmul(b.T, a.T).T                    # OpenBLAS is slow at few rows times a transposed matrix
            return
        np.matmul(a, b, out.reshape(flat))

    return _writing(lambda a, b: np.matmul(*operands(a, b)).reshape(shape), into)


def _writing(kernel: Callable, into: Callable) -> Kernel:
    """A kernel that can also write into a contiguous array: `kernel.into(*blocks, out)`."""
    kernel.into = into
    return kernel


def _laid(shape: Sequence[int], order: list[int], target: tuple[int, ...]) -> Callable:
    """A block with its dimensions in another order, then merged."""
    if order == list(range(len(shape))):
        return _as_it_is if target == tuple(shape) else lambda x: x.reshape(target)
    return lambda x: x.transpose(order).reshape(target)


def _as_it_is(x: np.ndarray) -> np.ndarray:
    return x


def _outer(x, y, bx, by, fx, fy) -> Kernel:
    batch = tuple(x[d] for d in bx)
    left = _laid(x, [*bx, *fx], (*batch, *(x[d] for d in fx), *[1] * len(fy)))
    right = _laid(y, [*by, *fy], (*batch, *[1] * len(fx), *(y[d] for d in fy)))
    return lambda a, b: np.multiply(left(a), right(b))


def _inner(x, y, dimension_numbers: DimensionNumbers) -> Kernel:
    (cx, cy), (bx, by) = dimension_numbers
    of_x = [(*bx, *cx).index(d) for d in range(len(x))]
    of_y = [(*by, *cy).index(d) for d in range(len(y))]
    out = list(range(len(bx)))
    return lambda a, b: np.asarray(np.einsum(a, of_x, b, of_y, out))
