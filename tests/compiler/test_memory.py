"""Memory: what is predicted is what is used, loops take nothing new, results are written into place."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.config import config

pytestmark = pytest.mark.ranks(1)
N = 1 << 16
X = np.random.default_rng(0).normal(size=(8, N)).astype(np.float32)
W = np.eye(256, dtype=np.float32)


def steps(x):
    """A loop with a carry and stacked results, and what uses both."""
    carry, ys = lax.scan(lambda c, v: (jnp.tanh(c * 0.5 + v), jnp.sin(c) * 2), x[0], x)
    return carry, jnp.sum(ys * ys)


def layers(x):
    h = x.reshape(-1, 256)
    for _ in range(4):
        h = jnp.tanh(h @ W)
    return h


def peak(f, x) -> int:
    """What a call holds more than before at its fullest moment."""
    gc.collect()
    tracemalloc.start()
    try:
        f(x)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize('f', [steps, layers, jax.grad(lambda x: steps(x)[1]), jax.grad(lambda x: layers(x).sum())])
@pytest.mark.parametrize('fuse_from', [2, 1 << 40])
def test_the_predicted_peak_is_what_is_used(f, fuse_from) -> None:
    with config.override(fuse_from=fuse_from):
        jitted, x = jax.jit(lambda x: f(x)), jnp.asarray(X)
        told = jitted.lower(x).compile().memory_analysis()
        jitted(x)
        used = peak(jitted, x)
    assert told.argument_size_in_bytes in (X.nbytes, X.nbytes + 4 * W.nbytes)
    predicted = told.peak_memory_in_bytes - told.argument_size_in_bytes
    assert abs(predicted - used) <= 0.1 * used + 20_000, (predicted, used)


def test_a_loop_needs_no_more_for_more_rounds() -> None:
    def rounds(n):
        f = jax.jit(lambda x: lax.fori_loop(0, n, lambda i, c: jnp.tanh(c) * 0.5 + x, x))
        f(jnp.asarray(X))
        return peak(f, jnp.asarray(X))
    assert rounds(50) <= rounds(2) + 10_000


def test_an_operand_that_dies_gives_its_array_to_the_result() -> None:
    with config.override(fuse_from=2):
        x = jnp.asarray(X)
        f = jax.jit(lambda x: jnp.exp(jnp.cumsum(jnp.sin(x) + 1, 1) * 2) + 1)
        np.testing.assert_allclose(f(x)[:, :3], np.exp(np.cumsum(np.sin(X[:, :3]) + 1, 1) * 2) + 1, rtol=1e-4)
        assert f.lower(x).compile().memory_analysis().peak_memory_in_bytes <= 3 * X.nbytes
