"""Functions that reshape, reorder, join, cut, pad and turn round: NumPy's elements on every placement, and their way back."""

import re

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.errors import ShardingTypeError
from distad.types.array_type import ArrayType
from tests.ops.arrays import counted, get, numbers, placements, put, some
from tests.ops.moving import check_move

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,), (4,), (1, 3))
M, N, K = 12, 24, 6                          # all different; each divides by 2 and 3, M and N by 4


def padded(x: np.ndarray, *config: tuple[int, int, int]) -> np.ndarray:
    """Zeros before, after and between the elements of each dimension."""
    y = np.zeros([n + low + high + (n - 1) * inner for n, (low, high, inner) in zip(x.shape, config, strict=True)], x.dtype)
    y[tuple(slice(low, low + (n - 1) * (inner + 1) + 1, inner + 1)
            for n, (low, _, inner) in zip(x.shape, config, strict=True))] = x
    return y


# name: (function, NumPy's function or None for the one of that name, shape)
ONE = {
    'reshape merge': (lambda x: jnp.reshape(x, M * N), lambda x: x.reshape(M * N), (M, N)),
    'reshape cut': (lambda x: x.reshape(M, 4, K), lambda x: x.reshape(M, 4, K), (M, N)),
    'reshape cut first': (lambda x: x.reshape(3, -1, N), lambda x: x.reshape(3, -1, N), (M, N)),
    'reshape ones': (lambda x: x.reshape(1, M, 1, N, 1), lambda x: x.reshape(1, M, 1, N, 1), (M, N)),
    'reshape both': (lambda x: x.reshape(N, M), lambda x: x.reshape(N, M), (M, N)),
    'reshape F': (lambda x: jnp.reshape(x, (N, M), order='F'), lambda x: x.reshape(N, M, order='F'), (M, N)),
    'reshape F ones': (lambda x: x.reshape(N, 1, M, order='F'), lambda x: x.reshape(N, 1, M, order='F'), (M, N)),
    'reshape dimensions': (lambda x: lax.reshape(x, (M, 1, N), (1, 0)), lambda x: x.T.reshape(M, 1, N), (M, N)),
    'ravel': (jnp.ravel, np.ravel, (M, N)), 'flatten': (lambda x: x.flatten(), np.ravel, (M, K, N)),
    'ravel F': (lambda x: x.ravel('F'), lambda x: x.ravel('F'), (M, N)),
    'collapse': (lambda x: lax.collapse(x, 1), lambda x: x.reshape(M, -1), (M, K, N)),
    'collapse nothing': (lambda x: lax.collapse(x, 1, 2), lambda x: x, (M, N)),
    'transpose': (jnp.transpose, None, (M, N, K)), 'T': (lambda x: x.T, np.transpose, (M, N)),
    'permute_dims': (lambda x: jnp.permute_dims(x, (2, 0, 1)), lambda x: np.transpose(x, (2, 0, 1)), (M, N, K)),
    'transpose method': (lambda x: x.transpose(1, 2, 0), lambda x: x.transpose(1, 2, 0), (M, N, K)),
    'swapaxes': (lambda x: x.swapaxes(0, -1), lambda x: x.swapaxes(0, -1), (M, N, K)),
    'moveaxis': (lambda x: jnp.moveaxis(x, (0, 1), (-1, 0)), lambda x: np.moveaxis(x, (0, 1), (-1, 0)), (M, N, K)),
    'rollaxis': (lambda x: jnp.rollaxis(x, -1, 1), lambda x: np.rollaxis(x, -1, 1), (M, N, K)),
    'rollaxis up': (lambda x: jnp.rollaxis(x, 0, 3), lambda x: np.rollaxis(x, 0, 3), (M, N, K)),
    'matrix_transpose': (jnp.matrix_transpose, None, (M, N, K)), 'mT': (lambda x: x.mT, np.matrix_transpose, (M, N, K)),
    'expand_dims': (lambda x: jnp.expand_dims(x, (0, -2)), lambda x: np.expand_dims(x, (0, -2)), (M, N)),
    'expand_dims lax': (lambda x: lax.expand_dims(x, (1,)), lambda x: x[:, None], (M, N)),
    'squeeze': (jnp.squeeze, None, (M, 1, N, 1)),
    'squeeze one': (lambda x: x.squeeze(1), lambda x: x.squeeze(1), (M, 1, N, 1)),
    'squeeze lax': (lambda x: lax.squeeze(x, (-1, 1)), lambda x: x[:, 0, :, 0], (M, 1, N, 1)),
    'atleast_1d': (jnp.atleast_1d, None, ()), 'atleast_2d': (jnp.atleast_2d, None, (M,)),
    'atleast_3d': (jnp.atleast_3d, None, (M, N)), 'atleast_3d of a row': (jnp.atleast_3d, None, (M,)),
    'atleast_3d of a number': (jnp.atleast_3d, None, ()),
    'broadcast_to': (lambda x: jnp.broadcast_to(x, (K, M, N)), lambda x: np.broadcast_to(x, (K, M, N)), (M, 1)),
    'broadcast_to of a number': (lambda x: jnp.broadcast_to(x, (K, M)), lambda x: np.broadcast_to(x, (K, M)), ()),
    'broadcast': (lambda x: lax.broadcast(x, (K, 2)), lambda x: np.broadcast_to(x, (K, 2, M, N)), (M, N)),
    'broadcast_in_dim': (
        lambda x: lax.broadcast_in_dim(x, (M, K, N), (0, 2)), lambda x: np.broadcast_to(x[:, None], (M, K, N)), (M, N)),
    'slice': (lambda x: lax.slice(x, (2, 0), (8, N), (1, 5)), lambda x: x[2:8, ::5], (M, N)),
    'slice within blocks': (lambda x: lax.slice(x, (1, 0), (M, N), (2, 2)), lambda x: x[1::2, ::2], (M, N)),
    'slice the middle': (lambda x: lax.slice(x, (0, 1), (M, N - 1)), lambda x: x[:, 1:-1], (M, N)),
    'slice nothing': (lambda x: lax.slice(x, (0, 3), (M, 3)), lambda x: x[:, 3:3], (M, N)),
    'slice one': (lambda x: lax.slice(x, (3, 5), (4, 6)), lambda x: x[3:4, 5:6], (M, N)),
    'slice_in_dim': (lambda x: lax.slice_in_dim(x, -12, None, axis=-1), lambda x: x[:, -12:], (M, N)),
    'index_in_dim': (lambda x: lax.index_in_dim(x, -2, 1), lambda x: x[:, -2:-1], (M, N)),
    'index_in_dim dropped': (lambda x: lax.index_in_dim(x, 3, 0, keepdims=False), lambda x: x[3], (M, N)),
    'pad': (lambda x: lax.pad(x, 0., ((1, 2, 1), (0, 0, 0))), lambda x: padded(x, (1, 2, 1), (0, 0, 0)), (M, N)),
    'pad within blocks': (lambda x: lax.pad(x, 0., ((1, 1, 2), (0, 1, 1))), lambda x: padded(x, (1, 1, 2), (0, 1, 1)), (M, N)),
    'pad cut off': (
        lambda x: lax.pad(x, 0., ((-2, 0, 0), (4, -10, 0))), lambda x: np.pad(x[2:, :-10], ((0, 0), (4, 0))), (M, N)),
    'pad constant': (lambda x: jnp.pad(x, ((1, 1), (2, 0))), lambda x: np.pad(x, ((1, 1), (2, 0))), (M, N)),
    'pad edge': (lambda x: jnp.pad(x, ((0, 0), (3, 9)), 'edge'), lambda x: np.pad(x, ((0, 0), (3, 9)), 'edge'), (M, N)),
    'pad reflect': (lambda x: jnp.pad(x, 6, 'reflect'), lambda x: np.pad(x, 6, 'reflect'), (M, N)),
    'pad reflect far': (lambda x: jnp.pad(x, (30, 6), 'reflect'), lambda x: np.pad(x, (30, 6), 'reflect'), (M,)),
    'pad symmetric': (
        lambda x: jnp.pad(x, ((6, 18), (0, 0)), 'symmetric'), lambda x: np.pad(x, ((6, 18), (0, 0)), 'symmetric'), (M, N)),
    'pad wrap': (lambda x: jnp.pad(x, ((0, 0), (0, 36)), 'wrap'), lambda x: np.pad(x, ((0, 0), (0, 36)), 'wrap'), (M, N)),
    'rev': (lambda x: lax.rev(x, (0,)), lambda x: x[::-1], (M, N)), 'flip': (jnp.flip, None, (M, N, K)),
    'flip two': (lambda x: jnp.flip(x, (-1, 0)), lambda x: np.flip(x, (-1, 0)), (M, N, K)),
    'fliplr': (jnp.fliplr, None, (M, N)), 'flipud': (jnp.flipud, None, (M, N)),
    'split': (lambda x: jnp.split(x, 2), lambda x: np.split(x, 2), (M, N)),
    'split at': (lambda x: jnp.split(x, [6, 18], -1), lambda x: np.split(x, [6, 18], -1), (M, N)),
    'split back and forth': (lambda x: jnp.split(x, [6, 4, 99]), lambda x: np.split(x, [6, 4, 99]), (M, N)),
    'split lax': (lambda x: lax.split(x, (6, 0, 6)), lambda x: np.split(x, [6, 6]), (M, N)),
    'array_split': (lambda x: jnp.array_split(x, 5, 1), lambda x: np.array_split(x, 5, 1), (M, N)),
    'hsplit': (lambda x: jnp.hsplit(x, 2), lambda x: np.hsplit(x, 2), (M, N)),
    'hsplit of a row': (lambda x: jnp.hsplit(x, 2), lambda x: np.hsplit(x, 2), (M,)),
    'vsplit': (lambda x: jnp.vsplit(x, [6]), lambda x: np.vsplit(x, [6]), (M, N)),
    'dsplit': (lambda x: jnp.dsplit(x, 3), lambda x: np.dsplit(x, 3), (M, N, K)),
    'unstack': (lambda x: jnp.unstack(x, axis=1), lambda x: list(np.moveaxis(x, 1, 0)), (M, K)),
    'list': (list, list, (K, M)),
    'stack of itself': (lambda x: jnp.stack([x, x], 1), lambda x: np.stack([x, x], 1), (M, N)),
    'resize': (lambda x: jnp.resize(x, (K, 2 * M)), lambda x: np.resize(x, (K, 2 * M)), (M, N)),
    'resize larger': (lambda x: jnp.resize(x, (N, M)), lambda x: np.resize(x, (N, M)), (M, K)),
    'block': (lambda x: jnp.block([[x, x], [x, x]]), lambda x: np.block([[x, x], [x, x]]), (M, N))}
SENT = {'concatenate all': 2, 'append all': 2, 'block': 3, 'resize larger': 3, 'split back and forth': 3, 'resize': 2}

TWO = {
    'concatenate': (lambda x, y: jnp.concatenate([x, y]), lambda x, y: np.concatenate([x, y]), (M, N), (K, N)),
    'concatenate last': (lambda x, y: jnp.concat([x, y], axis=-1), lambda x, y: np.concatenate([x, y], -1), (M, N), (M, K)),
    'concatenate all': (lambda x, y: jnp.concatenate([x, y], None), lambda x, y: np.concatenate([x, y], None), (M,), (K, M)),
    'concatenate three': (lambda x, y: lax.concatenate([x, y, x], 0), lambda x, y: np.concatenate([x, y, x]), (M, N), (K, N)),
    'stack': (lambda x, y: jnp.stack([x, y]), lambda x, y: np.stack([x, y]), (M, N), (M, N)),
    'stack last': (lambda x, y: jnp.stack((x, y), -1), lambda x, y: np.stack((x, y), -1), (M,), (M,)),
    'stack numbers': (lambda x, y: jnp.stack([x, y]), lambda x, y: np.stack([x, y]), (), ()),
    'hstack': (lambda x, y: jnp.hstack([x, y]), lambda x, y: np.hstack([x, y]), (M, N), (M, K)),
    'hstack rows': (lambda x, y: jnp.hstack([x, y]), lambda x, y: np.hstack([x, y]), (M,), (N,)),
    'vstack': (lambda x, y: jnp.vstack([x, y]), lambda x, y: np.vstack([x, y]), (M, N), (N,)),
    'dstack': (lambda x, y: jnp.dstack([x, y]), lambda x, y: np.dstack([x, y]), (M, N), (M, N)),
    'column_stack': (lambda x, y: jnp.column_stack([x, y]), lambda x, y: np.column_stack([x, y]), (M,), (M, N)),
    'append': (lambda x, y: jnp.append(x, y, 0), lambda x, y: np.append(x, y, 0), (M, N), (M, N)),
    'append all': (jnp.append, np.append, (M, N), (K,)),
    'broadcast_arrays': (jnp.broadcast_arrays, np.broadcast_arrays, (M, 1), (N,)),
    'meshgrid': (jnp.meshgrid, np.meshgrid, (M,), (N,)),
    'meshgrid ij': (lambda x, y: jnp.meshgrid(x, y, indexing='ij'), lambda x, y: np.meshgrid(x, y, indexing='ij'), (M,), (N,))}
EACH = ('broadcast_arrays', 'meshgrid', 'meshgrid ij')           # these give a result for each operand, in its own states


def _reference(name: str, given):
    return getattr(np, name.split()[0]) if given is None else given


@pytest.mark.parametrize('name', ONE)
@MESHES
def test_one_operand_on_every_placement(mesh, name):
    f, reference, shape = ONE[name]
    accepted = [check_move(f, _reference(name, reference), (t,), mesh, most=SENT.get(name, 1), jit=i % 8 == 3)
                for i, (t,) in enumerate(some([placements(shape, mesh)], 10))]
    assert any(accepted)


@pytest.mark.parametrize('name', TWO)
@MESHES
def test_two_operands_on_every_placement(mesh, name):
    f, reference, first, second = TWO[name]
    pairs = some([placements(first, mesh), placements(second, mesh)], 18)
    pairs = [p for p in pairs if name not in EACH or p[0].unreduced == p[1].unreduced]
    accepted = [check_move(f, reference, pair, mesh, most=SENT.get(name, 1), jit=i % 8 == 3) for i, pair in enumerate(pairs)]
    assert any(accepted)


@pytest.mark.meshes((2, 2))
def test_states_of_operands_that_are_joined(mesh):
    """What is split one way is joined with what is not split, or whole and reduced; not with what is split another way."""
    def gives(*specs):
        xs = [put(numbers((4, 8), i), ArrayType((4, 8), 'float32', sharding=jax.NamedSharding(mesh, s)), mesh)
              for i, s in enumerate(specs)]
        return str(jnp.concatenate(xs).type)

    s, u, r = P('X'), P(unreduced={'X'}), P(reduced={'X'})
    assert gives(s, P()) == gives(P(), s) == gives(s, r) == 'float32[8@X,8]'
    assert gives(r, P()) == gives(r, r) == 'float32[8,8]{R:X}' and gives(u, u) == 'float32[8,8]{U:X}'
    assert gives(P(None, 'X'), P()) == 'float32[8,8@X]' and gives(P('X', 'Y'), P('X')) == 'float32[8@X,8@Y]'
    for pair in ((s, P('Y')), (s, u), (u, P()), (u, r), (s, P(None, 'X')), (P('X', 'Y'), P(None, 'X'))):
        with pytest.raises(ShardingTypeError, match='concatenate'):
            gives(*pair)


# ---- reshape with a sharding asked for

def targets(shape, mesh):
    return [t for t in placements(shape, mesh) if not t.unreduced]


@pytest.mark.parametrize('before, after', [
    ((M, N), (N, M)), ((M, N), (M * N,)), ((M * N,), (M, N)), ((M, K), (3, 4, K)), ((4, 3, N), (M, N)), ((M, 1, N), (1, M * N)),
    ((M, N), (4, K, 12))])
@MESHES
def test_reshape_to_every_sharding_sends_one_message(mesh, before, after):
    value = numbers(before, 3)
    for t, goal in some([[t for t in placements(before, mesh) if len(t.unreduced) < 2], targets(after, mesh)], 30):
        x = put(value, t, mesh)
        sent, _ = counted(lambda x=x, goal=goal: jnp.reshape(x, after, out_sharding=goal.sharding))
        y, back = jax.vjp(lambda x, goal=goal: x.reshape(after, out_sharding=goal.sharding), x)
        assert y.type == goal, f'{t} to {goal} gives {y.type}'
        np.testing.assert_array_equal(get(y, mesh), value.reshape(after), err_msg=f'{t} to {goal}')
        assert sum(sent.values()) <= 1 + bool(t.unreduced), f'{t} to {goal}: {sent}'
        ct = numbers(after, 5)
        g, = back(put(ct, goal.dual(), mesh))
        assert g.type == t.dual()
        np.testing.assert_array_equal(get(g, mesh), ct.reshape(before), err_msg=f'cotangent, {t} to {goal}')


@pytest.mark.meshes((2, 2))
def test_messages(mesh):
    """What is sent forward and back, by kind."""
    def sends(f, spec, shape=(8, 4)):
        x = put(numbers(shape, 0), ArrayType(shape, 'float32', sharding=jax.NamedSharding(mesh, spec)), mesh)
        there, _ = counted(lambda: f(x))
        y, back = jax.vjp(f, x)
        ct = put(numbers(y.shape, 1), y.type.dual(), mesh)
        return there, counted(lambda: back(ct))[0]

    once, never, moved = ({'all-gather': 1},) * 2, ({}, {}), ({'all-to-all': 1},) * 2
    x, xy, y = P('X'), P('X', 'Y'), P(None, 'Y')
    assert sends(lambda a: a[::-1], x) == sends(lambda a: a[2:6, ::-1], xy) == once
    assert sends(lambda a: a[::-1], y) == sends(lambda a: a[2:6], y) == never
    assert sends(lambda a: a[::2], x) == sends(lambda a: a[1::2, 1:3], xy) == sends(lambda a: a[1:7], x) == never
    assert sends(lambda a: jnp.pad(a, 1), P()) == sends(lambda a: jnp.pad(a, ((1, 1), (0, 0))), x) == never
    assert sends(lambda a: jnp.pad(a, ((2, 0), (0, 0))), x) == sends(lambda a: jnp.pad(a, 2, 'wrap'), xy) == once
    assert sends(lambda a: jnp.concatenate([a, a, a]), x) == sends(lambda a: jnp.stack(jnp.split(a, 2, 1)), y) == once
    assert sends(lambda a: jnp.stack([a, a]), xy) == sends(lambda a: jnp.concatenate([a, a], 1), x) == never
    assert sends(lambda a: a.reshape(32), x) == sends(lambda a: a.reshape(2, 4, 2, 2), P()) == never
    assert sends(lambda a: a.reshape(32), xy) == sends(lambda a: a.reshape(32, out_sharding=x), P(None, 'X')) == moved
    assert sends(lambda a: a.reshape(4, 8, out_sharding=x), x) == never
    assert sends(lambda a: a.reshape(32, out_sharding=P()), x) == ({'all-gather': 1}, {})
    assert sends(lambda a: a.reshape(32, out_sharding=x), P(unreduced={'X'})) == ({'reduce-scatter': 1}, {'all-gather': 1})
    assert sends(lambda a: jnp.broadcast_to(a, (2, 8, 4), out_sharding=P('X')), P()) == ({}, {'all-reduce': 1})
    assert sends(lambda a: jnp.broadcast_to(a, (2, 8, 4), out_sharding=P('X')), P(reduced={'X'})) == never
    assert sends(lambda a: lax.slice(a, (3, 2), (4, 3)), xy) == ({'all-gather': 1}, {})


@pytest.mark.meshes((2, 2), (1, 3))
def test_broadcast_to_every_sharding(mesh):
    value = numbers((M, 1), 1)
    for t, goal in some([placements((M, 1), mesh), targets((K, M, N), mesh)], 50):
        x = put(value, t, mesh)

        def f(x, goal=goal):
            return lax.broadcast_in_dim(x, goal.shape, (1, 2), out_sharding=goal.sharding)
        y, back = jax.vjp(f, x)
        assert y.type == goal
        np.testing.assert_array_equal(get(y, mesh), np.broadcast_to(value, goal.shape), err_msg=f'{t} to {goal}')
        ct = numbers(goal.shape, 2)
        g, = back(put(ct, goal.dual(), mesh))
        assert g.type == t.dual()
        np.testing.assert_array_equal(get(g, mesh), ct.sum((0, 2))[:, None], err_msg=f'cotangent, {t} to {goal}')


@pytest.mark.meshes((2,))
def test_unreduced_from_replicated_is_one_value_not_many(mesh):
    y = jnp.broadcast_to(jnp.ones(4), (2, 4), out_sharding=P(unreduced={'X'}))
    assert str(y.type) == 'float32[2,4]{U:X}'
    np.testing.assert_array_equal(get(y, mesh), np.ones((2, 4)))


# ---- refusals

REFUSED = [
    (lambda x: x.reshape(4, 8), P('X')), (lambda x: x.reshape(32), P(None, 'X')), (lambda x: jnp.ravel(x, 'F'), P('X')),
    (lambda x: lax.slice_in_dim(x, 0, 1), P('X')), (lambda x: x[:3], P('X')), (lambda x: x[..., 1:2], P('X', 'Y')),
    (lambda x: x[0:2], P(('X', 'Y'))), (lambda x: jnp.unstack(x), P('X', 'Y')), (lambda x: jnp.split(x, [1]), P('X')),
    (lambda x: jnp.array_split(x, 3), P(('X', 'Y'))), (lambda x: jnp.pad(x, 1), P(None, ('X', 'Y'))),
    (lambda x: jnp.pad(x, ((1, 0), (0, 0)), 'edge'), P('X')),
    (lambda x: lax.pad(x, 0., ((0, 0, 1), (0, 0, 0))), P('X')), (lambda x: lax.index_in_dim(x, 0, 1), P('X', 'Y')),
    (lambda x: jnp.broadcast_to(x, (2, 8, 4), out_sharding=P('X', 'Y')), P('X')),
    (lambda x: lax.slice_in_dim(x, 0, 1), P('X', unreduced={'Y'}))]


@pytest.mark.parametrize('case', range(len(REFUSED)))
@pytest.mark.meshes((2, 2))
def test_the_repairs_that_refusals_name_work(mesh, case):
    f, spec = REFUSED[case]
    x = put(numbers((8, 4), 0), ArrayType((8, 4), 'float32', sharding=jax.NamedSharding(mesh, spec)), mesh)
    with pytest.raises(ShardingTypeError, match=re.escape(str(x.type))) as refusal:
        f(x)
    text = str(refusal.value)
    repair = re.search(r'(reshard\(x, P\(.*\)\))\.$', text)
    assert repair, text
    repaired = eval(repair[1], {'reshard': jax.reshard, 'P': P, 'x': x})
    assert repaired.type.unreduced == x.type.unreduced
    f(repaired)
    if 'out_sharding=P(' in text:
        named = re.search(r'reshape\(x, .*, out_sharding=P\([^)]*\)\)', text)[0]
        eval(named, {'reshape': jnp.reshape, 'P': P, 'x': x})


@pytest.mark.meshes((2,))
def test_an_unreduced_array_is_padded_with_zeros_only(mesh):
    x = put(numbers((4, 4), 0), ArrayType((4, 4), 'float32', sharding=jax.NamedSharding(mesh, P(unreduced={'X'}))), mesh)
    for f in (lambda: jnp.pad(x, 1, constant_values=2.), lambda: lax.pad(x, 1., ((1, 0, 0), (0, 0, 0))),
              lambda: jnp.pad(x, 1, constant_values=(0., 1.))):
        with pytest.raises(ShardingTypeError, match=r'pad .*unreduced.*unreduced=\{'):
            f()
    one = jax.reshard(jnp.ones(()), P(unreduced={'X'}))
    np.testing.assert_array_equal(get(lax.pad(x, one, ((1, 0, 0), (0, 0, 0))), mesh)[0], 1)


@pytest.mark.meshes((2,))
def test_the_padding_value_has_a_gradient(mesh):
    for spec, want in ((P(), 16.), (P('X'), 16.), (P(reduced={'X'}), 16.)):
        x = put(numbers((4, 4), 0), ArrayType((4, 4), 'float32', sharding=jax.NamedSharding(mesh, spec)), mesh)
        for f in (lambda v, x=x: lax.pad(x, v, ((1, 1, 0), (0, 0, 0))),
                  lambda v, x=x: jnp.pad(x, ((2, 0), (0, 0)), constant_values=v)):
            y, back = jax.vjp(f, jnp.float32(3.))
            g, = back(put(np.full(y.shape, 2, 'f4'), y.type.dual(), mesh))
            assert float(g) == want, (spec, y.type)


@MESHES
def test_different_constants_on_every_placement(mesh):
    value = numbers((M, N), 1)
    for t in (t for t in placements((M, N), mesh) if not t.unreduced):
        x = put(value, t, mesh)
        how = {'pad_width': ((4, 8), (0, 12)), 'constant_values': ((1, 2), (3, 4))}
        sent, _ = counted(lambda x=x, how=how: jnp.pad(x, **how))
        y, want = jnp.pad(x, **how), np.pad(value, **how)
        np.testing.assert_array_equal(get(y, mesh), want, err_msg=str(t))
        assert y.type == t.update(shape=want.shape) and sum(sent.values()) <= 1


@pytest.mark.meshes((2,))
def test_under_shard_map(mesh):
    """What varies is joined with what does not; new arrays vary where the one they are like does."""
    seen = []

    def show(x):
        for y in (x[0], x[:, ::-1], x.reshape(-1), jnp.concatenate([x, jnp.ones((1, 2))]), jnp.stack([x, jnp.zeros((2, 2))]),
                  jnp.pad(x, 1, constant_values=2.), jnp.tril(x), jnp.zeros_like(x), jnp.full_like(x, 3., shape=(4,)), jnp.ones(3)):
            seen.append(str(y.type).removeprefix('float32'))
        return x

    def types(spec, x):
        seen.clear()
        jax.shard_map(show, mesh=mesh, in_specs=spec, out_specs=spec)(jax.reshard(x, spec))
        return seen

    shapes = ['[2]', '[2,2]', '[4]', '[3,2]', '[2,2,2]', '[4,4]', '[2,2]', '[2,2]', '[4]', '[3]']
    assert types(P('X'), jnp.ones((4, 2))) == [s + '{V:X}' for s in shapes[:-1]] + ['[3]']
    assert types(P(), jnp.ones((2, 2))) == shapes
    assert types(P(reduced={'X'}), jnp.ones((2, 2))) == [s + '{R:X}' for s in shapes[:7]] + shapes[7:]
    with pytest.raises(ShardingTypeError, match='concatenate meets values unreduced and not unreduced over X'):
        types(P(unreduced={'X'}), jnp.ones((2, 2)))


def test_shapes_of_arguments():
    x = jnp.ones((2, 3))
    assert jnp.shape(x) == (2, 3) and jnp.ndim(x) == 2 and jnp.size(x) == 6 and jnp.size(x, 1) == 3 and jnp.shape(2.) == ()
    assert jnp.broadcast_shapes((2, 1), (3,)) == (2, 3) and jnp.broadcast_shapes() == ()
    for error, f in (
            (TypeError, lambda: x.reshape(4)), (TypeError, lambda: x.reshape(-1, -1)),
            (ValueError, lambda: x.transpose(0)), (ValueError, lambda: jnp.swapaxes(x, 0, 2)),
            (ValueError, lambda: jnp.squeeze(x, 0)), (ValueError, lambda: jnp.broadcast_to(x, (3, 2))),
            (ValueError, lambda: jnp.split(x, 2, 1)), (ValueError, lambda: jnp.concatenate([])),
            (TypeError, lambda: jnp.concatenate([x, jnp.ones((3, 2))])), (ValueError, lambda: jnp.stack([x, x.T])),
            (ValueError, lambda: jnp.concatenate([jnp.float32(1), x])),
            (ValueError, lambda: jnp.broadcast_shapes((2,), (3,))), (ValueError, lambda: jnp.pad(x, -1)),
            (NotImplementedError, lambda: jnp.pad(x, 1, 'mean')), (ValueError, lambda: jnp.pad(x, 1, stat_length=1)),
            (ValueError, lambda: jnp.expand_dims(x, (0, 0))), (ValueError, lambda: jnp.pad(x, ((1, 1),) * 3)),
            (TypeError, lambda: lax.slice(x, (0, 0), (3, 3))),
            (ValueError, lambda: lax.pad(x, 0., ((-3, 0, 0), (0, 0, 0))))):
        with pytest.raises(error):
            f()


@pytest.mark.parametrize('width, constant', [
    (1, 2), ((1, 2), (3, 4)), (((1, 0), (2, 3)), ((1, 2), (3, 4))), (((2,), (1,)), 5), ([[1, 2]], 0)])
def test_widths_and_constants_are_written_as_in_numpy(width, constant):
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    want = np.pad(x, width, constant_values=constant)
    np.testing.assert_array_equal(np.asarray(jnp.pad(x, width, constant_values=constant)), want)
    np.testing.assert_array_equal(np.asarray(jnp.pad(x, {0: (1, 2), -1: 3})), np.pad(x, ((1, 2), (3, 3))))


def test_dtypes_of_what_is_joined():
    f, i, b = jnp.ones(2), jnp.ones(2, jnp.int32), jnp.ones(2, bool)
    assert jnp.concatenate([f, i]).dtype == jnp.append(i, 2.5).dtype == 'float32' and jnp.stack([i, b]).dtype == 'int32'
    assert jnp.concatenate([f, i], dtype=jnp.bfloat16).dtype == jnp.bfloat16 and jnp.stack([b, b]).dtype == bool
    assert jnp.stack([1., 2.]).weak_type and not jnp.concatenate([i, jnp.full(2, 1)]).weak_type
