"""What is padded or joined last is written by the group that makes it, where it goes."""

from __future__ import annotations

import numpy as np
import pytest

import distad.numpy as jnp
from tests.compiler.programs import COMPILED, fused

pytestmark = [pytest.mark.ranks(1), COMPILED]
X = np.random.default_rng(0).normal(size=(19, 38)).astype(np.float32)


def rotated(x):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * 2 - b, jnp.sin(b) + a * 3], -1)


def bordered(x):
    return jnp.pad(jnp.exp(x[1:-1, 1:-1]) + x[:-2, 1:-1] * x[2:, 1:-1], 1, constant_values=7)


def framed(x):
    return jnp.pad(jnp.concatenate([x * 2 + 1, x[:5], jnp.sin(x) * 2], 0), ((0, 2), (3, 1)))


@pytest.mark.parametrize('f', [rotated, bordered, framed, lambda x: jnp.stack([x * 2 + 1, jnp.sin(x) * x, x], 1)])
def test_what_is_joined_last_is_written_where_it_goes(f) -> None:
    (got,), names = fused(f, X)
    assert names == ['fused']
    np.testing.assert_allclose(got, np.asarray(f(jnp.asarray(X))), rtol=2e-5, atol=2e-5)


def test_what_is_read_elsewhere_or_dear_to_both_parts_is_made_once() -> None:
    def shared(x):
        y = jnp.tanh(x * 2)
        return jnp.concatenate([y * 3, y + 1], 0)

    def read_twice(x):
        y = jnp.tanh(x * 2)
        return jnp.pad(y, 1), jnp.cumsum(y, 0)
    for f, kept in ((shared, 'concatenate'), (read_twice, 'pad')):
        assert kept in fused(f, X)[1]
