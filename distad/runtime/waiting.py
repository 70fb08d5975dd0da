"""Waiting without blocking inside MPI, where neither a signal nor a deadline would reach.

A rank that waits tries again and again, for MPI moves messages only while it is asked; and it sleeps in between, for with fewer cores
than ranks the rank it waits for needs the core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

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


# How often a rank tries before it sleeps: about as long as ranks on cores of their own differ. A sleep takes 70 us or
# more, but with fewer cores than ranks every try keeps the others from arriving.
TRIES_ALONE, TRIES_CROWDED = 1000, 50


def wait(test: Callable[[], bool], what: Callable[[], str], present: Callable[[], None] = lambda: None,
         watchers: Sequence[Callable[[], None]] = (), tries: int = TRIES_CROWDED) -> None:
    """Wait until `test()` is true: first by trying, then with short sleeps, at most until the deadline.

    Sleeping leaves the core to the rank that is waited for, and lets Python see signals. `what()` names the operation
    for the message; `present()` raises if it can never complete.
    """
    for _ in range(tries):
        if test():
            return
    began = time.monotonic()
    limit = timeout()
    next_look = began + 0.05
    pause = 2e-5
    while not test():
        time.sleep(pause)
        for watcher in watchers:
            watcher()
        now = time.monotonic()
        if now < next_look:
            continue
        next_look = now + 0.05
        present()
        if now - began > 1:
            pause = 5e-4
        if now - began > limit:
            raise CollectiveTimeoutError(
                f'{what()}: not all ranks came within {limit:g} s. Some rank is elsewhere or has stopped; a step that '
                'rightly takes longer needs a longer DISTAD_TIMEOUT (seconds)')
