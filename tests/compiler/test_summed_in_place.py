"""Sums over ranks take the place of what is summed: nothing is packed, and what somebody still looks at is left alone."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import P, lax
from distad.runtime import packing
from distad.runtime.recorder import count

pytestmark = pytest.mark.meshes((2,), (2, 2))
N = 160
RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=(N, N)).astype(np.float32) / 12 for _ in range(3)]
X = RNG.normal(size=(8, N)).astype(np.float32)


def split(mesh):
    axis = mesh.axis_names[0]
    return axis, jax.device_put(X, P(axis)), [jax.device_put(w, P()) for w in WEIGHTS]


def by_hand():
    """Gradients of the sum of squares of x W W W."""
    hs = [X.astype(np.float64)]
    for w in WEIGHTS:
        hs.append(hs[-1] @ w)
    ct, out = 2 * hs[-1], []
    for h, w in zip(hs[-2::-1], WEIGHTS[::-1], strict=True):
        out.append(h.T @ ct)
        ct = ct @ w.T
    return out[::-1]


def loss(ws, x):
    for w in ws:
        x = x @ w
    return (x * x).sum()


def test_gradients_lie_side_by_side(mesh, monkeypatch) -> None:
    _, x, ws = split(mesh)
    step = jax.jit(jax.grad(loss))
    step(ws, x)
    monkeypatch.setattr(packing.np, 'concatenate', None)
    with count() as sent:
        got = step(ws, x)
    assert sent.by_op == {'all-reduce': 1}
    for g, want in zip(got, by_hand(), strict=True):
        np.testing.assert_allclose(np.asarray(g), want, rtol=2e-3, atol=2e-3 * abs(want).max())
        assert g.type == ws[0].type


@pytest.mark.parametrize('kept', ['summand', 'view of it', 'argument', 'twice'])
def test_what_somebody_looks_at_stays(mesh, kept) -> None:
    axis, x, ws = split(mesh)
    n = mesh.axis_size(axis)

    def body(x, w, v):
        a, b = x.T @ (x @ w), x.T @ (x @ v)
        other = {'summand': a, 'view of it': a.reshape(-1), 'argument': w, 'twice': b}[kept]
        summed = {'argument': w, 'twice': b}.get(kept, a)
        a, b = lax.psum((summed, b), axis)
        return a, b, jnp.sort(other, axis=0)
    f = jax.jit(jax.shard_map(body, in_specs=(P(axis), P(axis), P()), out_specs=(P(), P(), P(axis))))
    w, v = np.tile(WEIGHTS[0], (n, 1)), ws[1]
    got = [jax.process_allgather(y) for y in f(x, jax.device_put(w, P(axis)), v)]
    parts = np.split(X.astype(np.float64), n)
    a, b = ([p.T @ (p @ m) for p in parts] for m in WEIGHTS[:2])
    summed = {'argument': n * WEIGHTS[0], 'twice': sum(b)}.get(kept, sum(a))
    other = {'summand': a, 'view of it': [y.reshape(-1) for y in a], 'argument': np.split(w, n), 'twice': b}[kept]
    for y, want in zip(got, (summed, sum(b), np.concatenate([np.sort(y, axis=0) for y in other])), strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4 * abs(want).max())


def test_one_summand_that_nobody_needs_is_overwritten(mesh) -> None:
    axis, x, ws = split(mesh)
    f = jax.jit(jax.shard_map(lambda x, w: lax.psum(x.T @ (x @ w), axis), in_specs=(P(axis), P()), out_specs=P()))
    program = f.lower(x, ws[0]).compile()
    assert '.reshape(-1)' in program.as_python()
    want = X.T.astype(np.float64) @ X @ WEIGHTS[0]
    np.testing.assert_allclose(np.asarray(f(x, ws[0])), want, rtol=1e-4, atol=1e-4 * abs(want).max())
