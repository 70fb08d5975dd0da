"""Linear algebra on batches of small matrices."""

import numpy as np
from scipy import linalg

from tests.laws.calls import Call, M, N, Operand, Table, c, call, f, i32


def solve(a: Operand, b: Operand, transposed: bool = False) -> Call:
    return call(lambda a, b: np.linalg.solve(np.swapaxes(a, -1, -2) if transposed else a, b), a, b, transposed=transposed).but(
        tolerance=1e-6, orders=1)


def triangular(a: Operand, b: Operand, lower: bool, transposed: bool, unit_diagonal: bool = False) -> Call:
    def reference(a, b):
        return np.stack([linalg.solve_triangular(x, y, lower=lower, trans=int(transposed), unit_diagonal=unit_diagonal)
                         for x, y in zip(a, b, strict=True)])
    return call(reference, a, b, lower=lower, transposed=transposed, unit_diagonal=unit_diagonal).but(tolerance=1e-6, orders=1)


def weighed(x: Operand, below: float, diagonal: float, above: float) -> Call:
    return call(lambda x: np.tril(x, -1) * below + x * np.eye(*x.shape[-2:]) * diagonal + np.triu(x, 1) * above, x,
                below=below, diagonal=diagonal, above=above)


def rough(one: Call) -> Call:
    return one.but(tolerance=1e-5, orders=1)


def lu(x: np.ndarray) -> list[np.ndarray]:
    found = [linalg.lu_factor(m) for m in x]
    return [np.stack([y for y, _ in found]), np.stack([p for _, p in found]),
            np.stack([linalg.lu(m, p_indices=True)[0].argsort() for m in x])]


def swapped(pivots: np.ndarray, size: int) -> np.ndarray:
    rows = np.arange(size)
    for i, j in enumerate(pivots):
        rows[[i, j]] = rows[[j, i]]
    return rows


def exponential(a: np.ndarray, *directions: np.ndarray) -> np.ndarray:
    """The derivative of the exponential in directions, along each by an average over a small circle (an error of r to the 8)."""
    if not directions:
        return linalg.expm(a)
    turns = 0.05 * np.exp(2j * np.pi * np.arange(8) / 8)
    y = np.mean([exponential(a + w * directions[0], *directions[1:]) / w for w in turns], axis=0)
    return y if np.iscomplexobj(a) else y.real


TABLE: Table = {
    'weighed': [weighed(f(M, 3, 2), 1.0, 0.5, 0.0), weighed(f(3, 4), 0.0, 1.0, -2.0), weighed(c(M, 2, 2), 1.0, 0.0, 1.0)],
    'solve': [solve(f(M, 2, 2, low=0.5), f(M, 2, 3)), solve(f(2, 2, low=1.0), f(2, 1), True)],
    'triangular_solve': [triangular(f(M, 2, 2, low=1.0), f(M, 2, 3), True, False),
                         triangular(f(M, 2, 2, low=1.0), f(M, 2, 1), False, True),
                         triangular(f(M, 2, 2, low=1.0), f(M, 2, 1), True, True, True)],
    'det': [rough(call(np.linalg.det, f(M, 2, 2))), rough(call(np.linalg.det, f(2, 2)))],
    'slogdet': [rough(call(lambda x: list(np.linalg.slogdet(x)), f(M, 2, 2)))],
    'cholesky': [rough(call(np.sqrt, f(N, 1, 1, low=0.5)))],          # of 1 x 1: others are not positive by chance; see tests/ops
    'qr': [rough(call(lambda x: list(np.linalg.qr(x)), f(M, 3, 2), full=False)),
           call(lambda x: list(np.linalg.qr(x, 'complete')), f(M, 3, 2), full=True).but(orders=0)],
    'eigh': [rough(call(lambda x: list(np.linalg.eigh(x)), f(M, 2, 2)))],
    'svd': [rough(call(lambda x: list(np.linalg.svd(x, full_matrices=False)), f(M, 3, 2), full=False)),
            rough(call(lambda x: list(np.linalg.svd(x, full_matrices=False)), f(M, 2, 3), full=False)),
            call(lambda x: list(np.linalg.svd(x)), f(M, 2, 3), full=True).but(orders=0)],
    'lu': [rough(call(lu, f(M, 2, 2))), rough(call(lu, f(M, 3, 2))), rough(call(lu, f(M, 2, 3)))],
    'lu_pivots_to_permutation': [call(lambda p: np.stack([swapped(q, 3) for q in p]), i32(M, 2, low=1, high=2), size=3)],
    'eig': [call(lambda x: list(linalg.eig(x, left=True)), f(2, 2)).but(orders=0)],
    'eigvals': [rough(call(np.linalg.eigvals, f(M, 2, 2)))],
    'expm': [rough(call(exponential, f(M, 2, 2))), rough(call(exponential, f(M, 2, 2), f(M, 2, 2))),
             rough(call(exponential, c(2, 2), c(2, 2), c(2, 2)))],
}
