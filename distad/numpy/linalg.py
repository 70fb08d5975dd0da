"""The names of numpy.linalg: norms, products, and with `distad.numpy.factors` solves, determinants and factors of matrices."""

from collections.abc import Sequence

import numpy as np

from distad.core.value import typeof
from distad.lax.dims import dims_of
from distad.lax.kind import kindly
from distad.numpy import factors, linear
from distad.numpy.einsum import einsum
from distad.numpy.factors import *  # noqa: F403
from distad.numpy.promotion import converted, inexact
from distad.numpy.reductions import count_nonzero, max, min, sum
from distad.ops import arithmetic, powers
from distad.ops.complex import abs as abs_p
from distad.ops.complex import conj, real
from distad.ops.elementary import pow as pow_p
from distad.ops.makers import scalar
from distad.ops.shape import squeeze

__all__ = [*factors.__all__, 'matmul', 'matrix_norm', 'multi_dot', 'norm', 'outer', 'tensordot', 'vecdot', 'vector_norm']

matmul, outer, tensordot, vecdot = linear.matmul, linear.outer, linear.tensordot, linear.vecdot


def norm(x, ord: int | float | str | None = None, axis: int | tuple[int, ...] | None = None, keepdims: bool = False):
    """Norm of vectors or matrices.

    Args:
      x: [..., n@X, ...], any dtype. axis: one dimension for vectors, two for matrices, None for all.
      ord: for vectors a number or an infinity (2 unless given), for matrices 'fro' (unless given), 1, -1, inf or -inf.
    Returns: the other dimensions, split as they were.
    Communication: one all-reduce of the result where a dimension that goes is split (two for ord = 1, -1, inf, -inf of matrices
      split in both dimensions).
    Raises: ShardingTypeError for an unreduced array.

    >>> norm(np.float32([3, 4]))
    Array(5., dtype=float32)
    """
    x = inexact(x, 'norm')
    dims = tuple(range(x.ndim)) if axis is None else dims_of('norm', axis, x.ndim)
    if ord is None:
        return vector_norm(x, axis=dims, keepdims=keepdims)
    if len(dims) == 1:
        return vector_norm(x, axis=dims, keepdims=keepdims, ord=ord)
    if len(dims) != 2:
        raise ValueError(f"norm: axis names one dimension or two, got {dims} of {typeof(x)}")
    return _matrix_norm(x, dims, ord, keepdims)


def vector_norm(x, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: int | float | str = 2):
    """Norm of vectors: (sum of |x|^ord)^(1/ord); the largest |x| for inf, the least for -inf, the number of non-zeros for 0.

    Args: as `norm`; several dimensions of `axis` count as one.
    Communication: one all-reduce of the result where a dimension that goes is split.

    >>> vector_norm(np.float32([3, -4]), ord=1)
    Array(7., dtype=float32)
    """
    x = inexact(x, 'vector_norm')
    if isinstance(ord, str):
        raise ValueError(f"vector_norm: ord is a number, got {ord!r}")
    if ord == 2:
        squares = kindly(real, kindly(arithmetic.mul, x, kindly(conj, x))) if x.dtype.kind == 'c' else kindly(powers.square, x)
        return kindly(powers.sqrt, sum(squares, axis, keepdims=keepdims))
    size = kindly(abs_p, x)
    if ord in (np.inf, -np.inf):
        return (max if ord > 0 else min)(size, axis, keepdims=keepdims)
    if ord == 0:
        return converted(count_nonzero(size, axis, keepdims=keepdims), size.dtype, False)
    if ord == 1:
        return sum(size, axis, keepdims=keepdims)
    total = sum(kindly(pow_p, size, scalar(ord, size)), axis, keepdims=keepdims)
    return kindly(pow_p, total, scalar(1 / ord, total))


def matrix_norm(x, /, *, keepdims: bool = False, ord: int | float | str = 'fro'):
    """Norm of the matrices in the last two dimensions. All else as `norm`.

    >>> matrix_norm(np.float32([[3, 4]]))
    Array(5., dtype=float32)
    """
    x = inexact(x, 'matrix_norm')
    return _matrix_norm(x, dims_of('matrix_norm', (-2, -1), x.ndim), ord, keepdims)


def _matrix_norm(x, dims: tuple[int, ...], ord, keepdims: bool):
    if ord == 'fro':
        return vector_norm(x, axis=dims, keepdims=keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise NotImplementedError(f"norm of matrices takes ord = 'fro', 1, -1, inf, -inf, got {ord!r}: the others need "
                                  "singular values")
    rows, columns = dims if abs(ord) == 1 else dims[::-1]
    totals = sum(kindly(abs_p, x), rows, keepdims=True)
    y = (max if ord > 0 else min)(totals, columns, keepdims=True)
    return y if keepdims else squeeze(y, dimensions=dims)


def multi_dot(arrays: Sequence, *, precision=None):
    """The product of several matrices, in the cheapest order.

    Args:
      arrays: matrices [k0, k1], [k1, k2], ...; the first and the last may be vectors.
    All else as `matmul`.

    >>> multi_dot([np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), np.ones(4, np.float32)])
    Array([12., 12.], dtype=float32)
    """
    names = 'abcdefghijklmnopqrstuvwxyz'
    if not 2 <= len(arrays) < len(names):
        raise ValueError(f"multi_dot takes two arrays or more, got {len(arrays)}")
    shapes = [typeof(x).ndim for x in arrays]
    if any(n != 2 for n in shapes[1:-1]) or not all(n in (1, 2) for n in shapes):
        raise ValueError(f"multi_dot takes matrices (the first and the last may be vectors), got arrays of {shapes} dimensions")
    labels = [names[i:i + 2] for i in range(len(arrays))]
    if shapes[0] == 1:
        labels[0] = labels[0][1]
    if shapes[-1] == 1:
        labels[-1] = labels[-1][0]
    ends = (labels[0][0] if shapes[0] == 2 else '') + (labels[-1][1] if shapes[-1] == 2 else '')
    return einsum(f"{','.join(labels)}->{ends}", *arrays, optimize='auto')
