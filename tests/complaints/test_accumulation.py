"""Sums over microbatches and over several uses of one weight."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.runtime import recorder
from tests.complaints.preamble import P, full, mesh, put


@pytest.mark.ranks(2)
def test_a_mean_over_unequal_ranks_divides_the_global_sums() -> None:
    """Not the mean of the ranks' means, which is 1.75 here."""
    mesh(2)
    x, n = put(np.array([4., 2., 2., 1.]), 'X'), put(np.array([2., 1., 2., 0.]), 'X')  # losses, counts of tokens
    one = put(np.ones(4), 'X')

    def loss(w):
        s = jnp.einsum('i,i->', x * w, one, out_sharding=P(unreduced={'X'}))
        t = jnp.einsum('i,i->', n, one, out_sharding=P(unreduced={'X'}))
        return jax.reshard(s, P()) / jax.reshard(t, P())

    w = put(np.float32(1.))
    np.testing.assert_allclose(full(loss(w)), 9 / 5, rtol=1e-6)
    np.testing.assert_allclose(full(jax.grad(loss)(w)), 9 / 5, rtol=1e-6)


@pytest.mark.ranks(2)
def test_a_weight_used_twice_is_reduced_once() -> None:
    mesh(2)
    w, x1, x2 = put(np.ones((4, 2))), put(np.ones((8, 4)), 'X', None), put(np.full((8, 4), 2.), 'X', None)

    def loss(w, cast):
        r = jax.reshard(w, cast)
        total = lambda y: lax.reduce_sum(y, (0, 1), out_sharding=P(unreduced={'X'}))
        return total(x1 @ r) + total(x2 @ r)

    def grad(cast):
        _, pullback = jax.vjp(lambda w: loss(w, cast), w)
        with recorder.count() as counted:
            g, = pullback(put(np.float32(1.), reduced={'X'}))
        return g, counted.total

    g, collectives = grad(P(None, None, reduced={'X'}))
    assert str(jax.typeof(g)) == 'float32[4,2]' and (full(g) == 24.).all()
    assert collectives == 1
    np.testing.assert_allclose(full(grad(P())[0]), full(g))
