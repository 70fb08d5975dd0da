"""Counts, covariances and convolutions: NumPy's values on every placement, and what is sent."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.errors import ConcretizationTypeError, ShardingTypeError
from distad.types.array_type import ArrayType
from tests.ops.arrays import counted, get, gradients, numbers, placements, put

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
N, M = 24, 5


def check(f, reference, x, mesh, *, unreduced=False, most=3):
    """On every placement of x: refused for one of sums to come, unless f is linear; else the reference's value."""
    for t in placements(x.shape, mesh, x.dtype):
        value = put(x, t, mesh)
        if t.unreduced and not unreduced:
            with pytest.raises(ShardingTypeError):
                f(value)
            continue
        by_op, _ = counted(lambda v=value: f(v))
        y = f(value)
        np.testing.assert_allclose(get(y, mesh), reference(x), rtol=2e-4, atol=1e-5, err_msg=str(t))
        assert sum(by_op.values()) <= most, f'{t}: {by_op}'


@MESHES
def test_counts(mesh):
    x, w = np.abs(numbers((N,), 1, 'int32')), numbers((N,), 2)
    check(lambda x: jnp.bincount(x, length=4), lambda x: np.bincount(x, minlength=4), x, mesh, most=1)
    check(lambda x: jnp.bincount(x, w, length=3), lambda x: np.bincount(x, w)[:3], x, mesh, most=1)
    assert jnp.bincount(np.array([-2, 1, 1])).tolist() == [1, 2]
    assert jnp.bincount(np.array([1]), minlength=3).tolist() == [0, 1, 0]
    with pytest.raises(ConcretizationTypeError, match='length=n'):
        jax.jit(jnp.bincount)(x)


@MESHES
def test_histograms(mesh):
    x = numbers((N,), 1)
    for options in ({}, {'bins': 4}, {'bins': [-2, 0, 1]}, {'range': (-1, 2)}, {'density': True}):
        for k in (0, 1):
            check(lambda x, o=options, k=k: jnp.histogram(x, **o)[k], lambda x, o=options, k=k: np.histogram(x, **o)[k], x, mesh)
    np.testing.assert_allclose(jnp.histogram(x, 3, weights=x)[0], np.histogram(x, 3, weights=x)[0])


@pytest.mark.meshes((2,), (3,))
def test_covariances_of_split_observations(mesh):
    x, w = numbers((M, N), 1), np.arange(1, N + 1)
    t = ArrayType((M, N), 'float32', sharding=jax.NamedSharding(mesh, P(None, 'X')))
    for f, g in ((jnp.cov, np.cov), (jnp.corrcoef, np.corrcoef), (lambda x: jnp.cov(x, fweights=w), lambda x: np.cov(x, fweights=w)),
                 (lambda x: jnp.cov(x, bias=True), lambda x: np.cov(x, bias=True))):
        np.testing.assert_allclose(get(f(put(x, t, mesh)), mesh), g(x), rtol=1e-3, atol=1e-5)
    assert sum(counted(lambda: jnp.cov(put(x, t, mesh)))[0].values()) == 2
    np.testing.assert_allclose(jnp.cov(x[0]), np.cov(x[0]), rtol=1e-4)
    np.testing.assert_allclose(jnp.cov(x.T, x.T[:, 0], rowvar=False), np.cov(x.T, x.T[:, 0], rowvar=False), rtol=1e-4, atol=1e-5)


@MESHES
def test_convolutions(mesh):
    x, v = numbers((N,), 1), numbers((M,), 2)
    check(lambda x: jnp.convolve(x, v, 'same'), lambda x: np.convolve(x, v, 'same'), x, mesh, unreduced=True, most=2)
    for mode in ('full', 'same', 'valid'):
        for a, b in ((x, v), (v, x)):
            np.testing.assert_array_equal(jnp.convolve(a, b, mode), np.convolve(a, b, mode))
            np.testing.assert_array_equal(jnp.correlate(a, b, mode), np.correlate(a, b, mode))
    for t in placements((N,), mesh):
        dx, = gradients(lambda x: jnp.convolve(x, v, 'same'), [put(x, t, mesh)], v[0] * x, mesh)
        np.testing.assert_allclose(dx, np.correlate(v[0] * x, v, 'same'), rtol=1e-5, atol=1e-5)
