"""What vmap writes: nothing is copied for each element, products are not turned round, and no rule does needless work."""

from itertools import product

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.core.jaxpr import Jaxpr, sub_jaxprs
from distad.types.mesh import Mesh
from distad.types.spec import P

B, M, N, K = 5, 4, 3, 2


def equations(f, *args) -> list:
    def inside(jaxpr: Jaxpr) -> list:
        return [e for eqn in jaxpr.equations for e in (eqn, *(e for sub in sub_jaxprs(eqn.params) for e in inside(sub)))]
    return inside(jax.make_jaxpr(f)(*args).jaxpr)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize('f', [jnp.multiply, jnp.arctan2, lambda x, y: jnp.where(x > y, x, y), lambda x, y: jnp.clip(x, y, 1.0),
                               jnp.logaddexp])
@pytest.mark.parametrize('which', [0, 1])
def test_an_operand_without_batch_gets_a_dimension_of_one(f, which):
    args, axes = [ones(M, N), ones(M, N)], [None, None]
    args[which], axes[which] = ones(B, M, N), 0
    made = equations(jax.vmap(f, in_axes=tuple(axes)), *args)
    assert all(e.outs[0].type.shape in ((1, M, N), (B, M, N)) for e in made)
    assert [e.outs[0].type.shape for e in made if e.primitive.name == 'broadcast_in_dim'] in ([(1, M, N)], [(1, M, N)] * 2)


def test_a_number_of_each_element_beside_arrays_gets_dimensions_of_one():
    made = equations(jax.vmap(jnp.multiply, in_axes=(0, None)), ones(B), ones(M, N))
    assert sorted(e.outs[0].type.shape for e in made) == [(1, M, N), (B, 1, 1), (B, M, N)]
    assert [e.primitive.name for e in equations(jax.vmap(lambda x: x + 2, in_axes=1, out_axes=1), ones(M, B))] == ['add']


@pytest.mark.parametrize('axes', [axes for axes in product((0, 1, 2, None), repeat=2) if axes != (None, None)])
def test_a_product_is_one_product(axes):
    def with_batch(shape, at):
        return shape if at is None else (*shape[:at], B, *shape[at:])
    x, y = ones(*with_batch((M, K), axes[0])), ones(*with_batch((K, N), axes[1]))
    f = jax.vmap(lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), in_axes=axes)
    at = equations(f, x, y)
    assert [e.primitive.name for e in at if e.primitive.name != 'transpose'] == ['dot_general']
    assert len(at) <= 2 and at[0].primitive.name == 'dot_general'            # the result's batch is asked for in front


@pytest.mark.parametrize('f, shape', [
    (lambda x: x.sum(1), (M, N)), (lambda x: jnp.cumsum(x, 0), (M, N)), (lambda x: jnp.sort(x, 1), (M, N)),
    (lambda x: jnp.flip(x, 0), (M, N)), (lambda x: jnp.argmax(x, 1), (M, N)), (lambda x: x[1:, ::2], (M, N)),
    (lambda x: jnp.pad(x, 1), (M, N)),
    (lambda x: lax.dynamic_slice(x, (1, 0), (2, N)), (M, N)), (jnp.sin, (M,)), (lambda x: jnp.split(x, 2)[0], (M,))])
def test_the_batch_stays_where_it_is(f, shape):
    at = len(shape)
    made = equations(jax.vmap(f, in_axes=at, out_axes=-1), ones(*shape, B))
    assert 'transpose' not in [e.primitive.name for e in made]


def test_a_lookup_of_each_element_reads_one_table():
    made = equations(jax.vmap(lambda t, i: t[i], in_axes=(None, 0)), ones(M, N), np.zeros((B, K), np.int32))
    assert all(e.outs[0].type.shape != (B, M, N) for e in made)


def test_what_no_batch_enters_is_computed_once():
    made = equations(jax.vmap(lambda x, w: x * jnp.sin(w).sum(), in_axes=(0, None)), ones(B, N), ones(M, N))
    assert [e.outs[0].type.shape for e in made if e.primitive.name in ('sin', 'reduce_sum')] == [(M, N), ()]


@pytest.mark.meshes((2,))
def test_batches_of_distributed_sorts_change_hands(mesh: Mesh):
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    for many, kinds in (4, {'all-to-all': 2}), (3, {'all-gather': 1}):
        y = jax.device_put(x[:many], P(None, 'X'))
        with jax.debug.count_collectives() as sent:
            z = jax.vmap(jnp.sort)(y)
        assert str(jax.typeof(z)) == f'float32[{many},6@X]' and sent.by_op == kinds
        np.testing.assert_array_equal(jax.process_allgather(z), np.sort(x[:many]))


@pytest.mark.meshes((2,))
def test_maps_of_maps_over_devices(mesh: Mesh):
    """A vmap inside of a shard_map and around one, over values that vary, are unreduced, reduced and the same."""
    x, w = np.arange(24, dtype=np.float32).reshape(4, 6), np.arange(6, dtype=np.float32)

    def inside(x, w):
        varying = jax.vmap(lambda v: (v * w).sum())(x)
        unreduced = lax.pcast(varying.sum(), 'X', to='unreduced')
        both = jax.vmap(lambda s: 2 * s)(jnp.stack([unreduced, unreduced]))
        return lax.psum(both, 'X')
    mapped = jax.shard_map(inside, in_specs=(P('X'), P()), out_specs=P())
    np.testing.assert_allclose(mapped(jax.device_put(x, P('X')), w), [2 * (x * w).sum()] * 2)

    total = jax.shard_map(lambda v, w: lax.psum(v * w, 'X'), in_specs=(P('X'), P(reduced={'X'})), out_specs=P())
    f, rows, held = jax.vmap(total, in_axes=(0, None)), jax.device_put(x, P(None, 'X')), jax.device_put(w[:3], P(None, reduced={'X'}))
    np.testing.assert_allclose(f(rows, held), x[:, :3] * w[:3] + x[:, 3:] * w[:3])
    g = jax.grad(lambda w: f(rows, w).sum())(held)
    assert str(jax.typeof(g)) == 'float32[3]{U:X}'
    np.testing.assert_allclose(jax.process_allgather(g), x.sum(0)[:3] + x.sum(0)[3:])
