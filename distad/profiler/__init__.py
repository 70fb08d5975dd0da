"""When each rank did what: a timeline for Chrome or Perfetto, and a table of what collectives cost and who is waited for.

    with distad.profiler.trace('timeline'):
        for batch in batches:
            step(params, batch)

    $ DISTAD_TRACE=timeline mpirun -n 4 python train.py         the same for a whole program
    $ python -m distad trace merge timeline                     writes timeline/trace.json and prints the table

Each rank writes its own file. Names are those of jax.profiler.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from distad.runtime import mpi, timeline

__all__ = ['StepTraceAnnotation', 'TraceAnnotation', 'annotate_function', 'start_trace', 'stop_trace', 'trace']


def start_trace(log_dir: str | Path) -> None:
    """Begin a timeline of this run: each rank writes log_dir/rank<r>.json until `stop_trace` or its end.

    log_dir: a folder, made if need be; older files of these names are written over. Communication: all ranks of the run take
    part, some 20 messages of 8 bytes between rank 0 and each other rank, from which comes by how much their clocks differ. A
    collective costs 30 us more while a trace is written. Raises RuntimeError if one is being written already.
    """
    timeline.start(log_dir, mpi.rank(), mpi.size(), mpi.clock())


def stop_trace() -> None:
    """End the timeline and close its file. No communication."""
    timeline.stop()


@contextmanager
def trace(log_dir: str | Path) -> Iterator[None]:
    """A timeline of a block: `start_trace(log_dir)`, and `stop_trace()` at its end.

        with distad.profiler.trace('timeline'):
            step(params, batch)
    """
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


def TraceAnnotation(name: str, **metadata: Any) -> AbstractContextManager[None]:
    """A block that the timeline shows under this name, with `metadata` (values that JSON knows). No communication.

        with TraceAnnotation('read batch', epoch=3):
            batch = next(batches)
    """
    return timeline.span(name, **metadata)


def StepTraceAnnotation(name: str, *, step_num: int, **metadata: Any) -> AbstractContextManager[None]:
    """A step of a loop that the timeline shows under this name and number. No communication."""
    return timeline.span(f'{name} {step_num}', step_num=step_num, **metadata)


def annotate_function(func: Callable, name: str | None = None, **metadata: Any) -> Callable:
    """A function whose calls the timeline shows. name: default the function's own. No communication."""
    @functools.wraps(func)
    def shown(*args, **kwargs):
        with timeline.span(name or func.__name__, **metadata):
            return func(*args, **kwargs)
    return shown
