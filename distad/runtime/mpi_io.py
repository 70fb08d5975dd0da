"""Files through MPI-IO: opened by each rank alone, written and read where its part of an array lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from distad.runtime import mpi


@contextmanager
def file(path: str, mode: str) -> Iterator[Any]:
    """A file opened through MPI-IO to 'create', 'write' or 'read' it, by this rank alone.

    Ranks that write to one file each open it: then none waits for another, and what fails on one, which is raised as OSError,
    leaves the others free to hear of it. (A collective write may hang on the ranks where it does not fail.)
    """
    MPI = mpi.started().MPI
    flags = {'create': MPI.MODE_CREATE | MPI.MODE_EXCL | MPI.MODE_WRONLY, 'write': MPI.MODE_WRONLY, 'read': MPI.MODE_RDONLY}
    # Data sieving would also write back what lies between the pieces of this rank: what others are writing.
    info = MPI.Info.Create({'romio_ds_write': 'disable'})
    try:
        handle = MPI.File.Open(MPI.COMM_SELF, path, flags[mode], info)
        try:
            yield handle
        finally:
            handle.Close()
    except MPI.Exception as error:
        raise OSError(f'{path}: {error.Get_error_string().splitlines()[-1].rpartition(": ")[2]}') from error
    finally:
        info.Free()


@contextmanager
def view(handle: Any, offset: int, shape: Sequence[int], index: Sequence[slice]) -> Iterator[None]:
    """Let positions in a file count the bytes of a part of the array of bytes [...] that starts at `offset`."""
    MPI = mpi.started().MPI
    part = MPI.BYTE.Create_subarray(shape, [s.stop - s.start for s in index], [s.start for s in index])
    part.Commit()
    handle.Set_view(offset, MPI.BYTE, part)
    try:
        yield
    finally:
        part.Free()


def moved(transfer: Callable[[int, np.ndarray, Any], None], data: np.ndarray) -> int:
    """Read or write bytes from the start of the view; the number that were there or found room."""
    MPI = mpi.started().MPI
    status = MPI.Status()
    transfer(0, data, status)
    return status.Get_count(MPI.BYTE)
