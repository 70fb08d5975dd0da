"""Factors, solves and determinants of matrices, under the names of numpy.linalg.

Matrices stand in the last two dimensions, which must be whole: a split one is refused, with the reshard that gathers it. Dimensions
before are a batch, of which each rank treats its own matrices, so nothing is ever communicated. Reduced matrices give reduced
results; unreduced ones are refused, but for the right side of a solve, which is linear. What has no result is NaN.
"""

import operator
from typing import NamedTuple

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value
from distad.lax import linalg
from distad.lax.kind import kindly
from distad.lax.shape import broadcast_shapes
from distad.numpy.creation import eye
from distad.numpy.elementwise import conj
from distad.numpy.linear import matmul
from distad.numpy.logic import where
from distad.numpy.promotion import ArrayLike, inexact, promoted
from distad.numpy.reductions import max, sum
from distad.numpy.shapes import broadcast_to, expand_dims, matrix_transpose, squeeze
from distad.ops import factors
from distad.ops import linalg as ops


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Value
    R: Value


class EighResult(NamedTuple):
    """Eigenvalues, rising, and eigenvectors as columns."""

    eigenvalues: Value
    eigenvectors: Value


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, falling, and right singular vectors, conjugated, as rows."""

    U: Value
    S: Value
    Vh: Value


class SlogdetResult(NamedTuple):
    """The sign (or phase) of a determinant and the logarithm of its size."""

    sign: Value
    logabsdet: Value


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Value
    eigenvectors: Value


def _matrices(name: str, a: ArrayLike, *, square: bool = False) -> Value:
    return linalg.matrices(name, inexact(as_value(a, name), name), square=square)


def _adjoint(x: Value) -> Value:
    return matrix_transpose(conj(x) if x.dtype.kind == 'c' else x)


def with_right_sides(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Value, Value, bool]:
    """Matrices and right sides of one dtype and batch; and whether the right side was a vector, which is a column now."""
    x, y = (as_value(v, name) for v in promoted(name, *(inexact(as_value(v, name), name) for v in (a, b))))
    linalg.matrices(name, x, square=True)
    vector = y.ndim == 1
    y = expand_dims(y, 1) if vector else y
    if y.ndim < 2 or y.shape[-2] != x.shape[-1]:
        raise ValueError(f"{name}: sizes do not go together, got {x.type} and {y.type}")
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = (broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, y))
    return x, y, vector


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Value:
    """The lower triangle L with L L^H = a, or `upper` its adjoint.

    a: [..., n, n], Hermitian and positive; else the result is NaN. symmetrize_input: whether (a + a^H)/2 is taken.

        jnp.linalg.cholesky(jnp.array([[4., 2.], [2., 2.]]))
    """
    y = linalg.cholesky(_matrices('cholesky', a, square=True), symmetrize_input=symmetrize_input)
    return _adjoint(y) if upper else y


def solve(a: ArrayLike, b: ArrayLike) -> Value:
    """The x with a x = b; NaN where a is singular.

    a: [..., n, n]; b: [n], or [..., n, k]. Batches broadcast, and are split where one of both is. Linear in b.

        jnp.linalg.solve(2 * jnp.eye(2), jnp.array([2., 4.]))     # 1., 2.
    """
    x, y, vector = with_right_sides('solve', a, b)
    z = kindly(ops.solve, x, y, transposed=False)
    return squeeze(z, -1) if vector else z


def inv(a: ArrayLike) -> Value:
    """The inverse of square matrices [..., n, n]; NaN where there is none.

        jnp.linalg.inv(2 * jnp.eye(2))
    """
    x = _matrices('inv', a, square=True)
    return solve(x, eye(x.shape[-1], dtype=x.dtype))


def det(a: ArrayLike) -> Value:
    """The determinant of square matrices [..., n, n]. It has a gradient where it is not 0.

        jnp.linalg.det(2 * jnp.eye(2))            # 4.
    """
    return kindly(ops.det, _matrices('det', a, square=True))


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign of the determinant of square matrices [..., n, n], and the logarithm of its size.

        jnp.linalg.slogdet(2 * jnp.eye(2))        # 1., 1.386
    """
    return SlogdetResult(*kindly(ops.slogdet, _matrices('slogdet', a, square=True)))


def qr(a: ArrayLike, mode: str = 'reduced') -> QRResult | Value:
    """Orthonormal columns Q and an upper triangle R with Q R = a.

    a: [..., m, n]; mode: 'reduced' for Q [..., m, k] and R [..., k, n] with k = min(m, n), 'complete' for square Q, 'r' for R alone.
    Differentiable for m >= n in reduced mode.

        jnp.linalg.qr(jnp.eye(2))
    """
    if mode not in ('reduced', 'complete', 'r'):
        raise ValueError(f"qr: mode is 'reduced', 'complete' or 'r', got {mode!r}")
    q, r = linalg.qr(_matrices('qr', a), full_matrices=mode == 'complete')
    return r if mode == 'r' else QRResult(q, r)


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> SVDResult | Value:
    """Singular values and vectors: a = U diag(S) Vh.

    a: [..., m, n]; full_matrices: whether U [..., m, m] and Vh [..., n, n] are square, or have k = min(m, n) columns and rows;
    compute_uv: False gives S [..., k] alone; hermitian: whether a is Hermitian, which is not needed. Differentiable if not full or
    m = n, where singular values differ.

        jnp.linalg.svd(jnp.ones((2, 3)), compute_uv=False)
    """
    found = linalg.svd(_matrices('svd', a), full_matrices=full_matrices, compute_uv=compute_uv)
    return SVDResult(*found) if compute_uv else found


def svdvals(x: ArrayLike, /) -> Value:
    """Singular values, falling. See `svd`.

        jnp.linalg.svdvals(jnp.ones((2, 3)))
    """
    return svd(x, compute_uv=False)


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues, rising, and eigenvectors of Hermitian matrices.

    a: [..., n, n], of which (a + a^H)/2 is taken if `symmetrize_input`, else the triangle that UPLO names ('L' or 'U').
    Differentiable where eigenvalues differ.

        jnp.linalg.eigh(jnp.array([[2., 0.], [0., 1.]]))
    """
    if UPLO not in (None, 'L', 'U'):
        raise ValueError(f"eigh: UPLO is 'L' or 'U', got {UPLO!r}")
    v, w = linalg.eigh(_matrices('eigh', a, square=True), lower=UPLO != 'U', symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: ArrayLike, UPLO: str | None = 'L', *, symmetrize_input: bool = True) -> Value:
    """Eigenvalues of Hermitian matrices, rising. See `eigh`.

        jnp.linalg.eigvalsh(jnp.eye(2))
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues [..., n] and eigenvectors, as columns, of square matrices [..., n, n], complex. For gradients use `eigvals`.

        jnp.linalg.eig(jnp.array([[0., 1.], [-1., 0.]]))
    """
    return EigResult(*linalg.eig(_matrices('eig', a, square=True), compute_left_eigenvectors=False))


def eigvals(a: ArrayLike) -> Value:
    """Eigenvalues [..., n] of square matrices [..., n, n], complex. Differentiable where they differ.

        jnp.linalg.eigvals(jnp.array([[0., 1.], [-1., 0.]]))
    """
    return kindly(factors.eigvals, _matrices('eigvals', a, square=True))


def matrix_power(a: ArrayLike, n: int) -> Value:
    """Square matrices multiplied with themselves n times; for n < 0 their inverses.

        jnp.linalg.matrix_power(2 * jnp.eye(2), 3)
    """
    x, n = _matrices('matrix_power', a, square=True), operator.index(n)
    if n == 0:
        return where(eye(x.shape[-1], dtype=bool), 1, x * 0)
    x, n = (inv(x), -n) if n < 0 else (x, n)
    result = None
    while n:
        if n % 2:
            result = x if result is None else matmul(result, x)
        n //= 2
        if n:
            x = matmul(x, x)
    return result


def _small(s: Value, shape: tuple[int, ...], rtol: ArrayLike | None) -> Value:
    """Where singular values count as 0: below rtol times the greatest one."""
    if rtol is None:
        rtol = float(np.finfo(s.dtype).eps * np.maximum(*shape[-2:]))
    return s <= max(s, -1, keepdims=True) * rtol


def matrix_rank(M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False) -> Value:
    """How many singular values of matrices [..., m, n] are greater than `rtol` times the greatest one.

        jnp.linalg.matrix_rank(jnp.ones((2, 3)))  # 1
    """
    x = _matrices('matrix_rank', M)
    return sum(~_small(svdvals(x), x.shape, rtol), -1)


def pinv(a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False) -> Value:
    """The pseudo-inverse [..., n, m] of matrices [..., m, n], with singular values below `rtol` times the greatest taken as 0.

        jnp.linalg.pinv(jnp.ones((2, 3)))
    """
    x = _matrices('pinv', a)
    u, s, vh = svd(x, full_matrices=False)
    small = _small(s, x.shape, 10 * float(np.finfo(s.dtype).eps) * np.maximum(*x.shape[-2:]) if rtol is None else rtol)
    return matmul(_adjoint(vh) * expand_dims(_inverse(s, small), -2), _adjoint(u))


def _inverse(s: Value, small: Value) -> Value:
    return where(small, 0, 1 / where(small, 1, s))


def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> tuple[Value, Value, Value, Value]:
    """The x for which |a x - b| is least, and among those the shortest.

    a: [m, n]; b: [m] or [m, k]; rcond: singular values below it times the greatest are taken as 0. Returns x, the sums of squares
    that are left, the rank, and the singular values.

        jnp.linalg.lstsq(jnp.eye(2), jnp.ones(2))[0]
    """
    x, y = (as_value(v, 'lstsq') for v in promoted('lstsq', *(inexact(as_value(v, 'lstsq'), 'lstsq') for v in (a, b))))
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ValueError(f"lstsq takes a matrix and as many right sides, got {x.type} and {y.type}")
    columns = y if y.ndim == 2 else expand_dims(y, 1)
    u, s, vh = svd(x, full_matrices=False)
    small = _small(s, x.shape, rcond)
    z = matmul(_adjoint(vh), expand_dims(_inverse(s, small), -1) * matmul(_adjoint(u), columns))
    left = columns - matmul(x, z)
    residuals = sum((left * conj(left)).real, 0)
    return z if y.ndim == 2 else squeeze(z, 1), residuals, sum(~small, -1), s


__all__ = ['cholesky', 'det', 'eig', 'eigh', 'eigvals', 'eigvalsh', 'inv', 'lstsq', 'matrix_power', 'matrix_rank', 'pinv', 'qr',
           'slogdet', 'solve', 'svd', 'svdvals']
