"""The world of ranks, and a communicator for any set of mesh axes. The one module that imports mpi4py.

`import distad` starts no MPI: the first question for a rank does. What is to be put right before (yielding) and after
(launcher, BLAS threads, exits) is put right in that moment, once.

Communicators are made of ranks, and serve every mesh and every name of axes that mean these ranks in this order. They
carry collectives only. The world is our own duplicate of COMM_WORLD, used to make communicators and to say goodbye.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NoReturn

import numpy as np

from distad import log
from distad.errors import CollectiveTimeoutError, DisagreementError
from distad.late import Late
from distad.runtime import blackbox, exits, launch, timeline, watchdog
from distad.runtime.blackbox import Box
from distad.runtime.setup import check_setup
from distad.source import user_source
from distad.types.mesh import Mesh

threads_of = Late('threadpoolctl')

_GOODBYE = 1
_CLOCK = 2
_ASK, _SEEN = 3, 4
_HELLO = 5  # and up: one tag for each communicator that is being made


@dataclass(slots=True, eq=False)
class Channel:
    """The communicator of some ranks. `calls` counts the collectives this rank has begun on it.

    They are written down in `box`, where the same `key` tells that they belong to the same ranks.
    """

    ranks: tuple[int, ...]
    comm: Any
    key: int
    box: Box | None
    tries: int
    alone: bool
    calls: int = 0
    # Requests given up. They hold their buffers, into which MPI may still write.
    given_up: list[Any] = field(default_factory=list)
    prepared: dict[tuple, tuple[np.ndarray, Any]] = field(default_factory=dict)
    closed: bool = False  # forgotten: nobody may use it any more


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Group:
    """The ranks along some mesh axes that share this rank's other coordinates, row-major in the order of the axes."""

    axes: tuple[str, ...]
    ranks: tuple[int, ...]
    index: int
    place: str
    channel: Channel
    known: dict[tuple, Any] = field(default_factory=dict)  # of the collectives that were made in it, by place

    @property
    def size(self) -> int:
        return len(self.ranks)


@dataclass(slots=True, eq=False, kw_only=True)
class _World:
    MPI: Any
    comm: Any
    rank: int
    size: int
    tries: int
    box: Box | None  # None if there is one rank
    prepares: bool
    channels: dict[tuple[int, ...], Channel] = field(default_factory=dict)
    left: dict[int, dict[tuple[int, ...], int]] = field(default_factory=dict)
    watchers: list[Callable[[], None]] = field(default_factory=list)
    resets: int = 0


def rank() -> int:
    """This process's number among all. Starts MPI if need be (a collective over all ranks)."""
    return _world().rank


def size() -> int:
    """The number of ranks. Starts MPI if need be (a collective over all ranks)."""
    return _world().size


@functools.cache
def group(mesh: Mesh, axes: tuple[str, ...]) -> Group:
    """The ranks this one communicates with over the given axes. The first call is a collective over these ranks."""
    me = rank()
    here = mesh.coords(me)
    if here is None:
        raise ValueError(f'rank {me} is not in the mesh {mesh} of ranks {mesh.ranks}; its collectives are not for it')
    grid = np.array(mesh.ranks).reshape(mesh.axis_sizes)
    # The given axes whole, in the given order, and of the others this rank's coordinate.
    line = grid[tuple(slice(None) if name in axes else here[name] for name in mesh.axis_names)]
    kept = [name for name in mesh.axis_names if name in axes]
    ranks = tuple(int(r) for r in line.transpose([kept.index(name) for name in axes]).reshape(-1))
    return Group(axes=axes, ranks=ranks, index=ranks.index(me), place=' '.join(f'{n}={i}' for n, i in here.items()),
                 channel=_channel(ranks))


@functools.cache
def world() -> Group:
    """All ranks, for what concerns no mesh."""
    ranks = tuple(range(size()))
    return Group(axes=('world',), ranks=ranks, index=rank(), place=f'rank={rank()}', channel=_channel(ranks))


def reset() -> None:
    """Forget all communicators, on every rank alike: after a collective was given up, none of them can be trusted."""
    group.cache_clear()
    world.cache_clear()
    here = _world()
    _free_prepared()
    for channel in here.channels.values():
        channel.closed = True
    here.channels = {}
    here.resets += 1


def abort(status: int) -> NoReturn:
    """End all ranks at once."""
    _world().MPI.COMM_WORLD.Abort(status)
    # MPI asks the launcher to end the ranks, and may return before it does: this one must not take an orderly leave then.
    os._exit(status)


def operation(kind: str, dtype: np.dtype) -> Any:
    """The MPI operation for sum, max or min of a dtype that MPI knows."""
    mpi = _world().MPI
    if kind in ('max', 'min') and dtype.kind in 'fc':
        return _keeping_nan(kind)
    return {'sum': mpi.SUM, 'max': mpi.MAX, 'min': mpi.MIN}[kind]


def in_place() -> Any:
    """What stands for the operand where the result takes its place."""
    return _world().MPI.IN_PLACE


# Preparing a small all-reduce costs MPI more than half of its time.
_SMALL, _PREPARED = 2048, 64  # bytes, and how many of a channel


def prepared(channel: Channel, operation: Any, dtype: np.dtype, count: int, make: bool) -> tuple[np.ndarray, Any] | None:
    """A small array and the persistent request for its sum (max, min) over the ranks, in place; None if there is none.

    Whether there is one must be the same on all ranks, wherever in a program they come from. So it is made, where `make`, after such
    a collective, when all have made that.
    """
    key = (operation.handle, dtype, count)
    found = channel.prepared.get(key)
    here = _world()
    if found is None and make and here.prepares and count * dtype.itemsize <= _SMALL and len(channel.prepared) < _PREPARED:
        array = np.zeros(count, dtype)
        found = channel.prepared[key] = array, channel.comm.Allreduce_init(here.MPI.IN_PLACE, array, operation)
    return found


def _free_prepared() -> None:
    """MPI wants them back before its end. Not those in which this rank was interrupted: nobody knows whether they will end."""
    for channel in _world().channels.values():
        for _, request in channel.prepared.values():
            if request not in channel.given_up:
                request.Free()
        channel.prepared.clear()


@contextmanager
def strided(count: int, run: int, stride: int) -> Iterator[Any]:
    """A datatype of `count` runs of so many bytes, each `stride` bytes after the one before; the next such one begins a run later."""
    byte = _world().MPI.BYTE
    runs = byte.Create_hvector(count, run, stride)
    made = runs.Create_resized(0, run)
    runs.Free()
    made.Commit()
    try:
        yield made
    finally:
        made.Free()


@functools.cache
def _keeping_nan(kind: str) -> Any:
    """Max or min as NumPy means it: MPI's own drop a NaN. Made once, as MPICH has room for 32 operations only."""
    ufunc = {'max': np.maximum, 'min': np.minimum}[kind]

    def combine(theirs: Any, ours: Any, datatype: Any) -> None:
        dtype = np.dtype(datatype.typechar)
        ours = np.frombuffer(ours, dtype)
        ufunc(np.frombuffer(theirs, dtype), ours, out=ours)

    return _world().MPI.Op.Create(combine, commute=True)


# ---- waiting

def timeout() -> float:
    """Seconds that a rank waits in one collective: DISTAD_TIMEOUT, 300 if unset, `inf` for ever."""
    text = os.environ.get('DISTAD_TIMEOUT', '300')
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.
    if not seconds > 0:
        raise ValueError(f'DISTAD_TIMEOUT is a number of seconds, or inf for ever, not {text!r}')
    return seconds


def watch(callback: Callable[[], None]) -> None:
    """Call a function again and again while this rank waits in a collective; what it raises ends the wait."""
    _world().watchers.append(callback)


# How often a rank tries before it sleeps: about as long as ranks on cores of their own differ. A sleep takes 70 us or
# more, but with fewer cores than ranks every try keeps the others from arriving.
_TRIES_ALONE, _TRIES_CROWDED = 1000, 50
_LONGEST = 1e6  # seconds; a clock in C knows no infinity


def wait(test: Callable[[], bool], what: Callable[[], str], present: Callable[[], None] = lambda: None,
         watchers: Sequence[Callable[[], None]] = (), tries: int = _TRIES_CROWDED) -> None:
    """Wait until `test()` is true: first by trying, then with short sleeps, at most until the deadline.

    Sleeping leaves the core to the rank that is waited for, and lets Python see signals. `what()` names the operation
    for the message; `present()` raises if it can never complete.
    """
    for _ in range(tries):
        if test():
            return
    began = time.monotonic()
    limit = timeout()
    next_look = began + 0.05
    pause = 2e-5
    while not test():
        time.sleep(pause)
        for watcher in watchers:
            watcher()
        now = time.monotonic()
        if now < next_look:
            continue
        next_look = now + 0.05
        present()
        if now - began > 1:
            pause = 5e-4
        if now - began > limit:
            raise CollectiveTimeoutError(
                f'{what()}: not all ranks came within {limit:g} s. Some rank is elsewhere or has stopped; a step that '
                'rightly takes longer needs a longer DISTAD_TIMEOUT (seconds)')


def test_all(requests: list) -> bool:
    """Whether all of several requests are done."""
    return _world().MPI.Request.Testall(requests)


# A rank that waits for a message also moves it, so it goes on trying as long as that takes at a gigabyte a second.
_BYTES_A_TRY = 128


def wait_in(channel: Channel, request: Any, what: Callable[[], str], nbytes: int = 0) -> None:
    """Wait for a collective of so many bytes on a channel."""
    test = request.Test
    try:
        for _ in repeat(None, channel.tries + nbytes // _BYTES_A_TRY if channel.alone else channel.tries):
            if test():
                return
        wait(test, what, lambda: check_present(channel.ranks, channel.calls, what), _world().watchers)
    except CollectiveTimeoutError:
        _overdue(what())
    except BaseException:
        channel.given_up.append(request)
        raise


def _overdue(what: str) -> NoReturn:
    """Report on a collective that outlasted the deadline and end all ranks."""
    here = _world()
    watchdog.end_job(here.box, here.size, timeout(), abort, what, _seen_elsewhere)


_ANSWERS = 2.0  # seconds to wait for what other nodes have to say


def _seen_elsewhere(mine: list[watchdog.Sight]) -> list[watchdog.Sight]:
    """What is seen on other nodes: their ranks answer if they wait in a collective. Of several ranks that ask the lowest is told."""
    here = _world()
    others = [r for r in range(here.size) if r not in here.box.ranks]
    asked = [here.comm.isend(None, dest=r, tag=_ASK) for r in others]
    found: dict[int, watchdog.Sight] = {}
    limit = time.monotonic() + _ANSWERS
    while len(found) < len(others) and time.monotonic() < limit:
        if (message := here.comm.improbe(tag=_SEEN)) is not None:
            found |= {sight.rank: sight for sight in message.recv()}
        _answer(lambda: mine)
        here.MPI.Request.Testall(asked)
        time.sleep(5e-3)
    return list(found.values())


def _answer(look: Callable[[], list[watchdog.Sight] | None]) -> None:
    """If a rank before this one asks what is seen on this node, tell it, and wait for the end."""
    here = _world()
    status = here.MPI.Status()
    message = here.comm.improbe(tag=_ASK, status=status)
    if message is None:
        return
    message.recv()
    if here.box.holds and status.source > here.rank:
        return
    seen = look()
    if seen is not None:
        answer = here.comm.isend(seen, dest=status.source, tag=_SEEN)
        while not answer.Test():
            time.sleep(5e-3)
    time.sleep(watchdog.PATIENCE)
    abort(watchdog.STATUS)


def check_present(ranks: tuple[int, ...], calls: int, what: Callable[[], str]) -> None:
    """Raise if one of the ranks has left before it began its collective number `calls` on their channel."""
    box = _world().box
    if len(box.ranks) < _world().size:
        _answer(lambda: watchdog.look(box) if box.claim() else None)
    left = _goodbyes()
    gone = [r for r in ranks if r in left and left[r].get(ranks, 0) < calls]
    if gone:
        who = f'rank {gone[0]} has' if len(gone) == 1 else f'ranks {_listed(gone)} have'
        raise DisagreementError(f'{what()}: {who} ended the program and will not come. Every rank must make the same '
                                'calls; a rank that exits early, or a branch on the rank, breaks that')


def _goodbyes() -> dict[int, dict[tuple[int, ...], int]]:
    """The ranks that have left so far, each with the number of collectives it had begun on each channel."""
    here = _world()
    status = here.MPI.Status()
    while here.comm.Iprobe(here.MPI.ANY_SOURCE, _GOODBYE, status):
        here.left[status.source] = here.comm.recv(source=status.source, tag=_GOODBYE)
    return here.left


def _leave() -> None:
    """Tell all ranks that this one makes no more collectives, and wait, serving MPI, until all have said so."""
    here = _world()
    if here.MPI.Is_finalized():
        return
    _free_prepared()
    others = [r for r in range(here.size) if r != here.rank]
    calls = {channel.ranks: channel.calls for channel in here.channels.values()}
    sent = [here.comm.isend(calls, dest=r, tag=_GOODBYE) for r in others]
    while len(_goodbyes()) < len(others) or not all(request.Test() for request in sent):
        time.sleep(5e-4)


# ---- clocks

_ROUNDS = 20


def clock() -> tuple[float, float]:
    """Rank 0's time.perf_counter() about now, and by how much this rank's is ahead of it. All ranks of the run take part."""
    return _clock(_world())


def _clock(here: _World) -> tuple[float, float]:
    # Cristian's method: rank 0 says its time, and of several rounds the shortest tells it best. ("Probabilistic clock
    # synchronization", Distributed Computing 3, 1989.)
    theirs, sent = np.zeros(1), np.zeros(1)

    def finish(request: Any) -> None:
        wait(request.Test, lambda: 'the comparison of the clocks', tries=here.tries)

    if here.rank == 0:
        for other in range(1, here.size):
            for _ in range(_ROUNDS):
                finish(here.comm.Irecv(theirs, other, _CLOCK))
                sent[0] = time.perf_counter()
                finish(here.comm.Isend(sent, other, _CLOCK))
        starts = np.array([time.perf_counter()])
    else:
        rounds = []
        for _ in range(_ROUNDS):
            begun = time.perf_counter()
            finish(here.comm.Isend(sent, 0, _CLOCK))
            finish(here.comm.Irecv(theirs, 0, _CLOCK))
            ended = time.perf_counter()
            rounds.append((ended - begun, (begun + ended) / 2 - theirs[0]))
        ahead = min(rounds)[1]
        starts = np.zeros(1)
    finish(here.comm.Ibcast(starts))
    return float(starts[0]), ahead if here.rank else 0.


# ---- making communicators

def _channel(ranks: tuple[int, ...]) -> Channel:
    """The communicator of these ranks, in this order; made by them together at the first call."""
    here = _world()
    found = here.channels.get(ranks)
    if found is None:
        comm = None
        key = zlib.crc32(repr((ranks, here.resets)).encode())
        if len(ranks) > 1:
            # Some of these ranks may have sent a greeting before a reset and found nobody: it must not count now.
            tag = _HELLO + key % 30000
            _meet(ranks, key, tag)
            comm = here.comm.Create_group(here.comm.Get_group().Incl(ranks), tag)
        found = here.channels[ranks] = Channel(ranks, comm, key, here.box, here.tries, here.tries == _TRIES_ALONE)
    return found


def _meet(ranks: tuple[int, ...], key: int, tag: int) -> None:
    """Wait until all these ranks are here: making a communicator blocks inside MPI, where no deadline reaches."""
    here = _world()
    others = [r for r in ranks if r != here.rank]
    empty = np.empty(0, np.uint8)
    requests = [here.comm.Irecv(empty, r, tag) for r in others] + [here.comm.Isend(empty, r, tag) for r in others]

    def what() -> str:
        return f'making a communicator of ranks {_listed(ranks)}'

    here.box.begin(0, key, 0, 0, time.perf_counter(), blackbox.text(what(), f'at {user_source()}', ranks))
    try:
        wait(lambda: here.MPI.Request.Testall(requests), what, lambda: check_present(ranks, 1, what), here.watchers)
    except CollectiveTimeoutError:
        _overdue(what())
    here.box.end(time.perf_counter())


def _listed(ranks: Iterable[int]) -> str:
    return ', '.join(map(str, ranks))


# ---- beside the program

@functools.cache
def aside() -> Any:
    """A communicator of all ranks for a thread beside the program, which the program's collectives do not meet.

    The first call is a collective over all ranks, in the program's own order. None if there is one rank.
    """
    here = _world()
    if here.size == 1:
        return None
    comm, request = here.comm.Idup()
    wait(request.Test, lambda: 'making a communicator of all ranks', watchers=here.watchers)
    return comm


def agree_aside(comm: Any, data: bytes) -> list[bytes]:
    """Every rank's bytes, on all of them, for a thread: who watches the program while it waits does not watch this."""
    if comm is None:
        return [data]
    sent, sizes = np.frombuffer(data, np.uint8), np.empty(comm.size, np.int64)
    wait(comm.Iallgather(np.array([sent.size]), sizes).Test, lambda: 'an agreement of all ranks beside the program')
    into = np.empty(int(sizes.sum()), np.uint8)
    wait(comm.Iallgatherv(sent, [into, sizes.tolist()]).Test, lambda: 'an agreement of all ranks beside the program')
    ends = np.cumsum(sizes).tolist()
    return [into[end - size:end].tobytes() for end, size in zip(ends, sizes.tolist())]


# ---- files

@contextmanager
def file(path: str, mode: str) -> Iterator[Any]:
    """A file opened through MPI-IO to 'create', 'write' or 'read' it, by this rank alone.

    Ranks that write to one file each open it: then none waits for another, and what fails on one, which is raised as OSError,
    leaves the others free to hear of it. (A collective write may hang on the ranks where it does not fail.)
    """
    MPI = _world().MPI
    flags = {'create': MPI.MODE_CREATE | MPI.MODE_EXCL | MPI.MODE_WRONLY, 'write': MPI.MODE_WRONLY, 'read': MPI.MODE_RDONLY}
    # Data sieving would also write back what lies between the pieces of this rank: what others are writing.
    info = MPI.Info.Create({'romio_ds_write': 'disable'})
    try:
        handle = MPI.File.Open(MPI.COMM_SELF, path, flags[mode], info)
        try:
            yield handle
        finally:
            handle.Close()
    except MPI.Exception as error:
        raise OSError(f'{path}: {error.Get_error_string().splitlines()[-1].rpartition(": ")[2]}') from error
    finally:
        info.Free()


@contextmanager
def view(handle: Any, offset: int, shape: Sequence[int], index: Sequence[slice]) -> Iterator[None]:
    """Let positions in a file count the bytes of a part of the array of bytes [...] that starts at `offset`."""
    MPI = _world().MPI
    part = MPI.BYTE.Create_subarray(shape, [s.stop - s.start for s in index], [s.start for s in index])
    part.Commit()
    handle.Set_view(offset, MPI.BYTE, part)
    try:
        yield
    finally:
        part.Free()


def moved(transfer: Callable[[int, np.ndarray, Any], None], data: np.ndarray) -> int:
    """Read or write bytes from the start of the view; the number that were there or found room."""
    status = _world().MPI.Status()
    transfer(0, data, status)
    return status.Get_count(_world().MPI.BYTE)


# ---- starting

@functools.cache
def _world() -> _World:
    yielding = launch.yield_when_crowded()
    # MPI_Init waits for all ranks and holds Python's lock meanwhile.
    faulthandler.dump_traceback_later(min(timeout(), _LONGEST), exit=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', RuntimeWarning)  # mpi4py suspects what check_launcher says in full
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f'mpi4py finds no MPI library ({error}). Install one (pip install mpich), load the MPI module of the '
            'cluster, or point MPI4PY_LIBMPI at its libmpi.so') from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    all_ranks = MPI.COMM_WORLD
    library = MPI.Get_library_version().splitlines()[0].strip()
    launch.check_launcher(all_ranks.size, library)
    log.start(all_ranks.rank, all_ranks.size)
    comm, request = all_ranks.Idup()
    wait(request.Test, lambda: 'the start of distad on all ranks')
    tries = _TRIES_ALONE
    box = None
    if all_ranks.size > 1:
        check_setup(comm)
        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        mine = launch.cores()
        ranks, theirs = zip(*node.allgather((all_ranks.rank, mine)), strict=True)
        sharing = launch.sharing(mine, theirs)
        box = blackbox.shared(all_ranks.rank, ranks, node.bcast)
        if node.rank == 0:
            launch.forget_shared_memory()  # all ranks of the node are here, so all have it
        node.Barrier()
        node.Free()
        if sharing > len(mine):
            tries = _TRIES_CROWDED
            log.logger.info('%d ranks share %d cores: while they wait they sleep%s', sharing, len(mine),
                            ', and so does MPICH (MPIR_CVAR_ENABLE_HEAVY_YIELD=1)' if yielding else '')
        _limit_blas(max(1, len(mine) // sharing))
        exits.install(all_ranks.rank, abort, _leave, box)
    # Preparing is a collective that may wait for the others, out of reach of a deadline. In MPICH it does not.
    prepares = library.startswith('MPICH') and MPI.VERSION >= 4
    world = _World(MPI=MPI, comm=comm, rank=comm.rank, size=comm.size, tries=tries, box=box, prepares=prepares)
    if folder := os.environ.get('DISTAD_TRACE'):
        timeline.start(folder, world.rank, world.size, _clock(world))
    return world


def _limit_blas(threads: int) -> None:
    """Limit BLAS to so many threads, unless the user has chosen a number."""
    if any(name in os.environ for name in launch.BLAS_VARIABLES):
        return
    before = max((pool['num_threads'] for pool in threads_of.threadpool_info() if pool['user_api'] == 'blas'), default=0)
    os.environ['OPENBLAS_NUM_THREADS'] = str(threads)  # for libraries that are loaded later, such as SciPy's
    if before > threads:
        threads_of.threadpool_limits(limits=threads, user_api='blas')
        log.logger.info('BLAS uses %d of %d threads, as ranks share the cores of this node (to choose, set '
                        'OPENBLAS_NUM_THREADS)', threads, before)


exits.install_early()
