"""The names of scipy: SciPy's values, gradients by differences, batches split over ranks."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg, special, stats

import distad as jax
import distad.numpy as jnp
from distad import tree
from distad.config import config
from distad.errors import ShardingTypeError
from tests.ops.arrays import counted, get, placements, put

MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
S = jax.scipy.linalg
N = 3


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def positive(n: int) -> np.ndarray:
    return numbers(n, n) @ numbers(n, n).T + np.eye(n)


def same(f, reference, *args, tolerance: float = 1e-9) -> None:
    got, want = tree.leaves(f(*args)), tree.leaves(reference(*args))
    assert len(got) == len(want)
    for y, z in zip(got, want, strict=True):
        assert_allclose(y, z, atol=tolerance)


def steep(f, *args: np.ndarray, tolerance: float = 1e-5) -> None:
    """Both modes agree with a difference quotient, and the gradient of the gradient with that of the gradient."""
    def loss(*xs):
        return sum(jnp.sum(jnp.sin(abs(y) if y.dtype.kind == 'c' else y) * (i + 1)) for i, y in enumerate(tree.leaves(f(*xs))))

    def slope(g, e=1e-5):
        ahead, behind = ([jnp.asarray(x + s * e * d) for x, d in zip(args, ds, strict=True)] for s in (1, -1))
        return (g(*ahead) - g(*behind)) / (2 * e)

    ds = [numbers(*x.shape, seed=7 + i) for i, x in enumerate(args)]
    xs, every = [jnp.asarray(x) for x in args], tuple(range(len(args)))

    def along(*xs):
        return sum(jnp.sum(g * d) for g, d in zip(jax.grad(loss, every)(*xs), ds, strict=True))

    assert_allclose(along(*xs), slope(loss), rtol=tolerance, atol=tolerance)
    assert_allclose(jax.jvp(loss, xs, [jnp.asarray(d) for d in ds])[1], slope(loss), rtol=tolerance, atol=tolerance)
    second = sum(jnp.sum(g * d) for g, d in zip(jax.grad(along, every)(*xs), ds, strict=True))
    assert_allclose(second, slope(along), rtol=100 * tolerance, atol=100 * tolerance)


@pytest.mark.parametrize('shape', [(3, 3), (4, 2), (2, 4)])
def test_triangles_with_exchanged_rows(shape):
    x = numbers(*shape)
    with config.override(enable_x64=True):
        same(S.lu, linalg.lu, x)
        same(lambda x: S.lu(x, permute_l=True), lambda x: linalg.lu(x, permute_l=True), x)
        both, pivots, rows = jax.lax.linalg.lu(jnp.asarray(x))
        assert_allclose(jax.lax.linalg.lu_pivots_to_permutation(pivots, shape[0]), rows)
        steep(S.lu, x)


@pytest.mark.parametrize('trans', [0, 1, 2])
def test_solves_by_factors(trans):
    a, b, found = numbers(N, N) + 1j * numbers(N, N, seed=1), numbers(N, 2, seed=2), {}
    with config.override(enable_x64=True):
        same(lambda a, b: S.lu_solve(S.lu_factor(a), b, trans), lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, trans), a, b)
        for s, module in ((S, 'ours'), (linalg, 'theirs')):
            found[module] = s.solve_triangular(a, b[:, 0], trans, lower=True)
        assert_allclose(found['ours'], found['theirs'])
        steep(lambda a, b: S.lu_solve(S.lu_factor(a), b, trans), a.real, b)
        p = positive(N)
        same(lambda a, b: S.cho_solve(S.cho_factor(a, trans > 0), b), lambda a, b: linalg.solve(a, b, assume_a='pos'), p, b)
        same(lambda a, b: S.solve(a, b, assume_a='pos'), linalg.solve, p, b)


def test_triangular_solve_from_both_sides():
    a, b = np.tril(numbers(N, N)) + 1j * np.tril(numbers(N, N, seed=1)), numbers(2, N, seed=2)
    solve = jax.lax.linalg.triangular_solve
    with config.override(enable_x64=True):
        x = solve(jnp.asarray(a), jnp.asarray(b + 0j), lower=True, transpose_a=True, conjugate_a=True)
        assert_allclose(x @ a.conj().T, b, atol=1e-9)
        x = solve(jnp.asarray(a), jnp.asarray(b.T + 0j), left_side=True, lower=True)
        assert_allclose(a @ x, b.T, atol=1e-9)
    with pytest.raises(ValueError, match='sizes do not go together'):
        solve(jnp.ones((3, 3)), jnp.ones((3, 2)))


def parts_of_svd(x, y, *, i):
    """What does not depend on the phases that singular vectors are given."""
    u, s, vh = S.svd(x + y * i, full_matrices=False)
    return (u * s) @ vh, s, abs(u), abs(vh)


def test_factors_of_complex_and_other_matrices():
    x = numbers(4, N) + 1j * numbers(4, N, seed=1)
    with config.override(enable_x64=True):
        for a in (x, x.T, x[:3], x.real):
            same(lambda a: S.svd(a, full_matrices=False)[1], lambda a: linalg.svd(a)[1], a)
            steep(functools.partial(parts_of_svd, i=1j if np.iscomplexobj(a) else 0), a.real, numbers(*a.shape, seed=4), tolerance=1e-4)
        same(lambda a: S.qr(a, mode='economic'), lambda a: linalg.qr(a, mode='economic'), x)
        same(lambda a: S.qr(a, mode='r'), lambda a: linalg.qr(a, mode='r'), x)
        same(S.polar, linalg.polar, x)
        same(lambda a: S.polar(a, 'left'), lambda a: linalg.polar(a, 'left'), x[:3])
        same(lambda a: S.eigh(a, eigvals_only=True, lower=False), lambda a: linalg.eigh(a, eigvals_only=True, lower=False), x[:3])
        w, left, right = jax.lax.linalg.eig(jnp.asarray(x[:3]))
        assert_allclose(x[:3] @ right, right * w, atol=1e-9)
        assert_allclose(left.conj().T @ x[:3], w[:, None] * left.conj().T, atol=1e-9)
        v, w = jax.lax.linalg.eigh(jnp.asarray(positive(N)))
        assert_allclose(v * w @ v.T, positive(N), atol=1e-9)
    with pytest.raises(NotImplementedError, match='Use eigvals'):
        jax.grad(lambda x: abs(jnp.linalg.eig(x).eigenvectors).sum())(jnp.ones((2, 2)))


def test_exponentials():
    a, e = numbers(N, N), numbers(N, N, seed=1)
    with config.override(enable_x64=True):
        same(S.expm, linalg.expm, a + 1j * e)
        same(S.expm_frechet, linalg.expm_frechet, a, e)
        steep(S.expm, a)
        steep(lambda a, e: S.expm_frechet(a, e, compute_expm=False), a, e)
        assert_allclose(S.expm_frechet(a, 1e8 * e, compute_expm=False) / 1e8, linalg.expm_frechet(a, e)[1], atol=1e-9)
    assert np.isnan(S.expm(jnp.full((2, 2), np.nan))).all()


def test_matrices_made_of_others():
    same(S.block_diag, linalg.block_diag, numbers(2, 3), numbers(2), np.float64(3), tolerance=1e-6)
    same(S.toeplitz, lambda c: linalg.toeplitz(c), numbers(4) * 1j, tolerance=1e-6)
    same(S.toeplitz, linalg.toeplitz, numbers(4), numbers(3), tolerance=1e-6)
    a, b = numbers(2, 3, 6), numbers(2, 3, seed=1)
    same(jnp.linalg.tensorsolve, np.linalg.tensorsolve, a, b, tolerance=1e-3)
    same(lambda a: jnp.linalg.tensorinv(a, 2), lambda a: np.linalg.tensorinv(a, 2), a, tolerance=1e-3)
    for x, y in ((numbers(4, 3), numbers(3)), (numbers(4, 2), numbers(4, 3))):
        same(jnp.cross, lambda x, y: np.cross(np.pad(x, [(0, 0), (0, 3 - x.shape[1])]), y), x, y, tolerance=1e-6)
    assert_allclose(jnp.cross(np.float32([1, 2]), np.float32([3, 5])), -1)


@MESHES
def test_batches_however_they_lie(mesh):
    a, b = numbers(12, N, N).astype('f4'), numbers(12, N, 2, seed=1).astype('f4')
    for t in placements(a.shape, mesh):
        if any(t.partitions[1:]) or t.unreduced:
            for f in (S.expm, S.lu):
                with pytest.raises(ShardingTypeError):
                    f(put(a, t, mesh))
            continue
        value = put(a, t, mesh)
        both = S.lu_factor(value)
        assert_allclose(get(S.lu_solve(both, b), mesh), np.linalg.solve(a, b), rtol=1e-2, atol=1e-2)
        gradient = jax.grad(lambda x: jnp.sum(S.lu_solve(S.lu_factor(x), b) * 1e-2 + S.expm(x)[..., :2]))(value)
        assert gradient.type == t.dual()
        assert not sum(counted(lambda v=value: S.expm(v))[0].values())


@MESHES
def test_derivatives_of_exponentials_are_linear_in_the_direction(mesh):
    a, e = numbers(N, N).astype('f4'), numbers(N, N, seed=1).astype('f4')
    for t in placements(e.shape, mesh):
        if not any(t.partitions):
            y = S.expm_frechet(a, put(e, t, mesh), compute_expm=False)
            assert y.type.unreduced == t.unreduced
            assert_allclose(get(y, mesh), linalg.expm_frechet(a, e)[1], rtol=1e-3, atol=1e-4)


# ---- special functions

ONE = {name: (getattr(jax.scipy.special, name), getattr(special, name)) for name in (
    'digamma', 'entr', 'erf', 'erfc', 'erfinv', 'expit', 'factorial', 'gamma', 'gammaln', 'gammasgn', 'i0', 'i0e', 'i1', 'i1e',
    'log_ndtr', 'logit', 'ndtr', 'ndtri')}
TWO = {name: (getattr(jax.scipy.special, name), getattr(special, name)) for name in (
    'beta', 'betaln', 'gammainc', 'gammaincc', 'kl_div', 'rel_entr', 'xlog1py', 'xlogy', 'zeta')}
NORMAL = {name: (getattr(jax.scipy.stats.norm, name), getattr(stats.norm, name)) for name in (
    'cdf', 'isf', 'logcdf', 'logpdf', 'logsf', 'pdf', 'ppf', 'sf')}


@pytest.mark.parametrize('name', ONE)
def test_functions_of_a_number(name):
    f, reference = ONE[name]
    x = np.linspace(0.05, 0.95, 7)
    with config.override(enable_x64=True):
        same(f, reference, x)
        if name not in ('gammasgn', 'erfinv', 'ndtri', 'logit', 'entr'):
            same(f, reference, x * 3 + 0.1)
            same(f, reference, np.arange(4) + 1)
        step = (reference(x + 1e-6) - reference(x - 1e-6)) / 2e-6
        assert_allclose(jax.grad(lambda x: jnp.sum(f(x)))(jnp.asarray(x)), step, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize('name', TWO)
def test_functions_of_two_numbers(name):
    f, reference = TWO[name]
    x, y = np.linspace(1.1, 3, 5), np.linspace(0.3, 2, 4)[:, None]
    with config.override(enable_x64=True):
        same(f, reference, x, y)
        step = (reference(x, y + 1e-6) - reference(x, y - 1e-6)) / 2e-6
        assert_allclose(jax.jvp(lambda y: f(x, y), (jnp.asarray(y),), (jnp.ones_like(y),))[1], step, atol=1e-5, rtol=1e-5)


def test_functions_at_their_edges():
    s = jax.scipy.special
    assert_allclose(s.gamma(np.array([-0.5, -1.5, -1.0])), special.gamma(np.array([-0.5, -1.5, -1.0])), rtol=1e-5)
    assert_allclose(s.entr(np.float32([-1, 0])), special.entr(np.float32([-1, 0])))
    p, q = np.meshgrid([-1.0, 0.0, 2.0], [-1.0, 0.0, 3.0])
    for name in ('rel_entr', 'kl_div'):
        assert_allclose(TWO[name][0](p, q), TWO[name][1](p, q), rtol=1e-6)
    assert_allclose(s.xlogy(0.0, 0.0), 0)
    assert_allclose(s.multigammaln(3.5, 2), special.multigammaln(3.5, 2), rtol=1e-6)
    assert_allclose(s.betainc(2.0, 3.0, 0.5), special.betainc(2, 3, 0.5), rtol=1e-6)
    assert_allclose(s.polygamma(1, 2.5), special.polygamma(1, 2.5), rtol=1e-6)


@pytest.mark.parametrize('name', NORMAL)
def test_the_normal_distribution(name):
    f, reference = NORMAL[name]
    x = np.linspace(0.05, 0.95, 5)
    with config.override(enable_x64=True):
        same(f, reference, x)
        same(f, reference, x, 0.5, 2.0)


@MESHES
def test_functions_however_operands_lie(mesh):
    x = np.linspace(0.1, 0.9, 12).astype('f4')
    for t in placements(x.shape, mesh):
        if not t.unreduced:
            y = jax.scipy.special.xlogy(put(x, t, mesh), 2.0) + jax.scipy.stats.norm.logcdf(put(x, t, mesh))
            assert y.type == t
            assert_allclose(get(y, mesh), special.xlogy(x, 2) + stats.norm.logcdf(x), rtol=1e-5, atol=1e-6)
