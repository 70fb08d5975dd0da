"""The last resort against a hang: a thread in each rank that no blocking call stops.

A wait in one of distad's collectives ends by itself when the time of the test is over. A blocking call of MPI, a lock
or an endless loop does not. Then the thread of each rank sends the stack of its main thread to rank 0, which prints
them all and ends the run with status 124 (that of timeout(1)).
"""

import linecache
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from distad.testing.agreement import STACK, Ranks

GRACE = 2.0  # seconds from the time-out of a test, which ends waits in collectives, to the end of the run
PATIENCE = 3.0  # seconds that rank 0 waits for the stacks of the others
HARNESS = ('/_pytest/', '/pluggy/', '/pytest/', '/distad/testing/', '<frozen ')


@dataclass(slots=True)
class Watchdog:
    """Watches the main thread of this rank."""

    ranks: Ranks
    test: str = ''
    seconds: float = 0.0
    main: int = field(default_factory=threading.get_ident)

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True, name='watchdog').start()

    @contextmanager
    def watching(self, test: str, seconds: float) -> Iterator[None]:
        """Ends the run if the block takes longer (and waits in collectives a little earlier)."""
        self.test, self.seconds = test, seconds
        self.ranks.deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self.ranks.deadline = float('inf')

    def _watch(self) -> None:
        while time.monotonic() < self.ranks.deadline + GRACE:
            time.sleep(0.25)
        stack = where(sys._current_frames()[self.main])
        if self.ranks.rank:
            self.ranks.comm.isend(stack, dest=0, tag=STACK)
            time.sleep(2 * PATIENCE)
            self.ranks.abort(f'rank {self.ranks.rank}, at the time-out of {self.test}:\n{stack}', 124)
        stacks = dict.fromkeys(range(self.ranks.size), '  (no answer)\n') | {0: stack} | self._collect()
        self.ranks.abort(f'TIME-OUT: {self.test} took more than {self.seconds:g} s. The ranks are here:\n'
                         + ''.join(f'rank {r}:\n{stack}' for r, stack in stacks.items()), 124)

    def _collect(self) -> dict[int, str]:
        stacks: dict[int, str] = {}
        limit = time.monotonic() + PATIENCE
        while len(stacks) < len(self.ranks.others) and time.monotonic() < limit:
            for r in self.ranks.others:
                message = self.ranks.comm.improbe(source=r, tag=STACK)
                if message is not None:
                    stacks[r] = message.recv()
            time.sleep(0.05)
        return stacks


def where(frame: FrameType | None) -> str:
    """The stack down to the frame, outermost first, without the frames of the test harness if there are others."""
    lines: list[tuple[bool, str]] = []
    while frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        text = f'  {file}:{line} in {frame.f_code.co_name}: {linecache.getline(file, line).strip()}\n'
        lines.append((any(part in file for part in HARNESS), text))
        frame = frame.f_back
    lines.reverse()
    if all(harness for harness, _ in lines[-3:]):
        return '  (at the end of the test, waiting for the others)\n'
    first = max((i for i, (harness, _) in enumerate(lines) if harness), default=-1)
    return ''.join(text for _, text in lines[first + 1:]) or lines[-1][1]
