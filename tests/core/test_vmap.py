"""vmap over batches that are split over mesh axes, and what its arguments may be. (The rules themselves: tests/laws, conformance.)"""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives
from distad.errors import ShardingTypeError

P = jax.P
pytestmark = pytest.mark.timeout(60)
MESHES = pytest.mark.meshes((2,), (3,))
ONE = pytest.mark.ranks(1)


def example(w, x):
    return jnp.tanh(x @ w).sum()


def batch(n: int = 6):
    return np.sin(np.arange(3. * n)).reshape(n, 3).astype('f'), np.cos(np.arange(12.)).reshape(3, 4).astype('f')


@MESHES
def test_the_gradient_of_a_reduced_weight_is_left_unreduced_by_a_batch_that_is_split(mesh) -> None:
    xs, w = batch()
    split, reduced = jax.reshard(jnp.asarray(xs), P('X')), jax.reshard(jnp.asarray(w), P(reduced={'X'}))

    def total(w):
        return jnp.einsum('i->', jax.vmap(example, in_axes=(None, 0))(w, split), out_sharding=P(unreduced={'X'}))

    with count_collectives() as sent:
        g = jax.grad(total)(reduced)
    assert sent.total == 0
    assert str(jax.typeof(g)) == 'float32[3,4]{U:X}'
    want = np.einsum('bi,bj->ij', xs, 1 - np.tanh(xs @ w) ** 2)
    np.testing.assert_allclose(jax.process_allgather(g), want, rtol=1e-5, atol=1e-6)


@MESHES
@pytest.mark.parametrize('jit', [False, True])
def test_gradients_of_each_example_lie_where_the_example_lies(mesh, jit) -> None:
    xs, w = batch()
    per_example = jax.vmap(jax.grad(example), in_axes=(None, 0))
    with count_collectives() as sent:
        g = (jax.jit(per_example) if jit else per_example)(jnp.asarray(w), jax.reshard(jnp.asarray(xs), P('X')))
    assert sent.total == 0
    assert str(jax.typeof(g)) == 'float32[6@X,3,4]'
    np.testing.assert_allclose(jax.process_allgather(g), xs[:, :, None] * (1 - np.tanh(xs @ w) ** 2)[:, None], rtol=1e-5, atol=1e-6)


@MESHES
def test_loops_over_a_split_batch_run_until_all_are_done(mesh) -> None:
    xs, _ = batch()
    split = jax.reshard(jnp.asarray(xs), P('X'))
    found = jax.vmap(lambda x: lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, x))(split)
    want = np.stack([x + max(0, np.ceil((3 - x.sum()) / 3)) for x in xs])
    np.testing.assert_allclose(jax.process_allgather(found), want, rtol=1e-5)
    summed, parts = jax.vmap(lambda x: lax.scan(lambda c, t: (c * t + 1, c), 0., x))(split)
    assert str(jax.typeof(parts)) == 'float32[6@X,3]' and str(jax.typeof(summed)) == 'float32[6@X]'


@MESHES
def test_the_axes_of_a_split_batch_cannot_be_seen_inside(mesh) -> None:
    xs, _ = batch()
    split = jax.reshard(jnp.asarray(xs), P('X'))
    with pytest.raises(ShardingTypeError, match='argument 1 of type .* is not mapped, and the mapped axis is split over X'):
        jax.vmap(lambda a, b: a * b, (0, None))(split, jax.reshard(jnp.ones(3), P(unreduced={'X'})))
    with pytest.raises(ValueError, match='split alike in all mapped arguments, got argument 0 split over X, argument 1 whole'):
        jax.vmap(jnp.add)(split, jnp.asarray(xs))
    with pytest.raises(jax.DuplicateSpecError):
        jax.vmap(lambda a: jax.reshard(a, P('X')))(jax.reshard(jnp.ones((6, 6)), P('X')))


@pytest.mark.meshes((2, 2), (2, 3))
def test_batch_and_elements_split_over_different_axes(mesh) -> None:
    x = np.arange(6. * 12).reshape(6, 12).astype('f')
    split = jax.reshard(jnp.asarray(x), P('X', 'Y'))
    seen = []
    out = jax.vmap(lambda a: seen.append(str(jax.typeof(a))) or jnp.sum(a * a))(split)
    assert seen == ['float32[12@Y]']
    assert str(jax.typeof(out)) == 'float32[6@X]'
    np.testing.assert_allclose(jax.process_allgather(out), (x * x).sum(1), rtol=1e-5)


@ONE
def test_sizes_that_differ_are_named() -> None:
    with pytest.raises(ValueError, match=r"argument 0\['u'\] has 3, argument 1 has 4, keyword argument 'k' has 3"):
        jax.vmap(lambda d, y, k: y)({'u': jnp.ones((3, 2))}, jnp.ones(4), k=jnp.ones(3))
    with pytest.raises(ValueError, match='argument 0 has type float32\\[3\\] and no dimension 1'):
        jax.vmap(lambda x: x, in_axes=1)(jnp.ones(3))
    with pytest.raises(ValueError, match='the batch has no size'):
        jax.vmap(lambda x: x, in_axes=None)(jnp.ones(3))


@ONE
def test_what_is_not_mapped_may_be_anything() -> None:
    class Thing:
        scale = 2.

    assert jax.vmap(lambda x, how, s: x * how.scale + len(s), in_axes=(0, None, None))(jnp.ones(3), Thing(), 'ab').tolist() == [4.] * 3


@ONE
def test_custom_rules_may_close_over_a_mapped_value() -> None:
    def f(x, scale):
        @jax.custom_jvp
        def g(x):
            return scale * x
        g.defjvp(lambda primals, tangents: (g(*primals), 7. * scale * tangents[0]))
        return g(x)

    x, scale = jnp.arange(3.), jnp.arange(1., 4.)
    assert jax.vmap(f)(x, scale).tolist() == [0., 2., 6.]
    assert jax.vmap(jax.grad(f))(x, scale).tolist() == [7., 14., 21.]
    assert jax.jit(jax.vmap(jax.grad(f)))(x, scale).tolist() == [7., 14., 21.]


@ONE
def test_the_derivative_of_a_custom_rule_is_batched_before_it_is_transposed() -> None:
    @jax.custom_vjp
    def f(x, y):
        return x * y
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda saved, ct: (10. * ct * saved[1], 100. * ct * saved[0]))
    _, linear = jax.linearize(lambda x: f(x, 3.), jnp.float32(2.))
    back = jax.linear_transpose(jax.vmap(jax.jit(linear)), jnp.ones(4))
    assert back(jnp.arange(4.))[0].tolist() == [0., 30., 60., 90.]


@ONE
def test_a_tracer_that_is_kept_says_so() -> None:
    kept = []
    jax.vmap(lambda x: kept.append(x) or x)(jnp.ones(3))
    with pytest.raises(Exception, match='traced value .* outside of the transformation that made it'):
        kept[0] + 1
