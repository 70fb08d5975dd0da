"""Donated arguments: deleted by the call, their memory taken for results unless somebody looks at it."""

from __future__ import annotations

import gc
import tracemalloc
import warnings

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp

P, alone = jax.P, pytest.mark.ranks(1)
N = 1 << 16
X = np.random.default_rng(0).normal(size=N).astype(np.float32)


def update(params, g):
    return {k: w - 0.1 * g for k, w in params.items()}


@pytest.mark.meshes((1,), (2,))
def test_results_are_made_in_the_memory_of_donated_arguments(mesh) -> None:
    step = jax.jit(update, donate_argnums=0)
    g = jax.device_put(X, P('X'))
    for _ in range(3):                                                 # the first call compiles, others are looked up
        params = {k: jax.device_put(X * i, P('X')) + 0 for i, k in enumerate('ab')}
        before = {w.block.ctypes.data for w in params.values()}
        made = step(params, g)
        assert {y.block.ctypes.data for y in made.values()} == before
        assert all(w.is_deleted() for w in params.values()) and not g.is_deleted()
        for i, k in enumerate('ab'):
            assert not made[k].block.flags.writeable
            np.testing.assert_allclose(jax.process_allgather(made[k]), X * i - 0.1 * X, rtol=1e-5, atol=1e-6)


@pytest.mark.meshes((1,), (2,))
def test_a_donated_array_is_gone_and_says_where(mesh) -> None:
    step = jax.jit(update, donate_argnames='params')
    w = jax.device_put(X, P('X'))
    step({'w': w}, 2.0)
    for use in (lambda: w + 1, lambda: np.asarray(w), lambda: repr(w), lambda: step({'w': w}, 2.0), lambda: jax.jit(jnp.sin)(w),
                lambda: jax.grad(lambda w: jnp.sum(w))(w), lambda: jax.reshard(w, P())):
        with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[65536@X\]: argument 0\['w'\] was donated to jit\(update\)"
                                               r", called at .*test_donation.py:\d+ .*jnp.array\(x\)"):
            use()
    assert w.shape == (N,) and w.dtype == np.float32 and w.is_deleted()
    kept = jnp.array(jax.device_put(X, P('X')))                        # the repair
    step({'w': jnp.array(kept)}, 2.0)
    assert not kept.is_deleted()


@alone
@pytest.mark.parametrize('donated', [0, (0, 1)])
def test_one_array_in_two_places_is_refused(donated) -> None:
    f = jax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=donated)
    x = jnp.asarray(X)
    with pytest.raises(ValueError, match=r'argument 0 is donated, and the same array, .* is argument 1 .*jnp.array'):
        f(x, x)
    assert not x.is_deleted()
    f(x, jnp.array(x))
    x = jnp.asarray(X)
    with pytest.raises(ValueError, match='f\\(donate\\(a\\), a\\)'):    # where the call is looked up too
        f(x, x)


@alone
def test_memory_that_somebody_looks_at_is_left_alone() -> None:
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    for look in (lambda x: np.asarray(x), lambda x: np.asarray(x)[3:], lambda x: x.block, lambda x: jnp.reshape(x, (2, -1)).block):
        x = jnp.asarray(X)
        seen = look(x)
        want = seen.copy()
        y = f(x)
        assert x.is_deleted()
        np.testing.assert_array_equal(seen, want)
        np.testing.assert_allclose(y, X + 1)


@alone
def test_results_that_are_arguments_or_views_of_them() -> None:
    f = jax.jit(lambda x, y: (x, y.reshape(256, -1).T, y * 2), donate_argnums=(0, 1))
    x, y = jnp.asarray(X), jnp.asarray(X)
    a, b, c = f(x, y)
    assert x.is_deleted() and y.is_deleted()
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, X.reshape(256, -1).T)
    np.testing.assert_array_equal(c, X * 2)


@alone
def test_an_argument_without_a_result_like_it_stays() -> None:
    f = jax.jit(lambda x, y: y * jnp.sum(x), donate_argnums=(0, 1))
    x, y = jnp.asarray(X), jnp.asarray(X[:5])
    with pytest.warns(UserWarning, match=r'not usable: jit\(<lambda>\) .* float32\[65536\]'):
        f(x, y)
    assert not x.is_deleted() and y.is_deleted()


@alone
def test_nothing_is_given_up_inside_a_transformation() -> None:
    f = jax.jit(lambda x: x * 2, donate_argnums=0)
    for transformed in (jax.grad(lambda x: jnp.sum(f(x))), jax.vmap(f), jax.jit(lambda x: f(x) + x)):
        x = jnp.asarray(X[:4])
        transformed(x)
        assert not x.is_deleted()
    with jax.disable_jit():
        f(x)
    assert not x.is_deleted()


@alone
def test_places_and_names_are_checked() -> None:
    f = lambda x, y=1: x
    for options, text in (({'donate_argnums': 2}, 'takes 2 positional'), ({'donate_argnames': 'z'}, 'no argument of that name'),
                          ({'donate_argnums': 0, 'static_argnums': 0}, 'static and donated'),
                          ({'donate_argnames': 'x', 'static_argnums': 0}, 'static and donated')):
        with pytest.raises(ValueError, match=text):
            jax.jit(f, **options)
    by_place, by_name = jax.jit(f, donate_argnums=0, static_argnums=1), jax.jit(lambda *a, k: a[0] + k, donate_argnames='k')
    x, k = jnp.asarray(X), jnp.asarray(X)
    by_place(x, 3)
    by_name(jnp.asarray(X), k=k)
    assert x.is_deleted() and k.is_deleted()
    by_place(jnp.asarray(X), 3)
    x = jnp.asarray(X)
    jax.jit(f, donate_argnums=0)(x=x)
    assert x.is_deleted()
    x.delete()


@alone
def test_an_update_needs_no_second_copy() -> None:
    def peak(donated) -> int:
        step = jax.jit(lambda p, g: [w - 0.1 * g for w in p], donate_argnums=donated)
        g = jnp.asarray(X)

        def told(p):
            return step.lower(p, g).compile().memory_analysis()
        most = 0
        for _ in range(2):
            p = [jnp.asarray(X) for _ in range(8)]
            analysis = told(p)
            gc.collect()
            tracemalloc.start()
            p = step(p, g)
            most = max(most, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert abs(analysis.peak_memory_in_bytes - analysis.argument_size_in_bytes - most) < X.nbytes
        return most
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert peak(0) < X.nbytes < 7 * X.nbytes < peak(())


@pytest.mark.meshes((1,), (2,))
def test_the_peak_of_a_training_step_is_predicted(mesh) -> None:
    """Weights, one sum of gradients, activations, and nothing else."""
    layers, width, rows = 4, 256, 8 * mesh.size

    def loss(w, x):
        return jnp.sum(jax.lax.scan(lambda h, v: (jnp.tanh(h @ v), None), x, w)[0] ** 2)

    def step(w, xs):
        zero = jax.reshard(jnp.zeros_like(w), P(unreduced={'X'}))
        total = jax.lax.scan(lambda t, x: (t + jax.grad(loss)(w, x), None), zero, xs)[0]
        return jax.reshard(jax.reshard(w, P()) - 0.1 * jax.reshard(total, P()), P(reduced={'X'}))
    step = jax.jit(step, donate_argnums=0)
    w = jax.reshard(jax.device_put(np.ones((layers, width, width), np.float32) / width, P()), P(reduced={'X'}))
    xs = jax.device_put(np.ones((3, rows, width), np.float32), P(None, 'X', None))
    for _ in range(2):
        w = step(w, xs)
    told = step.lower(w, xs).compile().memory_analysis()
    gc.collect()
    tracemalloc.start()
    w = step(w, xs)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told.alias_size_in_bytes == w.block.nbytes
    assert w.block.nbytes < used < 1.3 * w.block.nbytes * (1 if mesh.axis_sizes == (1,) or jax.process_index() == 0 else 2)
    if jax.process_index() == 0:                     # others make zeros anew, where a value becomes unreduced
        assert abs(told.peak_memory_in_bytes - told.argument_size_in_bytes - used) < 0.1 * used
