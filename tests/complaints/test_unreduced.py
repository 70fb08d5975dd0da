"""Values that are sums still to come, and weights whose gradients are."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from tests.complaints.preamble import P, fails, full, mesh, put, spec


@pytest.mark.ranks(2)
def test_a_scalar_may_be_unreduced_eagerly_and_compiled() -> None:
    mesh(2)
    a, b = put(np.arange(4.), 'X'), put(np.arange(4.) + 1, 'X')
    dot = lambda a, b: jnp.einsum('f,f->', a, b, out_sharding=P(unreduced={'X'}))
    for f in (dot, jax.jit(dot)):
        c = f(a, b)
        assert str(jax.typeof(c)) == 'float32[]{U:X}' and full(c) == 20.


@pytest.mark.ranks(4)
def test_unreduced_over_two_axes_is_reduced_in_two_steps() -> None:
    mesh(2, 2)
    a, b = put(np.arange(8.).reshape(4, 2), ('X', 'Y'), None), put(np.arange(4.), ('X', 'Y'))
    c = jnp.einsum('ji,j->i', a, b, out_sharding=P(None, unreduced={'X', 'Y'}))
    assert spec(c).unreduced == {'X', 'Y'}
    d = jax.reshard(c, P(None, unreduced={'Y'}))
    e = jax.reshard(c, P('X', unreduced={'Y'}))
    assert str(jax.typeof(d)) == 'float32[2]{U:Y}' and str(jax.typeof(e)) == 'float32[2@X]{U:Y}'
    for r in (c, d, e):
        np.testing.assert_allclose(full(r), [28., 34.])
    fails('ShardingTypeError', 'unreduced', lambda: c + d)


@pytest.mark.ranks(2)
def test_a_contraction_sharded_on_one_side_is_right_or_refused() -> None:
    mesh(2)
    a, b = put(np.arange(8.).reshape(2, 4), None, 'X'), put(np.arange(8.).reshape(4, 2))
    want = np.arange(8.).reshape(2, 4) @ np.arange(8.).reshape(4, 2)
    np.testing.assert_allclose(full(a @ b), want)
    try:
        c = jnp.einsum('ij,jk->ik', a, b, out_sharding=P(None, None, unreduced={'X'}))
    except jax.ShardingTypeError:
        pass
    else:
        np.testing.assert_allclose(full(c), want)


@pytest.mark.ranks(2)
def test_padding_an_unreduced_array_adds_the_constant_once() -> None:
    """Zero padding is linear; any other constant would be added by every rank."""
    mesh(2)
    c = jnp.einsum('i,i->', put(np.ones(2), 'X'), put(np.ones(2), 'X'), out_sharding=P(unreduced={'X'}))[None]
    z = jnp.pad(c, 1)
    assert spec(z).unreduced == {'X'} and full(z).tolist() == [0., 2., 0.]
    try:
        o = jnp.pad(c, 1, constant_values=1.)
    except (jax.ShardingTypeError, NotImplementedError):
        pass
    else:
        assert full(o).tolist() == [1., 2., 1.]


@pytest.mark.ranks(2)
def test_no_nonlinear_function_of_a_summand() -> None:
    mesh(2)
    c = jnp.einsum('i,i->', put(np.array([3., -4.]), 'X'), put(np.ones(2), 'X'), out_sharding=P(unreduced={'X'}))
    for f in (jnp.abs, jnp.cos, jnp.exp, lambda c: c * c, lambda c: c > 0, lambda c: jnp.clip(c, 0, 9)):
        fails('ShardingTypeError|TypeError|NotImplementedError', 'unreduced', f, c)
    fails('ShardingTypeError|TypeError|ValueError|NotImplementedError', 'unreduced', lambda: jnp.stack([c, c]).max())


@pytest.mark.ranks(2)
def test_reading_an_unreduced_array_never_gives_one_ranks_part() -> None:
    mesh(2)
    c = jnp.einsum('i,i->', put(np.ones(2), 'X'), put(np.ones(2), 'X'), out_sharding=P(unreduced={'X'}))
    assert not c.is_fully_replicated
    for read in (np.asarray, float, bool, str):
        try:
            value = read(c)
        except Exception:
            continue
        assert read is str or value == 2.0, (read, value)


@pytest.mark.ranks(2)
def test_a_bias_is_not_added_once_per_rank() -> None:
    """A row-parallel layer: its product is a summand, the bias is whole."""
    mesh(2)
    x, w, b = put(np.ones((3, 2)), None, 'X'), put(np.ones((2, 2)), 'X', None), put(np.array([1., 2.]))
    product = lambda w: jnp.einsum('bi,io->bo', x, w, out_sharding=P(None, None, unreduced={'X'}))
    fails('ShardingTypeError', 'unreduced', lambda: product(w) + b)
    loss = lambda w, b: jnp.sum((jax.reshard(product(w), P()) + b) ** 2)
    dw, db = jax.grad(loss, argnums=(0, 1))(w, b)
    assert str(jax.typeof(dw)) == 'float32[2@X,2]' and str(jax.typeof(db)) == 'float32[2]'
    np.testing.assert_allclose(full(db), [18., 24.])
    np.testing.assert_allclose(full(dw), [[18., 24.], [18., 24.]])


@pytest.mark.ranks(2)
def test_gradients_stay_unreduced_through_changes_of_shape() -> None:
    mesh(2)
    w, x = put(np.arange(6.).reshape(2, 3) / 6, reduced={'X'}), put(np.arange(8.).reshape(4, 2), 'X', None)
    one = put(np.ones((4, 3)), 'X', None)
    for f in (lambda w: (x @ w).sum(), lambda w: (one @ w.T).sum(), lambda w: (x @ w[:, :2]).sum(),
              lambda w: (x @ jnp.concatenate([w, w], 1)).sum(), lambda w: (one @ w.reshape(3, 2)).sum()):
        g, ref = jax.grad(f)(w), jax.grad(f)(jax.reshard(w, P()))
        assert str(jax.typeof(g)) == 'float32[2,3]{U:X}' and spec(ref).unreduced == frozenset()
        np.testing.assert_allclose(full(g), full(ref))


@pytest.mark.ranks(2)
def test_a_replicated_weight_on_sharded_tokens_has_its_gradient_summed() -> None:
    mesh(2)
    x, s = np.arange(8.).reshape(4, 2) + 1, np.array([1., 2.])
    rms = lambda s, x: x / jnp.sqrt((x * x).mean(-1, keepdims=True)) * s
    loss = lambda s, x: jnp.sum(rms(s, x) ** 3)
    g = jax.grad(loss)(put(s), put(x, 'X', None))
    ref = jax.grad(loss)(jnp.asarray(s), jnp.asarray(x))
    assert str(jax.typeof(g)) == 'float32[2]'
    np.testing.assert_allclose(full(g), np.asarray(ref), rtol=1e-5)


@pytest.mark.ranks(2)
def test_bias_and_scale_may_be_reduced_weights() -> None:
    mesh(2)
    x, w = put(np.ones((4, 2)), 'X', None), put(np.ones((2, 3)), reduced={'X'})
    b = put(np.arange(3.), reduced={'X'})
    spread = lambda b: jnp.broadcast_to(b, (4, 3), out_sharding=P('X', None))
    loss = lambda f: lambda w, b: jnp.sum((x @ w + f(b)) ** 2)
    for f in (spread, lambda b: b):
        dw, db = jax.grad(loss(f), argnums=(0, 1))(w, b)
        assert spec(dw).unreduced == {'X'} and spec(db).unreduced == {'X'} and full(db).tolist() == [16., 24., 32.]


@pytest.mark.ranks(2)
def test_a_number_scales_an_unreduced_gradient_without_communication() -> None:
    mesh(2)
    w, x = put(np.ones((2, 2)), reduced={'X'}), put(np.ones((4, 2)), 'X', None)
    g = jax.grad(lambda w: (x @ w).sum())(w)  # 4 everywhere
    for f in (lambda g: jax.reshard(jnp.float32(.5), P(reduced={'X'})) * g, lambda g: .5 * g, lambda g: g / 2.):
        r = f(g)
        assert spec(r).unreduced == {'X'} and (full(r) == 2.).all()


@pytest.mark.ranks(2)
def test_what_type_checks_forwards_type_checks_backwards() -> None:
    """Ordinary layers on reduced weights; a layer that refuses does so in the forward pass."""
    mesh(2)
    w, m = put(np.array([[1., -2.], [3., 4.]]), reduced={'X'}), put(np.eye(2) * 2)
    for f in (lambda w: jax.nn.relu(w).sum(), lambda w: (w ** 2).sum(), lambda w: (w @ m).sum(),
              lambda w: jax.nn.softmax(w)[0, 0]):
        f(w)
        g = jax.grad(f)(w)
        assert spec(g).unreduced == {'X'}
        np.testing.assert_allclose(full(g), full(jax.grad(f)(jax.reshard(w, P()))), rtol=1e-5, atol=1e-6)


@pytest.mark.ranks(2)
def test_unpacking_a_spec_does_not_drop_its_unreduced_part() -> None:
    mesh(2)
    c = put(np.ones((2, 2)), unreduced={'X'})
    fails('ValueError', 'unreduced', lambda: P(*spec(c)))
    assert P(*spec(c).partitions, unreduced={'X'}) == spec(c)
    fails('ValueError', 'overlap|both', lambda: P(None, unreduced={'X'}, reduced={'X'}))
    fails('ValueError|DuplicateSpecError|ShardingTypeError', 'X', lambda: put(np.ones((2, 2)), 'X', 'X'))
    fails('ValueError', 'Z', lambda: put(np.ones(2), 'Z'))


@pytest.mark.ranks(2)
def test_becoming_unreduced_does_not_multiply_the_value() -> None:
    mesh(2)
    v = np.array([1., 2.], np.float32)
    for a in (put(v), put(v, 'X'), put(v, reduced={'X'})):
        u = jax.reshard(a, P(unreduced={'X'}))
        assert spec(u).unreduced == {'X'} and full(u).tolist() == [1., 2.]
        g = jax.grad(lambda a: (jax.reshard(jax.reshard(a, P(unreduced={'X'})), P()) * put(v)).sum())(a)
        np.testing.assert_allclose(full(g), v)


@pytest.mark.ranks(2)
def test_a_round_trip_through_manual_mode_changes_no_gradient() -> None:
    mesh(2)
    a, b = put(np.array([1., 2.]), 'X'), put(np.array([3., 4.]), 'X')
    dot = lambda a: jnp.einsum('i,i->', a, b, out_sharding=P(unreduced={'X'}))
    same = jax.shard_map(lambda t: t, in_specs=P(unreduced={'X'}), out_specs=P(unreduced={'X'}))
    plain = jax.grad(lambda a: jax.reshard(dot(a), P()))(a)
    through = jax.grad(lambda a: jax.reshard(same(dot(a)), P()))(a)
    assert jax.typeof(plain) == jax.typeof(through)
    np.testing.assert_allclose(full(plain), [3., 4.])
    np.testing.assert_allclose(full(through), [3., 4.])
