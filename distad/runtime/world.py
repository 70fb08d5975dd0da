"""What a rank knows of the run: the world of ranks, and its channels to some of them. Data only; `mpi` makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distad.runtime.blackbox import Box


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
class World:
    """The run. `comm` holds all ranks, and is our own: it makes communicators and carries what ranks say of themselves."""

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


def names(ranks: Iterable[int]) -> str:
    """'rank 1' or 'ranks 0, 2'"""
    ranks = list(ranks)
    return ('rank ' if len(ranks) == 1 else 'ranks ') + ', '.join(map(str, ranks))
