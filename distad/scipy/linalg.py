"""Factors, solves and functions of matrices under the names of scipy.linalg.

Where matrices lie, and what is communicated (nothing), is as in `distad.lax.linalg`: the last two dimensions are whole, those before
are a batch. `overwrite_a`, `overwrite_b` and `check_finite` are accepted and without effect: arrays are never changed, and what is not
finite gives NaN.
"""

from typing import Any

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value
from distad.lax import linalg
from distad.lax.kind import kindly
from distad.numpy import factors
from distad.numpy.creation import arange, eye, tril, triu, zeros
from distad.numpy.elementwise import conj
from distad.numpy.joining import concatenate
from distad.numpy.linear import matmul
from distad.numpy.promotion import ArrayLike, inexact, inexact_operands
from distad.numpy.shapes import broadcast_to, expand_dims, matrix_transpose, squeeze
from distad.numpy.sorting import argsort
from distad.numpy.taking import take_along_axis
from distad.ops.expm import expm as expm_p
from distad.source import bounded

TRANSPOSES = {0: 0, 1: 1, 2: 2, 'N': 0, 'T': 1, 'C': 2}


def _matrices(name: str, a: ArrayLike, *, square: bool = False) -> Value:
    return linalg.matrices(name, inexact(as_value(a, name), name), square=square)


def _transposing(name: str, trans: int | str) -> int:
    if trans not in TRANSPOSES:
        raise ValueError(f"{name}: trans is 0, 1 or 2 ('N', 'T' or 'C'), got {trans!r}")
    return TRANSPOSES[trans]


# ---- triangles with exchanged rows

def lu(a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, ...]:
    """Triangles L and U and a permutation P with P L U = a.

    a: [..., m, n]. Returns P [..., m, m], L [..., m, k] with ones on its diagonal and U [..., k, n], where k = min(m, n); or P L and U
    if `permute_l`. Differentiable.

        jax.scipy.linalg.lu(jnp.array([[0., 1.], [2., 0.]]))
    """
    x = _matrices('lu', a)
    both, _, rows = linalg.lu(x)
    m, k = x.shape[-2], min(x.shape[-2:])
    lower = tril(both[..., :k], -1) + eye(m, k, dtype=x.dtype)
    upper = triu(both[..., :k, :])
    order = expand_dims(argsort(rows, -1), -1)                     # where each row of a is in L U
    if permute_l:
        return take_along_axis(lower, order, -2), upper
    return (order == arange(m, dtype=order.dtype)).astype(x.dtype), lower, upper


def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, Value]:
    """Both triangles of `lu` in one [..., m, n], and for each row the one that it was exchanged with, for `lu_solve`.

        jax.scipy.linalg.lu_factor(jnp.array([[0., 1.], [2., 0.]]))
    """
    both, pivots, _ = linalg.lu(_matrices('lu_factor', a))
    return both, pivots


def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: int | str = 0, overwrite_b: bool = False,
             check_finite: bool = True) -> Value:
    """The x with a x = b, from what `lu_factor` made of a; trans: 1 for the transpose of a, 2 for its adjoint.

    b: [n] or [..., n, k]. Linear in b.

        jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(2 * jnp.eye(2)), jnp.ones(2))
    """
    both, pivots = lu_and_piv
    x, y, vector = factors.with_right_sides('lu_solve', both, b)
    trans = _transposing('lu_solve', trans)
    rows = linalg.lu_pivots_to_permutation(pivots, x.shape[-1])
    rows = expand_dims(broadcast_to(rows, x.shape[:-1]), -1)
    params = {'left_side': True, 'transpose_a': trans > 0, 'conjugate_a': trans == 2}
    lower, upper = {**params, 'lower': True, 'unit_diagonal': True}, {**params, 'lower': False}
    if trans:
        y = linalg.triangular_solve(x, linalg.triangular_solve(x, y, **upper), **lower)
        y = take_along_axis(y, argsort(rows, -2), -2)
    else:
        y = linalg.triangular_solve(x, linalg.triangular_solve(x, take_along_axis(y, rows, -2), **lower), **upper)
    return squeeze(y, -1) if vector else y


# ---- triangles of positive matrices

def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    """The upper triangle U with U^H U = a, or the `lower` one L with L L^H = a. See `jnp.linalg.cholesky`.

        jax.scipy.linalg.cholesky(jnp.array([[4., 2.], [2., 2.]]))
    """
    return factors.cholesky(a, upper=not lower)


def cho_factor(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, bool]:
    """The triangle of `cholesky`, and which one it is, for `cho_solve`.

        jax.scipy.linalg.cho_factor(jnp.array([[4., 2.], [2., 2.]]))
    """
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    """The x with a x = b, from what `cho_factor` made of a. b: [n] or [..., n, k]. Linear in b.

        jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(2 * jnp.eye(2)), jnp.ones(2))
    """
    triangle, lower = c_and_lower
    first = solve_triangular(triangle, b, 0 if lower else 2, lower)
    return solve_triangular(triangle, first, 2 if lower else 0, lower)


# ---- solves

def solve_triangular(a: ArrayLike, b: ArrayLike, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False,
                     overwrite_b: bool = False, debug: Any = None, check_finite: bool = True) -> Value:
    """The x with a x = b for a triangle a; trans: 1 for its transpose, 2 for its adjoint.

    a: [..., n, n], of which the upper triangle counts, or the `lower` one; b: [n] or [..., n, k]. Batches broadcast. Linear in b.

        jax.scipy.linalg.solve_triangular(2 * jnp.eye(2), jnp.ones(2))
    """
    x, y, vector = factors.with_right_sides('solve_triangular', a, b)
    trans = _transposing('solve_triangular', trans)
    y = linalg.triangular_solve(x, y, left_side=True, lower=lower, transpose_a=trans > 0, conjugate_a=trans == 2,
                                unit_diagonal=unit_diagonal)
    return squeeze(y, -1) if vector else y


def solve(a: ArrayLike, b: ArrayLike, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, debug: bool = False,
          check_finite: bool = True, assume_a: str = 'gen') -> Value:
    """The x with a x = b. See `jnp.linalg.solve`.

    assume_a: 'pos' for Hermitian positive matrices, which are solved by `cholesky`; 'gen', 'sym', 'her' for others.

        jax.scipy.linalg.solve(2 * jnp.eye(2), jnp.ones(2))
    """
    if assume_a not in ('gen', 'sym', 'her', 'pos'):
        raise ValueError(f"solve: assume_a is 'gen', 'sym', 'her' or 'pos', got {assume_a!r}")
    return cho_solve(cho_factor(a, lower), b) if assume_a == 'pos' else factors.solve(a, b)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    """The inverse of square matrices [..., n, n]. See `jnp.linalg.inv`.

        jax.scipy.linalg.inv(2 * jnp.eye(2))
    """
    return factors.inv(a)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    """The determinant of square matrices [..., n, n]. See `jnp.linalg.det`.

        jax.scipy.linalg.det(2 * jnp.eye(2))
    """
    return factors.det(a)


# ---- orthogonal factors

def qr(a: ArrayLike, overwrite_a: bool = False, lwork: Any = None, mode: str = 'full', pivoting: bool = False,
       check_finite: bool = True) -> tuple[Value, ...]:
    """Orthonormal columns Q and an upper triangle R with Q R = a. See `jnp.linalg.qr`.

    mode: 'full' for square Q, 'economic' for k = min(m, n) columns, 'r' for R alone (in a tuple).

        jax.scipy.linalg.qr(jnp.eye(2), mode='economic')
    """
    if mode not in ('full', 'economic', 'r'):
        raise ValueError(f"qr: mode is 'full', 'economic' or 'r', got {mode!r}")
    q, r = linalg.qr(_matrices('qr', a), pivoting=pivoting, full_matrices=mode != 'economic')
    return (r,) if mode == 'r' else (q, r)


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
        lapack_driver: str = 'gesdd') -> Value | tuple[Value, Value, Value]:
    """Singular values and vectors: a = U diag(S) Vh. See `jnp.linalg.svd`.

        jax.scipy.linalg.svd(jnp.ones((2, 3)), compute_uv=False)
    """
    return linalg.svd(_matrices('svd', a), full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(a: ArrayLike, b: None = None, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
         overwrite_b: bool = False, turbo: bool = True, eigvals: None = None, type: int = 1,
         check_finite: bool = True) -> Value | tuple[Value, Value]:
    """Eigenvalues, rising, and eigenvectors of Hermitian matrices, of which one triangle counts. See `jnp.linalg.eigh`.

        jax.scipy.linalg.eigh(jnp.array([[2., 0.], [0., 1.]]), eigvals_only=True)
    """
    if b is not None or eigvals is not None or type != 1:
        raise NotImplementedError('eigh has no second matrix and no choice of eigenvalues (b=None, eigvals=None, type=1). With '
                                  'L = cholesky(b) take eigh of inv(L) a inv(L)^H.')
    v, w = linalg.eigh(_matrices('eigh', a, square=True), lower=lower, symmetrize_input=False)
    return w if eigvals_only else (w, v)


def polar(a: ArrayLike, side: str = 'right', *, method: str = 'svd') -> tuple[Value, Value]:
    """Orthonormal columns U and a Hermitian matrix P with U P = a, or P U = a for the side 'left', by singular values.

        jax.scipy.linalg.polar(jnp.eye(2))
    """
    if side not in ('left', 'right'):
        raise ValueError(f"polar: side is 'left' or 'right', got {side!r}")
    u, s, vh = linalg.svd(_matrices('polar', a), full_matrices=False)
    vectors = matrix_transpose(conj(vh)) if side == 'right' else u
    return matmul(u, vh), matmul(vectors * expand_dims(s, -2), matrix_transpose(conj(vectors)))


# ---- functions of matrices

def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Value:
    """The exponential of square matrices: the sum of A^k / k!.

    A: [..., n, n]. Differentiable any number of times. SciPy computes it; `upper_triangular` and `max_squarings` are accepted and not
    needed.

        jax.scipy.linalg.expm(jnp.zeros((2, 2)))
    """
    return kindly(expm_p, _matrices('expm', A, square=True))


def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Value | tuple[Value, Value]:
    """The exponential of A, if asked for, and its derivative in the direction E, which is linear in E.

    A, E: [..., n, n].

        jax.scipy.linalg.expm_frechet(jnp.zeros((2, 2)), jnp.eye(2), compute_expm=False)
    """
    x, e = (as_value(v, 'expm_frechet') for v in inexact_operands('expm_frechet', A, E))
    derivative = kindly(expm_p, linalg.matrices('expm_frechet', x, square=True), linalg.matrices('expm_frechet', e))
    return (expm(x), derivative) if compute_expm else derivative


# ---- matrices made of others

def block_diag(*arrs: ArrayLike) -> Value:
    """Matrices along the diagonal of a larger one, zeros elsewhere.

    arrs: matrices [m, n], vectors [n] (as rows), numbers.

        jax.scipy.linalg.block_diag(jnp.ones((1, 2)), 3.0)
    """
    xs = [as_value(v, 'block_diag') for v in arrs] or [zeros((1, 0))]
    if any(x.ndim > 2 for x in xs):
        raise ValueError(f"block_diag takes arrays of at most two dimensions, got {', '.join(str(x.type) for x in xs)}")
    xs = [expand_dims(x, tuple(range(2 - x.ndim))) if x.ndim < 2 else x for x in xs]
    width, before, rows = sum(x.shape[1] for x in xs), 0, []
    for x in xs:
        m, n = x.shape
        rows.append(concatenate([zeros((m, before), x.dtype), x, zeros((m, width - before - n), x.dtype)], 1))
        before += n
    return concatenate(rows, 0)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Value:
    """The matrix with constant diagonals that has the first column c and, but for its first element, the first row r.

    c: [m]; r: [n], by default c conjugated. Returns [m, n]. Split vectors are gathered.

        jax.scipy.linalg.toeplitz(jnp.array([1., 2.]))
    """
    column = as_value(c, 'toeplitz')
    row = conj(column) if r is None else as_value(r, 'toeplitz')
    if column.ndim != 1 or row.ndim != 1:
        raise ValueError(f"toeplitz takes vectors, got {column.type} and {row.type}")
    (m,), (n,) = column.shape, row.shape
    line = concatenate([column[::-1], row[1:]])
    return line[np.arange(m - 1, -1, -1)[:, None] + np.arange(n)]


__all__ = ['block_diag', 'cho_factor', 'cho_solve', 'cholesky', 'det', 'eigh', 'expm', 'expm_frechet', 'inv', 'lu', 'lu_factor',
           'lu_solve', 'polar', 'qr', 'solve', 'solve_triangular', 'svd', 'toeplitz']

bounded(globals(), __all__)
