"""grad, value_and_grad, vjp, jvp, linearize and custom rules, on trees and in all states."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax

P = jax.P


def model(params, x, *, scale=1.0):
    return scale * jnp.sum(jnp.tanh(x @ params['w'] + params['b'][0]) ** 2)


@pytest.mark.meshes((2,), (3,), (2, 2))
def test_gradients_of_a_tree_have_the_dual_types_and_the_same_values(mesh) -> None:
    n = mesh.shape['X']
    x = np.linspace(-1, 1, 12 * n, dtype=np.float32).reshape(4 * n, 3)
    host = {'w': np.linspace(0, 1, 6, dtype=np.float32).reshape(3, 2), 'b': [np.float32([0.1, -0.2])]}
    jax.set_mesh(mesh)
    want = jax.grad(model)(jax.device_put(host, P()), jax.device_put(x, P()), scale=2.0)
    for spec, text in ((P(), ''), (P(reduced={'X'}), '{U:X}')):
        params = jax.device_put(host, spec)
        value, got = jax.value_and_grad(model)(params, jax.device_put(x, P('X')), scale=2.0)
        assert str(jax.typeof(got['w'])) == f'float32[3,2]{text}' and str(jax.typeof(value)) == 'float32[]'
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(jax.process_allgather(a), b, rtol=1e-5, atol=1e-6)


@pytest.mark.ranks(1, 2)
def test_arguments_are_chosen_by_number_and_auxiliary_values_come_along() -> None:
    def f(a, b, c):
        return a * b ** 2 + c, {'seen': b}
    (value, aux), (db, da) = jax.value_and_grad(f, argnums=(1, -3), has_aux=True)(2.0, 3.0, 1.0)
    assert (float(value), float(aux['seen']), float(db), float(da)) == (19, 3, 12, 9)
    g, aux = jax.grad(f, has_aux=True)(2.0, 3.0, 1.0)
    assert float(g) == 9 and float(aux['seen']) == 3
    out, pull, aux = jax.vjp(f, 2.0, 3.0, 1.0, has_aux=True)
    assert [float(t) for t in pull(1.0)] == [9, 12, 1]
    out, t, aux = jax.jvp(f, (2.0, 3.0, 1.0), (1.0, 0.0, 0.0), has_aux=True)
    assert float(t) == 9


@pytest.mark.ranks(1)
def test_derivatives_of_any_order_agree_with_one_another() -> None:
    f = lambda x: jnp.exp(jnp.sin(x)) * x ** 3
    d = [f]
    for _ in range(3):
        d.append(jax.grad(d[-1]))
    x, h = 0.7, 1e-3
    jax.config.update('jax_enable_x64', True)
    try:
        for low, high in zip(d, d[1:], strict=False):
            assert float(high(x)) == pytest.approx((float(low(x + h)) - float(low(x - h))) / (2 * h), rel=1e-4)
        forward = jax.jvp(jax.grad(f), (x,), (1.0,))[1]
        assert float(forward) == pytest.approx(float(d[2](x)), rel=1e-10)
        value, derivative = jax.linearize(f, x)
        assert float(derivative(2.0)) == pytest.approx(2 * float(d[1](x)), rel=1e-10)
    finally:
        jax.config.update('jax_enable_x64', False)


@pytest.mark.ranks(1)
def test_python_branches_on_known_values_under_grad() -> None:
    f = lambda x: x ** 2 if x > 0 else -x
    assert float(jax.grad(f)(3.0)) == 6 and float(jax.grad(f)(-3.0)) == -1
    with pytest.raises(TypeError, match='bool of a traced value'):
        jax.jit(f)(1.0)


@pytest.mark.meshes((2,))
def test_wrong_inputs_and_cotangents_are_refused_with_both_types(mesh) -> None:
    w = jax.device_put(np.ones(4, np.float32), P(reduced={'X'}))
    out, pull = jax.vjp(lambda w: w * 2, w)
    with pytest.raises(ValueError, match=r'float32\[4\]\{U:X\}, got float32\[4\]\{R:X\}.*reshard'):
        pull(w)
    with pytest.raises(TypeError, match='scalar'):
        jax.grad(lambda w: w)(w)
    with pytest.raises(TypeError, match='int32.*argument 0'):
        jax.grad(lambda n: n * 1.0)(3)
    with pytest.raises(TypeError, match='structure'):
        jax.jvp(lambda x: x, (w,), ((w,),))


@pytest.mark.meshes((2,), (3,))
def test_fan_out_adds_unreduced_values_and_reduces_once(mesh) -> None:
    n = mesh.size
    w = jax.device_put(np.eye(3, dtype=np.float32), P())
    xs = [jax.device_put(np.full((2 * n, 3), k + 1.0, np.float32), P('X')) for k in range(3)]

    def loss(w):
        w = jax.reshard(w, P(reduced={'X'}))
        return sum(jnp.sum(x @ w) for x in xs)
    text = jax.jit(jax.grad(loss)).lower(w).compile().as_text()
    assert text.count('all-reduce(') == 1
    np.testing.assert_allclose(jax.grad(loss)(w), np.full((3, 3), 2 * n * 6.0))


@pytest.mark.ranks(1, 2)
def test_custom_rules_are_used_eagerly_under_jit_and_in_scan() -> None:
    @jax.custom_jvp
    def half(x):
        return x / 2
    half.defjvp(lambda primals, tangents: (half(*primals), 10 * tangents[0]))

    @jax.custom_vjp
    def third(x):
        return x / 3
    third.defvjp(lambda x: (x / 3, x), lambda x, ct: (ct * 7 * x,))
    f = lambda x: half(third(x))
    for g in (jax.grad(f), jax.jit(jax.grad(f)), jax.grad(jax.jit(f)),
              jax.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0])):
        assert float(g(2.0)) == 140
    with pytest.raises(AttributeError, match='defvjp'):
        jax.custom_vjp(lambda x: x)(1.0)


@pytest.mark.meshes((2,))
def test_the_type_of_a_custom_cotangent_is_checked(mesh) -> None:
    @jax.custom_vjp
    def f(w):
        return jnp.sum(w)
    f.defvjp(lambda w: (jnp.sum(w), w), lambda w, ct: (jax.reshard(w, P()),))
    w = jax.device_put(np.ones(4, np.float32), P(reduced={'X'}))
    with pytest.raises(ValueError, match=r'float32\[4\]\{U:X\}'):
        jax.grad(f)(w)


@pytest.mark.ranks(1)
def test_remat_keeps_values_and_gradients() -> None:
    f = lambda x: jnp.sin(jnp.sin(x))
    g = jax.checkpoint(f)
    assert float(g(0.3)) == float(f(0.3))
    for d in (jax.grad(g), jax.jit(jax.grad(g)), jax.grad(jax.jit(g))):
        assert float(d(0.3)) == pytest.approx(float(jax.grad(f)(0.3)), rel=1e-6)
    assert float(jax.grad(jax.grad(g))(0.3)) == pytest.approx(float(jax.grad(jax.grad(f))(0.3)), rel=1e-5)
