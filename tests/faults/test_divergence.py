"""DISTAD_CHECK=comm: what ranks do or hold differently is an error on all of them, before anything is sent, and they stay in step."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.config import config
from distad.errors import DisagreementError
from distad.runtime import collectives, mpi
from distad.runtime.recorder import Where, count

P = jax.P
pytestmark = pytest.mark.meshes((2,))


@pytest.fixture(autouse=True)
def checked():
    with config.override(check='comm'):
        yield


def x_group(mesh):
    return mpi.group(mesh, ('X',))


def refused(f, *parts):
    """The message, which is the same on all ranks and has these parts."""
    with count() as sent, pytest.raises(DisagreementError) as caught:
        f()
    text = str(caught.value)
    assert len(set(collectives.agree(mpi.world(), text.encode()))) == 1
    for part in parts:
        assert part in text, text
    assert 'Nothing was sent' in text or not sent.total
    return text


def test_other_operations(mesh):
    ones = np.ones(3, np.float32)
    text = refused(lambda: (collectives.all_gather if mpi.rank() else collectives.all_reduce)(x_group(mesh), ones),
                   'rank 0: all-reduce over X, 12 B float32, at ', 'rank 1: all-gather over X, 12 B float32, at ')
    assert text.count('test_divergence.py:') == 2


def test_other_dtypes_and_sizes_and_orders(mesh):
    g = x_group(mesh)
    refused(lambda: collectives.all_reduce(g, np.ones(3, (np.int32, np.float32)[mpi.rank()])), '12 B int32', '12 B float32')
    refused(lambda: collectives.all_reduce(g, np.ones(3 + mpi.rank(), np.int8)), '3 B int8', '4 B int8')

    def swapped():
        for size in (2, 3) if mpi.rank() else (3, 2):
            collectives.all_reduce(g, np.ones(size, np.int8))
    refused(swapped, 'rank 0: all-reduce over X, 3 B', 'rank 1: all-reduce over X, 2 B')


def test_other_shapes_of_as_many_elements(mesh):
    summand = jax.reshard(jnp.ones((2, 3) if mpi.rank() else (3, 2)), P(unreduced={'X'}))
    refused(lambda: jax.reshard(summand, P()), 'rank 0: all-reduce of float32[3,2]{U:X} over X',
            'rank 1: all-reduce of float32[2,3]{U:X} over X')


def test_alike_calls_from_different_lines(mesh):
    def branch():
        if mpi.rank():
            collectives.all_reduce(x_group(mesh), np.ones(3))
        else:
            collectives.all_reduce(x_group(mesh), np.ones(3))
    refused(branch, 'alike and would have passed, but from different lines')


def test_a_collective_beside_an_agreement(mesh):
    def f():
        if mpi.rank():
            jax.jit(lambda x: x + 1)(x)
        else:
            jax.reshard(x, P())
    x = jax.device_put(np.arange(4.), P('X'))
    refused(f, 'rank 0: all-gather of float32[4@X] over X', 'rank 1: an agreement over X, at ')


def test_blocks_of_different_sizes_are_sent_on(mesh):
    g, where = x_group(mesh), Where('', 'somewhere')
    blocks = [np.ones(2 - mpi.rank(), np.int8)] * 2
    came = collectives.all_to_all_v(g, blocks, [(2,), (1,)], where=where)
    assert [part.tolist() for part in came] == [[1, 1], [1]]


def test_values_that_are_put(mesh):
    rank = mpi.rank()
    text = refused(lambda: jax.device_put(np.full(3, 1. + rank), P()), 'device_put: the value should be the same on all ranks along X')
    assert 'first in element [0]: 1.0 on rank 0; 2.0 on rank 1' in text
    big = np.zeros((300, 200))
    big[222, 111] = rank
    refused(lambda: jax.device_put(big, P('X')), 'first in element [222, 111]: 0.0 on rank 0; 1.0 on rank 1')
    refused(lambda: jax.device_put(np.zeros(2 + 2 * rank), P('X')), 'float32[2] on rank 0; float32[4] on rank 1')
    refused(lambda: jax.device_put(np.array([0., -0.])[rank], P()), '0.0 on rank 0; -0.0 on rank 1')
    assert np.asarray(jax.device_put(np.full(3, np.nan), P())).shape == (3,)


def test_values_at_the_boundary_of_a_program(mesh):
    bad = jax.make_array_from_callback((3,), jax.NamedSharding(mesh, P(reduced={'X'})), lambda i: np.full(3, mpi.rank(), np.float32))
    good = jax.device_put(np.arange(4.), P('X'))
    double = jax.jit(lambda a, b: (a * 2, b))
    refused(lambda: double(good, bad), 'jit(<lambda>): argument 1 float32[3]{R:X} should be the same', '0.0 on rank 0; 1.0 on rank 1')
    refused(lambda: double(good, np.float32(mpi.rank())), 'argument 1 float32[]')
    assert np.asarray(jax.reshard(double(good, jnp.ones(3))[0], P())).tolist() == [0, 2, 4, 6]


def test_nothing_is_compared_otherwise(mesh):
    with config.override(check=''):
        kept = jax.device_put(np.full(3, 1. + mpi.rank()), P())
    assert np.asarray(kept)[0] == 1 + mpi.rank()
