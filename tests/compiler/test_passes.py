"""The optimizer: each pass does what it says, and the program still means the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.compiler.passes import optimized
from distad.compiler.text import count_collectives
from distad.config import config
from distad.core.jaxpr import check, sub_jaxprs
from distad.debug import count_collectives as counted
from distad.runtime import mpi

P = jax.P


def ops(f, *args) -> list[str]:
    """The operations of the program that runs, those inside loops too."""
    def names(jaxpr):
        for eqn in jaxpr.equations:
            yield eqn.primitive.name
            for inner in sub_jaxprs(eqn.params):
                yield from names(inner)
    program = optimized(jax.jit(f).trace(*args).closed)
    check(program)
    return list(names(program))


def body(f, *args) -> list[str]:
    program = optimized(jax.jit(f).trace(*args).closed)
    scan, = (eqn for eqn in program.equations if eqn.primitive.name == 'scan')
    return [eqn.primitive.name for eqn in scan.params['jaxpr'].equations]


X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.ranks(1)
@pytest.mark.parametrize('f, left', [
    (lambda x: jnp.negative(-x), []), (lambda x: x * 1.0 / 1.0, []), (lambda x: x - 0.0, []), (lambda x: x.T.T, []),
    (lambda x: x + 0.0, ['add']), (lambda x: (x @ x.T).T, ['transpose', 'dot_general']), (lambda x: x[:, :], []),
    (lambda x: jnp.pad(x, 0), []), (lambda x: jnp.transpose(jnp.transpose(x[None], (1, 2, 0)), (2, 1, 0)),
                                    ['broadcast_in_dim', 'transpose'])])
def test_what_does_nothing_goes_away_and_keeps_the_bits(f, left) -> None:
    assert ops(f, X) == left
    np.testing.assert_array_equal(jax.jit(f)(X), f(jnp.asarray(X)))


@pytest.mark.ranks(1)
@pytest.mark.parametrize('f', [
    lambda x: x * 1, lambda x: x / 1, lambda x: 1 * x, lambda x: x - 0, lambda x: x + 0, lambda x: 0 - x, lambda x: jnp.negative(-x),
    lambda x: x - (complex(0, -0.0) if x.dtype.kind == 'c' else -0.0), lambda x: x * -1, lambda x: x * 0, lambda x: x ** 1,
    lambda x: (x + 0.0, x + -0.0), lambda x: jnp.pad(x, 1), lambda x: jnp.pad(x * 2, 1, constant_values=-0.0),
    lambda x: jnp.where(x == x, x, -x), lambda x: lax.scan(lambda c, v: (c + v, c - 0), -x[0] * 0, x)])
@pytest.mark.parametrize('dtype', [np.float32, np.float64, np.float16, np.complex64, np.complex128])
def test_zeros_keep_their_signs(f, dtype) -> None:
    x = np.array([0.0, -0.0, 1.5, -2.0, 0.25, -0.0, 0.0], dtype).real
    if np.dtype(dtype).kind == 'c':
        x = np.stack(np.meshgrid(x, x), -1).view(dtype).ravel()
    for llvm in (True, False):
        with config.override(enable_x64=True, fuse_from=2, llvm=llvm):
            for got, want in zip(jax.tree.leaves(jax.jit(f)(x)), jax.tree.leaves(f(jnp.asarray(x))), strict=True):
                assert np.asarray(got).tobytes() == np.asarray(want).tobytes(), (got, want)


@pytest.mark.ranks(1)
@pytest.mark.parametrize('axis', [0, 1, (0, 1)])
@pytest.mark.parametrize('shape', [(1, 1), (1, 5), (5, 1), (5, 3), (33, 17), (3, 20000)])
def test_a_sum_of_negative_zeros_is_numpy_s(shape, axis) -> None:
    x = np.full(shape, -0.0, np.float32)
    want = np.signbit(np.sum(x, axis))
    for llvm in (True, False):
        with config.override(fuse_from=2, llvm=llvm):
            np.testing.assert_array_equal(np.signbit(jax.jit(lambda x: jnp.sum(x * 2, axis))(x)), want)


@pytest.mark.ranks(1)
def test_a_product_is_made_transposed_at_once_in_batches_too() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 5, 3, 4)).astype(np.float32)
    f = lambda a, b: jnp.einsum('bij,bkj->bki', a, b) + jnp.swapaxes(jnp.einsum('bij,bkj->bik', a, b), 1, 2)
    assert ops(f, a, b).count('dot_general') == 1
    np.testing.assert_allclose(jax.jit(f)(a, b), 2 * np.einsum('bij,bkj->bki', a, b), rtol=1e-5, atol=1e-6)


@pytest.mark.ranks(1)
def test_what_a_loop_computes_from_constants_is_computed_before_it() -> None:
    def f(w, xs):
        return lax.scan(lambda c, x: (c + x * jnp.sin(w), jnp.sum(c) * jnp.cos(jnp.sin(w))), jnp.zeros(4), xs)
    w = np.arange(4, dtype=np.float32)
    assert not {'sin', 'cos'} & set(body(f, w, X))
    for got, want in zip(jax.jit(f)(w, X), f(jnp.asarray(w), jnp.asarray(X)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.ranks(1)
def test_slices_that_come_out_as_they_went_in_are_not_copied() -> None:
    f = lambda xs: lax.scan(lambda c, x: (c + x, (x, c * 2)), jnp.zeros(4), xs, reverse=True)
    program = optimized(jax.jit(f).trace(X).closed)
    scan, = (eqn for eqn in program.equations if eqn.primitive.name == 'scan')
    assert len(scan.outs) == 2
    (_, (same, _)) = jax.jit(f)(X)
    np.testing.assert_array_equal(same, X)


@pytest.mark.meshes((2,), (2, 2))
def test_gathers_of_constants_stay_in_the_loop_where_the_user_put_them(mesh) -> None:
    w = jax.device_put(np.ones((4, 4), np.float32), P('X'))
    f = lambda w, x: lax.scan(lambda c, _: (c @ jax.reshard(w, P()), None), x, None, length=3)[0]
    x = jax.device_put(X, P())
    assert count_collectives(optimized(jax.jit(f).trace(w, x).closed)) == {'all-gather': 3}


# ---- hoist_reductions

def microbatches(w, xs):
    def step(acc, x):
        g = jax.grad(lambda w: jnp.sum(lax.scan(lambda h, v: (jnp.tanh(h @ v), None), x, w)[0] ** 2))(w)
        return acc + g, None
    return w - 0.1 * lax.scan(step, jnp.zeros_like(w), xs)[0]


@pytest.mark.meshes((2,), (3,))
def test_sums_of_gradients_leave_both_loops(mesh) -> None:
    n, r = mesh.size, np.random.default_rng(0)
    w = jax.device_put(r.normal(size=(2, 4, 4)).astype(np.float32), P())
    xs = jax.device_put(r.normal(size=(5, 2 * n, 4)).astype(np.float32), P(None, 'X'))
    plain, hoisted = jax.jit(microbatches), jax.jit(microbatches, hoist_reductions=True)
    with counted() as sent:
        want = plain(w, xs)
    assert sent.by_op == {'all-reduce': 10}
    with counted() as sent:
        got = hoisted(w, xs)
    assert sent.by_op == {'all-reduce': 1}
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6)
    assert got.type == want.type


@pytest.mark.meshes((2,), (3,))
@pytest.mark.parametrize('f', [
    lambda x: lax.scan(lambda c, r: (c + 2 * jnp.sum(r, 0), None), jnp.ones(3), x)[0],                   # scaled
    lambda x: lax.scan(lambda c, r: (c - 1, -jnp.sum(r, 0)), jnp.ones(3), x),                            # stacked, negated
    lambda x: lax.scan(lambda c, r: (c + jnp.sum(r, 0) + jnp.sum(r * r, 0), None), jnp.ones(3), x)[0],   # two sums
    lambda x: lax.scan(lambda c, r: (c * jnp.sum(r, 0), None), jnp.ones(3), x)[0],                       # not a sum of sums: stays
    lambda x: lax.scan(lambda c, r: (c + jnp.sum(r, 0), c), jnp.ones(3), x),                             # read in each round: stays
])
def test_hoisted_programs_mean_the_same(mesh, f) -> None:
    x = jax.device_put(np.random.default_rng(1).normal(size=(4, 2 * mesh.size, 3)).astype(np.float32), P(None, 'X'))
    for got, want in zip(jax.tree.leaves(jax.jit(f, hoist_reductions=True)(x)), jax.tree.leaves(jax.jit(f)(x)), strict=True):
        assert got.type == want.type
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6)


def test_programs_are_written_after_each_pass(tmp_path) -> None:
    with config.override(dump=str(tmp_path)):
        jax.jit(lambda x: jnp.negative(-x) + jnp.sin(x))(np.ones(3, np.float32))
    folder = Path(tmp_path) / f'rank{mpi.rank()}'
    names = sorted(p.name for p in folder.rglob('*.txt'))
    assert names[0].startswith('00_traced') and any('simplify' in n for n in names)
