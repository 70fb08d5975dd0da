"""The passes between a typed program and what a rank runs."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.compiler.passes import optimized
from distad.compiler.text import count_collectives
from distad.debug import count_collectives as counted

P = jax.P


def lines(f, *args) -> list[str]:
    return jax.jit(f).lower(*args).compile().as_text().splitlines()


@pytest.mark.meshes((2,))
def test_dead_code_goes_with_its_collectives_in_loops_too(mesh) -> None:
    x = jax.device_put(np.ones((3, 4), np.float32), P(None, 'X'))

    def f(x):
        def body(c, row):
            jnp.sum(row)
            return c + 1, jnp.sum(row)
        return lax.scan(body, 0, x)[0]
    assert not any('all-reduce' in line for line in lines(f, x))


@pytest.mark.meshes((2,))
def test_what_is_computed_twice_is_sent_once(mesh) -> None:
    x = jax.device_put(np.ones(4, np.float32), P('X'))
    text = '\n'.join(lines(lambda x: jnp.sum(x) * jnp.sum(x), x))
    assert text.count('all-reduce(') == 1


@pytest.mark.meshes((2,), (3,))
def test_collectives_that_are_ready_together_are_one_message(mesh) -> None:
    n = mesh.size
    a, b, c = (jax.device_put(np.full((2 * n, k), k, np.float32), P('X')) for k in (1, 2, 3))
    f = jax.jit(lambda a, b, c: (jnp.sum(a, 0), jnp.sum(jnp.sin(b), 0), jnp.sum(c * jnp.sum(a), 0)))
    want = f(*(jax.reshard(x, P()) for x in (a, b, c)))
    with counted() as sent:
        got = f(a, b, c)
    assert sent.by_op == {'all-reduce': 2}                     # the third needs the sum of a first
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


@pytest.mark.meshes((2,))
def test_gathers_are_not_made_before_they_are_needed(mesh) -> None:
    ws = [jax.device_put(np.eye(4, dtype=np.float32), P('X')) for _ in range(3)]

    def f(x, *ws):
        for w in ws:
            x = jnp.tanh(x @ jax.reshard(w * 2, P()))
        return x
    x = jax.device_put(np.ones((2, 4), np.float32), P())
    kinds = [line.split(' = ')[1].split('(')[0] for line in lines(f, x, *ws) if ' = ' in line]
    assert [k for k in kinds if k in ('all-gather', 'tanh')] == ['all-gather', 'tanh'] * 3


@pytest.mark.meshes((2,))
def test_calls_and_maps_stand_in_line(mesh) -> None:
    x = jax.device_put(np.ones((4, 3), np.float32), P('X'))
    inner = jax.jit(lambda x: jnp.sum(x, 0))
    mapped = jax.shard_map(lambda x: lax.psum(x.sum(1), 'X'), in_specs=P('X'), out_specs=P())
    f = lambda x: (inner(x), mapped(x))
    program = optimized(jax.jit(f).trace(x).closed)
    assert {e.primitive.name for e in program.equations}.isdisjoint({'jit', 'shard_map'})
    assert count_collectives(program) == {'all-reduce': 2}
    np.testing.assert_array_equal(jax.jit(f)(x)[0], np.full(3, 4.0))


@pytest.mark.meshes((2,))
def test_a_plan_counts_what_a_run_sends(mesh) -> None:
    x = jax.device_put(np.ones((5, 4), np.float32), P(None, 'X'))

    def f(x):
        return lax.scan(lambda c, row: (c + jnp.sum(row), None), 0.0, x)[0]
    jitted = jax.jit(f)
    with counted() as sent:
        jitted(x)
    assert count_collectives(optimized(jitted.trace(x).closed)) == sent.by_op == {'all-reduce': 5}
