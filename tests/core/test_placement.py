"""Putting values on meshes, moving and reading them: what users see of arrays."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.debug import count_collectives
from distad.runtime import mpi

P = jax.P
A = np.arange(48, dtype=np.float32).reshape(12, 4)


def whole(x):
    return jax.process_allgather(x)


@pytest.mark.meshes((2,), (3,), (4,), (2, 2))
def test_values_put_in_are_copied_and_values_read_out_are_read_only(mesh) -> None:
    value = A.copy()
    x = jax.device_put(value, P())
    value[:] = 0
    assert np.array_equal(np.asarray(x), A)
    with pytest.raises(ValueError):
        np.asarray(x)[0, 0] = 1
    with pytest.raises(ValueError):
        x.addressable_shards[0].data[:] = 1


@pytest.mark.meshes((2,), (3,), (2, 2))
def test_a_shard_says_where_its_block_lies(mesh) -> None:
    x = jax.device_put(A, P('X'))
    shard, = x.addressable_shards
    assert shard.device.id == jax.process_index()
    assert np.array_equal(shard.data, A[shard.index])
    assert shard.data.shape == x.sharding.shard_shape(x.shape)


@pytest.mark.meshes((2,), (3,), (4,), (2, 2))
def test_numpy_numbers_and_arrays_go_to_every_state_without_a_message(mesh) -> None:
    with count_collectives() as sent:
        for spec in (P(), P('X'), P(unreduced={'X'}), P(reduced={'X'})):
            x = jax.device_put({'a': A, 'b': [A[:, 0]]}, spec)
            assert jax.typeof(x['b'][0]).sharding.spec.unreduced == spec.unreduced
        assert str(jax.typeof(jax.device_put(2.5, P(reduced={'X'})))) == '~float32[]{R:X}'
    assert not sent.total
    assert all(np.array_equal(whole(v), A) for v in (jax.device_put(A, s) for s in (P('X'), P(unreduced={'X'}))))


@pytest.mark.meshes((2,), (3,), (4,))
def test_a_tree_is_resharded_in_one_message(mesh) -> None:
    tree = jax.device_put({'a': A, 'b': A[0], 'c': A[0, 0]}, P(unreduced={'X'}))
    with count_collectives() as sent:
        got = jax.reshard(tree, P())
    assert sent.by_op == {'all-reduce': 1}
    assert np.array_equal(got['a'], A) and np.array_equal(got['b'], A[0]) and float(got['c']) == A[0, 0]


@pytest.mark.meshes((2,), (3,))
def test_arrays_are_made_from_the_ranks_own_blocks(mesh) -> None:
    sharding = jax.NamedSharding(mesh, P('X'))
    by_index = jax.make_array_from_callback(A.shape, sharding, lambda index: A[index])
    block = by_index.addressable_shards[0].data
    for x in (by_index, jax.make_array_from_process_local_data(sharding, block),
              jax.make_array_from_process_local_data(sharding, A, A.shape),
              jax.make_array_from_single_device_arrays(A.shape, sharding, [block])):
        assert str(jax.typeof(x)) == 'float32[12@X,4]' and np.array_equal(whole(x), A)
    pieces = jax.make_array_from_single_device_arrays((4,), jax.NamedSharding(mesh, P(unreduced={'X'})), [A[0]])
    assert np.array_equal(whole(pieces), mesh.size * A[0])
    with pytest.raises(ValueError, match='has blocks of shape'):
        jax.make_array_from_single_device_arrays(A.shape, sharding, [A[:5]])


@pytest.mark.meshes((2,), (2, 2))
def test_a_part_is_never_taken_for_the_whole(mesh) -> None:
    for spec, word in ((P('X'), 'a block'), (P(unreduced={'X'}), 'a summand')):
        x = jax.device_put(A, spec)
        assert not x.is_fully_replicated
        with pytest.raises(ValueError, match=f'holds {word}.*process_allgather'):
            np.asarray(x)
        assert str(jax.typeof(x)) in str(x)
    assert jax.device_put(A, P(reduced={'X'})).is_fully_replicated


@pytest.mark.meshes((2,))
@pytest.mark.partial
def test_several_meshes_of_some_of_the_ranks_live_at_once(mesh) -> None:
    other = jax.make_mesh((1,), ('Z',), devices=jax.devices()[1:2])
    x = jax.device_put(A, P('X'))
    y = jax.device_put(A, jax.NamedSharding(other, P('Z')))
    assert str(jax.typeof(x + 1)) == 'float32[12@X,4]' and str(jax.typeof(y * 2)) == 'float32[12@Z,4]'
    with pytest.raises(ValueError, match='different meshes'):
        x + y
    moved = jax.device_put(x, jax.NamedSharding(other, P('Z')))
    if mpi.rank() == 1:
        assert np.array_equal(moved.addressable_shards[0].data, A)
    assert len(x.addressable_shards) == (mpi.rank() < 2)


@pytest.mark.ranks(2)
def test_meshes_and_specs_that_cannot_be_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match='needs 6 ranks, there are 2.*mpirun -n 6'):
        jax.make_mesh((2, 3), ('X', 'Y'))
    with pytest.raises(NotImplementedError, match='no Auto axes'):
        jax.make_mesh((2,), ('X',), (jax.AxisType.Auto,))
    with pytest.raises(ValueError, match='needs a mesh'):
        jax.device_put(A, P('X'))
    jax.set_mesh(jax.make_mesh((2,), ('X',)))
    with pytest.raises(ValueError, match='evenly'):
        jax.device_put(A[:3], P('X'))
    with pytest.raises(ValueError, match="'Z'"):
        jax.reshard(jax.device_put(A, P()), P('Z'))
    with pytest.raises(jax.DuplicateSpecError):
        jax.device_put(A, P('X', 'X'))


@pytest.mark.ranks(1, 2)
def test_set_mesh_is_a_call_and_a_context() -> None:
    one, two = (jax.make_mesh((1,), (name,)) for name in 'XY')
    jax.set_mesh(one)
    with jax.set_mesh(two):
        assert jax.get_mesh() is two
        assert str(jax.typeof(jnp.zeros(4, out_sharding=P('Y')))) == 'float32[4@Y]'
    assert jax.get_mesh() is one


@pytest.mark.ranks(1)
def test_a_single_process_is_one_rank() -> None:
    assert (jax.process_count(), jax.process_index(), jax.device_count()) == (1, 0, 1)
    x = jnp.asarray([1.0, 2.0])
    assert repr(x) == 'Array([1., 2.], dtype=float32)' and f"{x[0]:.1f}" == '1.0' and x.tolist() == [1, 2]
    with pytest.raises(TypeError, match=r'\.at\['):
        x[0] = 3
