"""Linear algebra: NumPy's values and finite differences on batches however they lie; what is refused, and what mends it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg

import distad as jax
import distad.numpy as jnp
from distad import tree
from distad.config import config
from distad.errors import ShardingTypeError
from tests.ops.arrays import counted, get, placements, put

MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
B, N = 12, 3
L = jnp.linalg


def matrices(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def positive(x: np.ndarray) -> np.ndarray:
    return x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-2])


def squares(x, module=L):
    """The eigenvalues are in no order, the sums of their powers are."""
    w = module.eigvals(x)
    return sum_of(w), sum_of(w ** 2).real, sum_of(abs(w))


def sum_of(w):
    return w.sum(-1).real


FUNCTIONS = {
    'cholesky': (lambda x: L.cholesky(x @ x.mT + jnp.eye(N)), lambda x: np.linalg.cholesky(positive(x))),
    'inv': (L.inv, np.linalg.inv), 'det': (L.det, np.linalg.det), 'slogdet': (L.slogdet, lambda x: tuple(np.linalg.slogdet(x))),
    'eigh': (lambda x: L.eigh(x + x.mT), lambda x: tuple(np.linalg.eigh(x + np.swapaxes(x, -1, -2)))),
    'svd': (lambda x: L.svd(x, full_matrices=False), lambda x: tuple(np.linalg.svd(x))), 'qr': (L.qr, lambda x: tuple(np.linalg.qr(x))),
    'pinv': (L.pinv, np.linalg.pinv), 'power': (lambda x: L.matrix_power(x, -3), lambda x: np.linalg.matrix_power(x, -3)),
    'cond': (L.cond, np.linalg.cond), 'cond of columns': (lambda x: L.cond(x, 1), lambda x: np.linalg.cond(x, 1)),
    'norm': (lambda x: L.matrix_norm(x, ord='nuc'), lambda x: np.linalg.norm(x, 'nuc', (1, 2))),
    'spectral': (lambda x: L.norm(x, 2, (1, 2), keepdims=True), lambda x: np.linalg.norm(x, 2, (1, 2), keepdims=True)),
    'lu': (jax.scipy.linalg.lu, linalg.lu), 'expm': (jax.scipy.linalg.expm, linalg.expm),
    'eigvals': (squares, lambda x: squares(x, np.linalg)),
    'eigvalsh': (L.eigvalsh, lambda x: np.linalg.eigvalsh((x + np.swapaxes(x, -1, -2)) / 2)),
}


@pytest.mark.parametrize('name', FUNCTIONS)
@MESHES
def test_batches_however_they_lie(name, mesh):
    f, reference = FUNCTIONS[name]
    x = matrices(B, N, N)
    with config.override(enable_x64=True):
        whole = np.asarray(jax.grad(lambda x: mixed(f(x)))(jnp.asarray(x)))
        for t in placements(x.shape, mesh, 'float64'):
            value = put(x, t, mesh)
            if t.unreduced or any(t.partitions[1:]):
                with pytest.raises(ShardingTypeError):
                    f(value)
                continue
            ys = tree.leaves(f(value))
            for y, want in zip(ys, tree.leaves(reference(x)), strict=True):
                assert_allclose(get(y, mesh), want, atol=1e-8, err_msg=str(t))
                assert y.type.partitions[0] == t.partitions[0]
            assert not sum(counted(lambda v=value: f(v))[0].values())
            ct = jax.grad(lambda x: mixed(f(x)))(value)
            assert ct.type == t.dual()
            assert_allclose(get(ct, mesh), whole, rtol=1e-6, atol=1e-7)


def mixed(ys):
    return sum(jnp.sum(jnp.sin(y) * (i + 1)) for i, y in enumerate(tree.leaves(ys)))


@pytest.mark.parametrize('f', [f for f, _ in FUNCTIONS.values()], ids=FUNCTIONS)
def test_derivatives(f):
    x, d, e = matrices(2, N, N, seed=1) + 4 * np.eye(N), matrices(2, N, N, seed=2), 1e-6
    with config.override(enable_x64=True):
        slope = (mixed(f(jnp.asarray(x + e * d))) - mixed(f(jnp.asarray(x - e * d)))) / (2 * e)
        assert_allclose(jnp.sum(jax.grad(lambda x: mixed(f(x)))(jnp.asarray(x)) * d), slope, rtol=1e-4)
        assert_allclose(jax.jvp(lambda x: mixed(f(x)), (jnp.asarray(x),), (jnp.asarray(d),))[1], slope, rtol=1e-4)


def test_oblong_matrices():
    x, b = matrices(5, N), matrices(5, 2)
    assert_allclose(L.diagonal(matrices(2, 5, N), offset=1), np.diagonal(matrices(2, 5, N), 1, 1, 2), rtol=1e-6)
    assert_allclose(L.trace(L.matrix_transpose(matrices(2, 5, N))), np.trace(matrices(2, 5, N), 0, 1, 2), rtol=1e-6)
    with config.override(enable_x64=True):
        assert_allclose(L.lstsq(x, b)[0], np.linalg.lstsq(x, b)[0])
        assert_allclose(L.lstsq(x, b)[1], np.linalg.lstsq(x, b)[1])
        assert [y.shape for y in L.svd(x)] == [(5, 5), (3,), (3, 3)] and [y.shape for y in L.qr(x, 'complete')] == [(5, 5), (5, 3)]
        assert_allclose(L.svdvals(x), np.linalg.svd(x)[1])
        assert int(L.matrix_rank(x @ x.T)) == N
        assert_allclose(L.solve(positive(x), b), np.linalg.solve(positive(x), b), rtol=1e-6)
    with pytest.raises(NotImplementedError, match='full_matrices=False'):
        jax.grad(lambda x: L.svd(x)[0].sum())(jnp.asarray(x))


@pytest.mark.meshes((2,))
def test_what_is_refused(mesh):
    x = jnp.asarray(np.eye(4, dtype='f4'))
    for t in placements((4, 4), mesh):
        if any(t.partitions):
            with pytest.raises(ShardingTypeError, match=r'needs the whole of dimension ., .*reshard\(x, P\(None, None\)\)'):
                L.inv(put(np.eye(4), t, mesh))
    assert np.isnan(L.cholesky(-x)).all() and np.isnan(L.inv(x * 0)).all()
    with pytest.raises(ValueError, match='square'):
        L.det(jnp.ones((2, 3)))


@MESHES
def test_the_right_side_may_be_a_summand(mesh):
    a, b = positive(matrices(N, N)).astype('f4'), matrices(N, 2, seed=3).astype('f4')
    for t in placements(b.shape, mesh):
        if not any(t.partitions):
            y = L.solve(a, put(b, t, mesh))
            assert y.type.unreduced == t.unreduced
            assert_allclose(get(y, mesh), np.linalg.solve(a, b), rtol=1e-3, atol=1e-4)
