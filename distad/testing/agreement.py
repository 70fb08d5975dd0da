"""What the ranks of a test run tell each other: a record per rank at the end of each step, and an alarm.

A step is a test, or one example of a property. At its end every rank sends its record to all others and waits for
theirs: one rank's failure becomes known to all, and no rank runs ahead into the next step, where its collectives
would pair with those of ranks that are still in this one. A rank that fails sends an alarm at once. Ranks that wait
in a collective look for alarms while they wait, so they fail too instead of waiting for ever.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from distad.runtime import mpi
from distad.runtime.world import names

ALARM, RECORD, STACK = 1, 2, 3  # tags of messages
ALONE = 1.0  # seconds a rank may wait in a collective when all others are at the end of the step


class WaitedInVainError(BaseException):
    """A rank waits in a collective that cannot complete. (No Exception: code under test may catch those.)"""


class EndedInVainError(Exception):
    """The same where fixtures end: after anything but an Exception pytest would leave the other fixtures as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one rank says at the end of a step."""

    step: str
    alarmed: bool
    stranded: bool
    content: Any


@dataclass(slots=True, kw_only=True)
class Ranks:
    """All ranks of the run, on a communicator of their own, and where this rank is."""

    rank: int = field(default_factory=mpi.rank)
    size: int = field(default_factory=mpi.size)
    comm: Any  # None if there is one rank
    stderr: int  # a file descriptor that pytest does not capture
    deadline: float = float('inf')  # of the current test, as time.monotonic()
    alone_since: float | None = None
    alarmed: bool = False
    stranded: bool = False  # this rank has given up a collective
    ending: bool = False  # the fixtures of a test end
    sent: list[Any] = field(default_factory=list)

    @property
    def others(self) -> list[int]:
        return [r for r in range(self.size) if r != self.rank]

    def alarm(self) -> None:
        """Wakes the ranks that wait for this one, which will not come."""
        if not self.alarmed:
            self.alarmed = True
            self.sent += [self.comm.isend(None, dest=r, tag=ALARM) for r in self.others]

    def check(self) -> None:
        """Called over and over by a rank that waits in a collective: raises when it waits in vain."""
        __tracebackhide__ = True
        reason = self._in_vain()
        if reason:
            self.stranded = True
            raise (EndedInVainError if self.ending else WaitedInVainError)(f'waited in a collective {reason}')

    def _in_vain(self) -> str:
        if self.comm.Iprobe(tag=ALARM):
            return f'for {names(self._arrived(ALARM))}, which failed'
        now = time.monotonic()
        if all(self.comm.Iprobe(source=r, tag=RECORD) for r in self.others):
            self.alone_since = self.alone_since or now
            if now - self.alone_since > ALONE:
                return f'which {names(self.others)} ended the test without'
        if now > self.deadline:
            ended = self._arrived(RECORD)
            return 'until the time-out of the test' + (f', which {names(ended)} ended without it' if ended else '')
        return ''

    def agree(self, step: str, content: Any) -> list[Any]:
        """The content of every rank, in the order of ranks. Every rank takes part in every step."""
        mine = Record(step=step, alarmed=self.alarmed, stranded=self.stranded, content=content)
        self.sent += [self.comm.isend(mine, dest=r, tag=RECORD) for r in self.others]
        records = {self.rank: mine}
        poll(lambda: all(r in records or self._receive(r, records) for r in self.others))
        poll(lambda: all(request.test()[0] for request in self.sent))
        self.sent, self.alarmed, self.stranded, self.alone_since = [], False, False, None
        ordered = [records[r] for r in range(self.size)]
        if any(record.step != step for record in ordered):
            steps = ', '.join(f"rank {r} in {record.step}" for r, record in enumerate(ordered))
            self.abort(f"the ranks are in different steps: {steps}", 3)
        if any(record.alarmed or record.stranded for record in ordered):
            mpi.reset()  # collectives may still be pending in the communicators
        return [record.content for record in ordered]

    def abort(self, text: str, status: int) -> None:
        """Ends all ranks, with a last word."""
        os.write(self.stderr, f"\n{text}\n".encode())
        time.sleep(0.5)  # mpirun may drop what it has not read when the run ends
        mpi.abort(status)

    def _arrived(self, tag: int) -> list[int]:
        return [r for r in self.others if self.comm.Iprobe(source=r, tag=tag)]

    def _receive(self, source: int, records: dict[int, Record]) -> bool:
        message = self.comm.improbe(source=source, tag=RECORD)
        if message is None:
            return False
        records[source] = message.recv()
        if records[source].alarmed:
            self.comm.recv(source=source, tag=ALARM)
        return True


@cache
def all_ranks() -> Ranks:
    """The ranks of this run. Every rank makes the first call at the same point, while stderr is the terminal."""
    comm = mpi.world().channel.comm
    return Ranks(comm=comm and comm.Dup(), stderr=os.dup(2))


def poll(done: Callable[[], bool]) -> None:
    """Waits with sleeps: a rank that spins takes the core from the ranks it waits for."""
    pause = 2e-5
    while not done():
        time.sleep(pause)
        pause = min(1.3 * pause, 5e-4)
