"""How one rank's end becomes the end of the job.

MPI leaves this open, and its answer in practice is to hang: a rank that raises waits in MPI_Finalize for the others,
which wait for it in a collective. So, with more than one rank:

- an uncaught exception, in any thread or in a function that runs at exit, ends the job. The rank that raised first prints its
  traceback, last; what others raised meanwhile is a line before it. The ranks of a node settle in the black box who was first;
- a rank that leaves in an orderly way tells the others and goes on serving MPI until all leave. Whoever waits for it in
  a collective then knows that it will not come (`presence`), and fails, which is the first case;
- before MPI has started, other ranks may wait in MPI_Init for one that raises. The launcher is told then, if it can be.

With one rank nothing is installed: Python behaves as ever.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from distad.runtime.blackbox import Box
from distad.source import traceback_text

# The launcher forwards what a rank has printed, but not once the job is aborted: so there is a pause in between.
_FORWARDING = 0.1
# Ranks often fail alike. The first waits for what the others have to say; on further nodes it waits a little longer.
_HELD_BACK, _STAGGER, _MOST = 0.3, 0.1, 1.0
_PATIENCE = 5.0  # seconds that a rank gives the one that speaks


def install(rank: int, abort: Callable[[int], None], leave: Callable[[], None], box: Box) -> None:
    """Take over uncaught exceptions and the orderly exit of this process."""
    process, main_hook, thread_hook, other_hook = os.getpid(), sys.excepthook, threading.excepthook, sys.unraisablehook

    def fail(kind: type[BaseException], value: BaseException | None, trace: TracebackType | None, place: str = '') -> None:
        try:
            box.say(f'{kind.__name__}: {value}')
            if not box.claim():
                time.sleep(_PATIENCE)
                return
            time.sleep(min(_HELD_BACK + _STAGGER * min(box.ranks), _MOST))
            sys.stdout.flush()
            sys.stderr.write(_others(box, rank) + f'[rank {rank}] {place}' + traceback_text(kind, value, trace))
            sys.stderr.flush()
            time.sleep(_FORWARDING)
        finally:
            abort(130 if issubclass(kind, KeyboardInterrupt) else 1)

    def on_exception(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != process:  # a forked child is no rank
            main_hook(kind, value, trace)
            return
        fail(kind, value, trace)

    def on_thread_exception(args: threading.ExceptHookArgs) -> None:
        if os.getpid() != process or issubclass(args.exc_type, SystemExit):
            thread_hook(args)
            return
        fail(args.exc_type, args.exc_value, args.exc_traceback, f'in thread {args.thread.name if args.thread else "?"}: ')

    def on_other_exception(args: Any) -> None:
        if os.getpid() != process or 'atexit' not in (args.err_msg or ''):
            other_hook(args)
            return
        fail(args.exc_type, args.exc_value, args.exc_traceback, 'at exit: ')

    def on_exit() -> None:
        if os.getpid() == process:
            leave()

    sys.excepthook = on_exception
    threading.excepthook = on_thread_exception
    sys.unraisablehook = on_other_exception
    atexit.register(on_exit)


def install_early() -> None:
    """Take over uncaught exceptions until MPI starts, if MPICH's launcher has started several ranks.

    Hydra does not end a job because of a process that has not yet come to MPI_Init, and others may wait for it there.
    Other launchers end it because of the status.
    """
    launcher, process, main_hook = os.environ.get('PMI_FD', ''), os.getpid(), sys.excepthook
    if not launcher.isdigit() or os.environ.get('PMI_SIZE', '1') == '1':
        return

    def on_exception(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != process:
            main_hook(kind, value, trace)
            return
        rank = int(os.environ.get('PMI_RANK', '0'))
        time.sleep(min(_STAGGER * rank, _MOST))
        sys.stdout.flush()
        sys.stderr.write(f'[rank {rank}] ' + traceback_text(kind, value, trace))
        sys.stderr.flush()
        time.sleep(_FORWARDING)
        os.write(int(launcher), b'cmd=abort exitcode=1\n')
        time.sleep(_PATIENCE)

    sys.excepthook = on_exception


def _others(box: Box, rank: int) -> str:
    """A line for each thing that other ranks of the node have raised."""
    said = {seen.rank: seen.words for seen in box.look() if seen.words}
    mine = said.pop(rank, '')
    lines: dict[str, list[int]] = {}
    for other, words in said.items():
        words = words.splitlines()[0]
        lines.setdefault('the same as below' if words == mine.splitlines()[0] else words, []).append(other)
    return ''.join(f'[rank{"s" if len(who) > 1 else ""} {", ".join(map(str, who))}] {words}\n' for words, who in lines.items())
