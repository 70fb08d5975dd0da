"""A record of every collective: the last ones in a ring buffer, counters in `with` blocks, a log line each.

    with count() as c:
        step(params, batch)
    assert c.by_op == {'all-reduce': 1} and c.bytes == 4096

The ring buffer is always on and costs half a microsecond. It and the open counters are the one state of this module;
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
from distad.source import user_frame, user_source
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


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What is the same whenever one place of a program communicates: made once, so that noting one more collective costs little.

    `text` is what the black box says of it.
    """

    op: str
    axes: tuple[str, ...]
    place: str
    nbytes: int
    dtype: np.dtype
    path: str
    source: Any
    ranks: tuple[int, ...] = ()
    messages: int = 1
    text: bytes = b''


@dataclass(slots=True, eq=False)
class Record:
    """One collective. Times are `time.perf_counter()` seconds; `ended` is 0 while it runs.

    It is the same on each of its `ranks` that has the same `call`, its number among these ranks.
    """

    kind: Kind
    sequence: int
    call: int
    started: float
    ended: float = 0.

    @property
    def op(self) -> str:
        return self.kind.op

    @property
    def axes(self) -> tuple[str, ...]:
        return self.kind.axes

    @property
    def place(self) -> str:
        return self.kind.place

    @property
    def nbytes(self) -> int:
        return self.kind.nbytes

    @property
    def dtype(self) -> np.dtype:
        return self.kind.dtype

    @property
    def path(self) -> str:
        return self.kind.path

    @property
    def source(self) -> Any:
        return self.kind.source

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.kind.ranks

    @property
    def messages(self) -> int:
        return self.kind.messages

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


# What is noted, as lists of the fields of a `Record`: an object that few will ever look at costs as much as all the rest.
_ring: deque[list] = deque(maxlen=LENGTH)
_open: list[Count] = []
listeners: list[Callable[[Record], None]] = []  # called with every collective that has ended
_sequence = counting(1)
_here: dict[tuple, tuple[Where, Any, Any]] = {}


def recent() -> tuple[Record, ...]:
    """The last collectives of this rank, oldest first."""
    return tuple(Record(*noted) for noted in _ring)


def here(where: Any) -> Where:
    """The same place with the user's line that runs now, where the equation has none of its own; one object for each line."""
    frame = user_frame()
    code, line = (None, 0) if frame is None else (frame.f_code, frame.f_lineno)
    found = _here.get((id(where), id(code), line))
    if found is None:
        if len(_here) >= LENGTH:
            _here.clear()
        found = _here[id(where), id(code), line] = Where(where.path, user_source(), where.types), where, code
    return found[0]


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


def begin(kind: Kind, call: int = 0) -> list:
    """Note that a collective starts; what `end` is to get, and `Record(*noted)` tells."""
    noted = [kind, next(_sequence), call, time.perf_counter(), 0.]
    _ring.append(noted)
    for c in _open:
        c.by_op[kind.op] = c.by_op.get(kind.op, 0) + 1
        c.bytes += kind.nbytes
    return noted


def end(noted: list) -> None:
    """Note that it has completed on this rank, at the time that is written down."""
    if listeners or logger.isEnabledFor(logging.DEBUG):
        record = Record(*noted)
        for listener in listeners:
            listener(record)
        logger.debug('%s: %s, %.3f ms', record.place, record, (record.ended - record.started) * 1e3)
