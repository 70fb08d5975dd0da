"""Random programs of elementwise ops, moves and reductions: joined by LLVM and by NumPy they give what single equations give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from tests.compiler.programs import fused
from tests.compiler.test_fusion import BACKENDS

pytestmark = pytest.mark.ranks(1)
SHAPE = (6, 19)
X, Y = np.random.default_rng(99).normal(size=(2, *SHAPE)).astype(np.float32)

OPS: list[Callable] = [
    lambda a, b: jnp.sin(a), lambda a, b: a * 0.5 + 1, lambda a, b: jnp.tanh(a), lambda a, b: jnp.sum(a, 1, keepdims=True) * 0.1,
    lambda a, b: jnp.sum(a, 0) * 0.1, lambda a, b: jnp.max(a, 1), lambda a, b: jnp.pad(a[1:, :], ((1, 0), (0, 0))),
    lambda a, b: jnp.pad(a[:, 2:], ((0, 0), (1, 1))) * 2, lambda a, b: jnp.concatenate([a[1:], a[:1]]), lambda a, b: a[::-1],
    lambda a, b: jnp.sum(a) * 0.01, lambda a, b: jnp.where(a > 0, a, -a * 0.5), lambda a, b: a + b, lambda a, b: a * b * 0.3]


def program(seed: int) -> Callable:
    """Ops on what was made before; of what is made, every other value and the last come out."""
    def f(x, y):
        r = np.random.default_rng(seed)
        known = [x, y]
        for _ in range(r.integers(5, 16)):
            op, a, b = OPS[r.integers(len(OPS))], known[r.integers(len(known))], known[r.integers(len(known))]
            try:
                v = op(a, b)
            except (TypeError, ValueError, IndexError):                  # not with these shapes
                continue
            if v.ndim < 2 or v.shape in (SHAPE, (6, 1), (1, 19)):
                known.append(v)
        return tuple(v for i, v in enumerate(known[2:]) if i % 2 == 0 or i == len(known) - 3)
    return f


@pytest.mark.parametrize('backwards', [False, True])
@pytest.mark.parametrize('seed', [7, 13, 133, 1000, 1001])
def test_random_programs(seed, backwards) -> None:
    f = program(seed)
    if backwards:
        g = jax.grad(lambda x, y: sum(jnp.sum(v * v) for v in f(x, y)), (0, 1))
    else:
        g = f
    want, _ = fused(g, X, Y, llvm=False, least=1 << 40)
    for llvm in BACKENDS:
        got, _ = fused(g, X, Y, llvm=llvm)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-3 * max(1, np.abs(b).max()))
