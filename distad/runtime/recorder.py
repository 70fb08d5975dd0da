"""A record of every collective: the last ones in a ring buffer, counters in `with` blocks, a log line each.

    with count() as c:
        step(params, batch)
    assert c.by_op == {'all-reduce': 1} and c.bytes == 4096

The ring buffer is always on and costs a microsecond or two. It and the open counters are the one state of this module;
they say what happened and never decide anything.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count as counting
from typing import Any, NamedTuple

import numpy as np

from distad.log import logger
from distad.source import user_source
from distad.types import dtypes

LENGTH = 1024


class Where(NamedTuple):
    """Where in a program a collective stands: the path of its equation, and the user's file and line.

    Anything with these two attributes will do; without a source the line that is running now is looked up.
    """

    path: str = ''
    source: Any = None
    types: tuple = ()


NOWHERE = Where()


@dataclass(slots=True)
class Record:
    """One collective. Times are `time.perf_counter()` seconds; `ended` is None while it runs.

    It is the same on each of its `ranks` that has the same `call`, its number among these ranks.
    """

    sequence: int
    op: str
    axes: tuple[str, ...]
    place: str
    nbytes: int
    dtype: np.dtype
    path: str
    source: Any
    started: float
    ranks: tuple[int, ...] = ()
    call: int = 0
    ended: float | None = None
    messages: int = 1

    def __str__(self) -> str:
        path = f' ({self.path})' if self.path else ''
        parts = f' in {self.messages} messages' if self.messages > 1 else ''
        return (f'#{self.sequence} {self.op} over {",".join(self.axes)}, {self.nbytes} B {dtypes.name(self.dtype)}{parts}, '
                f'at {self.source}{path}')


@dataclass(slots=True)
class Count:
    """What went out inside a `with count()` block: collectives by kind, and the bytes this rank handed to MPI."""

    by_op: dict[str, int] = field(default_factory=dict)
    bytes: int = 0

    @property
    def total(self) -> int:
        return sum(self.by_op.values())


_ring: deque[Record] = deque(maxlen=LENGTH)
_open: list[Count] = []
listeners: list[Callable[[Record], None]] = []  # called with every collective that has ended
_sequence = counting(1)


def recent() -> tuple[Record, ...]:
    """The last collectives of this rank, oldest first."""
    return tuple(_ring)


@contextmanager
def count() -> Iterator[Count]:
    """Count the collectives of a block. Blocks nest, each counting all that happens inside."""
    c = Count()
    _open.append(c)
    try:
        yield c
    finally:
        # By identity: two counters that saw the same are equal.
        del _open[next(i for i, other in enumerate(_open) if other is c)]


def begin(op: str, axes: tuple[str, ...], place: str, nbytes: int, dtype: np.dtype, where: Any = NOWHERE,
          ranks: tuple[int, ...] = (), call: int = 0, messages: int = 1) -> Record:
    """Note that a collective starts. `place` is where this rank stands in the mesh, for the log: 'X=0 Y=1'."""
    source = where.source or user_source()
    record = Record(next(_sequence), op, axes, place, nbytes, dtype, where.path, source, time.perf_counter(), ranks, call,
                    messages=messages)
    _ring.append(record)
    for c in _open:
        c.by_op[op] = c.by_op.get(op, 0) + 1
        c.bytes += nbytes
    return record


def end(record: Record) -> None:
    """Note that it has completed on this rank."""
    record.ended = time.perf_counter()
    for listener in listeners:
        listener(record)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug('%s: %s, %.3f ms', record.place, record, (record.ended - record.started) * 1e3)
