"""What surprises those who come from NumPy: corners of gradients, dtypes, random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from tests.complaints.preamble import P, full, mesh, put, spec


@pytest.mark.ranks(1, 2, 4)
def test_gradients_at_corners() -> None:
    """NaN of the norm at 0, inf of sqrt, 1 of abs; ties of max share equally, also across ranks; relu gives 0."""
    g = jax.grad
    assert np.isnan(g(jnp.linalg.norm)(jnp.zeros(2))).all() and np.isinf(g(jnp.sqrt)(0.))
    assert g(jnp.abs)(0.) == 1.
    assert g(lambda x: jnp.sum(x ** 2))(jnp.zeros(2)).tolist() == [0., 0.]
    assert [float(t) for t in g(jnp.maximum, argnums=(0, 1))(1., 1.)] == [.5, .5]
    assert g(jnp.max)(jnp.array([1., 2., 2.])).tolist() == [0., .5, .5] and g(jax.nn.relu)(0.) == 0.
    mesh(jax.device_count())
    assert full(g(jnp.max)(put(np.array([2., 1., 2., 0.]), 'X'))).tolist() == [.5, 0., .5, 0.]


@pytest.mark.ranks(2)
def test_complex_gradients() -> None:
    """As JAX's, the gradient of |z|^2 is twice the conjugate of z, wherever z lies; a complex result needs `holomorphic`."""
    mesh(2)
    assert jax.grad(lambda z: jnp.real(z) ** 2 + jnp.imag(z) ** 2)(3. + 4j) == 6 - 8j
    np.testing.assert_allclose(jax.grad(lambda z: z * z, holomorphic=True)(.1j), .2j)
    with pytest.raises(TypeError, match='holomorphic'):
        jax.grad(lambda z: z * z)(.1j)
    z = put(np.array([1 + 1j, 2 - 1j, 0, 1j]), 'X')
    np.testing.assert_allclose(full(jax.grad(lambda z: jnp.sum(jnp.abs(z) ** 2))(z)), [2 - 2j, 4 + 2j, 0, -2j], rtol=1e-6)


@pytest.mark.ranks(2)
def test_nothing_becomes_float64_by_itself() -> None:
    mesh(2)
    x, i = put(np.arange(4.), 'X'), put(np.arange(4), 'X')
    for r in (x + 1., np.float64(2.) * x, x / 3, x.mean(), x.sum(), jnp.sqrt(i), i + 1., i.mean(), x ** 2,
              jnp.where(x > 1, x, 0.)):
        assert r.dtype == 'float32', r
    assert i.sum().dtype == 'int32' and (x > 1).sum().dtype == 'int32' and jnp.asarray(np.ones(2)).dtype == 'float32'
    b = put(np.ones(4), 'X').astype(jnp.bfloat16)
    g = jax.grad(lambda b: (b * 2.).astype(jnp.float32).sum())(b)
    assert (b * 2. + 1).dtype == jnp.bfloat16 and g.dtype == jnp.bfloat16
    assert lax.scan(lambda c, a: (c + a, a * 2.), jnp.float32(0), jnp.ones(3))[1].dtype == 'float32'


@pytest.mark.ranks(2, 4)
def test_random_numbers_do_not_depend_on_the_sharding() -> None:
    mesh(jax.device_count())
    k = jax.random.key(0)
    a, b = jax.random.uniform(k, (8,)), jax.random.uniform(k, (8,), out_sharding=P('X'))
    assert spec(b) == P('X') and (full(a) == full(b)).all()
    x = put(np.ones((4, 2)), 'X', None)
    m = jax.random.bernoulli(k, .5, x.shape, out_sharding=jax.typeof(x).sharding)
    assert jax.typeof(jnp.where(m, x, 0.)) == jax.typeof(x)
