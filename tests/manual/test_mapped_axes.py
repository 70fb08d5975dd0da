"""Collectives over the axis of a vmap inside of a shard_map, alone and together with mesh axes, against NumPy on the whole array."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.runtime import recorder
from distad.types.mesh import Mesh

P = jax.P
SPLIT = P('X')
RANKS, BATCH = 2, 3
ALL = RANKS * BATCH
ORDERS = [('b', 'X'), ('X', 'b')]


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=(ALL, *shape)).astype(np.float32)


def mapped(f, x: np.ndarray, out: jax.P = SPLIT, **options) -> np.ndarray:
    """f for each of the elements of the batches that the ranks hold; the global value of the result."""
    over = jax.jit(jax.shard_map(jax.vmap(f, axis_name='b'), in_specs=P('X'), out_specs=out, **options))
    return np.asarray(jax.process_allgather(over(jax.device_put(x, P('X')))))


def numbered(x: np.ndarray, names: tuple[str, str]) -> np.ndarray:
    """The elements in the order of their place along the names; `x` is in that of ('X', 'b')."""
    return x if names == ('X', 'b') else x.reshape(RANKS, BATCH, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)


def put_back(x: np.ndarray, names: tuple[str, str]) -> np.ndarray:
    return x if names == ('X', 'b') else x.reshape(BATCH, RANKS, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)


def same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=1e-5, atol=1e-5)


@pytest.mark.meshes((RANKS,))
@pytest.mark.parametrize('names', ORDERS)
def test_reductions_over_both(names, mesh: Mesh) -> None:
    with jax.set_mesh(mesh):
        x = values(4, 2)
        same(mapped(lambda t: lax.psum(t, names), x, P()), x.sum(0))
        same(mapped(lambda t: t - lax.pmean(t, names), x), x - x.mean(0))
        same(mapped(lambda t: lax.pmax(t, names), x, P()), x.max(0))
        same(mapped(lambda t: lax.psum(t, (*names, 1)), x, P()), x.sum((0, 2)))
        same(mapped(lambda t: lax.psum(t, names), x, check_vma=False), x.sum(0))
        same(mapped(lambda t: lax.psum(lax.pcast(t, 'X', to='unreduced'), names), x, P()), x.sum(0))
        same(mapped(lambda t: lax.pbroadcast(t, names, 4), x), numbered(x, names)[4])


@pytest.mark.meshes((RANKS,))
@pytest.mark.parametrize('names', ORDERS)
def test_moves_over_both(names, mesh: Mesh) -> None:
    with jax.set_mesh(mesh):
        x = values(12, 2)
        ordered = numbered(x, names)
        same(mapped(lambda t: lax.all_gather(t, names), x), ordered)
        same(mapped(lambda t: lax.all_gather(t, names, axis=1, tiled=True), x), ordered.swapaxes(0, 1).reshape(12, 2 * ALL))
        same(mapped(lambda t: lax.psum_scatter(t, names, tiled=True), x), put_back(x.sum(0).reshape(ALL, 2, 2), names))
        same(mapped(lambda t: lax.psum_scatter(t[:ALL], names), x), put_back(x[:, :ALL].sum(0), names))
        parts = ordered.reshape(ALL, ALL, 2, 2).swapaxes(0, 1)                # [to, from, ...]
        same(mapped(lambda t: lax.all_to_all(t, names, 0, 1, tiled=True), x),
             put_back(parts.swapaxes(1, 2).reshape(ALL, 2, 2 * ALL), names))
        same(mapped(lambda t: lax.all_to_all(t[:ALL], names, 0, 1), x),
             put_back(ordered[:, :ALL].transpose(1, 2, 0), names))
        same(mapped(lambda t: t * 0 + lax.axis_index(names), x)[:, 0, 0], put_back(np.arange(ALL), names))


@pytest.mark.meshes((RANKS,))
def test_a_tree_is_one_message_and_a_gradient_sums_over_all(mesh: Mesh) -> None:
    with jax.set_mesh(mesh):
        x, w = values(4), jnp.asarray([1., 2., 3., 4.])

        def one(w, t):
            a, b = lax.psum((jnp.sin(t * w).sum(), t * 2), ('b', 'X'))
            return a + 0 * b.sum()

        loss = jax.shard_map(jax.vmap(one, in_axes=(None, 0), axis_name='b', out_axes=None), in_specs=(P(), P('X')), out_specs=P())

        placed = jax.device_put(w, P()), jax.device_put(x, P('X'))
        with recorder.count() as sent:
            jax.jit(loss)(*placed)
        assert dict(sent.by_op) == {'all-reduce': 1}
        same(np.asarray(jax.grad(loss)(*placed)), (np.cos(x * np.asarray(w)) * x).sum(0))


def test_an_operand_that_all_elements_share() -> None:
    """Each element has its own part of what is exchanged, a sum counts it once for each element, a move leaves it as it is."""
    def rows(f):
        return np.asarray(jax.vmap(lambda b, a: f(a), in_axes=(0, None), axis_name='i')(jnp.ones(4), jnp.arange(4.)))

    a = np.arange(4.)
    for tiled in (True, False):
        same(rows(lambda a, tiled=tiled: lax.all_to_all(a, 'i', 0, 0, tiled=tiled)), np.repeat(a, 4).reshape(4, 4))
    same(rows(lambda a: lax.psum(a, 'i')), 4 * a)
    same(rows(lambda a: lax.pmax(a, 'i')), a)
    same(rows(lambda a: lax.all_gather(a, 'i')), np.broadcast_to(a, (4, 4, 4)))
    same(rows(lambda a: lax.psum_scatter(a, 'i')), 4 * a)
    same(rows(lambda a: lax.ppermute(a, 'i', [(0, 1)])), a * np.array([0, 1, 0, 0])[:, None])


def test_what_is_refused() -> None:
    x = jnp.arange(4.)
    with pytest.raises(NameError, match='unbound axis name: j'):
        jax.vmap(lambda a: lax.psum(a, 'j'), axis_name='i')(x)
    with pytest.raises(ValueError, match='twice'):
        jax.vmap(lambda a: lax.psum(a, ('i', 'i')), axis_name='i')(x)
    with pytest.raises(ValueError, match='outside 0 to 3'):
        jax.vmap(lambda a: lax.ppermute(a, 'i', [(0, 4)]), axis_name='i')(x)
    with pytest.raises(ValueError, match='unique'):
        jax.vmap(lambda a: lax.ppermute(a, 'i', [(0, 1), (2, 1)]), axis_name='i')(x)
    with pytest.raises(ValueError, match='size 4 of i'):
        jax.vmap(lambda a: lax.psum_scatter(a, 'i'), axis_name='i')(jnp.ones((4, 3)))
    with pytest.raises(NotImplementedError, match='one after the other'):
        jax.vmap(jax.vmap(lambda a: lax.ppermute(a, ('i', 'j'), [(0, 1)]), axis_name='j'), axis_name='i')(jnp.ones((2, 3)))


def test_control_flow_around_a_collective() -> None:
    """What decides whether elements come to a collective has to be the same for all of them."""
    def until(limit):
        return jax.vmap(lambda a: lax.while_loop(lambda s: limit(s) < 20, lambda s: s + 1 + 0 * lax.psum(s, 'i'), a), axis_name='i')
    x = jnp.arange(4.)
    assert until(lambda s: lax.pmax(s, 'i'))(x).tolist() == [17., 18., 19., 20.]
    with pytest.raises(ValueError, match="while_loop: a collective over the mapped axis 'i'.*pmax"):
        until(lambda s: s)(x)
    with pytest.raises(ValueError, match="cond: a collective over the mapped axis 'i'"):
        jax.vmap(lambda a: lax.cond(a > 1, lambda t: lax.psum(t, 'i'), lambda t: t, a), axis_name='i')(x)
    for through in (lambda f: f, jax.jit):
        loop = jax.vmap(lambda a: lax.scan(lambda c, _: (c - lax.pmean(c, 'i') / 2, None), a, length=2)[0], axis_name='i')
        assert through(loop)(x).tolist() == (np.arange(4.) - 1.125).tolist()
