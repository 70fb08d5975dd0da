"""The timeline of a rank: what it did when, as a file that Chrome and Perfetto show (Trace Event Format, the JSON array form).

Of each collective a slice, of what lies between two of them a slice called compute, and the user's own slices in a row below. How
much of a collective was waiting for the rank that came last is known only when the files of all ranks are put together
(`distad.profiler.merge`), for which each collective says who takes part and its number among these ranks.

Times are those of rank 0's clock. A line is an event, so the file of a rank that was killed can be read up to its last second.
"""

from __future__ import annotations

import atexit
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distad.runtime import recorder
from distad.runtime.recorder import Record
from distad.types import dtypes

COLLECTIVES, ANNOTATIONS = 0, 1  # the rows of a rank, "threads" in the words of the format
_FLUSHED = 1.0  # seconds after which what was noted is in the file


class Timeline:
    """One rank's file. `start` is the time of rank 0's clock that is written as 0; this rank's is `ahead` of it."""

    def __init__(self, folder: Path, rank: int, size: int, start: float, ahead: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if rank == 0:
            for path in folder.glob('rank*.json'):  # of a larger run before this one
                if path.stem[4:].isdigit() and int(path.stem[4:]) >= size:
                    path.unlink(missing_ok=True)
        self.file = open(folder / f'rank{rank}.json', 'w')  # noqa: SIM115 (open until the trace ends)
        self.rank, self.zero = rank, start + ahead  # the start, on this rank's clock
        self.last = self.flushed = time.perf_counter()
        self.file.write('[\n')
        self._line(ph='M', name='process_name', args={'name': f'rank {rank}'})
        self._line(ph='M', name='process_sort_index', args={'sort_index': rank})
        self._line(ph='M', name='clock', args={'ahead of rank 0': ahead, 'ranks': size})
        for row, name in ((COLLECTIVES, 'compute and collectives'), (ANNOTATIONS, 'annotations')):
            self._line(ph='M', name='thread_name', tid=row, args={'name': name})
        self.file.flush()

    def collective(self, record: Record) -> None:
        """A collective that has ended, and what was before it."""
        self._compute(record.started)
        self.slice(COLLECTIVES, record.op, record.started, record.ended, 'collective', number=record.sequence,
                   axes=','.join(record.axes), bytes=record.nbytes, dtype=dtypes.name(record.dtype), source=str(record.source),
                   path=record.path, ranks=record.ranks, call=record.call)
        self.last = record.ended
        if self.last - self.flushed > _FLUSHED:
            self.file.flush()
            self.flushed = self.last

    def slice(self, row: int, name: str, begun: float, ended: float, kind: str, **args: Any) -> None:
        """Something that took from `begun` to `ended`, seconds of this rank's clock."""
        self._line(ph='X', name=name, cat=kind, tid=row, ts=round((begun - self.zero) * 1e6, 3),
                   dur=round((ended - begun) * 1e6, 3), args=args)

    def close(self) -> None:
        self._compute(time.perf_counter())
        self.file.write(json.dumps({'ph': 'M', 'name': 'end', 'pid': self.rank}) + '\n]\n')
        self.file.close()

    def _compute(self, until: float) -> None:
        if until > self.last:
            self.slice(COLLECTIVES, 'compute', self.last, until, 'compute')

    def _line(self, **event: Any) -> None:
        self.file.write(json.dumps({'pid': self.rank, 'tid': COLLECTIVES} | event) + ',\n')


_current: list[Timeline] = []  # none or one


def start(folder: str | Path, rank: int, size: int, clock: tuple[float, float]) -> None:
    """Begin to write. `clock`: rank 0's time at the start, and by how much this rank's clock is ahead of it."""
    if _current:
        raise RuntimeError('a trace is being written already; stop it before another one starts')
    timeline = Timeline(Path(folder), rank, size, *clock)
    _current.append(timeline)
    recorder.listeners.append(timeline.collective)
    atexit.register(stop)


def stop() -> None:
    """Close the file; nothing happens if there is none."""
    if _current:
        timeline = _current.pop()
        recorder.listeners.remove(timeline.collective)
        atexit.unregister(stop)
        timeline.close()


@contextmanager
def span(name: str, **args: Any) -> Iterator[None]:
    """Show a block as a slice, if a trace is being written."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        for timeline in _current:
            timeline.slice(ANNOTATIONS, name, max(begun, timeline.zero), time.perf_counter(), 'annotation', **args)
