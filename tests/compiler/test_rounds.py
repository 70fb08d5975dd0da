"""Loops as they are written: carries made where they are stacked, a last round that leaves out what nobody reads."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives
from distad.runtime.memory import LARGE

P, alone = jax.P, pytest.mark.ranks(1)
X = np.random.default_rng(0).normal(size=(5, 16, LARGE // 64)).astype(np.float32)


def source(f, *args) -> str:
    return jax.jit(lambda *xs: f(*xs)).lower(*args).compile().as_python()


@alone
@pytest.mark.parametrize('reverse', [False, True])
@pytest.mark.parametrize('length', [1, 2, 5])
@pytest.mark.parametrize('step', [
    lambda c, v: (jnp.tanh(c * 0.5 + v), c),
    lambda c, v: (jnp.sin(c) @ jnp.eye(c.shape[1]) * 0.1 + v, (c, c * 2, jnp.sum(v))),
    lambda c, v: (jnp.cumsum(c, 0) * 0.1, (c, v)),
    lambda c, v: (jnp.concatenate([v[:1], c[1:]]), c)])
def test_stacked_carries(step, length, reverse) -> None:
    f = lambda x: lax.scan(step, x[0] * 2, x[:length], reverse=reverse)
    for got, want in zip(jax.tree.leaves(jax.jit(f)(X)), jax.tree.leaves(f(jnp.asarray(X))), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@alone
def test_carries_are_made_in_the_stack() -> None:
    text = source(lambda x: lax.scan(lambda c, v: (jnp.tanh(c * 0.5 + v), c), x[0], x), X)
    loop, last = text[text.index('for'):].split(' = 4\n')               # the last carry has an array of its own
    assert 'empty' not in loop and '+ 1]' in loop and '+ 1]' not in last


def layers(w, x):
    return jnp.sum(lax.scan(lambda h, v: (jnp.tanh(h @ v), None), x, w)[0] ** 2)


@alone
def test_the_cotangent_of_the_input_is_not_computed() -> None:
    w, x = (np.random.default_rng(1).normal(size=s).astype(np.float32) * 0.2 for s in ((4, 6, 6), (3, 6)))
    text = source(jax.grad(layers), w, x)
    assert text.count('dot_general_') == 4                             # forward, two in the loop backward, one in its last round
    assert source(jax.grad(layers, (0, 1)), w, x).count('dot_general_') == 3
    np.testing.assert_allclose(jax.jit(jax.grad(layers))(w, x), jax.grad(layers)(jnp.asarray(w), jnp.asarray(x)), rtol=1e-5)


@pytest.mark.meshes((2,), (3,))
def test_messages_of_the_last_round_stay(mesh) -> None:
    w = jax.device_put(np.ones((4, 6, 6), np.float32), P(None, 'X'))
    x = jax.device_put(np.ones((3, 6), np.float32), P())
    step = lambda h, v: (jnp.einsum('ij,jk->ik', jax.reshard(h, P(None, 'X')), v, out_sharding=P()), None)
    f = jax.jit(jax.grad(lambda w, x: jnp.sum(lax.scan(step, x, w)[0])))
    with count_collectives() as sent:
        f(w, x)
    assert sent.by_op == jax.plan(f)(w, x).by_op == {'all-reduce': 4, 'all-gather': 4}
