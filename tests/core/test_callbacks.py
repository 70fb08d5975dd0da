"""Python functions called out of programs: how often, with what, on which ranks."""

from functools import partial

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.types.mesh import Mesh

P, Struct = jax.P, jax.ShapeDtypeStruct


def running_sum(x, method: str | None = 'sequential'):
    return jax.pure_callback(np.cumsum, Struct(x.shape, x.dtype), x, vmap_method=method)


def test_it_gives_what_the_function_gives() -> None:
    x = jnp.arange(6.).reshape(2, 3)
    for through in (lambda f: f, jax.jit):
        assert through(running_sum)(x[1]).tolist() == [3., 7., 12.]
        assert through(jax.vmap(running_sum))(x).tolist() == np.cumsum(x, 1).tolist()
        ys = through(lambda x: lax.scan(lambda c, row: (c, running_sum(row)), 0., x)[1])(x)
        assert ys.tolist() == np.cumsum(x, 1).tolist()


@pytest.mark.parametrize('method, shapes', [
    ('sequential', [((5,), (5,))] * 6), ('expand_dims', [((2, 1, 5), (1, 3, 5))]), ('broadcast_all', [((2, 3, 5), (2, 3, 5))])])
def test_what_is_called_under_vmap(method: str, shapes: list) -> None:
    calls = []

    def f(x, y):
        def add(a, b):
            calls.append((a.shape, b.shape))
            return a + b
        return jax.pure_callback(add, Struct(x.shape, x.dtype), x, y, vmap_method=method)

    x, y = np.arange(10.).reshape(2, 5), np.arange(15.).reshape(3, 5)
    out = jax.vmap(jax.vmap(f, in_axes=(None, 0)), in_axes=(0, None))(x, y)
    assert np.asarray(out).tolist() == (x[:, None] + y).tolist()
    assert calls == shapes


def test_refusals() -> None:
    x = jnp.arange(3.)
    with pytest.raises(NotImplementedError, match="pure_callback under vmap.*vmap_method='sequential'"):
        jax.vmap(lambda t: running_sum(t[None], None))(x)
    with pytest.raises(NotImplementedError, match='pure_callback cannot be differentiated.*custom_jvp'):
        jax.grad(lambda x: running_sum(x).sum())(x)
    with pytest.raises(ValueError, match=r'returned float32\[2\].*asks for float32\[3\]'):
        jax.pure_callback(lambda a: a[:2], Struct((3,), 'float32'), x)
    with pytest.raises(ValueError, match='vmap_method is one of'):
        running_sum(x, 'all')


def test_effects_stay_once_and_in_order(capsys: pytest.CaptureFixture) -> None:
    """Also where nobody reads a result: in loops, branches, calls, under grad and vmap."""
    def step(c, t):
        jax.debug.print('{} then {t:.0f}', c, t=t)
        return c * t, None

    def f(x):
        jax.debug.print('start')
        y, _ = lax.scan(step, 1., x)
        lax.cond(y > 0, lambda: jax.debug.print('positive'), lambda: jax.debug.print('negative'))
        return y

    first = jax.process_index() == 0                    # of what all hold the first rank tells
    want = ['start', '1.0 then 2', '2.0 then 3', 'positive'] if first else []
    keeping = partial(jax.checkpoint, policy=jax.checkpoint_policies.everything_saveable)
    for through in (lambda f: f, jax.jit, jax.grad, lambda f: jax.jit(jax.grad(f)), lambda f: jax.grad(keeping(f))):
        through(f)(jnp.asarray([2., 3.]))
        assert capsys.readouterr().out.splitlines() == want
    jax.jit(jax.vmap(lambda t: (jax.debug.print('{} of {}', t, 2), t)[1]))(jnp.asarray([2., 3.]))
    assert capsys.readouterr().out.splitlines() == (['2.0 of 2', '3.0 of 2'] if first else [])


def test_io_callback_is_called_as_often_as_the_program_says() -> None:
    left = iter(range(100))
    number = Struct((), 'int32')
    f = jax.jit(lambda: [jax.experimental.io_callback(lambda: np.int32(next(left)), number) for _ in range(3)])
    assert [int(x) for x in f()] == [0, 1, 2]
    assert [int(x) for x in f()] == [3, 4, 5]
    g = jax.jit(lambda: lax.scan(lambda c, _: (c, jax.experimental.io_callback(lambda: np.int32(next(left)), number)), 0, length=3)[1])
    assert g().tolist() == [6, 7, 8]


@pytest.mark.meshes((2,))
def test_placements(mesh: Mesh, capsys: pytest.CaptureFixture) -> None:
    """A split operand is gathered and the results are the same everywhere; in a map each rank calls with its own."""
    rank = jax.process_index()
    with jax.set_mesh(mesh):
        x, r = jax.device_put(jnp.arange(4.), P('X')), jnp.arange(2.)
        y = jax.jit(running_sum)(x)
        assert str(jax.typeof(y)) == 'float32[4]' and np.asarray(y).tolist() == [0., 1., 3., 6.]
        rows = jax.vmap(running_sum)(jax.device_put(jnp.ones((4, 3)), P('X')))
        assert str(jax.typeof(rows)) == 'float32[4@X,3]' and rows.addressable_shards[0].data.tolist() == [[1., 2., 3.]] * 2
        inside = jax.shard_map(running_sum, in_specs=P('X'), out_specs=P('X'))(x)
        assert inside.addressable_shards[0].data.tolist() == [[0., 1.], [2., 5.]][rank]
        with pytest.raises(jax.ShardingTypeError, match='pure_callback.*unreduced'):
            running_sum(jax.reshard(r, P(unreduced={'X'})))
        capsys.readouterr()
        jax.debug.print('same {}', r)
        jax.jit(lambda x: jax.debug.print('own {}', x))(x)
        jax.vmap(lambda t: (jax.debug.print('row {}', t), t)[1])(x)
        jax.debug.print('all', ranks='all')
        jax.debug.print('second', ranks=[1])
        own = [['same [0. 1.]', '[rank 0] own [0. 1.]', '[rank 0] row 0.0', '[rank 0] row 1.0', '[rank 0] all'],
               ['[rank 1] own [2. 3.]', '[rank 1] row 2.0', '[rank 1] row 3.0', '[rank 1] all', 'second']]
        assert capsys.readouterr().out.splitlines() == own[rank]
