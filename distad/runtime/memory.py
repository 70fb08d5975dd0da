"""Memory that programs drop is kept for the next allocation.

By default glibc returns every block above 128 KB to the system when it is freed, and gets it back page by page: large temporaries cost
2 to 17 times what the work on them does. With these thresholds freed memory stays in the heap, which is then the arena of all programs:
a loop takes nothing new after its first round. They are set where MPI starts, as what collectives return is new memory too, and where
a program is compiled, which needs no MPI. `DISTAD_KEEP_MEMORY=0` leaves the allocator alone.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

import numpy as np

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
KEEP, GROW = 1 << 30, 64 << 20
LARGE = 1 << 16                # bytes from which it pays to ask whether an array is free


@functools.cache
def keep() -> bool:
    """Tell the allocator, once; whether it understands."""
    if os.environ.get('DISTAD_KEEP_MEMORY') == '0':
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):               # another C library
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, KEEP) and mallopt(_M_TRIM_THRESHOLD, KEEP) and mallopt(_M_TOP_PAD, GROW))


# References to an array that is one variable of the caller's: that variable, our argument, and that of getrefcount. From Python
# 3.14 on variables may borrow, and the count says nothing.
_ALONE = 3 if sys.version_info < (3, 14) else -1


def spare(x: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array to write a result into: `x` itself if nobody but the calling program can see it, else a new one."""
    if sys.getrefcount(x) == _ALONE and x.__class__ is np.ndarray and x.base is None and x.shape == shape and x.dtype == dtype:
        flags = x.flags
        if flags.writeable and flags.c_contiguous:
            return x
    return np.empty(shape, dtype)


def taken(box: list[np.ndarray]) -> np.ndarray:
    """The array in a box, to be written over if nobody else has it (see `spare`)."""
    x = box.pop()
    if sys.getrefcount(x) == _ALONE - 1 and x.__class__ is np.ndarray and x.flags.owndata:
        x.setflags(write=True)
    return x
