"""Passes over memory that are joined give what each equation alone gives, by LLVM and by NumPy."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax, nn
from distad.compiler.llvm import engine, loops
from distad.config import config
from tests.compiler.programs import COMPILED, fused

pytestmark = pytest.mark.ranks(1)
BACKENDS = [True, False] if engine.available() else [False]
R = np.random.default_rng(0)
X, Y = R.normal(size=(2, 37, 53)).astype(np.float32)
ROW, COLUMN = X[:1], X[:, :1]


def layer_norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def heat(u, top, bottom):
    v = jnp.pad(jnp.concatenate([top, u, bottom]), ((0, 0), (1, 1)))
    return u + 0.1 * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * u)


def adam(w, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


# what is computed, its operands, and how many passes over memory it may take
PROGRAMS = {
    'chain': (lambda x, y: jnp.maximum(x * 0.5 + y, 0) * x - y, (X, Y), 1),
    'broadcasts': (lambda x, r, c: (x + r) * c - r * 2, (X, ROW, COLUMN), 1),
    'casts and selects': (lambda x: jnp.where(x > 0, x.astype(np.int32) * 2, -3) % 2 == 0, (X,), None),
    'softmax': (lambda x: nn.softmax(x, axis=-1), (X,), 1),
    'logsumexp': (lambda x: x - jnp.log(jnp.sum(jnp.exp(x - x.max(1, keepdims=True)), 1, keepdims=True)), (X,), 1),
    'layer norm': (layer_norm, (X, X[0], Y[0]), 1),
    'layer norm backwards': (jax.grad(lambda *a: (layer_norm(*a) ** 2).sum(), (0, 1, 2)), (X, X[0], Y[0]), None),
    'sums of all kinds': (lambda x: (jnp.sum(x * x), jnp.max(x + 1, 0), jnp.min(x * 2, 1), jnp.sum(x * 3, (0,))), (X,), 1),
    'optimizer': (adam, (X, Y, X * 0.1, X * X), 1),
    'stencil': (heat, (X, X[:1], Y[:1]), 1),
    'stencil backwards': (jax.grad(lambda *a: (heat(*a) ** 2).sum(), (0, 1, 2)), (X, X[:1], Y[:1]), None),
    'strides and turns': (lambda x: x[::-1, ::2] * 2 + x[:, 1::2][:, :1] * x[:, ::-2], (X,), 1),
    'transposed': (lambda x: (x.T * 2 + 1) * jnp.exp(x.T), (X,), 1),
    'negative pads': (lambda x: lax.pad(x * 2, np.float32(7), ((-1, 2, 0), (3, -2, 0))) + 1, (X,), None),
    'rows in batches': (lambda x: nn.softmax(x.reshape(1, 37, 53), -1) * 2, (X,), 1),
    'sums of sums': (lambda x: jnp.sum(jnp.exp(x) / jnp.sum(jnp.exp(x), 1, keepdims=True), 0), (X,), 1),
    'gelu': (lambda x: nn.gelu(x, approximate=False) + nn.gelu(x), (X,), 1),
}


@pytest.mark.parametrize('llvm', BACKENDS)
@pytest.mark.parametrize('name', PROGRAMS)
def test_programs(name, llvm) -> None:
    f, args, passes = PROGRAMS[name]
    got, names = fused(f, *args, llvm=llvm)
    want, plain = fused(f, *args, llvm=False, least=1 << 40)
    assert 'fused' in names and 'fused' not in plain
    if passes and llvm:
        assert names.count('fused') == passes, names
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(g.astype(float), w.astype(float), rtol=2e-5, atol=2e-5)


def test_large_groups_in_blocks_of_rows() -> None:
    x = R.normal(size=(700, 300)).astype(np.float32)
    f = lambda x: (layer_norm(x, x[0], 1.0), jnp.sum(x * x, 0), jnp.max(jnp.abs(x)))
    got, names = fused(f, x, llvm=False)
    want, _ = fused(f, x, llvm=False, least=1 << 40)
    assert 'fused' in names
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-4, atol=1e-4)


# ---- arrays as they come

@pytest.mark.parametrize('llvm', BACKENDS)
def test_operands_that_are_no_contiguous_arrays(llvm) -> None:
    with config.override(llvm=llvm, fuse_from=2):
        f = jax.jit(lambda x, s: x * s + jnp.exp(x))
        x = jnp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
        for y in (x.T, x[:, ::2], jnp.broadcast_to(x[0], (5, 4))):
            np.testing.assert_allclose(f(y, np.float32(2)), np.asarray(y) * 2 + np.exp(np.asarray(y)), rtol=1e-6)


@pytest.mark.parametrize('llvm', BACKENDS)
def test_results_are_not_overwritten_by_the_next_call(llvm) -> None:
    with config.override(llvm=llvm, fuse_from=2):
        f = jax.jit(lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c - v), x[0], x))
        results = [f(jnp.asarray(X) * k) for k in range(3)]
        for k, (carry, rows) in enumerate(results):
            c = X[0] * k
            for v, row in zip(X * k, np.asarray(rows), strict=True):
                np.testing.assert_allclose(row, c - v, rtol=1e-5, atol=1e-5)
                c = c * np.float32(0.5) + v
            np.testing.assert_allclose(carry, c, rtol=1e-5, atol=1e-5)


def test_threads_run_one_program_at_once() -> None:
    with config.override(fuse_from=2):
        f = jax.jit(lambda x: jnp.sum(jnp.sin(x) * x + 1, 1))
        f(jnp.asarray(X))
        right = []

        def work(k):
            x = jnp.asarray(X * k)
            for _ in range(50):
                right.append(np.allclose(f(x), (np.sin(X * k) * (X * k) + 1).sum(1), atol=1e-3))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert right == [True] * 150


@COMPILED
@pytest.mark.parametrize('dtype', [np.float32, np.float64, np.int64, np.complex64, np.complex128])
def test_a_large_result_is_written_past_the_cache_wherever_it_begins(dtype, monkeypatch):
    monkeypatch.setattr(loops, 'STREAM', 0)
    monkeypatch.setattr(engine, '_remembered', engine._remembered.__wrapped__)
    with config.override(enable_x64=True, fuse_from=2):
        for n in (2, 3, 5, 8, 15, 17, 64, 1003):                     # of few elements none may begin a line
            a, b = np.round(10 * R.normal(size=(2, n + 32))).astype(dtype)
            compiled = jax.jit(lambda x, y: x * 2 - (x + y) * y).lower(jnp.asarray(a[:n]), jnp.asarray(b[:n])).compile()
            group, = compiled.program.jaxpr.equations
            told = [group.params[k] for k in ('jaxpr', 'space', 'rows')]
            assert '!nontemporal' in loops.kernel_text(*told)
            kernel, order = engine.kernel(*told), [compiled.program.jaxpr.ins.index(v) for v in group.ins]
            for first in (0, 1, 7, 16):
                x, y, room = a[first:first + n].copy(), b[first:first + n].copy(), np.full(n + 32, 77, dtype)
                want = x * 2 - (x + y) * y
                operands = [(x, y)[i] for i in order]
                kernel(*operands, room[first:first + n])
                np.testing.assert_array_equal(room[first:first + n], want)
                assert (room[:first] == 77).all() and (room[first + n:] == 77).all()
                if room.dtype.kind == 'c':                           # aligned as its parts are, no number begins a line
                    parts = np.full(2 * n + 64, 77, room.real.dtype)
                    kernel(*operands, parts[2 * first + 1:][:2 * n].view(dtype))
                    np.testing.assert_array_equal(parts[2 * first + 1:][:2 * n].view(dtype), want)
                    assert (parts[:2 * first + 1] == 77).all() and (parts[2 * first + 1 + 2 * n:] == 77).all()
                kernel(*operands, y)                                 # in place
                np.testing.assert_array_equal(y, want)


@COMPILED
def test_long_functions_of_one_another_are_computed_in_stages():
    def chain(x, y):
        t = jnp.tanh(x + y)
        a = jnp.exp(-t * x) + jnp.sin(t)
        return jnp.log(a * a + 1) + t, jnp.sum(jnp.exp(a) > 1.5), (a > 0.3) & (jnp.cos(x) > 0)
    for n in (127, 128, 512, 515, 1040, 2000):
        x, y = np.random.default_rng(n).normal(size=(2, 3, n))
        for got, want in zip(fused(chain, x, y)[0], fused(chain, x, y, llvm=False, least=1 << 40)[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@COMPILED
@pytest.mark.parametrize('name', ['chain', 'softmax', 'stencil', 'transposed', 'gelu', 'strides and turns'])
def test_passes_go_forwards_and_backwards_by_turns(name, monkeypatch):
    f, args, _ = PROGRAMS[name]
    monkeypatch.setattr(loops, 'TURN', 1 << 40)
    monkeypatch.setattr(engine, '_remembered', engine._remembered.__wrapped__)
    want = fused(f, *args)[0]
    monkeypatch.setattr(loops, 'TURN', 0)
    ways = set()
    for _ in range(2):
        for got, y in zip(fused(f, *args)[0], want, strict=True):
            np.testing.assert_array_equal(got, y)
        ways.add(engine._turn.value)
    assert ways == {1, -1}
