"""Manual mode: sums said twice or not at all, specs, closures, loops, rules of the user's own."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.runtime import recorder
from tests.complaints.preamble import P, fails, full, mesh, put, spec


def over_x(f, *in_specs, out=None):
    return jax.shard_map(f, in_specs=in_specs or P('X'), out_specs=P('X') if out is None else out)


@pytest.mark.ranks(2)
def test_a_sum_of_a_sum_counts_it_once_for_each_rank() -> None:
    mesh(2)
    x = put(np.arange(4.), 'X')
    assert full(over_x(lambda x: lax.psum(lax.psum(x, 'X'), 'X'), out=P())(x)).tolist() == [4., 8.]
    with recorder.count() as counted:
        mean = over_x(lambda x: lax.psum(x, 'X') / lax.psum(1, 'X') * (lax.axis_size('X') / 2), out=P())(x)
    assert full(mean).tolist() == [1., 2.] and counted.total == 1  # the size of an axis is known


@pytest.mark.ranks(2)
def test_arrays_made_like_another_vary_as_it_does() -> None:
    mesh(2)
    x = put(np.arange(4.), 'X')

    def body(x):
        for like in (jnp.zeros_like(x), jnp.ones_like(x), lax.full_like(x, 2.)):
            assert jax.typeof(like) == jax.typeof(x)
        total = jax.eval_shape(lambda x: x.sum(), x)
        assert total.shape == () and total.dtype == np.float32
        return jax.vjp(lambda x: x.sum(), x)[1](jnp.ones_like(x.sum()))[0]

    assert full(over_x(body)(x)).tolist() == [1.] * 4


@pytest.mark.ranks(2)
def test_a_carry_that_does_not_vary_says_which_cast_it_needs() -> None:
    mesh(2)
    x = put(np.arange(4.), 'X')
    scan = lambda start: over_x(lambda x: lax.scan(lambda c, _: (c + x, None), start(x), None, length=3)[0])(x)
    loop = lambda start: over_x(lambda x: lax.while_loop(lambda c: lax.pmax(c.max(), 'X') < 9, lambda c: c + x, start(x)))(x)
    cond = lambda start: over_x(lambda x: lax.cond(lax.pmax(x.max(), 'X') < 9, lambda: start(x), lambda: x))(x)
    assert full(scan(jnp.zeros_like)).tolist() == full(loop(jnp.zeros_like)).tolist() == [0., 3., 6., 9.]
    plain = lambda x: jnp.zeros(2)
    fails('TypeError', r"carry.*float32\[2\] .*float32\[2\]\{V:X\}.*pcast\(init, 'X', to='varying'\)", scan, plain)
    fails('TypeError', r"carry.*pcast\(init, 'X', to='varying'\)", loop, plain)
    fails('TypeError', r"branch 0.*branch 1.*pcast\(the one of branch 1, 'X', to='varying'\)", cond, plain)
    mended = lambda x: lax.pcast(jnp.zeros(2), 'X', to='varying')
    assert full(scan(mended)).tolist() == full(loop(mended)).tolist() == [0., 3., 6., 9.]
    assert full(cond(mended)).tolist() == [0.] * 4


@pytest.mark.ranks(2)
def test_collectives_and_casts_outside_a_map_or_over_an_unknown_axis() -> None:
    mesh(2)
    x = put(np.arange(4.), 'X')
    with recorder.count() as counted:
        fails('NameError|ValueError', 'X.*shard_map', lambda: lax.psum(x, 'X'))
        fails('NameError|ValueError', 'X.*shard_map', jax.jit(lambda x: lax.psum(x, 'X')), x)
        fails('NameError|ValueError', 'X.*shard_map', lambda: lax.pcast(x, 'X', to='varying'))
        fails('NameError|ValueError', r'Q.*\(X\)', over_x(lambda x: lax.psum(x, 'Q')), x)
        fails('NameError|ValueError', r'Q.*\(X\)', over_x(lambda x: lax.pcast(x, ('Q',), to='varying')), x)
        fails('NameError|ValueError', r'Q.*\(X\)', over_x(lambda x: x * lax.axis_index('Q')), x)
    assert counted.total == 0


@pytest.mark.ranks(2)
def test_a_loss_of_one_rank_is_not_everybodys() -> None:
    mesh(2)
    x = put(np.arange(4.), 'X')
    loss = lambda f, out: over_x(f, out=out)(x)
    fails('ValueError', 'out_specs.*varies over X.*psum', loss, lambda x: x.sum(), P())
    fails('ValueError', 'out_specs', loss, lambda x: x.sum(), P('X'))
    assert full(loss(lambda x: lax.psum(x.sum(), 'X'), P())) == 6.
    assert full(loss(lambda x: x.sum()[None], P('X'))).tolist() == [1., 5.]


@pytest.mark.ranks(2)
def test_a_body_may_close_over_arrays_on_the_mesh() -> None:
    mesh(2)
    x, s, r = put(np.arange(4.), 'X'), put(np.arange(4.), 'X'), put(np.float32(2.))
    assert full(over_x(lambda x: x * s)(x)).tolist() == [0., 1., 4., 9.]
    assert full(over_x(lambda x: x * r)(x)).tolist() == [0., 2., 4., 6.]


@pytest.mark.ranks(4)
def test_a_mesh_axis_that_a_loop_does_not_use_changes_nothing() -> None:
    mesh(2, 2)
    w, x = put(np.array([1., 2., 3., 4.])), put(np.ones((4, 5, 4)), 'X', None, None)
    y = over_x(lambda w, x: lax.map(lambda row: row @ w, x), P(), P('X', None, None), out=P('X', None))(w, x)
    assert str(jax.typeof(y)) == 'float32[4@X,5]' and (full(y) == 10.).all()
    v = put(np.arange(4.), ('X', 'Y'))
    part = lambda axes, out: jax.shard_map(lambda v: lax.psum(v, axes), in_specs=P(('X', 'Y')), out_specs=out)(v)
    assert full(part('X', P('Y'))).tolist() == [2., 4.] and full(part(('X', 'Y'), P())).tolist() == [6.]
    fails('ValueError', 'varies over Y', part, 'X', P())


@pytest.mark.ranks(2)
def test_a_backward_rule_must_give_what_the_argument_needs() -> None:
    """Per rank, or summed over ranks: the types say which, and a rule that forgets the sum is refused."""
    mesh(2)
    w, x = put(np.float32(2.)), put(np.arange(4.), 'X')

    def with_rule(bwd):
        scale = jax.custom_vjp(lambda w, x: w * x)
        scale.defvjp(lambda w, x: (w * x, (w, x)), bwd)
        return lambda w: over_x(lambda w, x: scale(w, x), P(), P('X'))(w, x).sum()

    good = with_rule(lambda r, g: (lax.psum((g * r[1]).sum(), 'X'), g * r[0]))
    bad = with_rule(lambda r, g: ((g * r[1]).sum(), g * r[0]))
    assert full(jax.grad(good)(w)) == full(jax.jit(jax.grad(good))(w)) == 6.
    text = r"custom_vjp.*float32\[\]\{V:X\} for argument \[0\].*lax.psum\(ct, 'X'\)"
    for run in (lambda f: f, jax.jit):
        fails('ValueError|TypeError', text, run(jax.grad(bad)), w)


@pytest.mark.ranks(2)
def test_specs_that_disagree_with_the_arrays_own_sharding() -> None:
    mesh(2)
    x = put(np.arange(4.), 'X')
    with recorder.count() as counted:
        fails('ValueError', r'in_specs.*reshard\(x, P\(\)\)', over_x(lambda x: x, P(), out=P()), x)
        y = jax.shard_map(lambda x: x * 2, out_specs=P('X'))(x)
    assert counted.total == 0
    assert str(jax.typeof(y)) == 'float32[4@X]' and full(y).tolist() == [0., 2., 4., 6.]


@pytest.mark.ranks(2)
def test_forgetting_values_changes_neither_gradients_nor_their_types() -> None:
    mesh(2)
    x, w = put(np.arange(8.).reshape(4, 2) / 8, 'X', None), put(np.arange(6.).reshape(2, 3) / 6, reduced={'X'})
    f = lambda w: jnp.sin(x @ w)
    g, h = jax.grad(lambda w: f(w).sum())(w), jax.grad(lambda w: jax.checkpoint(f)(w).sum())(w)
    assert jax.typeof(g) == jax.typeof(h) and spec(h).unreduced == {'X'}
    np.testing.assert_allclose(full(g), full(h), rtol=1e-6)


@pytest.mark.ranks(2)
def test_forgetting_values_in_a_map_repeats_no_sum_that_nothing_needs() -> None:
    mesh(2)
    w, x = put(np.float32(2.)), put(np.arange(4.), 'X')
    loss = lambda w, x: lax.psum(jnp.sin(w * x).sum(), 'X')

    def gradient(loss):
        grad = jax.jit(jax.grad(lambda w: over_x(loss, P(), P('X'), out=P())(w, x)))
        with recorder.count() as counted:
            return grad(w), counted.total

    (g, plain), (h, forgetful) = gradient(loss), gradient(jax.checkpoint(loss))
    assert jax.typeof(g) == jax.typeof(h)
    np.testing.assert_allclose(full(g), full(h), rtol=1e-6)
    np.testing.assert_allclose(full(g), (np.arange(4.) * np.cos(2 * np.arange(4.))).sum(), rtol=1e-6)
    assert plain == 1 and forgetful == 1  # that of the gradient; nobody asks for the loss


@pytest.mark.ranks(2)
def test_per_example_gradients_of_a_shared_parameter_are_summed_or_not_by_its_type() -> None:
    mesh(2)
    p, s = put(np.array([1., 2.])), put(np.array([[0., 1], [1, 1], [1, 0], [0, 0]]), 'X', None)

    def per_example(cast):
        f = lambda p, s: jax.vmap(lambda r: jax.grad(lambda q: q @ r)(cast(p)))(s)
        return full(jax.shard_map(f, in_specs=(P(), P('X', None)), out_specs=P('X', None))(p, s))

    np.testing.assert_allclose(per_example(lambda p: lax.pcast(p, 'X', to='varying')), full(s))
    np.testing.assert_allclose(per_example(lambda p: p), np.ones((4, 2)))


@pytest.mark.ranks(2)
def test_jacobians_and_linearize_inside_and_outside_of_a_map() -> None:
    mesh(2)
    x, w = put(np.arange(4.), 'X'), put(np.float32(2.))
    square = jax.shard_map(lambda x: x ** 2, in_specs=P('X'), out_specs=P('X'))
    for jacobian in (jax.jacrev, jax.jacfwd):
        np.testing.assert_allclose(full(jacobian(square)(x)), np.diag([0., 2., 4., 6.]))

    def run(f):
        return full(jax.shard_map(f, in_specs=(P(), P('X')), out_specs=P('X'))(w, x)).tolist()

    assert run(lambda w, x: jax.jacfwd(lambda w: w * x)(w)) == [0., 1., 2., 3.]
    assert run(lambda w, x: jax.jacrev(lambda w: w * x)(w)) == [2., 4., 2., 4.]

    def hvp(p, t):
        _, linear = jax.linearize(lambda p: jnp.mean(p ** 2), lax.pcast(p, 'X', to='varying'))
        return jax.linear_transpose(linear, t)(linear(t))[0]

    assert run(lambda w, x: hvp(jnp.ones(1), x[:1] + 1)) == [4., 12.]


@pytest.mark.ranks(2)
def test_a_map_that_holds_a_collective_sums_a_whole_batch_in_one_message() -> None:
    mesh(2)
    z = put(np.stack([np.arange(4.), np.arange(4.) + 1]), None, 'X')
    total = jax.shard_map(lambda v: lax.psum(v, 'X'), in_specs=P('X'), out_specs=P(None))
    with recorder.count() as sent:
        assert full(jax.vmap(total)(z)).tolist() == [[2., 4.], [4., 6.]]
    assert sent.by_op == {'all-reduce': 1}
    one = lambda v: jax.grad(lambda v: (total(v) ** 2).sum())(v)
    np.testing.assert_allclose(full(jax.vmap(one)(z)), [[4., 8., 4., 8.], [8., 12., 8., 12.]])
