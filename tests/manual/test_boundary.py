"""The boundary of shard_map: specs, what they promise, closures; nothing is sent there, forward or backward."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.runtime import recorder
from tests.complaints.preamble import P, fails, full, put

ALL = pytest.mark.meshes((2,), (3,), (4,), (2, 2), (1, 3))
X = pytest.mark.meshes((2,), (3,))


S = P('X')


def mapped(f, in_specs=S, out_specs=S, **options):
    return jax.shard_map(f, in_specs=in_specs, out_specs=out_specs, **options)


def seen(x, into: list[str]):
    """A value that passes; its printed type is noted down."""
    into.append(str(jax.typeof(x)))
    return x


# ---- types and values


@ALL
@pytest.mark.parametrize('run', [lambda f: f, jax.jit], ids=['eager', 'jit'])
def test_types_change_at_the_boundary_and_blocks_stay(mesh, run) -> None:
    n, axes = mesh.size, mesh.axis_names
    a = np.arange(n * 5.).reshape(n, 5)
    over = 'X' if axes == ('X',) else f"({','.join(axes)})"
    cases = [  # value, spec, type inside
        (put(a, axes), P(axes), f'float32[1,5]{{V:{over}}}'),
        (put(a), P(), f'float32[{n},5]'),
        (put(a, unreduced=set(axes)), P(unreduced=set(axes)), f'float32[{n},5]{{U:{over}}}'),
        (put(a, reduced=set(axes)), P(reduced=set(axes)), f'float32[{n},5]{{R:{over}}}')]
    for x, spec, inside in cases:
        for in_specs in (spec, None):
            types: list[str] = []
            options = {} if in_specs is None else {'in_specs': in_specs}
            f = run(jax.shard_map(functools.partial(seen, into=types), out_specs=spec, **options))
            with recorder.count() as counted:
                y = f(x)
                ct, = jax.vjp(f, x)[1](put(np.ones((n, 5)), *(spec.partitions), unreduced=spec.reduced, reduced=spec.unreduced))
            assert counted.total == 0
            assert types[0] == inside and jax.typeof(y) == jax.typeof(x)
            assert jax.typeof(ct) == jax.typeof(x).to_ct_aval()
            assert y.addressable_shards[0].data.tolist() == x.addressable_shards[0].data.tolist()


@pytest.mark.meshes((2, 2), (1, 3))
def test_the_first_axis_of_a_tuple_is_the_major_one(mesh) -> None:
    x = put(np.arange(6. * mesh.size), ('X', 'Y'))
    y = put(np.arange(6. * mesh.size), ('Y', 'X'))
    index = lambda axes: jax.shard_map(lambda x: x * 0 + lax.axis_index(axes), out_specs=P(axes))
    for value, axes in ((x, ('X', 'Y')), (y, ('Y', 'X'))):
        assert full(index(axes)(value)).tolist() == np.repeat(np.arange(mesh.size), 6).tolist()
    turned = jax.shard_map(lambda x: x, in_specs=P(('X', 'Y')), out_specs=P(('Y', 'X')))(x)
    want = np.arange(6. * mesh.size).reshape(*mesh.axis_sizes, 6).transpose(1, 0, 2).ravel()
    assert str(jax.typeof(turned)) == f'float32[{6 * mesh.size}@(Y,X)]' and full(turned).tolist() == want.tolist()


@X
def test_copies_are_tiled_for_free_and_numbers_are_results(mesh) -> None:
    x, n = put(np.arange(6.), 'X'), mesh.size
    y, k, nothing = mapped(lambda x: (jnp.arange(2.), 3, None), out_specs=(P('X'), P(), None))(x)
    assert full(y).tolist() == [0., 1.] * n and int(k) == 3 and nothing is None
    assert str(jax.typeof(y)) == f'float32[{2 * n}@X]'


@X
@pytest.mark.parametrize('run', [lambda f: f, jax.jit], ids=['eager', 'jit'])
def test_specs_are_prefixes_of_trees_and_none_leaves_alone(mesh, run) -> None:
    p = {'w': put(np.ones((3, 2))), 'b': [put(np.ones(2)), put(np.zeros(2))]}
    x = put(np.arange(18.).reshape(6, 3), 'X')

    def f(p, x, how):
        assert how == 'both'
        y = x @ p['w'] + p['b'][0] - p['b'][1]
        return {'y': y, 'more': (lax.psum(y.sum(), 'X'), y.sum(1))}

    g = mapped(f, (P(), P('X'), None), {'y': P('X'), 'more': (P(), P('X'))})
    out = run(lambda p, x: g(p, x, 'both'))(p, x)
    want = np.arange(18.).reshape(6, 3).sum(1) + 1
    assert full(out['more'][1]).tolist() == (2 * want).tolist() and float(out['more'][0]) == 2 * want.sum()
    tiled = run(lambda p, x: mapped(lambda p, x: jax.tree.map(lambda v: v.sum()[None], (p, x)), (P(), P('X')), P('X'))(p, x))(p, x)
    assert full(tiled[0]['w']).tolist() == [6.] * mesh.size and full(tiled[1]).sum() == np.arange(18.).sum()


def test_the_mesh_is_the_current_one_or_the_one_given() -> None:
    n = jax.device_count()
    mesh = jax.make_mesh((n,), ('X',))
    a = np.arange(2. * n, dtype=np.float32)
    x = jax.device_put(a, jax.NamedSharding(mesh, P('X')))
    fails('ValueError', 'mesh=.*set_mesh', lambda: mapped(lambda x: x)(x))
    total = lambda y: np.asarray(jax.process_allgather(y)).ravel()
    assert total(mapped(lambda x: 2 * x, mesh=mesh)(x)).tolist() == (2 * a).tolist()
    with jax.set_mesh(mesh):
        assert total(mapped(lambda x: 2 * x)(x)).tolist() == (2 * a).tolist()
        assert total(mapped(lambda x: 2 * x, mesh=mesh.abstract_mesh)(x)).tolist() == (2 * a).tolist()


@X
def test_forms_of_the_call(mesh) -> None:
    x = put(np.arange(6.), 'X')

    @jax.shard_map(in_specs=P('X'), out_specs=P('X'))
    def scaled(x, by=3):
        return x * by

    assert scaled.__name__ == 'scaled' and full(scaled(x)).tolist() == (3 * np.arange(6.)).tolist()
    fails('TypeError', 'keyword', lambda: scaled(x, by=2))
    fails('TypeError', 'positional', lambda: jax.shard_map(lambda x: x, mesh, in_specs=P('X'), out_specs=P('X')))
    inside = mapped(lambda x: x if jax.get_abstract_mesh().manual_axes == ('X',) else None)
    assert full(inside(x)).tolist() == list(range(6)) and jax.get_abstract_mesh().manual_axes == ()


@X
def test_in_an_eager_map_print_shows_this_ranks_block(mesh, capsys) -> None:
    x, rank = put(np.arange(2. * mesh.size), 'X'), jax.process_index()

    def body(x):
        print(x, x.sum(), f'{x[0]:.1f}', np.asarray(x).tolist())
        assert str(jax.typeof(x)) == 'float32[2]{V:X}' and 'float32' in repr(x)
        return x

    mapped(body)(x)
    a, b = 2. * rank, 2. * rank + 1
    assert capsys.readouterr().out == f'[{a:.0f}. {b:.0f}.] {a + b} {a} [{a}, {b}]\n'
    jax.jit(mapped(lambda x: (print(x), x)[1]))(x)
    assert 'float32[2]{V:X}' in capsys.readouterr().out


# ---- closures


@ALL
@pytest.mark.parametrize('run', [lambda f: f, jax.jit], ids=['eager', 'jit'])
def test_arrays_closed_over_are_arguments_with_inferred_specs(mesh, run) -> None:
    n = mesh.size
    a = np.arange(2. * n)
    x, w = put(a, mesh.axis_names), put(np.float32(3.))
    named = P(mesh.axis_names)
    tree = {'s': x, 'r': [put(np.float32(5.), reduced={'X'})]}
    u = put(np.ones(2), unreduced={'X'})

    def f(y):
        with recorder.count() as counted:
            out = run(mapped(lambda y: (w * x * y + tree['s'] * tree['r'][0], u), named, (named, P(unreduced={'X'}))))(y)
        assert counted.total == 0
        return out

    y, same = f(x)
    assert full(y).tolist() == (3 * a * a + 5 * a).tolist()
    assert jax.typeof(same) == jax.typeof(u) and full(same).tolist() == [1., 1.]
    loss = lambda w, x: mapped(lambda y: w * x * y, named, named)(put(a, mesh.axis_names)).sum()
    gw, gx = run(jax.grad(loss, argnums=(0, 1)))(w, x)
    assert jax.typeof(gw) == jax.typeof(w) and jax.typeof(gx) == jax.typeof(x)
    assert float(gw) == (a * a).sum() and full(gx).tolist() == (3 * a).tolist()


class Holder:
    """Arrays where the code of a function does not name them."""

    def __init__(self, x):
        self.x = x


@X
def test_arrays_that_are_not_named_in_the_body_are_refused_and_argument_passing_mends_it(mesh) -> None:
    a = np.arange(2. * mesh.size)
    x, held = put(a, 'X'), Holder(put(a, 'X'))
    for run in (lambda f: f, jax.jit):
        fails('ShardingTypeError|ValueError|TypeError', 'argument|mesh|broadcast', run(mapped(lambda y: y * held.x)), x)
    assert full(mapped(lambda y, x: y * x, (P('X'), P('X')))(x, held.x)).tolist() == (a * a).tolist()


@X
def test_constants_made_outside_and_inside_are_the_same_everywhere(mesh) -> None:
    x, outside, table = put(np.arange(4. * mesh.size), 'X'), jnp.arange(4.), np.arange(4., dtype=np.float32)
    f = mapped(lambda x: x * outside + jnp.ones(4) - table)
    want = np.arange(4. * mesh.size) * np.tile(np.arange(4.), mesh.size) + 1 - np.tile(np.arange(4.), mesh.size)
    assert full(f(x)).tolist() == full(jax.jit(f)(x)).tolist() == want.tolist()


# ---- errors, and the repairs that they propose


ARGUMENTS = {'S': lambda: put(np.arange(12.), 'X'), 'N': lambda: put(np.arange(12.)),
             'U': lambda: put(np.arange(12.), unreduced={'X'}), 'R': lambda: put(np.arange(12.), reduced={'X'})}
SPECS = {'S': P('X'), 'N': P(), 'U': P(unreduced={'X'}), 'R': P(reduced={'X'})}


@X
@pytest.mark.parametrize('given', ARGUMENTS)
@pytest.mark.parametrize('claimed', SPECS)
def test_an_argument_that_lies_otherwise(mesh, given: str, claimed: str) -> None:
    x = ARGUMENTS[given]()
    f = mapped(lambda x: x, SPECS[claimed], SPECS[claimed])
    if given == claimed:
        assert jax.typeof(f(x)) == jax.typeof(x)
        return
    for run in (f, jax.jit(f)):
        with recorder.count() as counted, pytest.raises(ValueError, match=r'in_specs.*reshard') as caught:
            run(x)
        assert counted.total == 0
        repair, = re.findall(r'reshard\(x, .*\)(?=, or)', str(caught.value))
        y = run(eval(repair, {'reshard': jax.reshard, 'P': P, 'x': x}))
        np.testing.assert_allclose(full(y), np.arange(12.))


# What the body makes of a varying value, and what to do to it before it leaves.
STATES = {'V': lambda y: y, 'N': lambda y: lax.psum(y, 'X'), 'U': lambda y: lax.pcast(y, 'X', to='unreduced'),
          'R': lambda y: lax.pcast(lax.psum(y, 'X'), 'X', to='reduced')}
WORDS = {'V': 'varies over X', 'N': 'is the same on all ranks along X', 'U': 'is unreduced over X', 'R': 'is reduced over X'}


SCATTER, GATHER = "psum_scatter(y, 'X', tiled=True)", "all_gather(y, 'X', to='{}')"
SUM, REDUCED = "psum(y, 'X')", "pcast(y, 'X', to='reduced')"
# What the message says to do to the result, and the spec to return it under.
REPAIRS = {('V', 'N'): (P(), [[SUM], [GATHER.format('invarying')]]), ('V', 'U'): (SPECS['U'], [["pcast(y, 'X', to='unreduced')"]]),
           ('V', 'R'): (SPECS['R'], [[GATHER.format('reduced')], [SUM, REDUCED]]), ('U', 'N'): (P(), [[SUM]]),
           ('U', 'V'): (P('X'), [[SCATTER]]), ('U', 'R'): (SPECS['R'], [[SUM, REDUCED]]), ('N', 'R'): (SPECS['R'], [[REDUCED]]),
           ('R', 'V'): (P('X'), [["pcast(y, 'X', to='varying')"]]), ('N', 'U'): (P(), [[]]),
           ('R', 'N'): (SPECS['R'], [[]]), ('R', 'U'): (SPECS['R'], [[]])}


@X
@pytest.mark.parametrize('made', STATES)
@pytest.mark.parametrize('claimed', SPECS)
def test_a_result_that_is_not_what_its_spec_claims(mesh, made: str, claimed: str) -> None:
    n = mesh.size
    x = put(np.arange(float(n * n)), 'X')
    body = STATES[made]
    state = 'V' if claimed == 'S' else claimed
    f = lambda g: mapped(lambda x: g(body(x)), out_specs=SPECS[claimed])
    if made == state or (made, claimed) == ('N', 'S'):
        assert str(jax.typeof(f(lambda y: y)(x))).endswith({'S': '@X]', 'N': ']', 'U': '{U:X}', 'R': '{R:X}'}[claimed])
        return
    for run in (lambda f: f, jax.jit):
        with pytest.raises(ValueError, match=rf'out_specs.*the value {WORDS[made]}.*it {WORDS[state]}.*To mend it') as caught:
            run(f(lambda y: y))(x)
    spec, ways = REPAIRS[made, state]
    assert all(step in str(caught.value) for way in ways for step in way)
    for way in ways:
        follow = functools.partial(functools.reduce, lambda y, step: eval(step, vars(lax) | {'y': y}), way)
        y = mapped(lambda x, follow=follow: follow(body(x)), (P('X'),), spec)(x)
        assert full(jax.reshard(y, SPECS[claimed])).size


@X
def test_other_refusals_say_what_to_write(mesh) -> None:
    n = mesh.size
    x, w = put(np.arange(2. * n), 'X'), put(np.ones(2))
    same = lambda x: x
    fails('TypeError', 'takes a function', lambda: mapped(3))
    fails('TypeError', 'axis_names is a set', lambda: mapped(same, axis_names=['X']))
    fails('ValueError', "axis_names.*'Q'.*'X'", lambda: mapped(same, axis_names={'Q'})(x))
    fails('TypeError', 'mesh is a Mesh', lambda: mapped(same, mesh='X')(x))
    fails('ValueError', "'Z'.*is not the current one.*'X'", lambda: mapped(same, mesh=jax.make_mesh((n,), ('Z',)))(x))
    fails('TypeError', "in_specs are PartitionSpecs, got 'X'", mapped(same, 'X'), x)
    fails('TypeError', "out_specs are PartitionSpecs, got 'X'", mapped(same, P('X'), 'X'), x)
    fails('ValueError', "in_specs name 'Q'.*'X'", mapped(same, P('Q')), x)
    fails('ValueError', "out_specs name 'Q'.*'X'", mapped(same, P('X'), P(reduced={'Q'})), x)
    fails('ValueError', 'tree prefix of the 2 arguments', mapped(lambda x, y: x, (P('X'),)), x, x)
    fails('ValueError', "prefix.*keys 'a'.*keys 'b'", mapped(same, ({'a': P('X')},)), {'b': x})
    fails('ValueError', 'out_specs.*prefix of the result', mapped(lambda x: (x, x), P('X'), (P('X'),)), x)
    fails('ValueError', 'out_specs None.*1 result', mapped(same, P('X'), None), x)
    fails('ValueError', 'more entries than float32', mapped(same, P('X', None)), x)
    fails('ValueError', r'out_specs.*y\[None\]', mapped(lambda x: x.sum()), x)
    assert full(mapped(lambda x: x.sum()[None])(x)).sum() == np.arange(2. * n).sum()
    fails('ValueError', 'divi', mapped(same), put(np.ones(2 * n + 1)))
    fails('DuplicateSpecError', 'twice', mapped(same, P('X', 'X')), put(np.ones((n, n))))
    fails('DuplicateSpecError', 'out_specs.*twice', mapped(same, P(), P('X', 'X')), put(np.ones((n, n))))
    fails('ValueError', r"no axis is left.*\['X'\]", mapped(mapped(same)), x)
    fails('ValueError', 'manual', mapped(lambda x: jax.reshard(x, P('X'))), x)
    assert full(mapped(same, P(), P('X'))(w)).tolist() == [1.] * 2 * n


# ---- maps in maps, axes that stay explicit, and maps that track nothing


@pytest.mark.meshes((2, 2), (1, 3))
@pytest.mark.parametrize('run', [lambda f: f, jax.jit], ids=['eager', 'jit'])
def test_maps_nest_over_one_axis_after_the_other(mesh, run) -> None:
    a = np.arange(36.).reshape(6, 6)
    x, w, types = put(a, 'X', 'Y'), put(np.float32(2.)), []

    @jax.shard_map(out_specs=P('X'), axis_names={'X'})
    def outer(x):
        seen(x, types)

        @jax.shard_map(in_specs=P(None, 'Y'), out_specs=P(None, 'Y'))
        def inner(x):
            return seen(x, types) + lax.psum(x, 'Y') + lax.psum(x, 'X') + lax.axis_index(('X', 'Y'))

        return seen(inner(x), types)

    sizes = dict(mesh.shape)
    rows, columns = 6 // sizes['X'], 6 // sizes['Y']
    y = run(outer)(x)
    assert types == [f'float32[{rows},6@Y]{{V:X}}', f'float32[{rows},{columns}]{{V:(X,Y)}}', f'float32[{rows},6@Y]{{V:X}}']
    blocks = a.reshape(sizes['X'], rows, sizes['Y'], columns)
    index = np.arange(mesh.size).reshape(sizes['X'], 1, sizes['Y'], 1)
    want = (blocks + blocks.sum(2, keepdims=True) + blocks.sum(0, keepdims=True) + index).reshape(6, 6)
    assert str(jax.typeof(y)) == 'float32[6@X,6@Y]'
    np.testing.assert_allclose(full(y), want)
    gradient = run(jax.grad(lambda w: outer(w * x).sum()))(w)
    assert float(gradient) == a.sum() * (1 + sizes['X'] + sizes['Y'])


@pytest.mark.meshes((2, 2), (1, 3))
@pytest.mark.parametrize('run', [lambda f: f, jax.jit], ids=['eager', 'jit'])
def test_axes_that_are_not_manual_stay_explicit(mesh, run) -> None:
    a, b = np.arange(36.).reshape(6, 6) / 36, np.arange(72.).reshape(6, 12) / 72
    x, w, types = put(a, 'X', None), put(b, None, 'Y', reduced={'X'}), []

    @jax.shard_map(in_specs=(P('X'), P(reduced={'X'})), out_specs=(P('X'), P()), axis_names={'X'})
    def layer(x, w):
        y = seen(x @ seen(w, types), types)
        whole = seen(jax.reshard(y, P()), types)
        return y, lax.psum(whole.sum(), 'X')

    rows = 6 // mesh.shape['X']
    with recorder.count() as counted:
        y, total = run(layer)(x, w)
    assert types == ['float32[6,12@Y]{R:X}', f'float32[{rows},12@Y]{{V:X}}', f'float32[{rows},12]{{V:X}}']
    sent = {op for op, axis in (('all-gather', 'Y'), ('all-reduce', 'X')) if mesh.shape[axis] > 1}
    assert counted.by_op == dict.fromkeys(sent, 1)
    assert str(jax.typeof(y)) == 'float32[6@X,12@Y]' and str(jax.typeof(total)) == 'float32[]'
    np.testing.assert_allclose(full(y), a @ b, rtol=1e-6)
    np.testing.assert_allclose(float(total), (a @ b).sum(), rtol=1e-5)
    gx, gw = run(jax.grad(lambda x, w: (lambda y, total: (y ** 2).sum() + total)(*layer(x, w)), argnums=(0, 1)))(x, w)
    assert str(jax.typeof(gx)) == 'float32[6@X,6]' and str(jax.typeof(gw)) == 'float32[6,12@Y]{U:X}'
    np.testing.assert_allclose(full(gx), (2 * a @ b + 1) @ b.T, rtol=1e-5)
    np.testing.assert_allclose(full(gw), a.T @ (2 * a @ b + 1), rtol=1e-5)
    fails('ValueError', "'X', which is manual", jax.shard_map(
        lambda x: jax.reshard(x, P(None, 'X')), in_specs=P('X'), out_specs=P('X'), axis_names={'X'}), x)
    fails('ValueError', "in_specs name 'Y'.*manual axes", jax.shard_map(
        lambda x: x, in_specs=P('X', 'Y'), out_specs=P('X'), axis_names={'X'}), put(a, 'X', 'Y'))


@ALL
def test_without_tracking_gradients_from_outside_are_as_with_it(mesh) -> None:
    n, axes = mesh.size, mesh.axis_names
    a = np.arange(2. * n)
    x, w, types = put(a, axes), put(np.float32(3.)), []

    def body(w, x):
        seen(lax.pcast(x, axes, to='unreduced'), types)
        return w * x, lax.psum((w * x ** 2).sum(), axes)

    tracked = lambda w, x: (w * x, lax.psum((w * x ** 2).sum(), axes))
    for g in (mapped(tracked, (P(), P(axes)), (P(axes), P())), mapped(body, (P(), P(axes)), (P(axes), P()), check_vma=False)):
        y, total = g(w, x)
        assert full(y).tolist() == (3 * a).tolist() and float(total) == 3 * (a ** 2).sum()
        loss = lambda w, x, g=g: jax.tree.reduce(lambda a, b: a.sum() + b, g(w, x))
        for run in (lambda f: f, jax.jit):
            gw, gx = run(jax.grad(loss, argnums=(0, 1)))(w, x)
            np.testing.assert_allclose(float(gw), a.sum() + (a ** 2).sum(), rtol=1e-6)
            np.testing.assert_allclose(full(gx), 3 + 6 * a, rtol=1e-6)
    assert set(types) == {'float32[2]'}
    believed = jax.shard_map(lambda x: x, in_specs=P(axes), out_specs=P(), check_vma=False)(x)
    assert str(jax.typeof(believed)) == 'float32[2]'
    assert np.asarray(believed.addressable_shards[0].data).tolist() == x.addressable_shards[0].data.tolist()
