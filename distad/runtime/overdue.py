"""What happens when a collective outlasts the deadline: the ranks of every node say what they see, and the job ends.

One rank of a node reports on all of them (`watchdog`). Of other nodes only a rank that waits there, too, can tell: it is asked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from distad.runtime import watchdog
from distad.runtime.waiting import timeout
from distad.runtime.world import World

_ASK, _SEEN = 3, 4  # tags


def abort(here: World, status: int) -> NoReturn:
    """End all ranks at once."""
    here.MPI.COMM_WORLD.Abort(status)
    # MPI asks the launcher to end the ranks, and may return before it does: this one must not take an orderly leave then.
    os._exit(status)


def end_job(here: World, what: str) -> NoReturn:
    """Report on a collective that outlasted the deadline and end all ranks."""
    watchdog.end_job(here.box, here.size, timeout(), partial(abort, here), what, partial(_seen_elsewhere, here))


_ANSWERS = 2.0  # seconds to wait for what other nodes have to say


def _seen_elsewhere(here: World, mine: list[watchdog.Sight]) -> list[watchdog.Sight]:
    """What is seen on other nodes: their ranks answer if they wait in a collective. Of several ranks that ask the lowest is told."""
    others = [r for r in range(here.size) if r not in here.box.ranks]
    asked = [here.comm.isend(None, dest=r, tag=_ASK) for r in others]
    found: dict[int, watchdog.Sight] = {}
    limit = time.monotonic() + _ANSWERS
    while len(found) < len(others) and time.monotonic() < limit:
        if (message := here.comm.improbe(tag=_SEEN)) is not None:
            found |= {sight.rank: sight for sight in message.recv()}
        answer(here, lambda: mine)
        here.MPI.Request.Testall(asked)
        time.sleep(5e-3)
    return list(found.values())


def answer(here: World, look: Callable[[], list[watchdog.Sight] | None]) -> None:
    """If a rank before this one asks what is seen on this node, tell it, and wait for the end."""
    status = here.MPI.Status()
    message = here.comm.improbe(tag=_ASK, status=status)
    if message is None:
        return
    message.recv()
    if here.box.holds and status.source > here.rank:
        return
    seen = look()
    if seen is not None:
        sent = here.comm.isend(seen, dest=status.source, tag=_SEEN)
        while not sent.Test():
            time.sleep(5e-3)
    time.sleep(watchdog.PATIENCE)
    abort(here, watchdog.STATUS)
