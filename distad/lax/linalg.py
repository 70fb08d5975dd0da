"""Factors, eigenvalues and triangular solves, under the names of jax.lax.linalg and with its order of results.

Matrices stand in the last two dimensions, which must be whole: a split one is refused, with the reshard that gathers it. Dimensions
before are a batch, of which each rank treats its own matrices, so nothing is ever communicated. Reduced matrices give reduced
results; unreduced ones are refused, but for the right side of a solve, which is linear. What has no result is NaN.
"""

from typing import Any

from distad.core.lift import as_value
from distad.core.value import Value
from distad.lax.kind import kindly
from distad.ops import arithmetic, factors
from distad.ops import linalg as ops
from distad.ops.complex import conj as conj_p
from distad.ops.makers import scalar
from distad.source import bounded
from distad.types.inference import show


def matrices(name: str, a: Any, *, square: bool = False) -> Value:
    """A value that is checked to be matrices."""
    x = as_value(a, name)
    if x.ndim < 2 or square and x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} takes {'square ' if square else ''}matrices in the last two dimensions, got {x.type}")
    return x


def hermitian(x: Value) -> Value:
    """(x + x^H) / 2."""
    return kindly(arithmetic.div, kindly(arithmetic.add, x, ops.adjoint(x)), scalar(2, x))


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Value:
    """The lower triangle L with L L^H = x.

    x: [..., n, n], Hermitian and positive; else the result is NaN. symmetrize_input: whether (x + x^H)/2 is taken.

        lax.linalg.cholesky(jnp.array([[4., 2.], [2., 2.]]))
    """
    x = matrices('cholesky', x, square=True)
    return kindly(factors.cholesky, hermitian(x) if symmetrize_input else x)


def triangular_solve(a: Any, b: Any, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
                     conjugate_a: bool = False, unit_diagonal: bool = False) -> Value:
    """The x with op(a) x = b if `left_side`, else with x op(a) = b, where op transposes and conjugates as said.

    a: [..., n, n], of which the triangle that `lower` tells counts, without its diagonal if `unit_diagonal`, which is then 1;
    b: [..., n, k], or [..., k, n] for the right side, of the same batch; one may be split over it and the other whole. Linear in b.

        lax.linalg.triangular_solve(2 * jnp.eye(2), jnp.ones((2, 1)), left_side=True)
    """
    a, b = matrices('triangular_solve', a, square=True), matrices('triangular_solve', b)
    if a.shape[:-2] != b.shape[:-2] or b.shape[-2 if left_side else -1] != a.shape[-1]:
        raise ValueError(f"triangular_solve: sizes do not go together, got {show((a.type, b.type))}")
    if conjugate_a and a.dtype.kind == 'c':
        a = conj_p(a)
    params = {'lower': lower, 'unit_diagonal': unit_diagonal}
    if left_side:
        return kindly(ops.triangular_solve, a, b, transposed=transpose_a, **params)
    return ops.turned(kindly(ops.triangular_solve, a, ops.turned(b), transposed=not transpose_a, **params))


def lu(x: Any) -> tuple[Value, Value, Value]:
    """Triangles of matrices with rows exchanged: x[permutation] = L U.

    x: [..., m, n]. Returns both triangles in one, [..., m, n], that of U with the diagonal, that of L below it (L has ones there);
    the rows that were exchanged with rows 0, 1, .., [..., k] with k = min(m, n); and the permutation [..., m].

        lax.linalg.lu(jnp.array([[0., 1.], [2., 0.]]))
    """
    return tuple(kindly(factors.lu, matrices('lu', x)))


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Value:
    """The order of rows after row i was exchanged with row pivots[i], for each i in turn.

    pivots: integers [..., k]. Returns [..., permutation_size].

        lax.linalg.lu_pivots_to_permutation(jnp.array([1, 1]), 2)         # 1, 0
    """
    return kindly(factors.lu_pivots_to_permutation, as_value(pivots, 'lu_pivots_to_permutation'), size=int(permutation_size))


def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True) -> tuple[Value, Value]:
    """Orthonormal columns Q and an upper triangle R with Q R = x.

    x: [..., m, n]; full_matrices: whether Q is square, or has k = min(m, n) columns. Differentiable for m >= n and k columns.

        lax.linalg.qr(jnp.eye(2), full_matrices=False)
    """
    if pivoting:
        raise NotImplementedError('qr: columns are not exchanged here (pivoting=False). For a rank use svd.')
    return tuple(kindly(factors.qr, matrices('qr', x), full=full_matrices))


def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True) -> Value | tuple[Value, Value, Value]:
    """Singular values and vectors: x = U diag(S) Vh.

    x: [..., m, n]; full_matrices: whether U and Vh are square, or have k = min(m, n) columns and rows; compute_uv: False gives
    S [..., k] alone. Differentiable if not full or m = n, where singular values differ. Returns U, S, Vh.

        lax.linalg.svd(jnp.ones((2, 3)), compute_uv=False)
    """
    u, s, vh = kindly(factors.svd, matrices('svd', x), full=bool(full_matrices and compute_uv))
    return (u, s, vh) if compute_uv else s


def eigh(x: Any, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True) -> tuple[Value, Value]:
    """Eigenvectors, as columns, and eigenvalues, rising, of Hermitian matrices.

    x: [..., n, n], of which (x + x^H)/2 is taken if `symmetrize_input`, else the triangle that `lower` tells. Differentiable where
    eigenvalues differ. Returns vectors [..., n, n] first, then values [..., n], which are sorted in any case.

        lax.linalg.eigh(jnp.array([[2., 0.], [0., 1.]]))
    """
    x = matrices('eigh', x, square=True)
    x = hermitian(x) if symmetrize_input else x if lower else ops.adjoint(x)
    w, v = kindly(factors.eigh, x)
    return v, w


def eig(x: Any, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True) -> list[Value]:
    """Eigenvalues and eigenvectors of square matrices, complex.

    x: [..., n, n]. Returns values [..., n], then left vectors (columns u with u^H x = w u^H) and right ones, [..., n, n], if asked for.
    Values alone have a gradient, where they differ: the phases of vectors are not determined.

        lax.linalg.eig(jnp.eye(2), compute_left_eigenvectors=False)
    """
    x = matrices('eig', x, square=True)
    if not (compute_left_eigenvectors or compute_right_eigenvectors):
        return [kindly(factors.eigvals, x)]
    w, *vectors = kindly(factors.eig, x)
    wanted = (compute_left_eigenvectors, compute_right_eigenvectors)
    return [w, *(v for v, asked in zip(vectors, wanted, strict=True) if asked)]


__all__ = ['cholesky', 'eig', 'eigh', 'lu', 'lu_pivots_to_permutation', 'qr', 'svd', 'triangular_solve']

bounded(globals(), __all__)
