"""Beside the program: what a thread of each rank agrees on while the program goes on."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from distad.runtime import mpi
from distad.runtime.waiting import wait


@functools.cache
def communicator() -> Any:
    """A communicator of all ranks for a thread beside the program, which the program's collectives do not meet.

    The first call is a collective over all ranks, in the program's own order. None if there is one rank.
    """
    here = mpi.started()
    if here.size == 1:
        return None
    comm, request = here.comm.Idup()
    wait(request.Test, lambda: 'making a communicator of all ranks', watchers=here.watchers)
    return comm


def agree(comm: Any, data: bytes) -> list[bytes]:
    """Every rank's bytes, on all of them, for a thread: who watches the program while it waits does not watch this."""
    if comm is None:
        return [data]
    sent, sizes = np.frombuffer(data, np.uint8), np.empty(comm.size, np.int64)
    wait(comm.Iallgather(np.array([sent.size]), sizes).Test, lambda: 'an agreement of all ranks beside the program')
    into = np.empty(int(sizes.sum()), np.uint8)
    wait(comm.Iallgatherv(sent, [into, sizes.tolist()]).Test, lambda: 'an agreement of all ranks beside the program')
    ends = np.cumsum(sizes).tolist()
    return [into[end - size:end].tobytes() for end, size in zip(ends, sizes.tolist())]
