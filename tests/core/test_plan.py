"""A plan says what a run sends: compared with the counters of the run, and with the calls that MPI gets (tests/pmpi)."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import communication_budget, count_collectives
from distad.errors import BudgetError

P = jax.P
pytestmark = [pytest.mark.timeout(60), pytest.mark.meshes((2,), (2, 2))]


def put(x, *spec, **kinds):
    return jax.reshard(jnp.asarray(x), P(*spec, **kinds))


def mixed(x):
    """Two dtypes in one reshard: two messages."""
    u = put(jnp.ones((4, 2)), unreduced={'X'}), put(jnp.ones(3, jnp.bfloat16), unreduced={'X'}), put(jnp.ones(5), unreduced={'X'})
    return jax.reshard(u, P())


def looped(x):
    return lax.scan(lambda c, _: (c + jnp.sum(x * c), None), 0., None, length=5)[0]


def in_map(x):
    def f(x):
        y = lax.all_gather(x, 'X', tiled=True)
        return lax.psum_scatter(y * 2, 'X', tiled=True) + lax.ppermute(x, 'X', [(0, 1), (1, 0)])
    return jax.shard_map(f, in_specs=P('X'), out_specs=P('X'))(x)


PROGRAMS = {
    'sum': jnp.sum,
    'gradient of a product': lambda x: jax.grad(lambda w: (x @ w).sum())(jnp.ones((3, 2))),
    'gather': lambda x: jax.reshard(x, P()),
    'exchange': lambda x: jax.reshard(jnp.concatenate([x, x[:, :1]], 1), P(None, 'X')),
    'roll': lambda x: jnp.roll(x, 1, 0),
    'softmax over a split dimension': lambda x: jax.nn.softmax(x, 0),
    'mixed dtypes': mixed,
    'loop': looped,
    'gradient of a loop': jax.grad(looped),
    'map': in_map,
    'exact': lambda x: jax.reshard(jnp.einsum('ij->j', x, out_sharding=P(unreduced={'X'})), P()),
}


@pytest.mark.parametrize('name', PROGRAMS)
def test_a_plan_is_what_is_sent(mesh, name) -> None:
    x = put(np.arange(24.).reshape(8, 3), 'X')
    f = jax.jit(PROGRAMS[name])
    plan = jax.plan(f)(x)
    with count_collectives() as sent:
        f(x)
    assert plan.exact
    assert plan.by_op == sent.by_op and sent.total
    assert plan.bytes == sent.bytes
    assert all(c.source.file == __file__ for c in plan.collectives)


def test_what_data_decide_is_said_to_be_so(mesh) -> None:
    x = put(np.arange(8.), 'X')
    rounds = jax.plan(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c + jnp.sum(x), 0.))(x)
    choice = jax.plan(lambda x, p: lax.cond(p, lambda: jnp.sum(x), lambda: 0.))(x, True)
    assert not rounds.exact and rounds.collectives[0].times is None and 'each round' in str(rounds)
    assert not choice.exact and choice.collectives[0].choice and 'if taken' in str(choice)
    assert str(jax.plan(jnp.sin)(x)) == 'no collectives'


def test_a_plan_takes_types_and_runs_nothing(mesh) -> None:
    t = jax.ShapeDtypeStruct((8, 3), 'float32', sharding=jax.NamedSharding(mesh, P('X')))
    with count_collectives() as sent:
        plan = jax.plan(jnp.sum)(t)
    assert sent.total == 0 and plan.by_op == {'all-reduce': 1} and plan.bytes == 4


def test_a_budget_that_is_broken_names_the_lines(mesh) -> None:
    x = put(np.arange(8.), 'X')
    with communication_budget(all_reduce=1, bytes=4) as sent:
        jnp.sum(x)
    assert sent.total == 1
    with pytest.raises(BudgetError, match=r'1 all-gather, allowed 0; 2 all-reduce, allowed 1(.|\n)*test_plan.py'):
        with communication_budget(all_reduce=1):
            jnp.sum(x), jnp.sum(x), jax.reshard(x, P())
    with pytest.raises(BudgetError, match='2 collectives, allowed 1; 8 bytes, allowed 7'):
        with communication_budget(total=1, bytes=7):
            jnp.sum(x), jnp.sum(x)
