"""Collectives against NumPy: every dtype, NaN, scalars, empty arrays, any layout, groups of one."""

import ml_dtypes
import numpy as np
import pytest

from distad.config import config
from distad.runtime import collectives, mpi, recorder
from distad.runtime.permute import permute
from distad.types.dtypes import KEY, bfloat16, float0

NUMBERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, bfloat16,
           np.float32, np.float64, np.complex64, np.complex128]
MESHES = pytest.mark.meshes((1,), (2,), (3,), (4,))


def group(mesh):
    return mpi.group(mesh, ('X',))


def everyone(mesh, shape, dtype) -> list[np.ndarray]:
    """What each rank brings."""
    return [np.random.default_rng(r).integers(0, 9, shape).astype(dtype) for r in mesh.ranks]


@MESHES
@pytest.mark.parametrize('dtype', NUMBERS, ids=str)
@pytest.mark.parametrize('kind', ['sum', 'max', 'min'])
def test_all_reduce(mesh, dtype, kind):
    for shape in [(3, 5), (), (0, 2)]:
        xs = everyone(mesh, shape, dtype)
        out = collectives.all_reduce(group(mesh), xs[mpi.rank()], kind)
        assert out.dtype == dtype and out.shape == shape
        expected = {'sum': np.add, 'max': np.maximum, 'min': np.minimum}[kind].reduce(np.stack(xs), axis=0)
        np.testing.assert_array_equal(out.astype(np.complex128), expected.astype(np.complex128))


@pytest.mark.meshes((2,), (3,))
@pytest.mark.parametrize('dtype', [np.float32, np.float16, np.bool_], ids=str)
@pytest.mark.parametrize('given', [False, True])
def test_a_large_sum_goes_in_pieces_and_counts_once(mesh, dtype, given, monkeypatch):
    monkeypatch.setattr(collectives, '_PIECE', 64)
    xs = everyone(mesh, (7, 31), dtype)
    x = xs[mpi.rank()].copy()
    for operand in (x, np.asfortranarray(x)):
        with recorder.count() as c:
            out = collectives.all_reduce(group(mesh), operand.copy(order='K'), given=given)
        np.testing.assert_array_equal(out, np.add.reduce(np.stack(xs), axis=0).astype(dtype))
        sent = {np.float32: 868, np.float16: 868, np.bool_: 217}[dtype]           # half types travel as float32
        assert c.by_op == {'all-reduce': 1} and c.bytes == sent
        assert recorder.recent()[-1].messages == -(-sent // 64) and 'messages' in str(recorder.recent()[-1])


@pytest.mark.meshes((2,))
def test_an_operand_is_kept_unless_it_is_given(mesh):
    x = np.full(5, 1 + mpi.rank(), np.float32)
    assert collectives.all_reduce(group(mesh), x).tolist() == [3] * 5 and x[0] == 1 + mpi.rank()
    out = collectives.all_reduce(group(mesh), x, given=True)
    assert out is x and x.tolist() == [3] * 5


@MESHES
@pytest.mark.parametrize('dtype', [*NUMBERS, np.bool_, KEY, ml_dtypes.float8_e4m3fn], ids=str)
def test_moves(mesh, dtype):
    n, me = mesh.size, mpi.rank()
    for shape in [(2, 3), (), (0,)]:
        xs = [any_bits(r, (n, *shape), np.dtype(dtype)) for r in range(n)]
        same(collectives.all_gather(group(mesh), xs[me]), np.stack(xs))
        same(collectives.all_to_all(group(mesh), xs[me]), np.stack([x[me] for x in xs]))


@MESHES
@pytest.mark.parametrize('dtype', [np.float64, np.bool_, bfloat16], ids=str)
def test_gathers_along_a_dimension(mesh, dtype, monkeypatch):
    """With long runs and with short ones, in an array that is not contiguous too."""
    n, me = mesh.size, mpi.rank()
    xs = [any_bits(r, (3, 5, 2), np.dtype(dtype)) for r in range(n)]
    for least in (1, 1 << 20):
        monkeypatch.setattr(collectives, '_LONG_RUN', least)
        for dim in range(3):
            shape = tuple(size * (n if d == dim else 1) for d, size in enumerate((3, 5, 2)))
            with recorder.count() as c:
                same(collectives.all_gather_along(group(mesh), np.asfortranarray(xs[me]), dim, shape), np.concatenate(xs, dim))
            assert c.by_op == ({'all-gather': 1} if n > 1 else {}) and c.bytes == (xs[0].nbytes if n > 1 else 0)
        for dim in range(4):
            expected = np.stack(xs, dim)
            same(collectives.all_gather_along(group(mesh), xs[me], dim, expected.shape), expected)


@MESHES
def test_moves_of_unlike_sizes(mesh):
    n, me = mesh.size, mpi.rank()
    blocks = [np.full((k, me), 10 * me + k, np.int16) for k in range(n)]
    for k, block in enumerate(collectives.all_to_all_v(group(mesh), blocks, [(me, k) for k in range(n)])):
        same(block, np.full((me, k), 10 * k + me, np.int16))


def any_bits(seed: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    most = 2 if dtype.kind == 'b' else 256
    size = int(np.prod(shape)) * dtype.itemsize
    return np.random.default_rng(seed).integers(most, size=size, dtype=np.uint8).view(dtype).reshape(shape)


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Bit by bit: random bytes are NaNs as well."""
    assert got.shape == expected.shape and got.dtype == expected.dtype
    assert np.ascontiguousarray(got).tobytes() == expected.tobytes()


@MESHES
@pytest.mark.parametrize('dtype', [*NUMBERS, np.bool_], ids=str)
def test_reduce_scatter(mesh, dtype):
    for shape in [(2, 3), (), (0,)]:
        xs = everyone(mesh, (mesh.size, *shape), dtype)
        out = collectives.reduce_scatter(group(mesh), xs[mpi.rank()])
        assert out.dtype == dtype
        np.testing.assert_array_equal(out, np.add.reduce(np.stack(xs), axis=0, dtype=dtype)[mpi.rank()])


@MESHES
@pytest.mark.parametrize('kind, op', [('sum', np.any), ('max', np.any), ('min', np.all)])
def test_booleans(mesh, kind, op):
    xs = np.stack([np.array([True, False, r == 0, r == mesh.size - 1]) for r in mesh.ranks])
    out = collectives.all_reduce(group(mesh), xs[mpi.rank()], kind)
    assert out.dtype == np.bool_
    np.testing.assert_array_equal(out, op(xs, axis=0))


@MESHES
@pytest.mark.parametrize('dtype', [np.float16, bfloat16, np.float32, np.float64, np.complex64], ids=str)
@pytest.mark.parametrize('kind', ['max', 'min'])
def test_max_and_min_keep_nan(mesh, dtype, kind):
    mine = np.array([np.nan if mpi.rank() == 0 else 1, np.nan if mpi.rank() == mesh.size - 1 else 1, 2], dtype)
    out = collectives.all_reduce(group(mesh), mine, kind)
    np.testing.assert_array_equal(np.isnan(out), [True, True, False])


@pytest.mark.meshes((3,))
def test_half_precision_rounds_once(mesh):
    xs = np.array([2048, 1, 1], np.float16)  # 2048 + 1 rounds back to 2048 in float16
    assert collectives.all_reduce(group(mesh), xs[mpi.rank()]) == 2050


@MESHES
def test_any_layout(mesh):
    xs = everyone(mesh, (4, 6), np.float32)
    mine = xs[mpi.rank()]
    for view in (lambda x: x.T, lambda x: x[::2, 1:], lambda x: np.broadcast_to(x[:1], (4, 6)), np.asfortranarray):
        expected = np.sum([view(x) for x in xs], axis=0)
        np.testing.assert_array_equal(collectives.all_reduce(group(mesh), view(mine)), expected)
        np.testing.assert_array_equal(collectives.all_gather(group(mesh), view(mine)), np.stack([view(x) for x in xs]))
    frozen = mine.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(collectives.all_reduce(group(mesh), frozen), np.sum(xs, axis=0))
    np.testing.assert_array_equal(frozen, mine)


@pytest.mark.meshes((2,))
def test_keys_have_no_sum(mesh):
    with pytest.raises(TypeError, match='no sum of key<fry>'):
        collectives.all_reduce(group(mesh), np.zeros(3, KEY))


@pytest.mark.meshes((2,))
def test_what_has_nothing_to_send_is_not_counted(mesh):
    with recorder.count() as c:
        collectives.all_reduce(group(mesh), np.zeros((0, 3), np.float32))
        collectives.all_gather(group(mesh), np.zeros(3, float0))
        collectives.all_reduce(mpi.group(mesh, ()), np.ones(3, np.float32))
    assert c.total == 0


@MESHES
def test_agree(mesh):
    mine = bytes([mpi.rank()]) * (3 * mpi.rank())
    with recorder.count() as c:
        got = collectives.agree(group(mesh), mine)
    assert got == [bytes([r]) * (3 * r) for r in mesh.ranks] and c.total == 0


@pytest.mark.meshes((2, 2))
def test_groups(mesh):
    me = mesh.coords(mpi.rank())
    for axes in [('X',), ('Y',), ('X', 'Y'), ('Y', 'X')]:
        g = mpi.group(mesh, axes)
        index = 0
        for name in axes:
            index = 2 * index + me[name]
        assert (g.size, g.index) == (2**len(axes), index)
        places = collectives.all_gather(g, np.array([me[name] for name in axes]))
        assert places.tolist() == sorted(places.tolist())  # row-major in the order of the axes
    assert mpi.group(mesh, ('X',)) is mpi.group(mesh, ('X',))


@pytest.mark.meshes((2,))
def test_a_collective_is_given_up(mesh, monkeypatch):
    """By what a watcher raises while the rank waits, as the harness of the tests does. (The deadline: tests/faults.)"""
    g = group(mesh)
    before = g.channel.calls
    if mpi.rank() == 0:
        monkeypatch.setattr(mpi.started(), 'watchers', [lambda: 1 / 0])
        with pytest.raises(ZeroDivisionError):
            collectives.all_reduce(g, np.ones(3, np.float32))
        monkeypatch.undo()
        assert len(g.channel.given_up) == 1
    else:
        g.channel.calls += 1
    mpi.reset()
    fresh = group(mesh)
    assert fresh is not g and fresh.channel.calls == 0 and g.channel.calls == before + 1
    assert collectives.all_reduce(fresh, np.float32(1)) == 2


@MESHES
def test_a_small_sum_is_the_same_each_time_and_from_any_line(mesh):
    """MPI prepares it after the first time: what one rank finds prepared, all do."""
    g, me = group(mesh), mpi.rank()
    expected = [sum(range(mesh.size)) * k for k in (1, 2, 3)]
    for turn in range(3):
        assert collectives.all_reduce(g, np.arange(1, 4, dtype=np.int16) * me).tolist() == expected
        if me % 2 == 0:
            out = collectives.all_reduce(g, np.arange(1, 4, dtype=np.int16) * me)
        else:
            out = collectives.all_reduce(g, np.arange(1, 4, dtype=np.int16) * me, given=turn == 1)
        assert out.tolist() == expected
        with config.override(max_message_bytes=2):
            assert collectives.all_reduce(g, np.arange(1, 4, dtype=np.int16) * me).tolist() == expected
    assert collectives.all_reduce(g, np.array([True, False]) if me else np.array([False, False])).tolist() == [mesh.size > 1, False]
    assert collectives.all_reduce(g, np.array([me, -me], np.float16), 'max').tolist() == [mesh.size - 1, 0]


@pytest.mark.meshes((2,))
def test_many_small_sums(mesh):
    """Few of them are prepared."""
    for _ in range(2):
        for size in range(1, 100):
            assert collectives.all_reduce(group(mesh), np.full(size, 1 + mpi.rank(), np.int8)).tolist() == [3] * size


@pytest.mark.meshes((3,))
def test_a_rank_that_keeps_its_block_takes_part_in_a_permutation(mesh):
    """Collectives are told apart by their numbers, which have to be the same on all ranks."""
    group = mpi.group(mesh, ('X',))
    with config.override(check='comm'), recorder.count() as counted:
        got = permute(group, np.full(2, mpi.rank(), np.float32), [(0, 0), (1, 2), (2, 1)])
        collectives.all_reduce(group, np.ones(2))
    assert got.tolist() == [[0., 2., 1.][mpi.rank()]] * 2
    assert counted.by_op == {'collective-permute': 1, 'all-reduce': 1}
    assert len(set(collectives.agree(group, str(recorder.recent()[-1].call).encode()))) == 1
