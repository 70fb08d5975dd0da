"""Random programs of loops that stack carries and add up products, as if every array were large: compiled they give what single
equations give.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import Array, lax
from distad.control import rounds
from distad.ops import blas
from distad.runtime import memory
from tests.compiler import test_random

pytestmark = pytest.mark.ranks(1)


def stacked(r: random.Random, x: Array, y: Array) -> Array:
    """A loop whose slices are its carries, or made of them."""
    step = r.choice(test_random.SAME) if x.ndim > 1 else jnp.sin
    slices = r.choice((lambda c, v: (c, c * 2), lambda c, v: (c,), lambda c, v: (c, v), lambda c, v: (v * c, c)))
    last, ys = lax.scan(lambda c, v: (step(c * 0.5 + v), slices(c, v)), x[0], x, reverse=r.random() < 0.5)
    y = r.choice(ys)
    return y if r.random() < 0.5 else jnp.concatenate([y, last[None]])


def summed(r: random.Random, x: Array, y: Array) -> Array:
    """Sums of products in loops, those of gradients among them."""
    x = x.reshape(x.shape[0], -1)[:9, :9] * 0.3
    xs = jnp.stack([x, x * 0.5, -x])
    total = r.choice((jnp.full((x.shape[1],) * 2, 0.1, x.dtype), x.T @ x))

    def rows(w: Array, h: Array) -> Array:
        return lax.scan(lambda h, v: (jnp.tanh(h @ (v.T if transposed else v)), h), h, w)[1]
    transposed, kind = r.random() < 0.5, r.randrange(4)
    if kind == 0:
        return lax.scan(lambda t, v: (t + v.T @ v, t), total, xs, reverse=transposed)[r.randrange(2)]
    if kind == 1:
        return x.T @ x + xs[1].T @ xs[1] + (xs[2].T @ x).T
    w = jnp.stack([total] * 3)
    start = w if kind == 2 else jnp.zeros_like(w)
    return lax.scan(lambda t, h: (t + jax.grad(lambda w: jnp.sum(rows(w, h) ** 2))(w), None), start, xs)[0]


@pytest.mark.parametrize('first', range(0, 20, 10))
def test_random_loops(first, monkeypatch) -> None:
    found: dict[str, int] = {}

    def counted(name: str, f: Callable) -> Callable:
        def call(*args):
            made = f(*args)
            found[name] = found.get(name, 0) + (made is not None)
            return made
        return call
    monkeypatch.setattr(memory, 'LARGE', 1)
    monkeypatch.setattr(blas, 'LEAST', 1)
    monkeypatch.setattr(rounds, 'last_round', counted('round', rounds.last_round))
    monkeypatch.setattr(blas, 'adder', counted('adder', blas.adder))
    monkeypatch.setattr(test_random, 'OPS', (*test_random.OPS, *(stacked,) * 5, *(summed,) * 5))
    with np.errstate(all='ignore'):
        assert not [fault for seed in range(first, first + 10) for fault in test_random.faults(seed, 2000, (True,))]
    assert min(found['round'], found['adder']) > 0
