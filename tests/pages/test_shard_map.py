"""Programs of one rank's view: the collectives one by one, products of matrices, and ways to lay out a neural network."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.runtime import recorder
from tests.complaints.preamble import P, full, put

# Runs of 8 ranks are made by hand: mpirun -n 8 python -m pytest --with-mpi tests/pages
LINE = pytest.mark.meshes((2,), (4,), (8,))
GRID = pytest.mark.meshes((2, 2), (4, 2))


def mapped(in_specs, out_specs, **options):
    return jax.shard_map(in_specs=in_specs, out_specs=out_specs, **options)


# ---- one collective each


@LINE
def test_psum(mesh) -> None:
    x = put(np.arange(16.), 'X')
    total = mapped(P('X'), P())(lambda block: lax.psum(block, 'X'))
    assert full(total(x)).tolist() == np.arange(16.).reshape(mesh.size, -1).sum(0).tolist()
    assert str(jax.typeof(total(x))) == f'float32[{16 // mesh.size}]'


@GRID
def test_psum_over_one_axis_or_both(mesh) -> None:
    a = np.arange(64.).reshape(8, 8)
    x = put(a, 'X', 'Y')
    rows, columns = mesh.axis_sizes
    blocks = a.reshape(rows, 8 // rows, columns, 8 // columns)
    one = mapped(P('X', 'Y'), P(None, 'Y'))(lambda block: lax.psum(block, 'X'))
    both = mapped(P('X', 'Y'), P(None, None))(lambda block: lax.psum(block, ('X', 'Y')))
    np.testing.assert_array_equal(full(one(x)), blocks.sum(0).reshape(8 // rows, 8))
    np.testing.assert_array_equal(full(both(x)), blocks.sum((0, 2)))


@LINE
def test_all_gather(mesh) -> None:
    n, a = mesh.size, np.arange(2. * mesh.size)
    x = put(a, 'X')
    tiled = mapped(P('X'), P('X'))(lambda block: lax.all_gather(block, 'X', tiled=True))
    stacked = mapped(P('X'), P('X'))(lambda block: lax.all_gather(block, 'X'))
    same = mapped(P('X'), P())(lambda block: lax.all_gather(block, 'X', tiled=True, to='invarying'))
    assert full(tiled(x)).tolist() == np.tile(a, n).tolist()
    assert full(stacked(x)).tolist() == np.tile(a.reshape(n, 2), (n, 1)).tolist()
    assert full(same(x)).tolist() == a.tolist()


@LINE
def test_psum_scatter(mesh) -> None:
    n, a = mesh.size, np.arange(3. * mesh.size ** 2)
    scatter = mapped(P('X'), P('X'))(lambda block: lax.psum_scatter(block, 'X', tiled=True))
    assert full(scatter(put(a, 'X'))).tolist() == a.reshape(n, -1).sum(0).tolist()


@LINE
def test_ppermute(mesh) -> None:
    n, a = mesh.size, np.arange(3. * mesh.size)
    shift = mapped(P('X'), P('X'))(lambda block: lax.ppermute(block, 'X', [(i, (i + 1) % n) for i in range(n)]))
    assert full(shift(put(a, 'X'))).tolist() == np.roll(a, 3).tolist()


@LINE
def test_all_to_all(mesh) -> None:
    n = mesh.size
    a = np.arange(float(n * n))
    swap = mapped(P('X'), P('X'))(lambda block: lax.all_to_all(block, 'X', split_axis=0, concat_axis=0, tiled=True))
    assert full(swap(put(a, 'X'))).tolist() == a.reshape(n, n).T.ravel().tolist()


@LINE
def test_axis_index_and_size(mesh) -> None:
    n = mesh.size
    where = mapped((), P('X'))(lambda: lax.axis_index('X')[None] + lax.axis_size('X'))
    assert full(where()).tolist() == [n + i for i in range(n)]


# ---- products of matrices


LHS, RHS = np.arange(16. * 8).reshape(16, 8) / 100, np.arange(8. * 24).reshape(8, 24) / 100


@GRID
def test_a_product_of_blocks_of_both(mesh) -> None:
    """The contracted dimension is split over Y: local products, one sum."""
    product = mapped((P('X', 'Y'), P('Y', None)), P('X', None))(lambda a, b: lax.psum(a @ b, 'Y'))
    with recorder.count() as counted:
        c = product(put(LHS, 'X', 'Y'), put(RHS, 'Y', None))
    assert counted.by_op == {'all-reduce': 1} and str(jax.typeof(c)) == 'float32[16@X,24]'
    np.testing.assert_allclose(full(c), LHS @ RHS, rtol=1e-5)


@LINE
@pytest.mark.parametrize('how', ['gather', 'ring'])
def test_a_product_with_gathered_rows(mesh, how: str) -> None:
    """The right side lies in rows; they are gathered at once, or come round while the product is made."""
    n = mesh.size

    @jax.jit
    @mapped((P('X', None), P('X', None)), P('X', None))
    def product(a, b):
        if how == 'gather':
            return a @ lax.all_gather(b, 'X', tiled=True)
        parts = a.reshape(a.shape[0], n, b.shape[0])  # the columns that go with each block of rows
        me = lax.axis_index('X')

        def add(i, carry):
            total, rows = carry
            mine = jnp.where(jnp.arange(n)[None, :, None] == (me - i) % n, parts, 0).sum(1)
            return total + mine @ rows, lax.ppermute(rows, 'X', [(j, (j + 1) % n) for j in range(n)])

        zero = lax.pcast(jnp.zeros((a.shape[0], b.shape[1])), 'X', to='varying')
        return lax.fori_loop(0, n, add, (zero, b))[0]

    with recorder.count() as counted:
        c = product(put(LHS, 'X', None), put(RHS, 'X', None))
    assert counted.by_op == ({'all-gather': 1} if how == 'gather' else {'collective-permute': n})
    np.testing.assert_allclose(full(c), LHS @ RHS, rtol=1e-5)


@LINE
def test_a_product_whose_sum_is_scattered(mesh) -> None:
    product = mapped((P(None, 'X'), P('X', None)), P('X', None))(lambda a, b: lax.psum_scatter(a @ b, 'X', tiled=True))
    with recorder.count() as counted:
        c = product(put(LHS, None, 'X'), put(RHS, 'X', None))
    assert counted.by_op == {'reduce-scatter': 1}
    np.testing.assert_allclose(full(c), LHS @ RHS, rtol=1e-5)


# ---- a neural network, laid out in several ways


SIZES = [8, 16, 16, 8]
RANDOM = np.random.default_rng(0)
LAYERS = [(RANDOM.normal(size=(k, m)) / np.sqrt(k), RANDOM.normal(size=m) / 4) for k, m in zip(SIZES, SIZES[1:])]
INPUTS, TARGETS = RANDOM.normal(size=(16, 8)), RANDOM.normal(size=(16, 8))


def predict(params, x):
    *hidden, (w, b) = params
    for v, c in hidden:
        x = jnp.maximum(x @ v + c, 0)
    return x @ w + b


def loss(params, batch):
    x, y = batch
    return jnp.mean(jnp.sum((predict(params, x) - y) ** 2, 1))


def by_hand() -> tuple[float, list[tuple[np.ndarray, np.ndarray]]]:
    """The loss and its gradient in NumPy."""
    xs = [INPUTS]
    for w, b in LAYERS:
        xs.append(np.maximum(xs[-1] @ w + b, 0) if w is not LAYERS[-1][0] else xs[-1] @ w + b)
    error = xs[-1] - TARGETS
    ct, grads = 2 * error / len(INPUTS), []
    for i in reversed(range(len(LAYERS))):
        if i < len(LAYERS) - 1:
            ct = ct * (xs[i + 1] > 0)
        grads.insert(0, (xs[i].T @ ct, ct.sum(0)))
        ct = ct @ LAYERS[i][0].T
    return (error ** 2).sum(1).mean(), grads


def check(f, w_spec, b_spec, batch_spec) -> dict[str, int]:
    """The loss and its gradient as by hand, each gradient with the type of its weight; what a step sends."""
    params = [(put(w, *w_spec), put(b, *b_spec)) for w, b in LAYERS]
    batch = put(INPUTS, *batch_spec), put(TARGETS, *batch_spec)
    step = jax.jit(jax.value_and_grad(f))
    step(params, batch)
    with recorder.count() as counted:
        value, grads = step(params, batch)
    want, wanted = by_hand()
    np.testing.assert_allclose(float(value), want, rtol=1e-5)
    for layer, ws, gs in zip(params, wanted, grads):
        for p, w, g in zip(layer, ws, gs):
            assert jax.typeof(g) == jax.typeof(p)
            np.testing.assert_allclose(full(g), w, rtol=2e-4, atol=1e-5)
    return counted.by_op


@LINE
def test_data_parallel(mesh) -> None:
    """Each rank has all weights and a part of the batch: the loss and the gradients are summed in one message."""
    f = mapped((P(), P('X')), P())(lambda params, batch: lax.pmean(loss(params, batch), 'X'))
    assert check(f, (), (), ('X',)) == {'all-reduce': 1}


@LINE
def test_fully_sharded_data_parallel(mesh) -> None:
    """Each rank keeps a part of each weight, and gathers a layer when it is needed; gradients come back scattered."""
    def gathered(params, x):
        gather = lambda v: lax.all_gather(v, 'X', tiled=True)
        for i, (w, b) in enumerate(params):
            x = x @ gather(w) + gather(b)
            x = jnp.maximum(x, 0) if i < len(params) - 1 else x
        return x

    def f(params, batch):
        x, y = batch
        return lax.pmean(jnp.mean(jnp.sum((gathered(params, x) - y) ** 2, 1)), 'X')

    sent = check(mapped((P('X'), P('X')), P())(f), ('X',), ('X',), ('X',))
    assert sent == {'all-gather': 2 * len(LAYERS), 'reduce-scatter': 1, 'all-reduce': 1}  # gathers are not joined: one layer at a time


def column_parallel(params, x, axis):
    """Activations lie in columns: each layer multiplies what a rank has and scatters the sum."""
    for i, (w, b) in enumerate(params):
        x = lax.psum_scatter(x @ w, axis, scatter_dimension=1, tiled=True) + b
        x = jnp.maximum(x, 0) if i < len(params) - 1 else x
    return x


@LINE
def test_tensor_parallel(mesh) -> None:
    def f(params, batch):
        x, y = batch
        return jnp.mean(lax.psum(jnp.sum((column_parallel(params, x, 'X') - y) ** 2, 1), 'X'))

    split = jax.shard_map(f, in_specs=([(P('X', None), P('X'))] * len(LAYERS), P(None, 'X')), out_specs=P())
    assert check(split, ('X', None), ('X',), (None, 'X')) == {'reduce-scatter': 3, 'all-gather': 3, 'all-reduce': 1}


@GRID
def test_tensor_and_fully_sharded_data_parallel(mesh) -> None:
    """The batch and the rows' parts of weights over X, columns of activations over Y."""
    def f(params, batch):
        x, y = batch
        whole = [(lax.all_gather(w, 'X', axis=1, tiled=True), lax.pcast(b, 'X', to='varying')) for w, b in params]
        return lax.pmean(jnp.mean(lax.psum(jnp.sum((column_parallel(whole, x, 'Y') - y) ** 2, 1), 'Y')), 'X')

    split = jax.shard_map(f, in_specs=([(P('Y', 'X'), P('Y'))] * len(LAYERS), P('X', 'Y')), out_specs=P())
    check(split, ('Y', 'X'), ('Y',), ('X', 'Y'))


@LINE
def test_pipeline_parallel(mesh) -> None:
    """Layers lie on ranks; microbatches enter on the first and leave on the last, n - 1 rounds later."""
    n, m = mesh.size, 4
    ws = np.random.default_rng(1).normal(size=(n, 8, 8)) / np.sqrt(8)
    xs = INPUTS.reshape(m, 4, 8)

    def run(w, xs):
        first, last = lax.axis_index('X') == 0, lax.axis_index('X') == n - 1

        def round_(held, x):
            held = jnp.tanh(jnp.where(first, x, held) @ w[0])
            return lax.ppermute(held, 'X', [(i, i + 1) for i in range(n - 1)]), jnp.where(last, held, 0)

        rounds = jnp.concatenate([xs, jnp.zeros((n - 1, *xs.shape[1:]))])
        _, outs = lax.scan(round_, lax.pcast(jnp.zeros(xs.shape[1:]), 'X', to='varying'), rounds)
        return lax.psum(outs[n - 1:], 'X')

    f = jax.shard_map(run, in_specs=(P('X'), P()), out_specs=P())

    def plain(ws, xs):
        for w in ws:
            xs = np.tanh(xs @ w)
        return xs

    w, x = put(ws, 'X'), put(xs)
    np.testing.assert_allclose(full(f(w, x)), plain(ws, xs), rtol=1e-4, atol=1e-5)
    g = jax.jit(jax.grad(lambda w, x: (f(w, x) ** 2).sum()))(w, x)
    assert jax.typeof(g) == jax.typeof(w)
    i, e = (n - 1, 2, 3), np.zeros_like(ws)
    e[i] = 1e-6
    slope = ((plain(ws + e, xs) ** 2).sum() - (plain(ws - e, xs) ** 2).sum()) / 2e-6
    np.testing.assert_allclose(full(g)[i], slope, rtol=1e-3)
