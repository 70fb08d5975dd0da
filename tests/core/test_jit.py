"""jit, scan and control flow: caches, types, texts, and the agreement of ranks."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.testing import launch

P = jax.P


@pytest.mark.ranks(1)
def test_a_function_is_traced_once_for_each_combination_of_types() -> None:
    traced = []

    @jax.jit
    def f(x, y=1.0):
        traced.append(jax.typeof(x))
        return x * y
    f(jnp.ones(3)), f(jnp.zeros(3)), f(jnp.ones(3), 2.0)
    assert len(traced) == 2
    f(jnp.ones(4))
    assert len(traced) == 3


@pytest.mark.ranks(1)
def test_static_arguments_reach_python_and_must_be_hashable() -> None:
    f = jax.jit(lambda x, n, how='sum': sum(x for _ in range(n)) if how == 'sum' else x, static_argnums=1, static_argnames='how')
    assert float(f(2.0, 3)) == 6 and float(f(2.0, 4)) == 8 and float(f(2.0, 4, how='one')) == 2
    with pytest.raises(ValueError, match='hashable'):
        f(2.0, [1])

    @jax.jit
    def method_like(self, x):
        return x + 1

    class Model:
        step = jax.jit(lambda self, x: x + self.bias, static_argnums=0)
        bias = 2
    assert float(Model().step(1.0)) == 3


@pytest.mark.meshes((2,), (3,))
def test_programs_can_be_looked_at(mesh) -> None:
    n = mesh.size
    x = jax.device_put(np.ones((2 * n, 3), np.float32), P('X'))

    @jax.jit
    def f(x):
        return jnp.sum(x, axis=0)
    jaxpr = str(f.trace(x).jaxpr)
    assert f'f32[{2 * n}@X,3]' in jaxpr and '{U:X} = reduce_sum' in jaxpr
    compiled = f.lower(x).compile()
    line, = [t for t in compiled.as_text().splitlines() if 'all-reduce(' in t]
    assert 'op_name="jit(f)/reshard"' in line and 'test_jit.py' in line
    assert 'def program(' in compiled.as_python()
    shape = jax.eval_shape(f, jax.ShapeDtypeStruct((4 * n, 3), np.float32, sharding=x.sharding))
    assert shape.shape == (3,) and shape.dtype == np.float32
    assert 'mul' in str(jax.make_jaxpr(lambda x: x * 2)(x))


@pytest.mark.meshes((2,), (2, 2))
def test_a_scan_keeps_types_and_says_what_mends_a_carry(mesh) -> None:
    xs = jax.device_put(np.ones((3, 4), np.float32), P(None, 'X'))
    total, parts = lax.scan(lambda c, x: (c + x, c), jnp.zeros_like(xs[0]), xs)
    assert str(jax.typeof(total)) == 'float32[4@X]' and str(jax.typeof(parts)) == 'float32[3,4@X]'
    back, _ = lax.scan(lambda c, x: (x, None), xs[0] * 0, xs * jnp.arange(3.0)[:, None], reverse=True)
    np.testing.assert_array_equal(jax.process_allgather(back), np.zeros(4))
    message = r"carry\['a'\] enters a round as float32\[4\] and leaves it as float32\[4@X\].*reshard"
    with pytest.raises(TypeError, match=message) as caught:
        lax.scan(lambda c, x: ({'a': c['a'] + x}, None), {'a': jnp.zeros(4)}, xs)
    assert "P('X',)" in str(caught.value)
    fixed, _ = lax.scan(lambda c, x: ({'a': c['a'] + x}, None), {'a': jax.reshard(jnp.zeros(4), P('X',))}, xs)
    np.testing.assert_array_equal(jax.process_allgather(fixed['a']), np.full(4, 3.0))
    with pytest.raises(jax.ShardingTypeError, match='split over X'):
        lax.scan(lambda c, x: (c, x), 0.0, jax.device_put(np.ones((4, 3)), P('X')))
    with pytest.raises(ValueError, match='different sizes'):
        lax.scan(lambda c, x: (c, None), 0.0, (jnp.ones(3), jnp.ones(4)))


@pytest.mark.ranks(1, 2)
def test_nested_loops_and_their_derivatives() -> None:
    def f(x, w):
        def outer(c, k):
            inner, _ = lax.scan(lambda d, j: (jnp.sin(d * w) + j, None), c, jnp.arange(3.0))
            return inner * k, inner
        last, every = lax.scan(outer, x, jnp.arange(1.0, 4.0))
        return last + jnp.sum(every)

    def plain(x, w):
        c, every = x, []
        for k in range(1, 4):
            for j in range(3):
                c = jnp.sin(c * w) + float(j)
            every.append(c)
            c = c * float(k)
        return c + sum(every)
    for a, b in ((f, plain), (jax.grad(f), jax.grad(plain)), (jax.grad(f, 1), jax.grad(plain, 1)),
                 (jax.jit(jax.grad(f)), jax.grad(plain)),
                 (jax.grad(jax.grad(f), 1), jax.grad(jax.grad(plain), 1))):
        assert float(a(0.4, 1.3)) == pytest.approx(float(b(0.4, 1.3)), rel=1e-4)


@pytest.mark.ranks(1)
def test_loops_of_unknown_length_go_forwards_only() -> None:
    double = lambda x: lax.while_loop(lambda c: c < 100.0, lambda c: c * 2, x)
    assert float(double(3.0)) == 192 and float(jax.jvp(double, (3.0,), (1.0,))[1]) == 64
    with pytest.raises(NotImplementedError, match='scan, or fori_loop'):
        jax.grad(double)(3.0)
    power = lambda x, n: lax.fori_loop(0, n, lambda i, c: c * x, 1.0)
    assert float(power(2.0, 5)) == 32 and float(jax.grad(power)(2.0, 5)) == 80


@pytest.mark.ranks(1, 2)
def test_branches_and_switches() -> None:
    f = lambda p, x: lax.cond(p, lambda x: x ** 2, lambda x: -x, x)
    assert float(f(True, 3.0)) == 9 and float(f(False, 3.0)) == -3
    assert float(jax.grad(f, 1)(True, 3.0)) == 6 and float(jax.jit(jax.grad(f, 1))(False, 3.0)) == -1
    s = lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x)
    for i in (-1, 0, 1, 2, 5):
        assert float(s(i, 0.5)) == pytest.approx(float([np.sin, np.cos, np.exp][min(max(i, 0), 2)](0.5)), rel=1e-6)
    with pytest.raises(TypeError, match='must be equal'):
        lax.cond(True, lambda: 1.0, lambda: jnp.ones(2))


@pytest.mark.ranks(1)
def test_ranks_that_trace_different_programs_learn_it_at_the_first_call() -> None:
    done = launch('''
        import numpy as np, distad as jax, distad.numpy as jnp
        jax.set_mesh(jax.make_mesh((2,), ('X',)))
        x = jax.device_put(np.ones(4), jax.P('X'))
        jax.jit(lambda x: jnp.sum(x) if jax.process_index() else jnp.max(x))(x)
    ''', 2, timeout=60)
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert 'DisagreementError' in text and 'rank 0:' in text and 'rank 1:' in text and 'reduce_sum' in text
