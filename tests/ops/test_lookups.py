"""Lookups by arrays of integers: NumPy's elements on every placement of table and indices, gradients with repeated indices, and
what is sent."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.errors import ShardingTypeError
from distad.types.array_type import ArrayType
from tests.ops.arrays import counted, get, gradients, numbers, placements, put, some
from tests.ops.moving import check_move

P = jax.P
M, N = 12, 6
A, B = np.array([5, 0, 5, -1, 3, 0]), np.array([[1], [-2]])

FORMS = [
    A, (A,), (slice(None), A % N), (..., A % N), (A, A % N), (B, A), (A, slice(1, 5)), (slice(0, 12, 2), A % N), (None, A),
    (A, None), (slice(None), None, A % N), (A, None, B), (3, A % N), (A, 2), (..., B, B % N), (B, None, A % N), (True, A),
    (A, True, A % N), (np.arange(M) % 3 == 0), (slice(None), np.arange(N) > 3), (np.arange(M * N).reshape(M, N) % 5 == 0),
    (np.arange(M) > 9, np.array([0, 3])), ([0, 1], [2, 3]), (A, Ellipsis, B % N), (np.array([], int),), (np.array(2), A % N)]


@pytest.mark.meshes((2,), (2, 2), (3,), (1, 2))
def test_every_form_of_index_on_every_placement(mesh):
    accepted = [check_move(lambda x, i=form: x[i], lambda x, i=form: x[i], (t,), mesh, most=2, jit=k % 5 == 0)
                for k, (t, form) in enumerate(some([placements((M, N), mesh), FORMS], 120))]
    assert sum(accepted) > 0.8 * len(accepted)


def indices(mesh, values: np.ndarray) -> list:
    return [put(values, t, mesh) for t in placements(values.shape, mesh, 'int32') if not t.unreduced]


def refused(f, t: ArrayType, i, mesh) -> bool:
    """A sum over the axis that indices are split over: which of both shall go is a choice of the user's."""
    if not t.unreduced & i.type.split_axes:
        return False
    with pytest.raises(ShardingTypeError, match='meets a value unreduced over|two dimensions split'):
        f(put(numbers(t.shape, 0), t, mesh))
    return True


@pytest.mark.meshes((2,), (2, 2), (3,), (1, 2))
def test_indices_on_every_placement(mesh):
    """Refused only where the result would have two dimensions split over one axis, or be a sum and split over one."""
    found = indices(mesh, A.astype(np.int32))
    for t, i in some([placements((M, N), mesh), found], 60):
        if refused(lambda x, i=i: x[i], t, i, mesh):
            continue
        done = check_move(lambda x, i=i: x[i], lambda x: x[A], (t,), mesh, most=2)
        assert done or set(t.partitions[1]) & i.type.split_axes
        check_move(lambda x, i=i: jnp.take(x, i, axis=1), lambda x: x[:, A], (t,), mesh, most=2)


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_take_along_axis(mesh):
    rng = np.random.default_rng(1)
    for axis, shape in ((0, (6, N)), (1, (M, 3)), (0, (6, 1)), (1, (1, 3))):
        places = rng.integers(0, (M, N)[axis], shape).astype(np.int32)
        want = np.broadcast_to(places, (M, 3) if axis else (6, N))
        for t, i in some([placements((M, N), mesh), indices(mesh, places)], 25):
            if refused(lambda x, i=i, axis=axis: jnp.take_along_axis(x, i, axis), t, i, mesh):
                continue
            check_move(lambda x, i=i, axis=axis: jnp.take_along_axis(x, i, axis),
                       lambda x, want=want, axis=axis: np.take_along_axis(x, want, axis), (t,), mesh, most=2)


@pytest.mark.meshes((2,), (3,))
def test_beyond_the_bounds_all_ranks_answer_alike(mesh):
    x, i = np.arange(6, dtype=np.float32), np.array([9, -9, -1, 2], np.int32)
    for t in placements((6,), mesh):
        a = put(x, t, mesh)
        for y, want in (
                (a[i], [5, 0, 5, 2]), (a.at[i].get(mode='clip'), [5, 0, 5, 2]), (a.at[i].get(mode='fill'), [np.nan, np.nan, 5, 2]),
                (a.at[i].get(mode='drop', fill_value=7), [7, 7, 5, 2]), (jnp.take(a, i), [np.nan, np.nan, 5, 2]),
                (jnp.take(a, i, mode='clip'), [5, 0, 0, 2]), (jnp.take(a, i, mode='wrap'), [3, 3, 5, 2]),
                (jnp.take_along_axis(a, i, 0), [np.nan, np.nan, 5, 2])):
            np.testing.assert_array_equal(get(y, mesh), want, err_msg=str(t))
        grad = gradients(lambda a: a.at[i].get(mode='fill', fill_value=0), [a], np.ones(4, np.float32), mesh)[0]
        assert grad.tolist() == [0, 0, 1, 0, 0, 1]


@pytest.mark.meshes((2,))
def test_a_split_table_is_never_gathered(mesh):
    """Forward a sum of what was looked up, or of its part; backward nothing, or the cotangents of the batch."""
    vocabulary, width, batch = 64, 2, 8
    table = put(numbers((vocabulary, width), 0), ArrayType((vocabulary, width), 'float32', sharding=jax.NamedSharding(mesh, P('X'))),
                mesh)
    ids = np.arange(0, 64, 8, dtype=np.int32)
    row = batch * width * 4
    for split, forward, backward in (
            (P(), ({'all-reduce': 1}, row), ({}, 0)),
            (P('X'), ({'all-gather': 1, 'reduce-scatter': 1}, 2 * batch + row), ({'all-gather': 1}, row // 2))):
        i = put(ids, ArrayType((batch,), 'int32', sharding=jax.NamedSharding(mesh, split)), mesh)
        out, back = jax.vjp(lambda t, i=i: t[i], table)
        assert out.type.partitions[0] == tuple(split.partitions)
        assert counted(lambda i=i: table[i]) == forward
        assert counted(lambda out=out, back=back: back(out)) == backward
        np.testing.assert_array_equal(get(out, mesh), numbers((vocabulary, width), 0)[ids])
    mine = table.at[ids].get(out_sharding=P(unreduced={'X'}))
    assert str(mine.type) == 'float32[8,2]{U:X}'
    assert counted(lambda: table.at[ids].get(out_sharding=P(unreduced={'X'})))[0] == {}


@pytest.mark.meshes((2,))
def test_a_reduced_table_has_its_gradient_unreduced(mesh):
    """Data parallelism: ids are split, the table is on every rank, and one sum comes when it is asked for."""
    table = put(numbers((6, 2), 0), ArrayType((6, 2), 'float32', sharding=jax.NamedSharding(mesh, P(reduced={'X'}))), mesh)
    ids = put(np.array([1, 5, 1, 1], np.int32), ArrayType((4,), 'int32', sharding=jax.NamedSharding(mesh, P('X'))), mesh)
    grad = jax.grad(lambda t: jnp.sum(t[ids]))(table)
    assert str(grad.type) == 'float32[6,2]{U:X}'
    assert get(grad, mesh)[:, 0].tolist() == [0, 3, 0, 0, 0, 1]
    assert sum(counted(lambda: jax.vjp(lambda t: t[ids], table)[1](table[ids]))[0].values()) == 0


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_dynamic_slices_on_every_placement(mesh):
    corners = [((2, 0), (6, 6)), ((0, 3), (12, 2)), ((11, -1), (6, 1)), ((-3, 1), (1, 3)), ((4, 4), (1, 1))]
    for t, (start, sizes) in some([placements((M, N), mesh), corners], 40):
        at = [min(max(s + n if s < 0 else s, 0), n - k) for s, n, k in zip(start, (M, N), sizes, strict=True)]
        part = tuple(slice(a, a + k) for a, k in zip(at, sizes, strict=True))
        for traced in (False, True):
            starts = [jnp.int32(s) for s in start] if traced else start
            check_move(lambda x, s=starts, k=sizes: lax.dynamic_slice(x, s, k), lambda x, part=part: x[part], (t,), mesh, most=2)


@pytest.mark.meshes((2,))
def test_an_entry_of_a_split_cache_is_read_by_a_small_message_and_written_by_none(mesh):
    cache = put(numbers((64, 4), 0), ArrayType((64, 4), 'float32', sharding=jax.NamedSharding(mesh, P('X'))), mesh)
    i = jnp.int32(40)
    assert counted(lambda: lax.dynamic_index_in_dim(cache, i, keepdims=False)) == ({'all-reduce': 1}, 16)
    assert counted(lambda: lax.dynamic_update_index_in_dim(cache, jnp.zeros(4), i, 0))[0] == {}
    new = lax.dynamic_update_index_in_dim(cache, jnp.full(4, 9.), i, 0)
    want = numbers((64, 4), 0)
    want[40] = 9
    assert new.type == cache.type and np.array_equal(get(new, mesh), want)


@pytest.mark.meshes((2,))
def test_lax_gather(mesh):
    x = numbers((M, N), 0)
    places = np.array([[1, 4], [9, 0], [20, 2]], np.int32)
    boxes = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))
    got = lax.gather(jnp.asarray(x), places, boxes, (3, 2), mode='clip')
    np.testing.assert_array_equal(np.asarray(got), [x[1:4, 4:6], x[9:12, 0:2], x[9:12, 2:4]])
    assert np.isnan(np.asarray(lax.gather(jnp.asarray(x), places, boxes, (3, 2)))[2]).all()
    assert np.asarray(lax.index_take(jnp.asarray(x), ([0, 2], [1, -1]), (0, 1))).tolist() == [x[0, 1], x[2, -1]]


@pytest.mark.meshes((2,))
def test_refusals_say_what_to_do(mesh):
    x = put(numbers((M, N), 0), ArrayType((M, N), 'float32', sharding=jax.NamedSharding(mesh, P(None, 'X'))), mesh)
    i = put(np.arange(6, dtype=np.int32), ArrayType((6,), 'int32', sharding=jax.NamedSharding(mesh, P('X'))), mesh)
    with pytest.raises(ShardingTypeError, match='two dimensions split over mesh axis X'):
        x[i]
    assert str(x.at[i].get(out_sharding=P('X')).type) == 'float32[6@X,6]'
    u = put(np.arange(6, dtype=np.int32), ArrayType((6,), 'int32', sharding=jax.NamedSharding(mesh, P(unreduced={'X'}))), mesh)
    with pytest.raises(ShardingTypeError, match=r'whose sum over X is still to come.*Reduce them first'):
        x[u]
    mask = put(np.arange(M) > 3, ArrayType((M,), 'bool', sharding=jax.NamedSharding(mesh, P('X'))), mesh)
    with pytest.raises(ShardingTypeError, match=r'each rank knows a part.*reshard\(mask, P\(\)\)'):
        x[mask]


# ---- by a mask, and by values

@pytest.mark.meshes((2,))
def test_results_whose_size_depends_on_values(mesh):
    m = np.array([[True, False, True], [False, True, True]])
    x = numbers((2, 3), 5)
    for got, want in (
            (jnp.nonzero(m), np.nonzero(m)), (jnp.where(m), np.where(m)), (jnp.argwhere(m), np.argwhere(m)),
            (jnp.flatnonzero(m, size=6, fill_value=-1), [0, 2, 4, 5, -1, -1]), (jnp.nonzero(m, size=2), ([0, 0], [0, 2])),
            (jnp.argwhere(m, size=5, fill_value=9), [*np.argwhere(m), [9, 9]]), (jnp.extract(m, x), x[m]),
            (jnp.compress([True, False, True], x, axis=1), x[:, [0, 2]]), (jnp.unique(x), np.unique(x)),
            (jnp.compress([False, True], x, axis=0, size=2, fill_value=7), [x[1], [7, 7, 7]]),
            (jnp.unique(np.array([3, 1, 3, 2]), size=5, return_index=True, return_inverse=True, return_counts=True),
             ([1, 2, 3, 1, 1], [1, 3, 0, 1, 1], [2, 0, 2, 1], [1, 1, 2, 0, 0])),
            (jnp.choose(np.array([1, 0, 4]), [np.zeros(3), np.ones(3)], mode='wrap'), [1, 0, 0])):
        for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_array_equal(np.asarray(g), w)
    with pytest.raises(TypeError, match='needs size=n'):
        jax.jit(jnp.nonzero)(m)
    assert jax.jit(lambda m: jnp.nonzero(m, size=3)[1])(m).shape == (3,)
