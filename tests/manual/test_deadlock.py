"""What type-checks cannot deadlock: no collective stands where only some of its ranks may come."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.errors import VaryingPredicateError
from distad.runtime import recorder
from tests.complaints.preamble import P, fails, full, put

# Each on a line of its own: errors name the line.
COLLECTIVES = {
    'psum': (lambda x: lax.psum(x, 'X'), 'all-reduce'),
    'psum of summands': (lambda x: lax.psum(lax.pcast(x, 'X', to='unreduced'), 'X'), 'all-reduce'),
    'pmean': (lambda x: lax.pmean(x, 'X'), 'all-reduce'),
    'pmax': (lambda x: lax.pmax(x, 'X'), 'all-reduce'),
    'pmin': (lambda x: lax.pmin(x, 'X'), 'all-reduce'),
    'all_gather': (lambda x: lax.all_gather(x, 'X'), 'all-gather'),
    'all_gather to the same': (lambda x: lax.all_gather(x, 'X', tiled=True, to='invarying'), 'all-gather'),
    'all_gather to reduced': (lambda x: lax.all_gather(x, 'X', tiled=True, to='reduced'), 'all-gather'),
    'psum_scatter': (lambda x: lax.psum_scatter(x, 'X', tiled=True), 'reduce-scatter'),
    'all_to_all': (lambda x: lax.all_to_all(x, 'X', 0, 0, tiled=True), 'all-to-all'),
    'ppermute': (lambda x: lax.ppermute(x, 'X', [(0, 1)]), 'collective-permute'),
    'pshuffle': (lambda x: lax.pshuffle(x, 'X', range(lax.axis_size('X'))[::-1]), 'collective-permute'),
    'pbroadcast': (lambda x: lax.pbroadcast(x, 'X', 1), 'all-reduce'),
}

CHOICES = {
    'cond': lambda p, f, x: lax.cond(p, f, lambda x: x, x),
    'the other branch': lambda p, f, x: lax.cond(p, lambda x: x, f, x),
    'switch': lambda p, f, x: lax.switch(p.astype(np.int32), [lambda x: x, lambda x: 2 * x, f], x),
    'while_loop': lambda p, f, x: lax.while_loop(lambda c: c[0], lambda c: (~c[0], f(c[1])), (p, x))[1],
    'condition of a while_loop': lambda p, f, x: lax.while_loop(lambda c: p & (f(c).sum() > 0), lambda c: c - 1, x),
    'fori_loop': lambda p, f, x: lax.fori_loop(0, p.astype(np.int32), lambda i, c: f(c), x),
}


def custom_vjp(f):
    g = jax.custom_vjp(f)
    g.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return g


def custom_jvp(f):
    g = jax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return g


NESTS = {
    'nothing': lambda f: f,
    'jit': jax.jit,
    'checkpoint': jax.checkpoint,
    'scan': lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    'cond': lambda f: lambda x: lax.cond(True, f, lambda x: x, x),
    'while_loop': lambda f: lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x))[1],
    'custom_vjp': custom_vjp,
    'custom_jvp': custom_jvp,
    'several': lambda f: jax.jit(lambda x: lax.scan(lambda c, _: (jax.checkpoint(jax.jit(f))(c), None), x, None, length=2)[0]),
}


def inside(name: str):
    """A function that keeps the type of its argument and communicates."""
    f = COLLECTIVES[name][0]
    return lambda x: x + f(x).sum()


def mapped(f):
    return jax.shard_map(f, in_specs=P('X'), out_specs=P('X'))


def numbers(mesh) -> jax.Array:
    return put(np.arange(6. * mesh.size), mesh.axis_names)


def under(choice: str, predicate, nest: str, f):
    return lambda x: CHOICES[choice](predicate(x), NESTS[nest](f), x)


def varying(x):
    """A predicate that holds on one rank alone."""
    return lax.axis_index('X') == 1


def same(x):
    return lax.psum(x.sum(), 'X') > 1.


@pytest.mark.meshes((2,), (3,))
@pytest.mark.parametrize('collective', COLLECTIVES)
def test_a_collective_under_a_choice_that_ranks_make_differently_is_refused(mesh, collective: str) -> None:
    f, op = COLLECTIVES[collective]
    x, line = numbers(mesh), rf'test_deadlock\.py:{f.__code__.co_firstlineno}\b'
    with recorder.count() as counted:
        for choice, nest in itertools.product(CHOICES, NESTS):
            body = under(choice, varying, nest, inside(collective))
            with pytest.raises(VaryingPredicateError, match=line) as caught:
                mapped(body)(x)
            assert re.search(rf'predicate (bool|int32)\[\]{{V:X}} .*over X, and an? {op} over X\b', str(caught.value))
        with pytest.raises(VaryingPredicateError, match=line):
            jax.jit(mapped(body))(x)
    assert counted.total == 0


@pytest.mark.meshes((2,), (3,))
@pytest.mark.parametrize('collective', COLLECTIVES)
def test_under_a_choice_that_all_ranks_make_alike_it_works(mesh, collective: str) -> None:
    x, f = numbers(mesh), inside(collective)
    once, twice = full(mapped(f)(x)), full(mapped(lambda x: f(f(x)))(x))
    for choice, nest, want in (('cond', 'nothing', once), ('while_loop', 'jit', once), ('fori_loop', 'checkpoint', once),
                               ('cond', 'several', twice)):
        np.testing.assert_allclose(full(mapped(under(choice, same, nest, f))(x)), want)


@pytest.mark.meshes((2,))
def test_gradients_too(mesh) -> None:
    x = numbers(mesh)
    grad = lambda f: full(jax.grad(lambda x: (mapped(f)(x) ** 2).sum())(x))
    for collective in ('psum', 'pmax', 'all_gather', 'psum_scatter', 'all_to_all', 'ppermute'):
        f = inside(collective)
        np.testing.assert_allclose(grad(under('cond', same, 'nothing', f)), grad(f))
        np.testing.assert_allclose(grad(under('the other branch', lambda x: ~same(x), 'checkpoint', f)), grad(f))


@pytest.mark.meshes((2, 2))
def test_ranks_along_other_axes_may_choose_differently(mesh) -> None:
    """Only those with Y=1 sum over X; the others do not wait for them."""
    x = put(np.arange(4.), ('X', 'Y'))
    over = lambda axes: jax.shard_map(lambda x: lax.cond(lax.axis_index('Y') == 1, lambda x: x + lax.psum(x, axes), lambda x: x, x),
                                      in_specs=P(('X', 'Y')), out_specs=P(('X', 'Y')))
    assert full(over('X')(x)).tolist() == [0., 1. + 4., 2., 3. + 4.]
    assert full(jax.jit(over('X'))(x)).tolist() == [0., 5., 2., 7.]
    for axes in ('Y', ('X', 'Y'), ('Y', 'X')):
        fails('VaryingPredicateError', r'over Y\b.*all-reduce over', over(axes), x)
    rounds = jax.shard_map(lambda x: lax.fori_loop(0, 2 * lax.axis_index('Y'), lambda i, c: c + lax.pmax(c, 'X'), x),
                           in_specs=P(('X', 'Y')), out_specs=P(('X', 'Y')))
    assert full(rounds(x)).tolist() == [0., 1. + 3. + 6., 2., 3. + 3. + 6.]


@pytest.mark.meshes((2, 2))
def test_in_partial_manual_mode_other_axes_are_as_free(mesh) -> None:
    """The choice varies over X; a reshard over Y inside is a collective over Y, to which all of its ranks come."""
    x = put(np.arange(8.).reshape(2, 4), 'X', 'Y')
    f = jax.shard_map(lambda x: lax.cond(lax.axis_index('X') == 1, lambda x: x.sum(), lambda x: 0., x)[None],
                      in_specs=P('X'), out_specs=P('X'), axis_names={'X'})
    with recorder.count() as counted:
        y = jax.jit(f)(x)
    assert full(y).tolist() == [0., 22.]
    assert counted.by_op.get('all-reduce', 0) == (1 if mesh.coords(jax.process_index())['X'] else 0)


@pytest.mark.meshes((2,), (3,))
def test_what_ranks_choose_differently_is_not_the_same_on_them(mesh) -> None:
    x, n = numbers(mesh), mesh.size
    choose = jax.shard_map(lambda x: lax.cond(varying(x), lambda: 1., lambda: 2.), in_specs=P('X'), out_specs=P())
    fails('ValueError', r"out_specs.*varies over X", choose, x)
    tiled = mapped(lambda x: lax.cond(varying(x), lambda: 1., lambda: 2.)[None])
    assert full(tiled(x)).tolist() == [1. if r == 1 else 2. for r in range(n)]
    loop = lambda start: mapped(lambda x: lax.while_loop(lambda c: c[0] < lax.axis_index('X'), lambda c: (c[0] + 1, c[1]),
                                                         (start(), x))[0][None])
    text = r"bool\[\]\{V:X\}.*int32\[\] .*pcast\(x, \('X',\), to='varying'\)"
    fails('VaryingPredicateError', text, loop(lambda: jnp.int32(0)), x)
    assert full(loop(lambda: lax.pcast(jnp.int32(0), ('X',), to='varying'))(x)).tolist() == list(range(n))


@pytest.mark.meshes((2,), (3,))
@pytest.mark.parametrize('run', [lambda f: f, jax.jit], ids=['eager', 'jit'])
def test_a_shared_weight_gets_its_gradient_from_the_ranks_that_used_it(mesh, run) -> None:
    """The sum that its cast transposes to stands outside of the branch, where all ranks come."""
    x = numbers(mesh)
    used = full(x).reshape(mesh.size, -1)[1].sum()
    given = lambda w, x: lax.cond(varying(x), lambda w, x: w * x, lambda w, x: x, w, x)
    closed = lambda w, x: lax.cond(varying(x), lambda x: w * x, lambda x: x, x)
    inside = lambda w, x: lax.pcast(jax.grad(lambda w: closed(w, x).sum())(w), 'X', to='varying')[None]
    for kinds in ({}, {'reduced': {'X'}}):
        w = put(np.float32(3.), **kinds)
        for body in (given, closed):
            f = jax.shard_map(body, in_specs=(P(**kinds), P('X')), out_specs=P('X'))
            with recorder.count() as counted:
                g = run(jax.grad(lambda w, f=f: f(w, x).sum()))(w)
            assert jax.typeof(g) == jax.typeof(w).to_ct_aval() and float(full(g)) == used
            assert counted.by_op.get('all-reduce', 0) <= 2
    g = run(jax.shard_map(inside, in_specs=(P(), P('X')), out_specs=P('X')))(put(np.float32(3.)), x)
    assert full(g).tolist() == [used] * mesh.size


@pytest.mark.meshes((2,), (3,))
def test_a_backward_rule_may_not_communicate_there_either(mesh) -> None:
    """The forward pass is fine; it is the backward pass that only some ranks would come to."""
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct + lax.psum(ct, 'X'),))
    x, g = numbers(mesh), mapped(lambda x: lax.cond(varying(x), f, lambda x: x, x))
    assert full(g(x)).tolist() == full(x).tolist()
    fails('VaryingPredicateError', 'all-reduce over X', jax.grad(lambda x: g(x).sum()), x)


@pytest.mark.meshes((2,), (3,))
@pytest.mark.parametrize('run', [lambda f: f, jax.jit], ids=['eager', 'jit'])
def test_python_control_flow_on_a_value_that_varies_explains_itself(mesh, run) -> None:
    x = numbers(mesh)

    def clipped(x):
        return x if x.sum() > 20. else -x

    text = r'bool\[\]\{V:X\}.*differs between the ranks along X.*lax.cond.*pmax'
    fails('TracerBoolConversionError', text, run(mapped(clipped)), x)
    fails('TypeError', 'differs between the ranks along X', run(mapped(lambda x: x[:int(lax.axis_index('X'))])), x)
    fails('TypeError', 'differs between the ranks along X', run(mapped(lambda x: x * float(x[0]))), x)
    fails('TypeError', 'differs between the ranks along X', run(mapped(lambda x: [x, -x][lax.axis_index('X')])), x)
    assert full(run(mapped(lambda x: lax.cond(x.sum() > 20., lambda: x, lambda: -x)))(x))[4:8].tolist() == [-4., -5., 6., 7.]
    assert full(run(mapped(lambda x: jnp.where(x.sum() > 20., x, -x)))(x))[4:8].tolist() == [-4., -5., 6., 7.]


@pytest.mark.meshes((2,), (3,))
def test_python_control_flow_on_a_value_that_is_the_same_on_all_ranks_works_eagerly(mesh) -> None:
    x = numbers(mesh)
    f = mapped(lambda x: x + lax.psum(x, 'X') if lax.pmax(x.sum(), 'X') > 5. else -x)
    np.testing.assert_allclose(full(f(x)), full(mapped(lambda x: x + lax.psum(x, 'X'))(x)))
    fails('TracerBoolConversionError', 'not known while the program is traced', jax.jit(f), x)


@pytest.mark.meshes((2,), (3,), (2, 2))
def test_in_explicit_mode_a_predicate_is_known_to_all_ranks(mesh) -> None:
    x = put(np.arange(12.), 'X')
    summands = jax.reshard(x.sum(), P(unreduced={'X'}))
    index = lambda s: lax.switch(s.astype(np.int32), [lambda x: x, lambda x: 2 * x], x)
    fails('ShardingTypeError', r'switch.*int32\[\]\{U:X\}.*reshard\(p, P\(\)\)', lambda: lax.switch(
        jax.reshard(jnp.int32(1), P(unreduced={'X'})), [lambda x: x, lambda x: 2 * x], x))
    fails('ShardingTypeError', 'reshard', lambda: lax.cond(summands > 0, lambda x: x, lambda x: 2 * x, x))
    fails('ShardingTypeError', 'reshard', lambda: lax.while_loop(lambda s: s > 0, lambda s: s, summands))
    fails('ValueError', r'\{U:X\}.*reshard', lambda: 1 if summands else 2)
    assert full(index(jax.reshard(summands, P()))).tolist() == (2 * np.arange(12.)).tolist()
    assert bool(jax.reshard(summands, P()))
    both = jax.jit(lambda x: lax.cond(x.sum() > 1., lambda x: jax.reshard(x, P()), lambda x: jax.reshard(x, P()) * 2, x))
    assert np.asarray(both(x)).tolist() == list(range(12))
