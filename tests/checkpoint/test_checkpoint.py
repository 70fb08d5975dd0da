"""Checkpoints on the ranks of this run: what is in the files, what comes back, what is refused, what a failure leaves."""

import json
import os
import re
import resource
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import checkpoint, errors
from distad.checkpoint import manifest
from distad.debug import count_collectives
from distad.runtime import collectives, files, mpi, mpi_io
from distad.types.dtypes import bfloat16

P = jax.P
MEMORY = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None                # no waiting for a disk
LINES = pytest.mark.meshes((1,), (2,), (3,), (4,))


@pytest.fixture
def folder():
    """One folder for all ranks, which is not there yet."""
    mine = tempfile.mkdtemp(prefix='distad-', dir=MEMORY) if mpi.rank() == 0 else ''
    base = collectives.agree(mpi.world(), mine.encode())[0].decode()
    yield os.path.join(base, 'run')
    collectives.agree(mpi.world(), b'')
    if mpi.rank() == 0:
        shutil.rmtree(base, ignore_errors=True)


def on_first(action):
    """Rank 0 does it, and then all go on."""
    if mpi.rank() == 0:
        action()
    collectives.agree(mpi.world(), b'')


def listed(folder):
    return sorted(os.listdir(folder))


def step_file(folder, step, name):
    return Path(folder, f'step-{step:08d}', name)


def values(mesh):
    n = mesh.size
    rng = np.random.default_rng(0)
    return {'f': rng.standard_normal((6 * n, 5)).astype('f4'), 'h': np.arange(2 * n).astype(bfloat16), 'i': np.arange(-3, 9 * n - 3),
            'c': (rng.standard_normal((4, 2 * n)) * 1j).astype('c8'), 'b': rng.random((3, 2 * n, 2)) < 0.5, 's': np.float16(2.5),
            'none': np.zeros((0, n), 'u1')}


PLACES = {'f': P('X'), 'h': P('X'), 'i': P('X'), 'c': P(None, 'X'), 'b': P(None, 'X'), 's': P(), 'none': P(None, 'X')}


@LINES
def test_what_is_saved_comes_back_and_plain_numpy_reads_it(mesh, folder):
    whole = values(mesh)
    arrays = jax.device_put(whole, PLACES)
    checkpoint.save(folder, arrays, step=7)
    back = checkpoint.restore(folder, like=arrays)
    for name, x in whole.items():
        y = back[name]
        assert jax.typeof(y) == jax.typeof(arrays[name]) and y.mesh == mesh
        np.testing.assert_array_equal(jax.process_allgather(y), np.asarray(x, y.dtype))
        stored = np.load(step_file(folder, 7, f'{name}.npy'))
        np.testing.assert_array_equal(stored.view(bfloat16) if name == 'h' else stored, np.asarray(x, y.dtype))
    assert listed(Path(folder, 'step-00000007')) == sorted(['manifest.json', *(f'{name}.npy' for name in whole)])
    said = json.loads(step_file(folder, 7, 'manifest.json').read_text())
    assert said['step'] == 7 and [leaf['path'] for leaf in said['leaves']] == [f"['{name}']" for name in sorted(whole)]
    assert {leaf['path']: leaf['type'] for leaf in said['leaves']}["['f']"] == str(jax.typeof(arrays['f']))


@LINES
def test_files_are_those_that_numpy_writes(mesh, folder, tmp_path):
    x = np.arange(24 * mesh.size, dtype='f4').reshape(4, -1)
    for spec in (P(), P(None, 'X')):
        checkpoint.save(folder, jax.device_put(x, spec))
        np.save(tmp_path / 'x.npy', x)
        assert step_file(folder, checkpoint.latest_step(folder), 'value.npy').read_bytes() == (tmp_path / 'x.npy').read_bytes()


@LINES
def test_keys_numbers_and_host_arrays(mesh, folder):
    state = {'key': jax.random.key(5), 'keys': jax.random.split(jax.random.key(1), 3), 'step': 2 ** 40, 'rate': 0.1, 'on': True,
             'z': 1j, 'host': np.arange(3.), 'placed': jnp.arange(3), 'tuple': (np.int8(1), [None, np.float64(np.pi)])}
    checkpoint.save(folder, state)
    back = checkpoint.restore(folder, like=jax.tree.map(
        lambda x: x if isinstance(x, jax.Array) else type(x)(0) if np.isscalar(x) else 0 * x, state))
    assert (back['step'], back['rate'], back['on'], back['z']) == (2 ** 40, 0.1, True, 1j)
    assert [type(back[k]) for k in ('step', 'rate', 'on', 'z')] == [int, float, bool, complex]
    assert isinstance(back['host'], np.ndarray) and back['host'].dtype == np.float64 and back['host'].tolist() == [0, 1, 2]
    assert back['tuple'][0] == 1 and back['tuple'][1][1] == np.pi
    assert jax.random.bits(back['key']) == jax.random.bits(state['key'])
    assert np.array_equal(jax.random.key_data(back['keys']), jax.random.key_data(state['keys']))
    words = np.load(step_file(folder, 0, 'key.npy'))
    assert (words['hi'], words['lo']) == (0, 5)


@pytest.mark.meshes((1,), (2,), (3,), (4,), (2, 2), (1, 3))
def test_any_placement_becomes_any_other_whatever_the_pieces(mesh, folder, monkeypatch):
    monkeypatch.setattr(files, 'PIECE', 200)
    x = np.random.default_rng(1).standard_normal((12, 12, 2)).astype('f4')
    axes = mesh.axis_names
    specs = [P(), P(axes[0]), P(None, axes[-1]), P(axes), P(axes[0], axes[1]) if len(axes) > 1 else P(None, axes[0])]
    for step, spec in enumerate(specs):
        checkpoint.save(folder, {'x': jax.device_put(x, spec)}, step=step)
        for other in (*specs, P(reduced={axes[0]})):
            like = {'x': jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=jax.NamedSharding(mesh, other))}
            y = checkpoint.restore(folder, like, step=step)['x']
            assert jax.typeof(y).spec == jax.typeof(jax.device_put(x, other)).spec
            np.testing.assert_array_equal(jax.process_allgather(y), x)


@pytest.mark.ranks(2, 3, 4)
def test_a_mesh_of_some_ranks(folder):
    n = mpi.size()
    some = jax.make_mesh((n - 1,), ('A',), devices=jax.devices()[1:])
    whole = jax.make_mesh((n,), ('B',))
    x = np.arange(float(n * (n - 1)), dtype='f4')
    checkpoint.save(folder, jax.device_put(x, jax.NamedSharding(some, P('A'))))
    for mesh, spec in ((some, P()), (some, P('A')), (whole, P('B'))):
        y = checkpoint.restore(folder, jax.device_put(0 * x, jax.NamedSharding(mesh, spec)))
        assert y.mesh == mesh and (y.block is None) == (mpi.rank() not in mesh.ranks)
        if y.block is not None:
            np.testing.assert_array_equal(jax.process_allgather(y), x)


@LINES
def test_each_rank_writes_its_block_and_nothing_is_gathered(mesh, folder, monkeypatch):
    wrote, said = [], []
    write, agree = files.write, collectives.agree
    monkeypatch.setattr(files, 'write', lambda *call: wrote.append(call[-1].nbytes) or write(*call))
    monkeypatch.setattr(collectives, 'agree', lambda group, data: said.append(len(data)) or agree(group, data))
    x = {'split': jax.device_put(np.ones((8 * mesh.size, 1000), 'f4'), P('X')), 'a': jnp.ones(3000), 'b': jnp.ones(3000)}
    with count_collectives() as sent:
        checkpoint.save(folder, x)
        checkpoint.restore(folder, x)
    assert sent.total == 0 and sum(said) < 4000
    totals = [int(t) for t in agree(mpi.world(), str(sum(wrote)).encode())]
    assert sum(totals) == 32000 * mesh.size + 24000 and max(totals) - min(totals) <= 24000
    assert mesh.size == 1 or max(totals) < 32000 + 24000                      # the two copies are not written by one rank


@pytest.mark.meshes((1,), (2,), (3,))
def test_unreduced_arrays_are_refused_and_the_repair_works(mesh, folder):
    x = jax.device_put(np.ones(2), P(unreduced={'X'}))
    with pytest.raises(errors.ShardingTypeError, match=r"leaf \['g'\] has type float32\[2\]\{U:X\}.*Reduce it first: reshard\(x, P"):
        checkpoint.save(folder, {'g': x})
    assert not os.path.exists(folder)
    checkpoint.save(folder, {'g': jax.reshard(x, P())})
    with pytest.raises(errors.ShardingTypeError, match=r"leaf \['g'\] of like has type float32\[2\]\{U:X\}"):
        checkpoint.restore(folder, like={'g': x})


@LINES
def test_steps_and_how_many_stay(mesh, folder):
    assert checkpoint.latest_step(folder) is None
    for expected in range(3):
        checkpoint.save(folder, {'x': jnp.full(2, expected)})
        assert checkpoint.latest_step(folder) == expected
    with pytest.raises(errors.CheckpointError, match='step 1 is there already'):
        checkpoint.save(folder, {'x': jnp.zeros(2)}, step=1)
    assert float(checkpoint.restore(folder, {'x': jnp.zeros(2, 'i4')}, step=1)['x'][0]) == 1
    checkpoint.save(folder, {'x': jnp.zeros(2)}, step=123456789, keep=2)
    assert listed(folder) == ['step-00000002', 'step-123456789']
    checkpoint.save(folder, {'x': jnp.zeros(2)}, step=9, keep=2)               # of the others the latest
    assert listed(folder) == ['step-00000009', 'step-123456789']
    checkpoint.save(folder, {'x': jnp.zeros(2)}, step=10, keep=1)
    assert listed(folder) == ['step-00000010']


def damaged(folder, x):
    """Ways to spoil step 1, each with what must be said of it."""
    def cut(name, size):
        return lambda: os.truncate(step_file(folder, 1, name), size)

    def flip(name, place):
        def change():
            with open(step_file(folder, 1, name), 'r+b') as handle:
                handle.seek(place)
                byte = handle.read(1)[0]
                handle.seek(place)
                handle.write(bytes([byte ^ 1]))
        return change

    return [(cut('x.npy', 200), r'x\.npy has been truncated: it has 200 bytes'), (cut('x.npy', 0), r'x\.npy has been truncated'),
            (flip('x.npy', 128 + 5), r'x\.npy has been altered: the CRC-32 of elements \[0:\d+, 0:6\] is'),
            (flip('x.npy', -1 + 128 + x.nbytes), r'x\.npy has been altered: the CRC-32 of elements \[\d+:12, 0:6\] is'),
            (flip('x.npy', 70), r'x\.npy has been altered: its header'), (lambda: step_file(folder, 1, 'x.npy').unlink(), r'x\.npy'),
            (flip('manifest.json', 40), r'manifest\.json (has been altered|is of format|is truncated)'),
            (cut('manifest.json', 300), r'manifest\.json is truncated'), (cut('manifest.json', 0), r'manifest\.json is truncated'),
            (lambda: step_file(folder, 1, 'manifest.json').unlink(), r'manifest\.json cannot be read'),
            (lambda: step_file(folder, 1, 'manifest.json').write_text('{"format": "other", "sha256": ""}'), "of format 'other'")]


@LINES
def test_a_damaged_file_is_named_on_all_ranks_and_older_steps_are_there(mesh, folder):
    x = np.arange(72., dtype='f4').reshape(12, 6)
    state = {'x': jax.device_put(x, P('X')), 'y': jnp.ones(3)}
    checkpoint.save(folder, state, step=0)
    for spoil, said in damaged(folder, x):
        checkpoint.save(folder, state, step=1)
        on_first(spoil)
        for spec in (P('X'), P()):
            like = {'x': jax.device_put(x, spec), 'y': jnp.ones(3)}
            with pytest.raises(errors.CheckpointError) as caught:
                checkpoint.restore(folder, like)
            assert re.search(said, str(caught.value)), (said, str(caught.value))
            assert len(set(collectives.agree(mpi.world(), str(caught.value).encode()))) == 1
        np.testing.assert_array_equal(jax.process_allgather(checkpoint.restore(folder, state, step=0)['x']), x)
        on_first(lambda: shutil.rmtree(Path(folder, 'step-00000001')))


@pytest.mark.meshes((1,), (2,))
def test_leaves_that_are_not_those_of_like_are_named(mesh, folder):
    checkpoint.save(folder, {'a': jnp.ones(3), 'b': [jnp.ones((2, 2))], 'n': 3})

    def fails(like, error, text):
        with pytest.raises(error, match=text):
            checkpoint.restore(folder, like)

    fails({'a': jnp.ones(3), 'b': [], 'n': 0}, errors.TreeMismatchError, r"like has no \['b'\]\[0\]")
    fails({'a': jnp.ones(3), 'b': [jnp.ones((2, 2))], 'n': 0, 'new': 1}, errors.TreeMismatchError, r"it has no \['new'\]$")
    square = [jnp.ones((2, 2))]
    fails({'a': jnp.ones(4), 'b': square, 'n': 0}, ValueError, r"\['a'\] of .* is float32\[3\], that of like is float32\[4\]")
    fails({'a': jnp.ones(3, 'i4'), 'b': square, 'n': 0}, ValueError, r"is float32\[3\], that of like is int32\[3\]")
    fails({'a': jnp.ones(3), 'b': square, 'n': 0.}, ValueError, r"\['n'\] of .* is a Python int, that of like is a Python float")
    with pytest.raises(errors.CheckpointError, match='no checkpoint of step 4 in .*; there are those of 0'):
        checkpoint.restore(folder, {}, step=4)


@LINES
def test_saving_beside_the_program(mesh, folder):
    host = np.arange(5.)
    x = jax.device_put(np.arange(6. * mesh.size), P('X'))
    saving = checkpoint.save_async(folder, {'x': x, 'host': host}, step=3)
    host += 1                                                                  # the thread has its own copy
    for _ in range(5):
        assert float(jnp.sum(x)) == np.arange(6. * mesh.size).sum()            # collectives of the program do not meet its own
    saving.wait()
    assert saving.done() and checkpoint.latest_step(folder) == 3
    assert checkpoint.restore(folder, {'x': x, 'host': host})['host'].tolist() == [0, 1, 2, 3, 4]
    for step in (4, 5):
        checkpoint.save_async(folder, {'x': x + step}, step=step, keep=1)      # the next call waits for the one before
    back = checkpoint.restore(folder, {'x': x})
    np.testing.assert_array_equal(jax.process_allgather(back['x']), np.arange(6. * mesh.size) + 5)
    assert listed(folder) == ['step-00000005']


class Limit:
    """No file of this process grows beyond so many bytes: the system's own refusal, as of a full disk."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


@LINES
def test_a_write_error_on_one_rank_is_raised_on_all_and_changes_nothing(mesh, folder):
    n = mesh.size
    x = jax.device_put(np.zeros((n, 50_000), 'f4'), P('X'))
    checkpoint.save(folder, {'x': x}, step=1)
    size = 200_000 * n - 100 if mpi.rank() == n - 1 else resource.RLIM_INFINITY      # the last rank's block is the last one
    reason = '(too large|known error not in list)'                          # Open MPI's words for what it does not know
    said = rf'the checkpoint of step 2 was not saved to .*run, and those before .* were: (rank {n - 1}: )?.*x\.npy: .*{reason}'
    for _ in range(2):
        with Limit(size):
            with pytest.raises(errors.CheckpointError, match=said) as caught:
                checkpoint.save(folder, {'x': x + 1}, step=2, keep=1)
        assert len(set(collectives.agree(mpi.world(), str(caught.value).encode()))) == 1
        assert listed(folder) == ['step-00000001']
    with Limit(size):
        saving = checkpoint.save_async(folder, {'x': x + 1}, step=2)
        with pytest.raises(errors.CheckpointError, match=said):
            saving.wait()
        checkpoint.save_async(folder, {'x': x + 1}, step=2)
        with pytest.raises(errors.CheckpointError, match=said):                # nobody has waited: the next call tells
            checkpoint.latest_step(folder)
    assert float(jnp.sum(checkpoint.restore(folder, {'x': x})['x'])) == 0
    checkpoint.save(folder, {'x': x + 1}, step=2, keep=1)
    assert listed(folder) == ['step-00000002']


@LINES
def test_what_a_crash_left_is_no_checkpoint_and_goes_with_the_next_save(mesh, folder):
    checkpoint.save(folder, {'x': jnp.ones(2)}, step=1)
    on_first(lambda: shutil.copytree(Path(folder, 'step-00000001'), Path(folder, '.saving-step-00000002')))
    assert checkpoint.latest_step(folder) == 1
    checkpoint.save(folder, {'x': jnp.ones(2)}, step=2)
    assert listed(folder) == ['step-00000001', 'step-00000002']


@pytest.mark.ranks(1)
def test_killed_at_every_instant_the_checkpoint_before_is_whole(folder):
    """A child is killed before each of the calls by which a save changes the disk, one after the other."""
    state = {'x': jnp.arange(4.), 'y': np.arange(3)}
    checkpoint.save(folder, state, step=1)
    places = [(os, name) for name in ('mkdir', 'rename', 'fsync', 'open', 'rmdir', 'unlink')] + [
        (mpi_io, 'file'), (mpi_io, 'moved'), (files, 'write_text')]
    seen = set()
    for last in range(200):
        child = os.fork()
        if child == 0:
            try:
                left = [last]
                for module, name in places:
                    setattr(module, name, killing(getattr(module, name), left))
                checkpoint.save(folder, {'x': state['x'] + 1, 'y': state['y']}, step=2, keep=1)
                os.kill(os.getpid(), signal.SIGTERM)                           # it got through
            finally:
                os._exit(1)                                                    # a child that fails is no second pytest
        status = os.waitpid(child, 0)[1]
        steps = {name for name in os.listdir(folder) if name.startswith('step-')}
        assert steps in ({'step-00000001'}, {'step-00000001', 'step-00000002'}, {'step-00000002'})
        back = checkpoint.restore(folder, state)
        assert float(back['x'][0]) == ('step-00000002' in steps)
        seen.add(tuple(sorted(steps)))
        if os.WTERMSIG(status) == signal.SIGTERM:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        if 'step-00000002' in steps:                                           # as it was before
            shutil.rmtree(folder)
            checkpoint.save(folder, state, step=1)
    assert last > 20 and len(seen) == 3, (last, seen)


def killing(function, left):
    def call(*args, **kwargs):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call


@pytest.mark.ranks(1)
def test_file_names_are_readable_and_never_meet():
    names = manifest.file_names(["['w'][0].bias", "['W'][0].bias", '', "['a/b']", "['a b']", "['../../etc']", "['é']",
                                 "['w.0.bias.1']"])
    assert names[0] == 'w.0.bias.npy' and names[2] == 'value.npy' and names[3] == 'a.b.npy' and names[5] == 'etc.npy'
    assert len({name.lower() for name in names}) == len(names) and not any('/' in name or name.startswith('.') for name in names)


@pytest.mark.ranks(1)
def test_the_name_is_still_that_of_rematerialization():
    assert jax.checkpoint is checkpoint
    assert jax.grad(jax.checkpoint(lambda x: jnp.sin(x) ** 2))(1.) == jax.grad(jax.remat(lambda x: jnp.sin(x) ** 2))(1.)
