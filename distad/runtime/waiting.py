"""Waiting without blocking inside MPI, where neither a signal nor a deadline would reach.

A rank that waits tries again and again, for MPI moves messages only while it is asked; and in between it gives up its core, first to
whoever wants it, later for a while, as with fewer cores than ranks the rank it waits for needs it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from itertools import repeat

from distad.errors import CollectiveTimeoutError


def timeout() -> float:
    """Seconds that a rank waits in one collective: DISTAD_TIMEOUT, 300 if unset, `inf` for ever."""
    text = os.environ.get('DISTAD_TIMEOUT', '300')
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.
    if not seconds > 0:
        raise ValueError(f'DISTAD_TIMEOUT is a number of seconds, or inf for ever, not {text!r}')
    return seconds


# How often a rank tries before it gives up its core: about as long as ranks on cores of their own differ. With fewer cores than ranks
# every try keeps the others from arriving, so there is one.
TRIES_ALONE, TRIES_CROWDED = 1000, 1

# Then it lets others go first before each further try. Four ranks on two cores made an all-reduce of 64 KiB in 0.15 ms like that, in
# 0.95 ms if they slept, as being woken takes 70 us at each of its steps. After so many tries somebody is late, and sleeping leaves
# that rank the core. It may be done soon after it has come, for which a few tries follow on each sleep.
_YIELDING, _AWAKE = 100, 5
_SHORTEST, _LONGEST, _SHARE = 2e-5, 5e-4, 200  # seconds of a sleep, which is that share of the time waited so far


def wait(test: Callable[[], bool], what: Callable[[], str], present: Callable[[], None] = lambda: None,
         watchers: Sequence[Callable[[], None]] = (), tries: int = TRIES_CROWDED) -> None:
    """Wait until `test()` is true: first by trying, then by yielding, then with short sleeps, at most until the deadline.

    Sleeping leaves the core to the rank that is waited for, and lets Python see signals. `what()` names the operation
    for the message; `present()` raises if it can never complete.
    """
    for _ in repeat(None, tries):
        if test():
            return
    for _ in repeat(None, _YIELDING):
        os.sched_yield()
        if test():
            return
    began = now = time.monotonic()
    limit = timeout()
    next_look = began + 0.05
    while True:
        time.sleep(min(max(_SHORTEST, (now - began) / _SHARE), _LONGEST))
        for _ in repeat(None, _AWAKE):
            if test():
                return
            os.sched_yield()
        for watcher in watchers:
            watcher()
        now = time.monotonic()
        if now < next_look:
            continue
        next_look = now + 0.05
        present()
        if now - began > limit:
            raise CollectiveTimeoutError(
                f'{what()}: not all ranks came within {limit:g} s. Some rank is elsewhere or has stopped; a step that '
                'rightly takes longer needs a longer DISTAD_TIMEOUT (seconds)')
