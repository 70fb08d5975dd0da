"""The names of numpy.linalg: norms, products, and with `distad.numpy.factors` solves, determinants and factors of matrices."""

import math
from collections.abc import Sequence

import numpy as np

from distad.core.value import typeof
from distad.lax.dims import dims_of
from distad.lax.kind import kindly
from distad.numpy import diagonals, factors, linear, shapes
from distad.numpy.einsum import einsum
from distad.numpy.factors import *  # noqa: F403
from distad.numpy.indexing import getitem
from distad.numpy.promotion import converted, inexact
from distad.numpy.reductions import count_nonzero, max, min, sum
from distad.numpy.shapes import expand_dims, moveaxis
from distad.ops import arithmetic, powers
from distad.ops.complex import abs as abs_p
from distad.ops.complex import conj, real
from distad.ops.elementary import pow as pow_p
from distad.ops.makers import scalar
from distad.ops.shape import squeeze
from distad.source import bounded

__all__ = [*factors.__all__, 'cond', 'cross', 'diagonal', 'matmul', 'matrix_norm', 'matrix_transpose', 'multi_dot', 'norm', 'outer',
           'tensordot', 'tensorinv', 'tensorsolve', 'trace', 'vecdot', 'vector_norm']

matmul, outer, tensordot, vecdot, cross = linear.matmul, linear.outer, linear.tensordot, linear.vecdot, linear.cross


def norm(x, ord: int | float | str | None = None, axis: int | tuple[int, ...] | None = None, keepdims: bool = False):
    """Norm of vectors or matrices.

    Args:
      x: [..., n@X, ...], any dtype. axis: one dimension for vectors, two for matrices, None for all.
      ord: for vectors a number or an infinity (2 unless given), for matrices 'fro' (unless given), 1, -1, inf or -inf, and by
        singular values 2, -2 and 'nuc'.
    Returns: the other dimensions, split as they were.
    Communication: one all-reduce of the result where a dimension that goes is split (two for ord = 1, -1, inf, -inf of matrices
      split in both dimensions).
    Raises: ShardingTypeError for an unreduced array, and for singular values of split matrices.

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
    if ord in (2, -2, 'nuc'):
        s = factors.svdvals(moveaxis(x, dims, (-2, -1)))
        y = sum(s, -1) if ord == 'nuc' else getitem(s, (..., 0 if ord == 2 else -1))
        return expand_dims(y, dims) if keepdims else y
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError(f"norm of matrices takes ord = 'fro', 'nuc', 1, -1, 2, -2, inf, -inf, got {ord!r}")
    rows, columns = dims if abs(ord) == 1 else dims[::-1]
    totals = sum(kindly(abs_p, x), rows, keepdims=True)
    y = (max if ord > 0 else min)(totals, columns, keepdims=True)
    return y if keepdims else squeeze(y, dimensions=dims)


def cond(x, p: int | float | str | None = None):
    """How much solving with a matrix enlarges errors: its norm times that of its inverse.

    Args:
      x: [..., m, n], square unless p is None, 2 or -2. p: the norm, as `norm` has it; None and 2 take the greatest singular value
        over the least, -2 the inverse of that.
    Returns: [...], split as x. Communication: none. Raises: ShardingTypeError for split matrices.

    >>> cond(np.float32([[2, 0], [0, 1]]))
    Array(2., dtype=float32)
    """
    x = inexact(x, 'cond')
    if p in (None, 2, -2):
        s = factors.svdvals(x)
        greatest, least = getitem(s, (..., 0)), getitem(s, (..., -1))
        return least / greatest if p == -2 else greatest / least
    return matrix_norm(x, ord=p) * matrix_norm(factors.inv(x), ord=p)


def matrix_transpose(x, /):
    """Matrices with rows and columns exchanged: the last two dimensions.

    >>> matrix_transpose(np.float32([[1, 2]]))
    Array([[1.],
           [2.]], dtype=float32)
    """
    return shapes.matrix_transpose(x)


def diagonal(x, /, *, offset: int = 0):
    """The diagonals of the matrices in the last two dimensions. See `jnp.diagonal`.

    >>> diagonal(np.float32([[1, 2], [3, 4]]))
    Array([1., 4.], dtype=float32)
    """
    return diagonals.diagonal(x, offset, -2, -1)


def trace(x, /, *, offset: int = 0, dtype=None):
    """The sums of the diagonals of the matrices in the last two dimensions. See `jnp.trace`.

    >>> trace(np.float32([[1, 2], [3, 4]]))
    Array(5., dtype=float32)
    """
    return diagonals.trace(x, offset, -2, -1, dtype)


def tensorsolve(a, b, axes: tuple[int, ...] | None = None):
    """The x with tensordot(a, x, x.ndim) = b.

    Args:
      a: [... of b, ... of x], as many elements as a square matrix; b: [...]. axes: dimensions of a that are put last first.
    All else as `solve`.

    >>> tensorsolve(np.eye(2, dtype=np.float32), np.ones(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    a, b = inexact(a, 'tensorsolve'), inexact(b, 'tensorsolve')
    if axes is not None:
        a = moveaxis(a, axes, tuple(range(-len(axes), 0)))
    rest = a.shape[b.ndim:]
    if a.shape[:b.ndim] != b.shape or math.prod(rest) != b.size:
        raise ValueError(f"tensorsolve: sizes do not go together, got {typeof(a)} and {typeof(b)}")
    return shapes.reshape(factors.solve(shapes.reshape(a, (b.size, b.size)), shapes.ravel(b)), rest)


def tensorinv(a, ind: int = 2):
    """The inverse of tensordot with a: tensordot(tensorinv(a), tensordot(a, x)) = x.

    Args: a: [..., ...], of which the first `ind` dimensions have as many elements as the others. All else as `inv`.

    >>> tensorinv(2 * np.eye(2, dtype=np.float32), 1)
    Array([[0.5, 0. ],
           [0. , 0.5]], dtype=float32)
    """
    a = inexact(a, 'tensorinv')
    one, other = a.shape[:ind], a.shape[ind:]
    if ind < 1 or math.prod(one) != math.prod(other):
        raise ValueError(f"tensorinv: the first {ind} dimensions of {typeof(a)} have not as many elements as the others")
    return shapes.reshape(factors.inv(shapes.reshape(a, (math.prod(one), -1))), (*other, *one))


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


bounded(globals(), __all__)
