"""x[...]: NumPy's elements for every kind of index on every placement, their gradients, and what is refused."""

import random

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.errors import NonConcreteBooleanIndexError, ShardingTypeError
from distad.types.array_type import ArrayType
from tests.ops.arrays import counted, get, numbers, placements, put, some
from tests.ops.moving import check_move

P = jax.P
M, N, K = 12, 6, 4

INDICES = [
    ..., None, (), 0, -1, (slice(None), 2), (..., -3), (2, 3), (slice(2, 8), slice(None, None, 2)),
    slice(None, None, -1), slice(9, 1, -4), (slice(-6, None), slice(None, None, -2)), slice(1, None, 2), slice(1, -1),
    (None, slice(4)), (..., None, 1), (slice(None), None, slice(3)), slice(5, 2), slice(100), slice(-100, 3), True,
    False, (True, None), (..., True), (False, ...), (0, True), (True, 0), (0, None, True), (slice(None), True, 2),
    np.int64(3), np.array(1), slice(np.int8(0), np.int8(4)), (slice(0, 1), slice(0, 1)), (3, slice(None, None, -1))]


def made_up(seed: int, sizes: tuple[int, ...]) -> tuple:
    """An index by chance: numbers and slices of the first or the last dimensions, None, and an ellipsis before or after."""
    chance = random.Random(seed)

    def item(n: int) -> int | slice:
        if chance.random() < 0.3:
            return chance.randint(-n, n - 1)
        ends = [chance.choice([None, *range(-n - 1, n + 2)]) for _ in range(2)]
        return slice(*ends, chance.choice([None, 1, 2, 3, -1, -2]))

    last, count = chance.random() < 0.3, chance.randint(0, len(sizes))
    index: list = [item(n) for n in (sizes[len(sizes) - count:] if last else sizes[:count])]
    for _ in range(chance.choice([0, 0, 1, 2])):
        index.insert(chance.randint(0, len(index)), None)
    return (..., *index) if last else (*index, ...) if chance.random() < 0.3 else tuple(index)


@pytest.mark.meshes((2,), (2, 2), (3,), (4,), (1, 3))
def test_every_kind_of_index_on_every_placement(mesh):
    accepted = [check_move(lambda x, i=index: x[i], lambda x, i=index: x[i], (t,), mesh, jit=k % 7 == 0)
                for k, (t, index) in enumerate(some([placements((M, N), mesh), INDICES], 150))]
    assert sum(accepted) > len(accepted) / 2


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_indices_by_chance(mesh):
    for t, seed in some([placements((M, N, K), mesh), range(200)], 100):
        index = made_up(seed, (M, N, K))
        check_move(lambda x, i=index: x[i], lambda x, i=index: x[i], (t,), mesh)


@pytest.mark.meshes((2,))
def test_integers_keep_their_dtype(mesh):
    x = put(np.arange(8), ArrayType((8,), 'int32', sharding=jax.NamedSharding(mesh, P('X'))), mesh)
    assert str(x[::2].type) == 'int32[4@X]' and get(x[::-2], mesh).tolist() == [7, 5, 3, 1] and int(x[3]) == 3


@pytest.mark.meshes((2, 2))
def test_types(mesh):
    """As JAX has them: a dimension that changes its size stays split, one element is replicated."""
    x = jax.reshard(jnp.arange(32.).reshape(8, 4), P('X', 'Y'))
    u = jax.reshard(x, P('X', unreduced={'Y'}))
    for y, text in (
            (x[2:6], '4@X,4@Y'), (x[:, ::2], '8@X,2@Y'), (x[::-2], '4@X,4@Y'), (x[None], '1,8@X,4@Y'),
            (x[..., None], '8@X,4@Y,1'), (x[0, 0], ''), (x[3:4, 2:3], '1,1'), (x[:0], '0@X,4@Y'),
            (x[True], '1,8@X,4@Y'), (x[...], '8@X,4@Y')):
        assert str(y.type) == f'float32[{text}]'
    assert str(u[0, 0].type) == 'float32[]{U:Y}' and str(u[:, 1].type) == 'float32[8@X]{U:Y}'
    assert x[...] is x and x[:, :] is x


@pytest.mark.meshes((2, 2))
def test_a_number_of_a_split_dimension_is_read_where_it_is(mesh):
    x = jax.reshard(jnp.arange(32.).reshape(8, 4), P('X', None))
    row = x[5]
    assert str(row.type) == 'float32[4]' and np.asarray(row).tolist() == [20, 21, 22, 23]
    assert counted(lambda: x[5]) == ({'all-reduce': 1}, 16)
    with pytest.raises(ShardingTypeError, match=r'gives size 3 in dimension 0, which does not divide over mesh axis X of size 2'):
        x[:3]


@pytest.mark.meshes((2,), (2, 2))
def test_iteration_gathers_once(mesh):
    value = numbers((4, 8), 1)
    for t in placements((4, 8), mesh):
        x = put(value, t, mesh)
        rows = list(x)
        assert len(rows) == 4
        for row, want in zip(rows, value, strict=True):
            assert row.type.partitions == t.partitions[1:] and row.type.unreduced == t.unreduced
            np.testing.assert_array_equal(get(row, mesh), want)
    first, *_ = jnp.arange(3)
    assert int(first) == 0
    with pytest.raises(TypeError, match='0-d'):
        iter(jnp.float32(1))


def test_what_an_index_may_not_be():
    x = jnp.arange(6.).reshape(2, 3)
    for error, match, index in (
            (IndexError, 'out of bounds', 2), (IndexError, 'out of bounds', (0, -4)),
            (IndexError, 'too many', (0, 0, 0)), (IndexError, 'ellipsis', (..., ...)), (TypeError, 'integers', 1.5),
            (TypeError, 'integers', 'a'), (ValueError, 'zero', slice(0, 1, 0)), (TypeError, 'integers', np.array([0.5])),
            (IndexError, r'mask of shape \(3,\).*sizes \(2,\)', np.ones(3, bool)),
            (IndexError, r'broadcast together with shapes \(2,\) \(3,\)', ([0, 1], [0, 1, 2]))):
        with pytest.raises(error, match=match):
            x[index]
    with pytest.raises(NonConcreteBooleanIndexError, match=r'traced.*jnp\.where'):
        jax.jit(lambda mask: x[mask])(x > 1)
    with pytest.raises(IndexError, match=r'traced.*lax\.dynamic_slice_in_dim'):
        jax.jit(lambda i: x[i:])(1)
    with pytest.raises(TypeError, match=r'x = x\.at\[.*\]\.set\('):
        x[0] = 1.
    assert float(x[jnp.int32(1), 2]) == 5.
