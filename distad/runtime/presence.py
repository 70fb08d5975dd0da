"""Who is still there. A rank that leaves says goodbye, and how far it came: who waits for it knows whether it will come."""

from __future__ import annotations

import time
from collections.abc import Callable

from distad.errors import DisagreementError
from distad.runtime import overdue, watchdog
from distad.runtime.world import World, names

_GOODBYE = 1  # a tag


def check_present(here: World, ranks: tuple[int, ...], calls: int, what: Callable[[], str]) -> None:
    """Raise if one of the ranks has left before it began its collective number `calls` on their channel."""
    box = here.box
    if len(box.ranks) < here.size:
        overdue.answer(here, lambda: watchdog.look(box) if box.claim() else None)
    left = _goodbyes(here)
    gone = [r for r in ranks if r in left and left[r].get(ranks, 0) < calls]
    if gone:
        have = 'has' if len(gone) == 1 else 'have'
        raise DisagreementError(f'{what()}: {names(gone)} {have} ended the program and will not come. Every rank must make the same '
                                'calls; a rank that exits early, or a branch on the rank, breaks that')


def _goodbyes(here: World) -> dict[int, dict[tuple[int, ...], int]]:
    """The ranks that have left so far, each with the number of collectives it had begun on each channel."""
    status = here.MPI.Status()
    while here.comm.Iprobe(here.MPI.ANY_SOURCE, _GOODBYE, status):
        here.left[status.source] = here.comm.recv(source=status.source, tag=_GOODBYE)
    return here.left


def leave(here: World) -> None:
    """Tell all ranks that this one makes no more collectives, and wait, serving MPI, until all have said so."""
    if here.MPI.Is_finalized():
        return
    free_prepared(here)
    others = [r for r in range(here.size) if r != here.rank]
    calls = {channel.ranks: channel.calls for channel in here.channels.values()}
    sent = [here.comm.isend(calls, dest=r, tag=_GOODBYE) for r in others]
    while len(_goodbyes(here)) < len(others) or not all(request.Test() for request in sent):
        time.sleep(5e-4)


def free_prepared(here: World) -> None:
    """MPI wants them back before its end. Not those in which this rank was interrupted: nobody knows whether they will end."""
    for channel in here.channels.values():
        for _, request in channel.prepared.values():
            if request not in channel.given_up:
                request.Free()
        channel.prepared.clear()
