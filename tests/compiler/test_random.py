"""Random programs of elementwise ops, moves, reductions and loops: joined by LLVM and by NumPy they give what single equations give.

Faults of fusion are faults of index arithmetic, so dimensions are 1, or a vector's 16 lanes and one beside, or few.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import Array, lax, nn
from distad.compiler.llvm import engine
from distad.compiler.llvm.loops import kernel_text
from distad.config import config
from tests.compiler.test_fusion import BACKENDS

pytestmark = pytest.mark.ranks(1)
SIZES = (1, 1, 1, 2, 3, 5, 8, 16, 17, 33)


def of_one_zero(f: Callable) -> Callable:
    """A function of operands without -0: of two zeros max and min may take either, and the sign of -0 is 0 or -0, by dtype."""
    return lambda *xs, **params: f(*(x + 0 if jnp.issubdtype(x.dtype, np.inexact) else x for x in xs), **params)


BINARY = (jnp.add, jnp.subtract, jnp.multiply, of_one_zero(jnp.maximum), of_one_zero(jnp.minimum), jnp.arctan2,
          jnp.hypot, jnp.logaddexp, lambda x, y: x / (1 + y * y))
UNARY = (jnp.tanh, jnp.sin, of_one_zero(jnp.abs), jnp.negative, nn.sigmoid, jnp.square, of_one_zero(nn.relu),
         lambda x: jnp.exp(-x * x), jnp.ceil, lambda x: jnp.arcsin(jnp.clip(x, -0.9, 0.9)))
MAX, MIN = of_one_zero(jnp.max), of_one_zero(jnp.min)
REDUCE = (jnp.sum, jnp.sum, MAX, MIN, jnp.mean)
SAME: tuple[Callable, ...] = (                                       # of one shape, for the rounds of loops
    lambda c: c * 0.5 + 1, jnp.tanh, lambda c: nn.softmax(c, -1), lambda c: c - jnp.mean(c, -1, keepdims=True),
    lambda c: c * 0.9 - MAX(c, axis=0, keepdims=True) * 0.1, lambda c: jnp.flip(c, 0) * 0.7 + c, lambda c: jnp.roll(c, 1, -1) - c * 0.2,
    lambda c: c.at[0].set(0.5), lambda c: c.at[-1].add(c[0]), lambda c: c.at[1:-1].set(c[2:] * 0.25 + c[:-2] * 0.5),
    lambda c: c + jnp.pad(c[1:], ((0, 1), *[(0, 0)] * (c.ndim - 1))) * 0.5, lambda c: jnp.concatenate([c[-1:] * 2, c[:-1]], 0),
    lambda c: (c[..., ::-1] + c) * 0.4, lambda c: jnp.where(c > 0.3, c, -c * 0.5))


def fits(x: Array, y: Array) -> tuple[Array, Array]:
    if math.prod(np.broadcast_shapes(x.shape, y.shape)) > 1 << 20:
        raise ValueError('too large')
    return x, y


WHOLE = (jnp.floor_divide, jnp.remainder, lax.rem, lax.div, jnp.left_shift, jnp.right_shift, jnp.bitwise_and, jnp.bitwise_xor,
         jnp.maximum, lambda x, y: x + lax.population_count(y), lambda x, y: x - lax.clz(y), lambda x, y: jnp.where(x > y, x, -y))
INTEGERS = (np.int32, np.int8, np.uint16, np.int16)


def whole(r: random.Random, x: Array, y: Array) -> Array:
    dtype = r.choice(INTEGERS)
    z = r.choice(WHOLE)(*((jnp.round(v) * 3).astype(dtype) for v in fits(x, y)))
    return jnp.clip(z.astype(x.dtype) * 0.3, -4, 4)


def broadcast(r: random.Random, x: Array) -> Array:
    k = r.randint(0, x.ndim)
    return jnp.broadcast_to(jnp.expand_dims(x, k), (*x.shape[:k], r.choice((1, 1, 2, 3)), *x.shape[k:]))


def reduction(r: random.Random, x: Array) -> Array:
    return r.choice(REDUCE)(x, axis=tuple(r.sample(range(x.ndim), r.randint(1, x.ndim))), keepdims=r.random() < 0.5)


def part(r: random.Random, x: Array) -> Array:
    def entry(n: int) -> int | slice:
        kind = r.random()
        if kind < 0.1:
            return r.randrange(n)
        first = r.randrange(n) if kind < 0.5 else 0
        last = r.randint(first + 1, n) if r.random() < 0.5 else n
        return slice(first, last, r.choice((1, 1, 2, 3))) if r.random() < 0.8 else slice(None, None, r.choice((-1, -2, -3)))
    return x[tuple(map(entry, x.shape))]


def padded(r: random.Random, x: Array) -> Array:
    edges = (0, 0, 0, 1, 2, -1)
    return lax.pad(x, jnp.asarray(r.choice((0, 1)), x.dtype), [
        (r.choice(edges if n > 2 else edges[:5]), r.choice(edges if n > 2 else edges[:5]), r.choice((0, 0, 0, 0, 1))) for n in x.shape])


def concatenated(r: random.Random, x: Array, y: Array) -> Array:
    k = r.randrange(x.ndim)
    return jnp.concatenate(r.choice(([x, y], [x, x * 2], [x[:0], y, x], [y])), k)


def rounds(r: random.Random, x: Array) -> Array:
    steps = r.sample(SAME, r.randint(1, 3))

    def body(_, c):
        for step in steps:
            c = step(c)
        return c
    return lax.fori_loop(0, r.choice((1, 2, 3)), body, x)


def scanned(r: random.Random, x: Array) -> Array:
    step = r.choice(SAME) if x.ndim > 1 else jnp.sin
    carry, rows = lax.scan(lambda c, v: (c * 0.5 + v, step(c - v) * v), x[0], x)
    return rows if r.random() < 0.7 else carry


OPS: tuple[Callable, ...] = (                                        # of a source of choices, and two values made before
    *(lambda r, x, y: r.choice(BINARY)(*fits(x, y)),) * 4,
    *(lambda r, x, y: r.choice(UNARY)(x),) * 2,
    *(lambda r, x, y: reduction(r, x),) * 3,
    *(lambda r, x, y: broadcast(r, x),) * 2,
    *(lambda r, x, y: part(r, x),) * 3,
    *(lambda r, x, y: padded(r, x),) * 2,
    *(lambda r, x, y: concatenated(r, x, y),) * 2,
    lambda r, x, y: x * r.choice((0.5, -1, 3)) + r.choice((0, 1)),
    lambda r, x, y: jnp.where(x > 0, *fits(x, y)),
    lambda r, x, y: jnp.where(jnp.less(*fits(x, y)), y, 0.25),
    lambda r, x, y: jnp.transpose(x, r.sample(range(x.ndim), x.ndim)),
    lambda r, x, y: jnp.flip(x, r.randrange(x.ndim)),
    lambda r, x, y: jnp.squeeze(x),
    lambda r, x, y: x.reshape(r.choice(((-1,), (1, *x.shape), (*x.shape, 1), (x.shape[0], -1)))),
    lambda r, x, y: jnp.multiply(*fits(jnp.expand_dims(x, -1), jnp.expand_dims(y, -2))),
    lambda r, x, y: jnp.cumsum(x, r.randrange(x.ndim)) * 0.2,
    lambda r, x, y: x.at[tuple(r.randrange(n) for n in x.shape)].set(1.5),
    lambda r, x, y: jnp.round(x).astype(np.int32).astype(x.dtype) * 0.5,
    *(lambda r, x, y: whole(r, x, y),) * 2,
    lambda r, x, y: x.astype(r.choice((np.float16, jnp.bfloat16))).astype(x.dtype) * y,
    lambda r, x, y: jnp.greater(*fits(x, y)) & (y > -1),
    lambda r, x, y: nn.softmax(x, r.randrange(x.ndim)),
    lambda r, x, y: x - jnp.mean(x, -1, keepdims=True),
    lambda r, x, y: jnp.var(x, r.randrange(x.ndim), keepdims=True),
    lambda r, x, y: r.choice(SAME)(x),
    lambda r, x, y: x[tuple(r.randrange(n) for n in x.shape)] * y,
    lambda r, x, y: rounds(r, x),
    lambda r, x, y: scanned(r, x))


def program(seed: int, largest: int) -> tuple[Callable, list[np.ndarray]]:
    """A function of arrays, and the arrays: ops on what was made before; some of what is made comes out, and the last."""
    r = random.Random(seed)
    shape: Sequence[int] = [r.choice(SIZES) for _ in range(r.choice((1, 2, 2, 3, 3, 4)))]
    if largest > 1 << 16 and r.random() < 0.5:                       # longer than a block, or than a row that is kept
        shape = r.choice(((300, 257), (3, 20000), (1, 70001), (70000, 1), (40, 17, 129), (5, 1, 17000)))
    shapes = [tuple(n if r.random() < 0.8 else 1 for n in shape) for _ in range(r.randint(1, 3))]
    numbers = np.random.default_rng(seed)
    dtype = np.dtype((np.float32, np.float32, np.float32, np.float64, np.float32, jnp.bfloat16, np.float16, np.float64)[seed % 8])
    operands = [numbers.normal(size=s).astype(dtype) for s in shapes if math.prod(s) <= largest] or [np.ones((2, 1), dtype)]

    def f(*known):
        choices, made = random.Random(seed), list(known)
        for _ in range(choices.randint(6, 20)):
            x, y = (made[-1 - min(len(made) - 1, int(choices.expovariate(0.4)))] for _ in range(2))
            try:
                v = choices.choice(OPS)(choices, x, y)
            except (TypeError, ValueError, IndexError):              # not with these shapes
                continue
            if 0 < v.size <= largest and v.ndim < 6:
                made.append(v)
        return tuple(choices.sample(made, min(3, len(made)))) + (made[-1],)
    return f, operands


def loss(f: Callable) -> Callable:
    return lambda *xs: sum((jnp.sum(jnp.square(y)) for y in f(*xs) if y.dtype == xs[0].dtype), jnp.sum(xs[0]) * 0.1)


def faults(seed: int, largest: int = 4000, backends: Sequence[bool] = BACKENDS) -> list[str]:
    """What differs between a program run equation by equation and the same program joined, forwards or backwards."""
    f, operands = program(seed, largest)
    if seed % 3 == 0:
        f = jax.grad(loss(f), tuple(range(len(operands))))
    found = []
    with config.override(enable_x64=seed % 4 == 3, fuse_from=2), np.errstate(all='ignore'):
        xs = list(map(jnp.asarray, operands))
        want = [np.asarray(y) for y in f(*xs)]
        for llvm in backends:
            with config.override(llvm=llvm):
                got = [np.asarray(y) for y in jax.jit(lambda *xs: f(*xs))(*xs)]
            for i, (a, b) in enumerate(zip(got, want, strict=True)):
                if a.dtype != b.dtype or a.shape != b.shape or not close(a, b, operands[0].dtype):
                    found.append(f"seed {seed}, {'LLVM' if llvm else 'NumPy'}, result {i}: {a.dtype}{a.shape} {a.ravel()[:5]}, "
                                 f"not {b.dtype}{b.shape} {b.ravel()[:5]}")
    return found


def close(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> bool:
    """Whether results differ by no more than what a few roundings in a dtype make of it; zeros have the same signs."""
    a, b = a.astype(float), b.astype(float)
    zeros = (a == 0) & (b == 0)
    if (np.signbit(a[zeros]) != np.signbit(b[zeros])).any():
        return False
    scale = max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0))
    far = {2: 8 * float(jnp.finfo(dtype).eps)}.get(dtype.itemsize, 3e-4)
    return np.allclose(a, b, rtol=max(2e-3, far), atol=far * scale, equal_nan=True)


@pytest.mark.parametrize('first', range(0, 100, 10))
def test_random_programs(first, monkeypatch) -> None:
    def text(*group) -> str:
        """Cuts into many boxes alone are a reason to refuse; an access that is not proved is a fault, though it does no harm."""
        try:
            return kernel_text(*group)
        except NotImplementedError as error:
            assert 'boxes' in str(error)
            raise
    monkeypatch.setattr(engine, 'kernel_text', text)
    # NumPy runs a group equation by equation, so every fourth is enough
    assert not [fault for seed in range(first, first + 10) for fault in faults(seed, 4000, BACKENDS[:2 if seed % 4 == 1 else 1])]
