"""Python's cycle collector, kept waiting while programs are made: what arises there lives on, and looking through it again and
again as it grows took a third of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_waits() -> Iterator[None]:
    """No cycles are collected in the body, unless it asks."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
