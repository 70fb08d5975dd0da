"""How the ranks tell one another what they saw: as the tests do, past the collectives that are counted."""

from __future__ import annotations

from typing import Any

from distad.errors import ClusterError
from distad.runtime import mpi
from distad.testing.agreement import WaitedInVainError, all_ranks

LOST = (ClusterError, WaitedInVainError)  # this rank can't go on with what it does: some other rank does something else


def world_size() -> int:
    return mpi.size()


def is_first() -> bool:
    return mpi.rank() == 0


def watch() -> None:
    """Let no rank wait in a collective that the others have passed by.  (Under pytest the plugin sees to it.)"""
    mpi.watch(all_ranks().check)


def alarm() -> None:
    """Tell the others that this rank is lost, so that all begin the next step with fresh communicators."""
    all_ranks().alarm()


def exchange(step: str, value: Any) -> list[Any]:
    """Every rank's value, in the order of ranks.  Collective over all ranks."""
    return all_ranks().agree(step, value)
