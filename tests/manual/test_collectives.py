"""Collectives over manual axes: on trees of values in any dtype, over tuples of axes, and what each of them sends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.runtime import recorder
from tests.complaints.preamble import P, fails, full, put
from tests.pmpi import count_calls

LINES = pytest.mark.meshes((2,), (3,), (4,))
GRIDS = pytest.mark.meshes((2, 2), (1, 3))
RUNS = pytest.mark.parametrize('run', [lambda f: f, jax.jit], ids=['eager', 'jit'])


def mapped(f, axes='X', out=None):
    return jax.shard_map(f, in_specs=P(axes), out_specs=P(axes) if out is None else out)


# The blocks of the ranks, stacked, before and after: [n, m, k] -> [n, ...].
def exchange(rows):
    n, m, k = rows.shape
    return rows.reshape(n, n, m // n, k).swapaxes(0, 1).reshape(n, m, k)


def turned(rows):
    return np.roll(rows, 1, 0)


COLLECTIVES = {
    'psum': (lambda x: lax.psum(x, 'X'), lambda rows: rows.sum(0, keepdims=True).repeat(len(rows), 0), 'all-reduce'),
    'pmax': (lambda x: lax.pmax(x, 'X'), lambda rows: rows.max(0, keepdims=True).repeat(len(rows), 0), 'all-reduce'),
    'pmin': (lambda x: lax.pmin(x, 'X'), lambda rows: rows.min(0, keepdims=True).repeat(len(rows), 0), 'all-reduce'),
    'pbroadcast': (lambda x: lax.pbroadcast(x, 'X', 1), lambda rows: rows[1:2].repeat(len(rows), 0), 'all-reduce'),
    'all_gather': (lambda x: lax.all_gather(x, 'X', axis=1, tiled=True),
                   lambda rows: np.concatenate(list(rows), 1)[None].repeat(len(rows), 0), 'all-gather'),
    'psum_scatter': (lambda x: lax.psum_scatter(x, 'X', tiled=True),
                     lambda rows: rows.sum(0).reshape(len(rows), -1, rows.shape[2]), 'reduce-scatter'),
    'all_to_all': (lambda x: lax.all_to_all(x, 'X', 0, 0, tiled=True), exchange, 'all-to-all'),
    'ppermute': (lambda x: lax.ppermute(x, 'X', [(i, (i + 1) % lax.axis_size('X')) for i in range(lax.axis_size('X'))]), turned,
                 'collective-permute'),
}
DTYPES = ['bool', 'int8', 'uint32', 'int32', 'float16', 'bfloat16', 'float32', 'complex64']


@LINES
@RUNS
@pytest.mark.parametrize('name', COLLECTIVES)
def test_a_tree_of_values_travels_in_one_message_for_each_dtype(mesh, run, name: str) -> None:
    f, numpy, op = COLLECTIVES[name]
    n, skip = mesh.size, {'psum': ['bool'], 'psum_scatter': ['bool']}.get(name, [])
    skip = [*skip, 'complex64'] if name in ('pmax', 'pmin') else skip
    values = {d: (np.arange(n * 12 * 2).reshape(n, 12, 2) % 5 % (2 if d == 'bool' else 5)).astype(
        jnp.bfloat16 if d == 'bfloat16' else d) for d in DTYPES if d not in skip}
    given = {d: [put(v.reshape(n * 12, 2), 'X'), (put(v.reshape(n * 12, 2)[::-1].copy(), 'X'),)] for d, v in values.items()}
    g = run(mapped(lambda x: jax.tree.map(lambda y: lax.pcast(y, 'X', to='varying') if not jax.typeof(y).varying else y, f(x))))
    with recorder.count() as counted:
        made = g(given)
    assert counted.by_op == {op: len(values)}
    for d, v in values.items():
        for y, rows in ((made[d][0], v), (made[d][1][0], v[::-1, ::-1])):
            want = numpy(rows.astype('c16' if d == 'complex64' else 'f8' if d != 'bool' else bool))
            assert y.dtype == v.dtype
            np.testing.assert_array_equal(full(y).astype(want.dtype).reshape(want.shape), want)


PROGRAM = """
    import numpy as np
    from mpi4py import MPI
    import distad as jax
    import distad.numpy as jnp
    from distad import lax
    P = jax.P
    jax.set_mesh(jax.make_mesh((3,), ('X',)))
    put = lambda d, k: jax.device_put(np.ones((3, k), d), P('X'))
    tree = {'a': put(np.float32, 5), 'b': [put(np.float32, 7), put(np.int32, 4)], 'c': put(np.float32, 1)}
    ring = [(0, 1), (1, 2), (2, 0)]
    f = jax.jit(jax.shard_map(lambda t: (lax.psum(t, 'X'), lax.ppermute(t, 'X', ring)), in_specs=P('X'), out_specs=(P(), P('X'))))
    f(tree)
    MPI.Pcontrol(1)
    f(tree)
    MPI.Pcontrol(0)
"""


@pytest.mark.ranks(1)
def test_mpi_gets_as_many_calls_as_are_counted(tmp_path: Path) -> None:
    """Two dtypes, so two sums and two messages to the neighbour; 13 floats and 4 integers each."""
    for calls in count_calls(PROGRAM, 3, tmp_path):
        assert (calls['Allreduce'].times, calls['Allreduce'].bytes) == (2, 4 * (13 + 4))
        assert (calls['Send'].times, calls['Send'].bytes) == (2, 4 * (13 + 4))
        assert set(calls) == {'Allreduce', 'Send', 'Recv'} and calls['Recv'].times == 2


# ---- tuples of axes


@GRIDS
@RUNS
@pytest.mark.parametrize('axes', [('X', 'Y'), ('Y', 'X')])
def test_several_axes_are_one_collective_in_the_order_they_are_named(mesh, run, axes: tuple[str, str]) -> None:
    n = mesh.size
    a = np.arange(float(n * n)).reshape(n, n)
    x = put(a, ('X', 'Y'))  # one row on each rank
    order = np.arange(n).reshape(mesh.axis_sizes)
    if axes == ('Y', 'X'):
        order = order.T
    order = order.ravel()  # the ranks, as the axes count them
    place = np.argsort(order)  # where each rank stands among them
    ring = [(i, (i + 1) % n) for i in range(n)]
    cases = {
        'psum': (lambda x: lax.pcast(lax.psum(x, axes), axes, to='varying'), a.sum(0, keepdims=True).repeat(n, 0), 'all-reduce'),
        'pmax': (lambda x: lax.pcast(lax.pmax(x, axes), axes, to='varying'), a.max(0, keepdims=True).repeat(n, 0), 'all-reduce'),
        'all_gather': (lambda x: lax.all_gather(x[0], axes)[None], a[order][None].repeat(n, 0), 'all-gather'),
        'psum_scatter': (lambda x: lax.psum_scatter(x, axes, scatter_dimension=1, tiled=True), a.sum(0)[place][:, None],
                         'reduce-scatter'),
        'all_to_all': (lambda x: lax.all_to_all(x, axes, 1, 1, tiled=True), a[order].T[place], 'all-to-all'),
        'axis_index': (lambda x: lax.axis_index(axes) + 0 * x, place[:, None].repeat(n, 1), None),
        'ppermute': (lambda x: lax.ppermute(x, axes, ring), a[order[(place - 1) % n]], 'collective-permute'),
    }
    for name, (f, want, op) in cases.items():
        with recorder.count() as counted:
            y = run(mapped(f, ('X', 'Y')))(x)
        assert counted.by_op == ({op: 1} if op else {}), name
        np.testing.assert_array_equal(full(y), want, err_msg=name)


@GRIDS
def test_one_of_the_axes_is_a_collective_of_its_ranks_alone(mesh) -> None:
    x = put(np.arange(12.), ('X', 'Y'))
    k = 12 // mesh.size
    blocks = np.arange(12.).reshape(*mesh.axis_sizes, k)
    assert full(mapped(lambda x: lax.psum(x, 'X'), ('X', 'Y'), P('Y'))(x)).tolist() == blocks.sum(0).ravel().tolist()
    assert full(mapped(lambda x: lax.psum(x, 'Y'), ('X', 'Y'), P('X'))(x)).tolist() == blocks.sum(1).ravel().tolist()
    fails('ValueError', 'one state over all its axes.*varying over X.*invarying over Y', mapped(
        lambda x: lax.psum(lax.psum(x, 'Y'), ('X', 'Y')), ('X', 'Y'), P()), x)
    fails('ValueError', "'X', 'X'|twice", mapped(lambda x: lax.psum(x, ('X', 'X')), ('X', 'Y'), P('Y')), x)


# ---- ppermute


@LINES
@RUNS
def test_ppermute_gives_zeros_where_nothing_arrives(mesh, run) -> None:
    n = mesh.size
    a = 1. + np.arange(2. * n)
    x, shift = put(a, 'X'), [(i, i + 1) for i in range(n - 1)]
    f = mapped(lambda x: lax.ppermute(x, 'X', shift))
    assert full(run(f)(x)).tolist() == [0., 0., *a[:-2]]
    assert full(run(jax.grad(lambda x: (f(x) * x).sum()))(x)).tolist() == (
        np.array([0., 0., *a[:-2]]) + np.array([*a[2:], 0., 0.])).tolist()
    assert full(run(mapped(lambda x: lax.ppermute(x, 'X', [])))(x)).tolist() == [0.] * 2 * n
    assert full(run(mapped(lambda x: lax.ppermute(x, 'X', [(1, 0)])))(x))[:2].tolist() == a[2:4].tolist()
    assert full(run(mapped(lambda x: lax.ppermute(x, 'X', [(0, 0)])))(x)).tolist() == [*a[:2], *[0.] * (2 * n - 2)]
    assert full(run(mapped(lambda x: lax.pshuffle(x, 'X', range(n)[::-1])))(x)).tolist() == a.reshape(n, 2)[::-1].ravel().tolist()
    fails('ValueError', 'ppermute.*unique', mapped(lambda x: lax.ppermute(x, 'X', [(0, 1), (1, 1)])), x)
    fails('ValueError', f'ppermute.*outside 0 to {n - 1} over X', mapped(lambda x: lax.ppermute(x, 'X', [(0, n)])), x)
    fails('ValueError', 'axis 5 is out of bounds', mapped(lambda x: lax.all_to_all(x, 'X', 5, 0, tiled=True)), x)
    fails('ValueError', 'pshuffle.*not a permutation', mapped(lambda x: lax.pshuffle(x, 'X', [0] * n)), x)


@LINES
@RUNS
def test_halo_exchange(mesh, run) -> None:
    """Five steps of a wave on a ring: each rank gets one value from either neighbour; its adjoint gives them back."""
    n, m, steps = mesh.size, 6, 5
    a, ct = np.sin(np.arange(float(n * m))), np.cos(np.arange(float(n * m)))
    right, left = [(i, (i + 1) % n) for i in range(n)], [((i + 1) % n, i) for i in range(n)]

    def step(x, _):
        padded = jnp.concatenate([lax.ppermute(x[-1:], 'X', right), x, lax.ppermute(x[:1], 'X', left)])
        return x + 0.1 * (padded[2:] - 2 * x + padded[:-2]), None

    f = mapped(lambda x: lax.scan(step, x, None, length=steps)[0])
    whole = np.eye(n * m) + 0.1 * (np.roll(np.eye(n * m), 1, 0) - 2 * np.eye(n * m) + np.roll(np.eye(n * m), -1, 0))
    power = np.linalg.matrix_power(whole, steps)
    x = put(a, 'X')
    with recorder.count() as counted:
        y = run(f)(x)
    assert counted.by_op['collective-permute'] in (steps, 2 * steps)
    np.testing.assert_allclose(full(y), power @ a, rtol=1e-5, atol=1e-6)
    back, = run(lambda x, ct: jax.vjp(f, x)[1](ct))(x, put(ct, 'X'))
    np.testing.assert_allclose(full(back), power.T @ ct, rtol=1e-5, atol=1e-6)


# ---- derivatives


@LINES
@pytest.mark.parametrize('name', ['pmax', 'pmin'])
def test_the_extremum_over_ranks_has_the_derivative_of_its_winner(mesh, name: str) -> None:
    n, extremum = mesh.size, getattr(lax, name)
    a = np.random.default_rng(3).permutation(5 * n) / 4  # no ties: neighbours differ by more than the step
    x = put(a, 'X')
    f = lambda x: (mapped(lambda x: extremum(x, 'X'), out=P())(x) * put(np.arange(1., 6.))).sum()
    grad = full(jax.grad(f)(x))
    for i in range(5 * n):
        e = np.zeros(5 * n)
        e[i] = 2. ** -4
        slope = (float(f(put(a + e, 'X'))) - float(f(put(a - e, 'X')))) / 2 ** -3
        assert grad[i] == slope
        _, t = jax.jvp(f, (x,), (put(e, 'X'),))
        assert float(t) == slope * 2 ** -4


@LINES
@RUNS
@pytest.mark.parametrize('name', ['pmax', 'pmin'])
def test_ranks_that_tie_share_the_derivative_evenly(mesh, run, name: str) -> None:
    n, extremum, sign = mesh.size, getattr(lax, name), 1 if name == 'pmax' else -1
    rows = np.zeros((n, 3), np.float32)
    rows[:, 0] = 1  # all tie; then the first two win; then the last alone
    rows[:2, 1] = rows[-1:, 2] = 2
    x = put(sign * rows.ravel(), 'X')
    f = lambda x: mapped(lambda x: extremum(x, 'X'), out=P())(x).sum()
    want = np.array([[1 / n, (i < 2) / 2, i == n - 1] for i in range(n)])
    g = run(jax.grad(f))(x)
    assert str(jax.typeof(g)) == f'float32[{3 * n}@X]'
    np.testing.assert_allclose(full(g).reshape(n, 3), want, rtol=1e-6)
    # Where all winners move together, the slope is that of any of them; where one of two moves, it is the mean of both sides.
    _, together = run(lambda x, t: jax.jvp(f, (x,), (t,)))(x, put((want > 0).ravel().astype(np.float32), 'X'))
    np.testing.assert_allclose(float(together), 3, rtol=1e-6)
    e = np.zeros(3 * n, np.float32)
    e[1] = 2 ** -4
    slope = (float(f(put(sign * rows.ravel() + e, 'X'))) - float(f(put(sign * rows.ravel() - e, 'X')))) / 2 ** -3
    assert slope == pytest.approx(full(g)[1])


@LINES
def test_the_backward_pass_sends_what_the_states_say(mesh) -> None:
    n = mesh.size
    x = put(np.arange(2. * n * n), 'X')
    summed = lambda x: lax.pcast(lax.psum(x, 'X'), 'X', to='reduced')
    cases = {  # forward, backward
        'psum': (lambda x: lax.psum(x, 'X'), P(), {'all-reduce': 1}, {}),
        'psum to varying': (lambda x: lax.pcast(lax.psum(x, 'X'), 'X', to='varying'), P('X'), {'all-reduce': 1}, {'all-reduce': 1}),
        'psum to reduced': (summed, P(reduced={'X'}), {'all-reduce': 1}, {'all-reduce': 1}),
        'all_gather': (lambda x: lax.all_gather(x, 'X', tiled=True), P('X'), {'all-gather': 1}, {'reduce-scatter': 1}),
        'all_gather to reduced': (lambda x: lax.all_gather(x, 'X', tiled=True, to='reduced'), P(reduced={'X'}), {'all-gather': 1},
                                  {'reduce-scatter': 1}),
        'all_gather to the same': (lambda x: lax.all_gather(x, 'X', tiled=True, to='invarying'), P(), {'all-gather': 1}, {}),
        'psum_scatter': (lambda x: lax.psum_scatter(x, 'X', tiled=True), P('X'), {'reduce-scatter': 1}, {'all-gather': 1}),
        'all_to_all': (lambda x: lax.all_to_all(x, 'X', 0, 0, tiled=True), P('X'), {'all-to-all': 1}, {'all-to-all': 1}),
        'ppermute': (lambda x: lax.ppermute(x, 'X', [(0, 1)]), P('X'), {'collective-permute': 1}, {'collective-permute': 1}),
        'axis_index': (lambda x: x * lax.axis_index('X'), P('X'), {}, {}),
        'to summands': (lambda x: lax.pcast(x, 'X', to='unreduced'), P(unreduced={'X'}), {}, {}),
    }
    for name, (f, out, forward, backward) in cases.items():
        with recorder.count() as counted:
            y, back = jax.vjp(mapped(f, out=out), x)
        assert counted.by_op == forward, name
        t = jax.typeof(y).to_ct_aval()
        ct = put(np.ones(t.shape), *t.spec.partitions, unreduced=t.unreduced, reduced=t.reduced)
        with recorder.count() as counted:
            back(ct)
        assert counted.by_op == backward, name
