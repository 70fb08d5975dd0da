"""The clocks of ranks compared: what is written with times of many ranks is told in those of one.

Cristian's method: rank 0 says its time, and of several rounds the shortest tells it best. ("Probabilistic clock synchronization",
Distributed Computing 3, 1989.)
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from distad.runtime.waiting import wait
from distad.runtime.world import World

_CLOCK = 2  # a tag
_ROUNDS = 20


def compare(here: World) -> tuple[float, float]:
    """Rank 0's time.perf_counter() about now, and by how much this rank's is ahead of it. All ranks of the run take part."""
    theirs, sent = np.zeros(1), np.zeros(1)

    def finish(request: Any) -> None:
        wait(request.Test, lambda: 'the comparison of the clocks', tries=here.tries)

    if here.rank == 0:
        for other in range(1, here.size):
            for _ in range(_ROUNDS):
                finish(here.comm.Irecv(theirs, other, _CLOCK))
                sent[0] = time.perf_counter()
                finish(here.comm.Isend(sent, other, _CLOCK))
        starts = np.array([time.perf_counter()])
    else:
        rounds = []
        for _ in range(_ROUNDS):
            begun = time.perf_counter()
            finish(here.comm.Isend(sent, 0, _CLOCK))
            finish(here.comm.Irecv(theirs, 0, _CLOCK))
            ended = time.perf_counter()
            rounds.append((ended - begun, (begun + ended) / 2 - theirs[0]))
        ahead = min(rounds)[1]
        starts = np.zeros(1)
    finish(here.comm.Ibcast(starts))
    return float(starts[0]), ahead if here.rank else 0.
