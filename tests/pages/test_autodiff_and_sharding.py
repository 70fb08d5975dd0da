"""Differentiating programs with shardings: cotangents have the types that primals ask for, sums stand where casts stood."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.runtime import recorder
from tests.complaints.preamble import P, full, put
from tests.pmpi import count_calls

pytestmark = pytest.mark.timeout(60)
TWO = pytest.mark.meshes((2,))

W, X = np.arange(8.).reshape(4, 2) / 10, np.arange(32.).reshape(8, 4)
A, B = np.arange(4.).reshape(2, 2), np.arange(4., 8.).reshape(2, 2)


def kind(x) -> str:
    return str(jax.typeof(x))


def program(f, *args) -> str:
    return str(jax.jit(f).trace(*args).jaxpr)


def equations(text: str) -> list[str]:
    """The right and the type of each equation: 'f32[4,2] = reshard'."""
    return re.findall(r'^ *\w+:(\S+(?: R:\w+\})? = \w+)', text, re.M)


def op_names(f, *args) -> list[str]:
    """Where the all-reduces of the compiled program stand."""
    lines = jax.jit(f).lower(*args).compile().as_text().splitlines()
    return [re.search(r'op_name="([^"]*)"', line)[1] for line in lines if 'all-reduce(' in line or 'all-reduce-start(' in line]


def batch():
    return put(X, 'X', None)


def weights(**states):
    return put(W, **states)


# ---- cotangents are typed by primals


def loss(w, x):
    return jnp.sum((x @ w) ** 2)


@TWO
def test_gradients_lie_as_their_arguments_do(mesh) -> None:
    w, x = weights(), batch()
    dw, dx = jax.grad(loss, argnums=(0, 1))(w, x)
    assert (kind(w), kind(dw)) == ('float32[4,2]', 'float32[4,2]')
    assert (kind(x), kind(dx)) == ('float32[8@X,4]', 'float32[8@X,4]')
    np.testing.assert_allclose(full(dw), 2 * X.T @ (X @ W), rtol=1e-5)
    np.testing.assert_allclose(full(dx), 2 * (X @ W) @ W.T, rtol=1e-5)


@TWO
def test_the_sum_that_a_replicated_weight_stands_for_is_an_equation(mesh) -> None:
    text = program(jax.grad(loss), weights(), batch())
    found = equations(text)
    assert text.startswith('{ lambda ; a:f32[4,2] b:f32[8@X,4]. let') and 'f32[8@X,2] = integer_pow' in found
    assert found[-3:] == ['f32[2,4]{U:X} = dot_general', 'f32[4,2]{U:X} = transpose', 'f32[4,2] = reshard']
    with recorder.count() as counted:
        jax.jit(jax.grad(loss))(weights(), batch())
    assert counted.by_op == {'all-reduce': 1}


# ---- unreduced: a sum still to come


@TWO
def test_a_product_over_a_split_dimension_needs_a_word(mesh) -> None:
    a, b = put(A, None, 'X'), put(B, 'X', None)
    assert (kind(a), kind(b)) == ('float32[2,2@X]', 'float32[2@X,2]')
    with pytest.raises(jax.ShardingTypeError, match=r'contracted dimension.*float32\[2,2@X\], float32\[2@X,2\]') as caught:
        a @ b
    for answer in re.findall(r'out_sharding=(P\(.*?\))  ', str(caught.value)):
        c = jnp.einsum('ij,jk->ik', a, b, out_sharding=eval(answer))
        assert full(c).tolist() == [[6., 7.], [26., 31.]]
    with recorder.count() as counted:
        c = jnp.einsum('ij,jk->ik', a, b, out_sharding=P(None, None))
    assert counted.by_op == {'all-reduce': 1}
    assert kind(c) == 'float32[2,2]' and str(c) == '[[ 6.  7.]\n [26. 31.]]'


@TWO
def test_stopping_before_the_sum(mesh) -> None:
    a, b = put(A, None, 'X'), put(B, 'X', None)
    with recorder.count() as counted:
        c = jnp.einsum('ij,jk->ik', a, b, out_sharding=P(None, None, unreduced={'X'}))
        twice = jnp.einsum('ij,jk->ik', 2. * a, b, out_sharding=P(None, None, unreduced={'X'}))
        total = c + twice
    assert counted.total == 0
    assert kind(c) == kind(total) == 'float32[2,2]{U:X}'
    shard, = c.addressable_shards
    assert shard.device.id == jax.process_index()
    assert np.asarray(shard.data).tolist() == [[[0., 0.], [8., 10.]], [[6., 7.], [18., 21.]]][shard.device.id]
    assert np.asarray(jax.reshard(c, P(None, None))).tolist() == [[6., 7.], [26., 31.]]
    assert np.asarray(jax.reshard(total, P(None, None))).tolist() == [[18., 21.], [78., 93.]]
    with pytest.raises(jax.ShardingTypeError, match=r'cos is a non-linear operation.*unreduced.*float32\[2,2\]\{U:X\}'):
        jnp.cos(c)


# ---- reduced: gradients left unreduced


def cast_loss(w, x):
    w = jax.reshard(w, P(None, None, reduced={'X'}))
    return jnp.sum((x @ w) ** 2)


def fan_out(w, x1, x2):
    w = jax.reshard(w, P(None, None, reduced={'X'}))
    return jnp.sum(x1 @ w) + jnp.sum(x2 @ w)


@TWO
def test_a_free_cast_forward_is_the_sum_backward(mesh) -> None:
    w, x = weights(), batch()
    with recorder.count() as counted:
        assert kind(jax.reshard(w, P(None, None, reduced={'X'}))) == 'float32[4,2]{R:X}'
    assert counted.total == 0
    found = equations(program(jax.grad(cast_loss), w, x))
    assert found[0] == 'f32[4,2]{R:X} = reshard'
    assert found[-3:] == ['f32[2,4]{U:X} = dot_general', 'f32[4,2]{U:X} = transpose', 'f32[4,2] = reshard']
    np.testing.assert_allclose(full(jax.grad(cast_loss)(w, x)), full(jax.grad(loss)(w, x)), rtol=1e-6)


@TWO
def test_two_uses_are_added_before_the_one_sum(mesh) -> None:
    x1, x2 = put(np.ones((8, 4)), 'X', None), put(np.ones((8, 4)), 'X', None)
    found = equations(program(jax.grad(fan_out), weights(), x1, x2))
    assert found[-2:] == ['f32[4,2]{U:X} = add_any', 'f32[4,2] = reshard'] and found.count('f32[2,4]{U:X} = dot_general') == 2
    assert op_names(jax.grad(fan_out), weights(), x1, x2) == ['jit(fan_out)/transpose(jvp())/reshard']
    with recorder.count() as counted:
        g = jax.jit(jax.grad(fan_out))(weights(), x1, x2)
    assert counted.by_op == {'all-reduce': 1} and full(g).tolist() == [[16., 16.]] * 4


# ---- microbatches: one sum for a whole step


def predict(stacked, xs):
    return jax.lax.scan(lambda xs, w: (jnp.tanh(xs @ w), None), xs, stacked)[0]


def squares(stacked, xs):
    return jnp.sum(predict(stacked, xs) ** 2)


def step(stacked, xs):
    def add(total, x):
        grads = jax.grad(squares)(stacked, x)
        assert jax.typeof(grads).sharding.spec.unreduced == {'X'}
        return total + grads, None

    total, _ = jax.lax.scan(add, jax.reshard(jnp.zeros_like(stacked), P(unreduced={'X'})), xs)
    return jax.reshard(stacked, P()) - 0.01 * jax.reshard(total, P())


def step_replicated(stacked, xs):
    add = lambda total, x: (total + jax.grad(squares)(stacked, x), None)
    return stacked - 0.01 * jax.lax.scan(add, jnp.zeros_like(stacked), xs)[0]


LAYERS, MICROBATCHES = 3, 5


def stacked(**states):
    return jax.device_put(jnp.stack([jnp.eye(4) / 2] * LAYERS), P(**states))


def microbatches():
    return put(np.ones((MICROBATCHES, 2, 4)), None, 'X', None)


def by_hand() -> np.ndarray:
    """The same step in NumPy, each row of the batch like the others."""
    ws, hs = [np.eye(4) / 2] * LAYERS, [np.ones((2 * MICROBATCHES, 4))]
    for w in ws:
        hs.append(np.tanh(hs[-1] @ w))
    ct, grads = 2 * hs[-1], []
    for w, h, y in zip(ws[::-1], hs[-2::-1], hs[:0:-1]):
        ct = ct * (1 - y ** 2)
        grads.insert(0, h.T @ ct)
        ct = ct @ w.T
    return np.stack(ws) - 0.01 * np.stack(grads)


@TWO
def test_a_step_over_microbatches_sums_once(mesh) -> None:
    ws, xs = stacked(reduced={'X'}), microbatches()
    assert kind(ws) == 'float32[3,4,4]{R:X}'
    with recorder.count() as counted:
        new = jax.jit(step)(ws, xs)
    assert counted.by_op == {'all-reduce': 1}
    assert kind(new) == 'float32[3,4,4]'
    np.testing.assert_allclose(full(new), by_hand(), rtol=1e-5, atol=1e-7)
    assert op_names(step, ws, xs) == ['jit(step)/reshard']


@TWO
def test_with_replicated_weights_every_layer_of_every_microbatch_sums(mesh) -> None:
    ws, xs = stacked(), microbatches()
    with recorder.count() as counted:
        new = jax.jit(step_replicated)(ws, xs)
    assert counted.by_op == {'all-reduce': LAYERS * MICROBATCHES}
    np.testing.assert_allclose(full(new), by_hand(), rtol=1e-5, atol=1e-7)
    name, = op_names(step_replicated, ws, xs)
    assert re.fullmatch(r'jit\(step_replicated\)/while/body/.*transpose\(jvp\(\)\)/while/body/.*', name)


@pytest.mark.ranks(1)
def test_mpi_sees_one_call_in_the_step(tmp_path: Path) -> None:
    program = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from mpi4py import MPI
        import distad as jax
        from tests.pages.test_autodiff_and_sharding import microbatches, stacked, step
        jax.set_mesh(jax.make_mesh((2,), ('X',)))
        ws, xs, run = stacked(reduced={{'X'}}), microbatches(), jax.jit(step)
        run(ws, xs)
        MPI.Pcontrol(1)
        run(ws, xs)
        MPI.Pcontrol(0)
    """
    for calls in count_calls(program, 2, tmp_path):
        assert {name: (c.times, c.bytes) for name, c in calls.items()} == {'Allreduce': (1, 4 * LAYERS * 4 * 4)}


# ---- the same in manual mode


@jax.shard_map(in_specs=(P(None, 'X'), P('X', None)), out_specs=P(None, None, unreduced={'X'}))
def matmul_partial(a, b):
    return jax.lax.pcast(a @ b, 'X', to='unreduced')


def matmul_loss(a, b):
    return jnp.sum(jax.reshard(matmul_partial(a, b), P(None, None)))


COMMUNICATES = r'psum|all_gather|reduce_scatter|all_to_all|ppermute|pmax'


@TWO
def test_a_product_of_blocks_is_a_summand(mesh) -> None:
    a, b = put(A, None, 'X'), put(B, 'X', None)
    with recorder.count() as counted:
        c = matmul_partial(a, b)
    assert kind(c) == 'float32[2,2]{U:X}' and counted.total == 0 and full(c).tolist() == [[6., 7.], [26., 31.]]


@TWO
def test_neither_body_communicates(mesh) -> None:
    a, b = put(A, None, 'X'), put(B, 'X', None)
    both = jax.grad(matmul_loss, argnums=(0, 1))
    text = program(both, a, b)
    forward, backward = re.findall(r'= shard_map\[(.*?)\n    \]', text, re.S)
    assert 'in_specs=(P(None, \'X\'), P(\'X\', None))' in forward and not re.search(COMMUNICATES, forward)
    assert equations(forward) == ['f32[2,2]{V:X} = dot_general', 'f32[2,2]{U:X} = vary_unreduced_cast']
    assert "out_specs=(P(None, None, unreduced={'X'}, unreduced_kind=sum),)" in forward
    assert "P(None, None, reduced={'X'})" in re.search(r'in_specs=(.*)', backward)[1] and not re.search(COMMUNICATES, backward)
    assert sorted(equations(backward)) == ['f32[1,2]{V:X} = transpose', *['f32[2,1]{V:X} = dot_general'] * 2,
                                           'f32[2,2]{V:X} = reduced_vary_cast']
    assert not any('shard_map' in name for name in op_names(both, a, b))
    da, db = both(a, b)
    assert (kind(da), kind(db)) == ('float32[2,2@X]', 'float32[2@X,2]')
    np.testing.assert_allclose(full(da), np.ones((2, 2)) @ B.T)
    np.testing.assert_allclose(full(db), A.T @ np.ones((2, 2)))


@TWO
def test_reduced_weights_of_a_mapped_layer_have_unreduced_gradients(mesh) -> None:
    layer = jax.shard_map(lambda x, w: jnp.tanh(x @ w), out_specs=P('X', None),
                          in_specs=(P('X', None), P(None, None, reduced={'X'})))
    grad = jax.grad(lambda w, x: jnp.sum(layer(x, w) ** 2))
    w, x = weights(reduced={'X'}), put(X / 32, 'X', None)
    text = program(grad, w, x)
    assert kind(jax.jit(grad)(w, x)) == 'float32[4,2]{U:X}' and not re.search(COMMUNICATES, text)
    y = np.tanh(X / 32 @ W)
    np.testing.assert_allclose(full(grad(w, x)), (X / 32).T @ (2 * y * (1 - y ** 2)), rtol=1e-5)
