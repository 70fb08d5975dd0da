"""How one rank's end becomes the end of the job.

MPI leaves this open, and its answer in practice is to hang: a rank that raises waits in MPI_Finalize for the others,
which wait for it in a collective. So, with more than one rank:

- an uncaught exception, in any thread, prints its traceback once with the rank in front and aborts the job;
- a rank that leaves in an orderly way tells the others and goes on serving MPI until all leave. Whoever waits for it in
  a collective then knows that it will not come (`mpi.check_present`), and fails, which is the first case.

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

from distad.source import traceback_text

# The launcher forwards what a rank has printed, but not once the job is aborted: so there is a pause in between.
_FORWARDING = 0.1
# Ranks often fail alike. The first to print aborts the job, so the others hold back, and one traceback is seen.
_HELD_BACK, _STAGGER, _MOST = 0.3, 0.1, 1.0


def install(rank: int, abort: Callable[[int], None], leave: Callable[[], None]) -> None:
    """Take over uncaught exceptions and the orderly exit of this process."""
    process, main_hook, thread_hook = os.getpid(), sys.excepthook, threading.excepthook

    def fail(kind: type[BaseException], text: str) -> None:
        try:
            time.sleep(min(_HELD_BACK + _STAGGER * rank, _MOST) if rank else 0)
            sys.stdout.flush()
            sys.stderr.write(f'[rank {rank}] {text}')
            sys.stderr.flush()
            time.sleep(_FORWARDING)
        finally:
            abort(130 if issubclass(kind, KeyboardInterrupt) else 1)

    def on_exception(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != process:  # a forked child is no rank
            main_hook(kind, value, trace)
            return
        fail(kind, traceback_text(kind, value, trace))

    def on_thread_exception(args: threading.ExceptHookArgs) -> None:
        if os.getpid() != process or issubclass(args.exc_type, SystemExit):
            thread_hook(args)
            return
        text = traceback_text(args.exc_type, args.exc_value, args.exc_traceback)
        fail(args.exc_type, f'in thread {args.thread.name if args.thread else "?"}: {text}')

    def on_exit() -> None:
        if os.getpid() == process:
            leave()

    sys.excepthook = on_exception
    threading.excepthook = on_thread_exception
    atexit.register(on_exit)
