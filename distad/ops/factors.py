"""Factors of matrices: triangles, orthonormal columns, eigenvectors, singular vectors; each with its derivative.

Types, and the words that rules are written in, are those of `distad.ops.linalg`. Where factors are not unique the derivative is that of
the choice in which they turn least: eigenvectors and left singular vectors keep their phase.
"""

import numpy as np

from distad.core.batching import leading
from distad.core.primitive import NoRule, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.late import Late
from distad.ops.arithmetic import div, mul, sub
from distad.ops.basic import add_any
from distad.ops.broadcast import expand_dims, reduce_sum
from distad.ops.compare import eq, select_n
from distad.ops.complex import conj, real
from distad.ops.gather import gather
from distad.ops.linalg import (
    adjoint,
    in_columns,
    in_dtype_of,
    of_square,
    product,
    real_dtype,
    real_part,
    several,
    solve,
    triangular_solve,
    turned,
    weighed,
)
from distad.ops.makers import scalar
from distad.ops.shape import concatenate, split
from distad.ops.windows import Windows
from distad.types import dtypes
from distad.types.array_type import ArrayType

linalg = Late('scipy.linalg')

INDEX = np.dtype(np.int32)


def in_rows(w):
    """[..., n] as [..., n, 1]."""
    return expand_dims(w, (typeof(w).ndim,))


def inverse_gaps(w):
    """1 / (w[j] - w[i]) at [i, j]; 0 where they are equal, as they are on the diagonal."""
    gap = sub(in_columns(w), in_rows(w))
    same = eq(gap, scalar(0, gap))
    return select_n(same, div(scalar(1, gap), select_n(same, gap, scalar(1, gap))), scalar(0, gap))


def hermitian(t):
    """The change of a Hermitian matrix of which the lower triangle counts."""
    half = weighed(t, below=1.0, diagonal=0.5, above=0.0)
    return add_any(half, adjoint(half))


def _cholesky_tangent(t, y, x):
    left = triangular_solve(y, hermitian(t), transposed=False, lower=True, unit_diagonal=False)
    both = adjoint(triangular_solve(y, adjoint(left), transposed=False, lower=True, unit_diagonal=False))
    return product(y, weighed(both, below=1.0, diagonal=0.5, above=0.0))


cholesky = of_square('cholesky', np.linalg.cholesky, 2, jvp=_cholesky_tangent)


def _qr_tangents(t, ys, x, *, full: bool):
    q, r = ys
    m, n = typeof(x).shape[-2:]
    if m < n or full and m != n:
        raise NotImplementedError(f"qr of {typeof(x)} has no derivative, for it has more columns than rows, or its q is square. Use "
                                  "mode='reduced', on matrices with as many rows as columns or more.")
    change = turned(triangular_solve(r, turned(t), transposed=True, lower=False, unit_diagonal=False))         # t r^-1
    inside = product(adjoint(q), change)
    low = weighed(inside, below=1.0, diagonal=0.0, above=0.0)
    turn = sub(low, adjoint(low))
    if typeof(x).dtype.kind == 'c':
        diagonal = weighed(inside, below=0.0, diagonal=1.0, above=0.0)
        turn = add_any(turn, sub(diagonal, in_dtype_of(real(diagonal), diagonal)))
    rest = sub(inside, turn)
    return [sub(change, product(q, rest)), product(rest, r)]


def _qr_shapes(x: ArrayType, *, full: bool):
    m, n = x.shape[-2:]
    k = m if full else min(m, n)
    return [((m, k), x.dtype), ((k, n), x.dtype)]


qr = several('qr', lambda x, *, full: tuple(np.linalg.qr(x, 'complete' if full else 'reduced')), _qr_shapes, (2, 2),
              jvp=_qr_tangents)


def _eigh_tangents(t, ys, x):
    w, v = ys
    moved = product(hermitian(t), v)
    change = real_part(reduce_sum(mul(conj(v) if typeof(v).dtype.kind == 'c' else v, moved), axes=(typeof(v).ndim - 2,)))
    return [change, product(v, mul(in_dtype_of(inverse_gaps(w), v), product(adjoint(v), moved)))]


eigh = several('eigh', lambda x: tuple(np.linalg.eigh(x)), lambda x: [(x.shape[-1:], real_dtype(x)), (x.shape[-2:], x.dtype)],
                (1, 2), jvp=_eigh_tangents, square=True)


def _svd_tangents(t, ys, x, *, full: bool):
    u, s, vh = ys
    m, n = typeof(x).shape[-2:]
    if full and m != n:
        raise NotImplementedError(f"svd of {typeof(x)} with square factors has no derivative. Use full_matrices=False.")
    v = adjoint(vh)
    moved = product(t, v)
    inside = product(adjoint(u), moved)
    wide, tall = in_dtype_of(in_columns(s), x), in_dtype_of(in_rows(s), x)
    columns, rows = mul(inside, wide), mul(inside, tall)
    gaps = in_dtype_of(inverse_gaps(mul(s, s)), x)
    turn = mul(gaps, add_any(columns, adjoint(columns)))
    if typeof(x).dtype.kind == 'c':                         # the phases of u and v change together: given to u
        diagonal = weighed(inside, below=0.0, diagonal=1.0, above=0.0)
        turn = add_any(turn, div(sub(diagonal, in_dtype_of(real(diagonal), diagonal)), wide))
    du = product(u, turn)
    dv = product(v, mul(gaps, add_any(rows, adjoint(rows))))
    if m > n:
        du = add_any(du, div(sub(moved, product(u, inside)), wide))
    if n > m:
        back = product(adjoint(t), u)
        dv = add_any(dv, div(sub(back, product(v, product(vh, back))), wide))
    change = weighed(inside, below=0.0, diagonal=1.0, above=0.0)
    return [du, real_part(reduce_sum(change, axes=(typeof(x).ndim - 2,))), adjoint(dv)]


def _svd_shapes(x: ArrayType, *, full: bool):
    m, n = x.shape[-2:]
    k = min(m, n)
    return [((m, m if full else k), x.dtype), ((k,), real_dtype(x)), ((n if full else k, n), x.dtype)]


svd = several('svd', lambda x, *, full: tuple(np.linalg.svd(x, full_matrices=full)), _svd_shapes, (2, 1, 2), jvp=_svd_tangents)


# ---- lu: rows exchanged, a lower triangle with ones on the diagonal (which are not kept), and an upper one

def _lu_impl(x):
    getrf, = linalg.get_lapack_funcs(('getrf',), dtype=x.dtype)
    m, k = x.shape[-2], min(x.shape[-2:])
    y, pivots = np.empty(x.shape, x.dtype), np.empty((*x.shape[:-2], k), INDEX)
    for i in np.ndindex(*x.shape[:-2]):
        if x.size:
            y[i], pivots[i], _ = getrf(x[i])
    return y, pivots, _permutations(pivots, m)


def _permutations(pivots: np.ndarray, size: int) -> np.ndarray:
    """The order of rows after exchanging row i with row pivots[i], for each i in turn."""
    rows = np.empty((*pivots.shape[:-1], size), INDEX)
    rows[...] = np.arange(size)
    for i in range(pivots.shape[-1]):
        j = pivots[..., i, None]
        here, there = rows[..., i, None].copy(), np.take_along_axis(rows, j, -1)
        np.put_along_axis(rows, j, here, -1)
        rows[..., i, None] = there
    return rows


def _lu_shapes(x: ArrayType):
    m, n = x.shape[-2:]
    return [((m, n), x.dtype), ((min(m, n),), INDEX), ((m,), INDEX)]


def _lu_tangents(t, ys, x):
    """With the tangent between inverse triangles, its lower part is the lower triangle's change, the upper part the upper one's."""
    y, pivots, rows = ys
    m, n = typeof(x).shape[-2:]
    t = in_order(t, rows)
    dims = typeof(x).ndim
    low = weighed(y, below=1.0, diagonal=0.0, above=0.0)
    if m <= n:
        square = first(y, m, dims - 1)
        t = triangular_solve(square, t, transposed=False, lower=True, unit_diagonal=True)
        inside = _over_upper(first(t, m, dims - 1), square)
        below = weighed(inside, below=1.0, diagonal=0.0, above=0.0)
        lower = add_any(below, product(first(low, m, dims - 1), below))
        upper = sub(t, product(below, weighed(y, below=0.0, diagonal=1.0, above=1.0)))
        lower, upper = _enlarged(lower, n, dims - 1), upper
    else:
        square = first(y, n, dims - 2)
        t = _over_upper(t, square)
        inside = triangular_solve(square, first(t, n, dims - 2), transposed=False, lower=True, unit_diagonal=True)
        above = weighed(inside, below=0.0, diagonal=1.0, above=1.0)
        lower = sub(t, product(low, above))
        upper = _enlarged(product(above, weighed(square, below=0.0, diagonal=1.0, above=1.0)), m, dims - 2)
    change = add_any(weighed(lower, below=1.0, diagonal=0.0, above=0.0), weighed(upper, below=0.0, diagonal=1.0, above=1.0))
    return [change, *(Zero(typeof(v).tangent()) for v in (pivots, rows))]


def _over_upper(t, y):
    """t times the inverse of the upper triangle of y."""
    return turned(triangular_solve(y, turned(t), transposed=True, lower=False, unit_diagonal=False))


def first(x, n: int, dim: int):
    """The first n along a dimension."""
    size = typeof(x).shape[dim]
    return x if n == size else split(x, sizes=(n, size - n), axis=dim)[0]


def _enlarged(x, n: int, dim: int):
    """Zeros behind the last of a dimension."""
    size = typeof(x).shape[dim]
    if n == size:
        return x
    zeros = weighed(x, below=0.0, diagonal=0.0, above=0.0)
    while size < n:
        more = min(n - size, typeof(zeros).shape[dim])
        x = concatenate(x, first(zeros, more, dim), dimension=dim)
        size += more
    return x


def in_order(x, rows):
    """Rows of matrices in another order, given for each matrix of a batch."""
    t = typeof(x)
    batch = tuple(range(t.ndim - 2))
    windows = Windows(offset_dims=(t.ndim - 1,), collapsed_slice_dims=(t.ndim - 2,), start_index_map=(t.ndim - 2,),
                      operand_batching_dims=batch, start_indices_batching_dims=batch)
    return gather(x, expand_dims(rows, (t.ndim - 1,)), windows=windows, slice_sizes=(*[1] * (t.ndim - 1), t.shape[-1]),
                  mode='clip', fill=t.dtype.type(0))


lu = several('lu', _lu_impl, _lu_shapes, (2, 1, 1), jvp=_lu_tangents)


def _order_labels(pivots: ArrayType, *, size: int):
    batch = range(pivots.ndim - 1)
    return signature('lu_pivots_to_permutation', [[*batch, None]], [[*batch, None]])


def _order_shape(pivots: ArrayType, *, size: int):
    if pivots.dtype.kind not in 'iu' or not pivots.ndim or pivots.shape[-1] > size:
        raise TypeError(f"lu_pivots_to_permutation takes integers [..., k] with k of at most {size}, got {pivots}")
    return (*pivots.shape[:-1], size), INDEX


lu_pivots_to_permutation = Primitive(
    'lu_pivots_to_permutation',
    type=by_labels(_order_labels, _order_shape),
    labels=_order_labels,
    impl=lambda pivots, *, out, size: _permutations(pivots, size),
    jvp=(None,),
    transpose=NoRule('it is not linear'),
    batch=leading())


# ---- eig: eigenvectors of any square matrix, which are complex. Their phases are not determined, so they have no derivative.

def _eig_impl(x):
    dtype = _complex_dtype(x.dtype)
    w, left, right = np.empty(x.shape[:-1], dtype), np.empty(x.shape, dtype), np.empty(x.shape, dtype)
    for i in np.ndindex(*x.shape[:-2]):
        if x.size:
            w[i], left[i], right[i] = linalg.eig(x[i], left=True, check_finite=False)
    return w, left, right


def _eig_shapes(x: ArrayType):
    dtype = _complex_dtype(x.dtype)
    return [(x.shape[-1:], dtype), (x.shape[-2:], dtype), (x.shape[-2:], dtype)]


def _eig_tangents(t, ys, x):
    raise NotImplementedError(f"eig of {typeof(x)} has no derivative: the phases of eigenvectors are not determined. Use eigvals, or "
                              "eigh for Hermitian matrices.")


def _eigvals_tangent(t, y, x):
    _, _, v = eig(x)
    change = solve(v, product(in_dtype_of(t, v), v), transposed=False)
    return reduce_sum(weighed(change, below=0.0, diagonal=1.0, above=0.0), axes=(typeof(v).ndim - 2,))


def _complex_dtype(dtype: np.dtype) -> np.dtype:
    return dtypes.canonical(np.result_type(dtype, np.complex64))


eig = several('eig', _eig_impl, _eig_shapes, (1, 2, 2), jvp=_eig_tangents, square=True)
eigvals = of_square('eigvals', lambda x: _eig_impl(x)[0], 1, jvp=_eigvals_tangent, dtype=_complex_dtype)
