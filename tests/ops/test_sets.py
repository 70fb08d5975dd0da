"""Arrays as sets: NumPy's values, sizes that are given, split arrays refused with what mends it."""

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import distad as jax
import distad.numpy as jnp
from distad.errors import ShardingTypeError
from tests.ops.arrays import get, placements, put

MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
EVERY = {'return_index': True, 'return_inverse': True, 'return_counts': True}


def same(got, want) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert_array_equal(g, w)


@pytest.mark.parametrize('axis', [None, 0, 1, -1])
@pytest.mark.parametrize('dtype', ['f4', 'i4', 'c8', '?'])
def test_unique(axis, dtype):
    x = np.random.default_rng(0).integers(0, 2, (5, 3, 4)).astype(dtype)
    want = [*np.unique(x, **EVERY, axis=axis)]
    want[2] = want[2].reshape(x.shape if axis is None else (-1,))           # as in NumPy 2.1
    same(jnp.unique(x, **EVERY, axis=axis), want)
    same(jnp.unique_all(x), np.unique(x, **EVERY))
    same(jnp.unique_counts(x), np.unique(x, return_counts=True))
    assert_array_equal(jnp.unique_values(x)[jnp.unique_inverse(x).inverse_indices], x)


def test_unique_of_a_given_size():
    x = np.array([[1, 2], [1, 2], [0, 3]])
    same(jnp.unique(x, **EVERY, axis=0, size=4), ([[0, 3], [1, 2], [0, 3], [0, 3]], [2, 0, 2, 2], [1, 1, 0], [1, 2, 0, 0]))
    assert_array_equal(jax.jit(lambda x: jnp.unique(x, axis=0, size=3, fill_value=9))(x), [[0, 3], [1, 2], [9, 9]])
    assert_array_equal(jax.jit(lambda x: jnp.unique(x, axis=1, size=3, fill_value=9))(x), [[1, 2, 9], [1, 2, 9], [0, 3, 9]])
    assert_array_equal(jnp.union1d(np.array([3, 1]), np.array([1, 2])), [1, 2, 3])
    assert jnp.unique(jnp.zeros((0, 2)), axis=0).shape == (0, 2)


def test_nan():
    x = np.float32([np.nan, 1, np.nan])
    same(jnp.unique(x, **EVERY), ([1, np.nan], [1, 0], [1, 0, 1], [1, 2]))
    same(jnp.unique(x, **EVERY, equal_nan=False), ([1, np.nan, np.nan], [1, 0, 2], [1, 0, 2], [1, 1, 1]))
    assert jnp.unique(np.stack([x, x]), axis=0).shape == (1, 3)


def test_values_of_a_batch():
    x = np.random.default_rng(1).integers(0, 3, (4, 6))
    got = jax.vmap(lambda x: jnp.unique(x, size=4, fill_value=-1))(x)
    assert_array_equal(got, [np.pad(np.unique(row), (0, 4 - np.unique(row).size), constant_values=-1) for row in x])
    got = jax.vmap(lambda x: jnp.nonzero(x, size=6, fill_value=-1)[0])(x)
    assert_array_equal(got, [np.pad(np.flatnonzero(row), (0, 6 - np.count_nonzero(row)), constant_values=-1) for row in x])


@MESHES
def test_split_arrays_are_refused(mesh):
    x = np.arange(144, dtype='f4').reshape(12, 12) % 7
    for t in placements(x.shape, mesh):
        value = put(x, t, mesh)
        for f, want in ((jnp.unique, np.unique), (jnp.nonzero, np.nonzero),
                        (lambda x: jnp.unique(x, axis=1), lambda x: np.unique(x, axis=1))):
            if not any(t.partitions) and not t.unreduced:
                same(f(value), want(x))
                continue
            with pytest.raises(ShardingTypeError) as error:
                f(value)
            repair = re.search(r'reshard\(x, (P\(None, .*\))\)', str(error.value))
            same(f(jax.reshard(value, eval(repair[1], {'P': jax.P}))), want(x))


@MESHES
def test_membership_however_elements_lie(mesh):
    x, others = np.arange(24).reshape(12, 2) % 5, np.array([3, 1, 9])
    for t in placements(x.shape, mesh, 'int32'):
        if not t.unreduced:
            found = jnp.isin(put(x, t, mesh), others)
            assert found.type.partitions == t.partitions
            assert_array_equal(get(found, mesh), np.isin(x, others))
    assert_array_equal(jnp.isin(x, np.zeros(0, int), invert=True), np.ones_like(x, bool))
