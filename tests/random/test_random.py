"""distad.random: JAX's numbers, the same on every mesh, and nothing sent for them."""

import doctest
import json
from pathlib import Path

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import NamedSharding, P, lax, make_jaxpr, process_allgather, random, typeof
from distad.config import config
from distad.core.value import Value
from distad.runtime.recorder import count
from distad.types.sharding import pad

TABLES = json.loads(Path(__file__).with_name('data.json').read_text())
TOLERANCE = {'bfloat16': 2e-2, 'float16': 2e-3, 'float64': 1e-9}


def whole(x: Value) -> np.ndarray:
    """The global value as float64 or as it is."""
    y = process_allgather(x)
    return y.astype(np.float64) if y.dtype.kind in 'fV' else y


@pytest.mark.parametrize('row', TABLES['samples'], ids=lambda row: f'{row["call"]}-x64-{row["x64"]}')
def test_samples_are_those_of_jax(row):
    check(row)


@pytest.mark.parametrize('row', TABLES['batched'], ids=lambda row: row['call'])
def test_batches_are_those_of_jax(row):
    check(row)


def check(row: dict) -> None:
    with config.override(enable_x64=row['x64']):
        drawn = eval(row['call'], {'random': random, 'jnp': jnp, 'jax': jax})
        assert (drawn.dtype.name, drawn.shape) == (row['dtype'], tuple(row['shape']))
        want = np.array(row['values'])
        if drawn.dtype.kind == 'c':
            want = want @ [1, 1j]
        tolerance = TOLERANCE.get(row['dtype'], 1e-5) if drawn.dtype.kind in 'fcV' else 0
        np.testing.assert_allclose(np.asarray(whole(drawn)).ravel(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize('name', random.__all__)
def test_examples_of_the_docstrings_run(name):
    found = doctest.DocTestFinder(recurse=False).find(getattr(random, name), name, globs={'np': np, 'random': random})
    assert found[0].examples
    assert not doctest.DocTestRunner().run(found[0]).failed


# ---- placement: the same numbers on any mesh, and nothing sent

SAMPLERS = {
    'bits': lambda **where: random.bits(random.key(1), (12, 24), **where),
    'bits 8': lambda **where: random.bits(random.key(1), (12, 24), np.uint8, **where),
    'uniform': lambda **where: random.uniform(random.key(1), (12, 24), minval=-1, maxval=2, **where),
    'uniform bfloat16': lambda **where: random.uniform(random.key(1), (12, 24), jnp.bfloat16, **where),
    'randint': lambda **where: random.randint(random.key(1), (12, 24), -5, 1000, **where),
    'randint arrays': lambda **where: random.randint(random.key(1), (12, 24), jnp.arange(24) - 3, 50, **where),
    'bernoulli': lambda **where: random.bernoulli(random.key(1), 0.3, (12, 24), **where),
    'bernoulli high': lambda **where: random.bernoulli(random.key(1), 0.3, (12, 24), mode='high', **where),
    'rademacher': lambda **where: random.rademacher(random.key(1), (12, 24), **where),
    'normal': lambda **where: random.normal(random.key(1), (12, 24), **where),
    'normal complex': lambda **where: random.normal(random.key(1), (12, 24), np.complex64, **where),
    'truncated_normal': lambda **where: random.truncated_normal(random.key(1), -1, jnp.ones(24), (12, 24), **where),
    'exponential': lambda **where: random.exponential(random.key(1), (12, 24), **where),
    'laplace': lambda **where: random.laplace(random.key(1), (12, 24), **where),
    'gumbel': lambda **where: random.gumbel(random.key(1), (12, 24), **where),
    'gumbel high': lambda **where: random.gumbel(random.key(1), (12, 24), mode='high', **where),
    'categorical': lambda **where: random.categorical(random.key(1), jnp.zeros((24, 5)), shape=(12, 24), **where),
    'permutation': lambda **where: random.permutation(random.key(1), jnp.arange(288.).reshape(12, 24), **where),
    'permutation independent': lambda **where: random.permutation(
        random.key(1), jnp.arange(288.).reshape(12, 24), axis=1, independent=True, **where),
}
SPECS = [P(), P('X'), P(None, 'X'), P(reduced={'X'}), P(unreduced={'X'})]


@pytest.mark.parametrize('name', SAMPLERS)
@pytest.mark.meshes((1,), (2,), (3,), (4,))
def test_every_placement_holds_the_same_numbers_and_sends_nothing(name, mesh):
    sampler = SAMPLERS[name]
    want = whole(sampler())
    for spec in SPECS:
        with count() as sent:
            drawn = sampler(out_sharding=spec)
        assert sent.total == 0
        assert typeof(drawn).sharding == NamedSharding(mesh.abstract_mesh, pad(spec, 2))
        np.testing.assert_array_equal(whole(drawn), want)


@pytest.mark.parametrize('name', SAMPLERS)
@pytest.mark.meshes((2, 2))
def test_two_axes(name, mesh):
    sampler = SAMPLERS[name]
    want = whole(sampler())
    for spec in (P('X', 'Y'), P('Y', 'X'), P(('X', 'Y')), P(None, ('Y', 'X')), P('X', reduced={'Y'}), P('Y', unreduced={'X'})):
        with count() as sent:
            drawn = sampler(out_sharding=spec)
        assert sent.total == 0
        np.testing.assert_array_equal(whole(drawn), want)


@pytest.mark.meshes((2,))
def test_a_compiled_sampler_draws_the_same(mesh):
    want = whole(random.normal(random.key(1), (4, 6)))
    for spec in SPECS:
        drawn = jax.jit(lambda key, spec=spec: random.normal(key, (4, 6), out_sharding=spec))(random.key(1))
        np.testing.assert_array_equal(whole(drawn), want)


@pytest.mark.meshes((2,))
def test_numbers_lie_as_the_parameters_do(mesh):
    p = jax.device_put(np.full((4, 6), 0.5, np.float32), P('X'))
    key = random.key(1)
    for drawn in (random.bernoulli(key, p), random.uniform(key, (4, 6), minval=p), random.randint(key, (4, 6), 0, 9 + p),
                  random.uniform(key, (3, 4, 6), maxval=p)[0], random.truncated_normal(key, -p, p)):
        assert typeof(drawn).partitions == (('X',), ())
    assert str(typeof(random.categorical(key, p))) == 'int32[4@X]'
    # A rank draws its block only: the bits are split in the program, too.
    assert 'u32[4@X,6] = random_bits' in str(make_jaxpr(lambda p: random.bernoulli(key, p))(p))


@pytest.mark.meshes((2,))
def test_uneven_placement_is_refused(mesh):
    with pytest.raises(ValueError, match='not evenly divisible'):
        random.normal(random.key(0), (3,), out_sharding=P('X'))


@pytest.mark.parametrize('options', [{}, {'independent': True}, {'axis': 1}, {'axis': 1, 'independent': True}])
@pytest.mark.meshes((2,), (3,))
def test_order_along_a_split_dimension(options, mesh):
    x = np.arange(36., dtype=np.float32).reshape(6, 6)
    want = whole(random.permutation(random.key(0), jnp.asarray(x), **options))
    for spec in (P('X', None), P(None, 'X')):
        with count() as sent:
            moved = random.permutation(random.key(0), jax.device_put(x, spec), **options)
        assert typeof(moved).sharding.spec == spec
        assert bool(sent.total) == (spec.partitions[options.get('axis', 0)] == 'X')
        np.testing.assert_array_equal(whole(moved), want)
    row = whole(random.permutation(random.key(0), jnp.asarray(x[0])))
    np.testing.assert_array_equal(whole(random.permutation(random.key(0), jax.device_put(x[0], P('X')))), row)


@pytest.mark.meshes((2,))
def test_ranks_draw_alike_unless_their_index_is_folded_in(mesh):
    def draw(folded):
        def f(key):
            return random.uniform(random.fold_in(key, lax.axis_index('X')) if folded else key, (3,))
        return whole(jax.shard_map(f, in_specs=P(), out_specs=P('X') if folded else P())(random.key(0)))
    assert len(set(draw(True).tolist())) == 6
    np.testing.assert_array_equal(draw(False), whole(random.uniform(random.key(0), (3,))))


@pytest.mark.meshes((2,))
def test_out_sharding_leaves_manual_axes_alone(mesh):
    def f(key):
        return random.uniform(random.fold_in(key, lax.axis_index('X')), (3,), out_sharding=P(None))
    assert str(typeof(jax.shard_map(f, in_specs=P(), out_specs=P('X'))(random.key(0)))) == 'float32[6@X]'


# ---- keys

def test_a_key_is_single_and_is_a_key():
    with pytest.raises(ValueError, match='vmap'):
        random.uniform(random.split(random.key(0)))
    with pytest.raises(TypeError, match=r'takes keys, got .*float32\[2\].*random.key'):
        random.uniform(jnp.zeros(2))
    with pytest.raises(TypeError, match='integer'):
        random.key(1.5)
    with pytest.raises(TypeError, match='vmap'):
        random.key(jnp.arange(2))
    with pytest.raises(OverflowError):
        random.key(2**63)
    with pytest.raises(OverflowError):
        random.fold_in(random.key(0), -1)
    assert str(typeof(random.key(0))) == 'key<fry>[]'


def test_older_keys_stay_in_their_form():
    old = random.PRNGKey(3)
    assert str(typeof(random.split(old, 3))) == 'uint32[3,2]'
    assert str(typeof(random.fold_in(old, 3))) == 'uint32[2]'
    np.testing.assert_array_equal(whole(random.normal(old, (3,))), whole(random.normal(random.key(3), (3,))))


@pytest.mark.parametrize(('call', 'error'), [
    (lambda key: random.uniform(key, (2,), np.int32), ValueError),
    (lambda key: random.normal(key, (2,), np.int32), ValueError),
    (lambda key: random.bits(key, (2,), np.int32), ValueError),
    (lambda key: random.randint(key, (2,), 0, 2, np.float32), TypeError),
    (lambda key: random.bernoulli(key, 1), TypeError),
    (lambda key: random.bernoulli(key, mode='medium'), ValueError),
    (lambda key: random.uniform(key, (2,), minval=np.zeros(3)), ValueError),
    (lambda key: random.uniform(key, (), minval=np.zeros(3)), ValueError),
    (lambda key: random.categorical(key, np.zeros((2, 4), np.float32), shape=(3,)), ValueError),
    (lambda key: random.categorical(key, np.zeros(4, np.float32), shape=(5,), replace=False), ValueError),
    (lambda key: random.choice(key, 0, (2,)), ValueError),
    (lambda key: random.choice(key, 3, (4,), replace=False), ValueError),
    (lambda key: random.choice(key, 3, p=np.ones(4, np.float32)), ValueError),
    (lambda key: random.permutation(key, 2.), TypeError),
    (lambda key: random.permutation(key, np.zeros(3, np.float32), axis=1), ValueError),
])
def test_refusals(call, error):
    with pytest.raises(error):
        call(random.key(0))


# ---- distributions: moments of many numbers, within five standard deviations of what they should be

MOMENTS = {
    'uniform': (lambda key, n: random.uniform(key, (n,), minval=-1, maxval=3), 1, 4 / np.sqrt(12)),
    'normal': (lambda key, n: random.normal(key, (n,)), 0, 1),
    'exponential': (lambda key, n: random.exponential(key, (n,)), 1, 1),
    'laplace': (lambda key, n: random.laplace(key, (n,)), 0, np.sqrt(2)),
    'gumbel': (lambda key, n: random.gumbel(key, (n,)), np.euler_gamma, np.pi / np.sqrt(6)),
    'truncated_normal': (lambda key, n: random.truncated_normal(key, -1, 1, (n,)), 0, 0.5396),
    'randint': (lambda key, n: random.randint(key, (n,), 0, 7), 3, 2),
    'rademacher': (lambda key, n: random.rademacher(key, (n,)), 0, 1),
    'bernoulli': (lambda key, n: random.bernoulli(key, 0.25, (n,)), 0.25, np.sqrt(3) / 4),
    'permutation': (lambda key, n: random.permutation(key, n) / n, 0.5, 1 / np.sqrt(12)),
    'categorical': (lambda key, n: random.categorical(key, jnp.log(jnp.array([.5, .25, .25])), shape=(n,)), 0.75, 0.829),
    'choice': (lambda key, n: random.choice(key, 3, (n,), p=jnp.array([.5, .25, .25])), 0.75, 0.829),
}


@pytest.mark.parametrize('name', MOMENTS)
def test_moments(name):
    draw, mean, deviation = MOMENTS[name]
    n = 20_000
    drawn = whole(draw(random.key(17), n)).astype(float)
    assert abs(drawn.mean() - mean) < 5 * deviation / np.sqrt(n)
    assert abs(drawn.std() / deviation - 1) < 0.05
