"""Sizes that do not divide, data that must move, buffers of every kind, the same bits everywhere."""

from __future__ import annotations

import hashlib
import traceback

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.config import config
from distad.runtime import recorder
from tests.complaints.preamble import P, fails, full, mesh, put


@pytest.mark.ranks(2)
@pytest.mark.parametrize('dtype', ['bool', 'int8', 'int32', 'float16', 'bfloat16', 'float32', 'complex64'])
def test_buffers_of_every_dtype_are_gathered_and_summed(dtype: str) -> None:
    mesh(2)
    dt = jnp.bfloat16 if dtype == 'bfloat16' else np.dtype(dtype)
    v = (np.arange(4) % 3).astype(dt)
    a = put(v, 'X')
    assert a.dtype == dt and full(a).astype('c8').tolist() == v.astype('c8').tolist()
    if dtype != 'bool':
        assert full(a.sum()).astype('c8') == v.astype('c8').sum()
        u = jax.reshard(a, P(unreduced={'X'}))
        assert full(u).dtype == dt and full(jax.reshard(u, P('X'))).astype('c8').tolist() == v.astype('c8').tolist()
    else:
        assert full(a.sum()) == 2


@pytest.mark.ranks(2)
def test_strided_fortran_ordered_empty_and_0d_buffers() -> None:
    mesh(2)
    x = put(np.arange(12.).reshape(4, 3), 'X', None)
    f = put(np.asfortranarray(np.arange(8.).reshape(4, 2)), 'X', None)
    np.testing.assert_array_equal(full(x.T), np.arange(12.).reshape(4, 3).T)
    assert full(x.T.sum(1)).tolist() == [18., 22., 26.]
    assert full(x[:, ::-1][:, 1:].sum(0)).tolist() == [22., 18.]
    assert full(f).tolist() == [[0., 1.], [2., 3.], [4., 5.], [6., 7.]] and full(f)[1, 0] == 2.
    assert full(x[:, :0]).shape == (4, 0) and full(x[:, :0].sum(0)).shape == (0,)
    assert full(jax.reshard(x.sum(), P(unreduced={'X'}))) == 66.


@pytest.mark.ranks(2, 4)
def test_the_same_bits_on_every_rank_and_in_every_run() -> None:
    n = jax.device_count()
    mesh(n)
    v = np.array([1e8, 1., -1e8, 1.], np.float32)[:, None] * np.linspace(1, 2, 1000, dtype=np.float32)
    total = lambda: put(v, 'X', None).sum(0)
    a = total()
    digest = hashlib.sha1(np.asarray(a.addressable_shards[0].data).tobytes()).digest()[:4]
    mine = np.frombuffer(digest, np.uint8).astype(np.int32)[None]
    sharding = jax.NamedSharding(jax.sharding.get_mesh(), P('X', None))
    digests = full(jax.make_array_from_single_device_arrays((n, 4), sharding, [mine]))
    assert (digests == digests[0]).all()
    for _ in range(5):
        np.testing.assert_array_equal(full(total()), full(a))


@pytest.mark.ranks(2)
def test_a_size_that_does_not_divide_is_refused_on_all_ranks() -> None:
    mesh(2)
    fails('ValueError', 'divi', lambda: put(np.ones((2, 3)), None, 'X'))
    fails('ValueError', 'divi', lambda: jax.reshard(put(np.ones(3)), P('X')))
    assert full(put(np.arange(4.), 'X')).tolist() == [0., 1., 2., 3.]  # the ranks are still in step


@pytest.mark.ranks(2)
def test_reshapes_and_slices_of_sharded_dimensions_are_right_or_refused() -> None:
    mesh(2)
    a = np.arange(96.).reshape(12, 8)
    columns, rows, vector = put(a, None, 'X'), put(a, 'X', None), put(a[:4, 0], 'X')
    cases = [(columns, lambda a: a.reshape(16, 6)), (columns, lambda a: a.reshape(-1)), (rows, lambda a: a.reshape(-1)),
             (rows, lambda a: a.reshape(4, 3, 8)), (rows, lambda a: a.reshape(3, 4, 8)), (vector, lambda a: a[1:4]),
             (vector, lambda a: a[2:]), (vector, lambda a: a[::-1])]
    for x, f in cases:
        want = f(full(x))
        try:
            r = f(x)
        except jax.ShardingTypeError:
            continue
        np.testing.assert_array_equal(full(r), want)
    assert str(jax.typeof(rows.reshape(-1))) == 'float32[96@X]'


@pytest.mark.ranks(2)
def test_a_type_error_shows_the_users_line() -> None:
    mesh(2)
    c = put(np.ones(2), unreduced={'X'})

    def model(c):
        return jnp.cos(c)

    for f in (model, jax.jit(model)):
        with pytest.raises(jax.ShardingTypeError) as caught:
            f(c)
        text = ''.join(traceback.format_exception(caught.value))
        assert 'in model' in text and 'cos' in text and '{U:X}' in text
        assert sum('distad/' in line for line in text.splitlines()) <= 4, text


@pytest.mark.ranks(2)
@pytest.mark.parametrize('exact', [False, True])
def test_more_than_one_mpi_call_takes_is_sent_in_parts(exact: bool) -> None:
    """The limit is lowered to 64 bytes: values stay, and what is counted is one collective each."""
    mesh(2)
    whole = np.arange(4 * 37., dtype=np.float32).reshape(4, 37)
    x = put(whole, 'X', None)

    def over_x(f, out):
        return jax.shard_map(f, in_specs=P('X', None), out_specs=out)(x)

    with config.override(max_message_bytes=64), recorder.count() as counted:
        total = over_x(lambda v: lax.psum(v, 'X', exact=exact), P())
        rows = over_x(lambda v: lax.psum_scatter(v, 'X', tiled=True, exact=exact), P('X'))
        gathered = over_x(lambda v: lax.all_gather(v, 'X', tiled=True), P('X', None))
        exchanged = over_x(lambda v: lax.all_to_all(v, 'X', 0, 0, tiled=True), P('X', None))
        turned = over_x(lambda v: lax.ppermute(v, 'X', [(0, 1), (1, 0)]), P('X', None))
    assert counted.by_op == dict.fromkeys(('all-reduce', 'reduce-scatter', 'all-gather', 'all-to-all', 'collective-permute'), 1)
    np.testing.assert_array_equal(full(total), whole[:2] + whole[2:])
    np.testing.assert_array_equal(full(rows), whole[:2] + whole[2:])
    np.testing.assert_array_equal(full(gathered), np.concatenate([whole, whole]))
    np.testing.assert_array_equal(full(exchanged), whole[[0, 2, 1, 3]])
    np.testing.assert_array_equal(full(turned), whole[[2, 3, 0, 1]])
