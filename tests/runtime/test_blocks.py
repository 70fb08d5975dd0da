"""Blocks: where they lie, and that cutting and assembling undo each other."""

import numpy as np
import pytest

from distad.runtime import blocks
from distad.types.array_type import ArrayType
from distad.types.dtypes import KEY
from tests.runtime.meshes import mesh_of, types_on

MESH = mesh_of((2, 3))
T = ArrayType((12, 6), np.float32).update(mesh=MESH.abstract_mesh)


def test_the_first_axis_of_a_dimension_is_major():
    t = T.update(partitions=(('X', 'Y'), ()))
    starts = {(x, y): blocks.index_of(t, {'X': x, 'Y': y})[0].start for x in range(2) for y in range(3)}
    assert starts == {(0, 0): 0, (0, 1): 2, (0, 2): 4, (1, 0): 6, (1, 1): 8, (1, 2): 10}
    t = T.update(partitions=(('Y', 'X'), ()))
    assert blocks.index_of(t, {'X': 1, 'Y': 0}) == (slice(2, 4), slice(0, 6))


@pytest.mark.parametrize('sizes, shape', [
    ((2,), (2, 4)), ((2, 2), (4, 8)), ((3,), (3, 6)), ((1, 2), (2, 4)), ((2, 3), (6, 12))])
def test_cut_and_assemble(sizes, shape):
    mesh = mesh_of(sizes)
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    for t in types_on(mesh.abstract_mesh, shape):
        parts = {r: blocks.cut(value, t, mesh, r) for r in mesh.ranks}
        assert all(p.shape == t.local_shape for p in parts.values())
        np.testing.assert_array_equal(blocks.assemble(parts, t, mesh), value)


def test_a_whole_block_is_no_copy():
    value = np.ones((12, 6), np.float32)
    assert blocks.cut(value, T, MESH, 4) is value
    assert blocks.cut(value, T.update(unreduced={'X'}), MESH, 0) is value


def test_unreduced_keeps_the_value_on_the_first_rank_and_max_keeps_copies():
    mesh = mesh_of((2,))
    t = ArrayType((2,), np.float32).update(mesh=mesh.abstract_mesh, unreduced={'X'})
    value = np.array([-3, 5], np.float32)
    np.testing.assert_array_equal(blocks.cut(value, t, mesh, 0), value)
    np.testing.assert_array_equal(blocks.cut(value, t, mesh, 1), [0, 0])
    t = t.update(kind='max')
    np.testing.assert_array_equal(blocks.cut(value, t, mesh, 1), value)
    np.testing.assert_array_equal(blocks.assemble({0: value, 1: value - 1}, t, mesh), value)


def test_ranks_in_another_order():
    mesh = mesh_of((2,), [1, 0])
    t = ArrayType((4,), np.int32).update(mesh=mesh.abstract_mesh, partitions=(('X',),))
    np.testing.assert_array_equal(blocks.cut(np.arange(4, dtype=np.int32), t, mesh, 0), [2, 3])


def test_keys_and_scalars():
    mesh = mesh_of((2,))
    key = np.array([(1, 2), (3, 4)], KEY)
    t = ArrayType((2,), KEY).update(mesh=mesh.abstract_mesh, partitions=(('X',),))
    parts = {r: blocks.cut(key, t, mesh, r) for r in (0, 1)}
    np.testing.assert_array_equal(blocks.assemble(parts, t, mesh), key)
    scalar = ArrayType((), np.float32).update(mesh=mesh.abstract_mesh, unreduced={'X'})
    parts = {r: blocks.cut(np.float32(7), scalar, mesh, r) for r in (0, 1)}
    assert blocks.assemble(parts, scalar, mesh) == 7
