"""What every side of a benchmark does in the same way: run a step again and again, and say in one line what it took.

The line is `RESULT {...}`: wall seconds of each call (of the slowest rank), CPU seconds of this process, a checksum of what was
computed, and the peak memory of this process in MiB.
"""

import json
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any


def report(case: str, step: Callable[[], Any], checksum: float | None = None, *, calls: int = 20, warm: int = 3, rank: int = 0,
           slowest: Callable[[float], float] = float, inner: int = 1) -> None:
    """Time `step`, `inner` runs at a time. `slowest(seconds)` is the largest of all ranks' seconds."""
    walls, cpus = [], []
    for i in range(warm + calls):
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(inner):
            step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        wall = slowest(wall)
        if i >= warm:
            walls.append(wall / inner)
            cpus.append(cpu / inner)
    say(case, walls, cpu=statistics.median(cpus), checksum=checksum, rank=rank)


def say(case: str, walls: list[float], *, cpu: float | None = None, checksum: float | None = None, rank: int = 0) -> None:
    """The line of the first rank."""
    if rank == 0:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print('RESULT', json.dumps({'case': case, 'walls': walls, 'cpu': cpu, 'checksum': checksum, 'peak': peak}), flush=True)
