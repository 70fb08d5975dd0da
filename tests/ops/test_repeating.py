"""tile, repeat, roll, rot90 and the diagonals: NumPy's elements on every placement, their gradients, and what is sent."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.errors import ConcretizationTypeError, ShardingTypeError
from distad.types.array_type import ArrayType
from tests.ops.arrays import counted, get, numbers, placements, put, some
from tests.ops.moving import check_move

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
M, N, K = 12, 6, 4

EACH = np.arange(N) % 3
# Functions of a namespace and an array: NumPy's on the numbers of the elements says where each shall go.
MOVES = [
    lambda np, x: np.tile(x, 2), lambda np, x: np.tile(x, (3, 1)), lambda np, x: np.tile(x, (2, 2, 3)),
    lambda np, x: np.tile(x, (0, 1)), lambda np, x: np.repeat(x, 3, axis=0), lambda np, x: np.repeat(x, 2, axis=-1),
    lambda np, x: np.repeat(x, EACH, axis=1), lambda np, x: np.roll(x, 2, 0), lambda np, x: np.roll(x, -5, 1),
    lambda np, x: np.roll(x, 27, 0), lambda np, x: np.roll(x, 6, 0), lambda np, x: np.rot90(x), lambda np, x: np.rot90(x, 3),
    lambda np, x: np.rot90(x, 2), lambda np, x: np.rot90(x, 1, (1, 0)), lambda np, x: np.rot90(x, 4),
    lambda np, x: np.diagonal(x), lambda np, x: np.diagonal(x, 2), lambda np, x: np.diagonal(x, -9),
    lambda np, x: np.diagonal(x, 6), lambda np, x: np.diag(x, -1), lambda np, x: np.diagonal(x, 1, 1, 0)]


@MESHES
def test_moves(mesh):
    accepted = [check_move(lambda x, f=f: f(jnp, x), lambda x, f=f: f(np, x), (t,), mesh, most=2, jit=i % 5 == 0)
                for i, (t, f) in enumerate(some([placements((M, N), mesh), MOVES], 160))]
    assert sum(accepted) > len(accepted) / 2


@MESHES
def test_diagonals_of_batches_and_of_vectors(mesh):
    for t in placements((M, N, N), mesh):
        for k in (0, -2):
            check_move(lambda x, k=k: jnp.diagonal(x, k, 1, 2), lambda x, k=k: np.diagonal(x, k, 1, 2), (t,), mesh, most=2)
    for t in placements((M,), mesh):
        for k in (0, 1, -3):
            check_move(lambda x, k=k: jnp.diag(x, k), lambda x, k=k: np.diag(x, k), (t,), mesh)


@MESHES
def test_a_trace_sums_what_is_there(mesh):
    for t in placements((M, M), mesh):
        x = numbers((M, M), 1)
        y = jnp.trace(put(x, t, mesh), 1)
        assert get(y, mesh) == np.trace(x, 1) and y.type.unreduced == t.unreduced
    assert jnp.trace(jnp.ones((3, 4), bool)).dtype == np.int32


@MESHES
def test_powers(mesh):
    x = numbers((M,), 1)
    for t in placements((M,), mesh):
        for options in ({}, {'N': 3}, {'N': 4, 'increasing': True}, {'N': 1}, {'N': 0}):
            if t.unreduced and options != {'N': 0}:
                with pytest.raises(ShardingTypeError):
                    jnp.vander(put(x, t, mesh), **options)
            else:
                y = jnp.vander(put(x, t, mesh), **options)
                assert y.type.partitions[0] == t.partitions[0] or t.unreduced
                np.testing.assert_allclose(get(y, mesh), np.vander(x, **options), rtol=1e-5)


@pytest.mark.meshes((2,), (3,), (4,))
def test_neighbours_send_what_is_lacking(mesh):
    t = ArrayType((M, 5), 'float32', sharding=jax.NamedSharding(mesh, P('X')))
    x, n = put(numbers((M, 5), 1), t, mesh), M // mesh.size
    for shift, messages in ((1, 1), (-1, 1), (n, 1), (0, 0), (M, 0), (n + 1, 1 if mesh.size == 2 else 2)):
        by_op, sent = counted(lambda s=shift: jnp.roll(x, s, 0))
        assert sum(by_op.values()) == by_op.get('collective-permute', 0) == messages, (shift, by_op)
    assert counted(lambda: jnp.roll(x, 1, 0))[1] == 5 * 4
    assert counted(lambda: jnp.roll(x, 2, 1))[1] == 0


@pytest.mark.meshes((2,))
def test_what_is_known_late(mesh):
    x = put(numbers((M,), 1), ArrayType((M,), 'float32', sharding=jax.NamedSharding(mesh, P('X'))), mesh)
    y = jax.jit(lambda x, s: jnp.roll(x, s))(x, 5)
    assert str(y.type) == 'float32[12@X]'
    np.testing.assert_array_equal(get(y, mesh), np.roll(numbers((M,), 1), 5))
    with pytest.raises(ConcretizationTypeError, match='traced repeats'):
        jax.jit(lambda x, n: jnp.repeat(x, n))(x, 2)
    with pytest.raises(ShardingTypeError, match=r"reshard\(x, P\(None\)\)"):
        jnp.tile(x, 2)
    assert jnp.repeat(jnp.arange(3), np.array([1, 0, 2]), total_repeat_length=5).tolist() == [0, 2, 2, 2, 2]
    assert str(jnp.repeat(x, 2, out_sharding=P(None)).type) == 'float32[24]'
