"""The world of ranks, and a communicator for any set of mesh axes. The one module that imports mpi4py.

`import distad` starts no MPI: the first question for a rank does. What is to be put right before (yielding) and after
(`starting`) is put right in that moment, once.

Communicators are made of ranks, and serve every mesh and every name of axes that mean these ranks in this order. They
carry collectives only. The world is our own duplicate of COMM_WORLD, used to make communicators and to say goodbye.
"""

from __future__ import annotations

import faulthandler
import functools
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, NoReturn

import numpy as np

from distad.errors import CollectiveTimeoutError
from distad.runtime import blackbox, clocks, exits, launch, overdue, starting
from distad.runtime.presence import check_present, free_prepared
from distad.runtime.waiting import TRIES_ALONE, timeout, wait
from distad.runtime.world import Channel, Group, World, names
from distad.source import user_source
from distad.types.mesh import Mesh

_HELLO = 5  # a tag, and those after it: one for each communicator that is being made
_LONGEST = 1e6  # seconds; a clock in C knows no infinity


@functools.cache
def started() -> World:
    """MPI, which the first call starts (a collective over all ranks), and what this rank knows of the run."""
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
    return starting.begin(MPI, yielding)


def rank() -> int:
    """This process's number among all. Starts MPI if need be (a collective over all ranks)."""
    return started().rank


def size() -> int:
    """The number of ranks. Starts MPI if need be (a collective over all ranks)."""
    return started().size


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
    here = started()
    free_prepared(here)
    for channel in here.channels.values():
        channel.closed = True
    here.channels = {}
    here.resets += 1


def abort(status: int) -> NoReturn:
    """End all ranks at once."""
    overdue.abort(started(), status)


def watch(callback: Callable[[], None]) -> None:
    """Call a function again and again while this rank waits in a collective; what it raises ends the wait."""
    started().watchers.append(callback)


def clock() -> tuple[float, float]:
    """Rank 0's time.perf_counter() about now, and by how much this rank's is ahead of it. All ranks of the run take part."""
    return clocks.compare(started())


# ---- making communicators

def _channel(ranks: tuple[int, ...]) -> Channel:
    """The communicator of these ranks, in this order; made by them together at the first call."""
    here = started()
    found = here.channels.get(ranks)
    if found is None:
        comm = None
        key = zlib.crc32(repr((ranks, here.resets)).encode())
        if len(ranks) > 1:
            # Some of these ranks may have sent a greeting before a reset and found nobody: it must not count now.
            tag = _HELLO + key % 30000
            _meet(ranks, key, tag)
            comm = here.comm.Create_group(here.comm.Get_group().Incl(ranks), tag)
        found = here.channels[ranks] = Channel(ranks, comm, key, here.box, here.tries, here.tries == TRIES_ALONE)
    return found


def _meet(ranks: tuple[int, ...], key: int, tag: int) -> None:
    """Wait until all these ranks are here: making a communicator blocks inside MPI, where no deadline reaches."""
    here = started()
    others = [r for r in ranks if r != here.rank]
    empty = np.empty(0, np.uint8)
    requests = [here.comm.Irecv(empty, r, tag) for r in others] + [here.comm.Isend(empty, r, tag) for r in others]

    def what() -> str:
        return f'making a communicator of {names(ranks)}'

    here.box.begin(0, key, 0, 0, time.perf_counter(), blackbox.text(what(), f'at {user_source()}', ranks))
    try:
        wait(lambda: here.MPI.Request.Testall(requests), what, lambda: check_present(here, ranks, 1, what), here.watchers)
    except CollectiveTimeoutError:
        overdue.end_job(here, what())
    here.box.end(time.perf_counter())


# ---- waiting in them

# A rank that waits for a message also moves it, so it goes on trying as long as that takes at a gigabyte a second.
_BYTES_A_TRY = 128


def wait_in(channel: Channel, request: Any, what: Callable[[], str], nbytes: int = 0) -> None:
    """Wait for a collective of so many bytes on a channel."""
    test, here = request.Test, started()
    try:
        for _ in repeat(None, channel.tries + nbytes // _BYTES_A_TRY if channel.alone else 0):
            if test():
                return
        wait(test, what, lambda: check_present(here, channel.ranks, channel.calls, what), here.watchers)
    except CollectiveTimeoutError:
        overdue.end_job(here, what())
    except BaseException:
        channel.given_up.append(request)
        raise


def test_all(requests: list) -> bool:
    """Whether all of several requests are done."""
    return started().MPI.Request.Testall(requests)


# ---- what MPI is given

def operation(kind: str, dtype: np.dtype) -> Any:
    """The MPI operation for sum, max or min of a dtype that MPI knows."""
    mpi = started().MPI
    if kind in ('max', 'min') and dtype.kind in 'fc':
        return _keeping_nan(kind)
    return {'sum': mpi.SUM, 'max': mpi.MAX, 'min': mpi.MIN}[kind]


def in_place() -> Any:
    """What stands for the operand where the result takes its place."""
    return started().MPI.IN_PLACE


# Preparing a small all-reduce costs MPI more than half of its time.
_SMALL, _PREPARED = 2048, 64  # bytes, and how many of a channel


def prepared(channel: Channel, operation: Any, dtype: np.dtype, count: int, make: bool) -> tuple[np.ndarray, Any] | None:
    """A small array and the persistent request for its sum (max, min) over the ranks, in place; None if there is none.

    Whether there is one must be the same on all ranks, wherever in a program they come from. So it is made, where `make`, after such
    a collective, when all have made that.
    """
    key = (operation.handle, dtype, count)
    found = channel.prepared.get(key)
    here = started()
    if found is None and make and here.prepares and count * dtype.itemsize <= _SMALL and len(channel.prepared) < _PREPARED:
        array = np.zeros(count, dtype)
        found = channel.prepared[key] = array, channel.comm.Allreduce_init(here.MPI.IN_PLACE, array, operation)
    return found


@contextmanager
def strided(count: int, run: int, stride: int) -> Iterator[Any]:
    """A datatype of `count` runs of so many bytes, each `stride` bytes after the one before; the next such one begins a run later."""
    byte = started().MPI.BYTE
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

    return started().MPI.Op.Create(combine, commute=True)


exits.install_early()
