"""Arrays in .npy files, to which many ranks write at once, each its own block; and how ranks succeed or fail together.

The file of an array is the standard one: a header, then the elements in C order. One rank makes it, in its full size, then each rank
opens it for itself and writes where its block lies; the header comes with the first block. Nothing is gathered. A block goes in pieces
of some megabytes, each with a checksum (CRC-32 of its bytes in C order), so a piece can be verified without the others, and on any
number of ranks.

Dtypes that NumPy does not have are stored under one that it has and that looks the same: bfloat16 as the uint16 of its bits.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import zlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from distad.runtime import mpi, mpi_io
from distad.types import dtypes

T = TypeVar('T')
Index = tuple[slice, ...]
Exchange = Callable[[bytes], list[bytes]]

PIECE = 1 << 22  # bytes


# ---- together

def together(exchange: Exchange, action: Callable[[], T]) -> list[T]:
    """Do something on every rank and tell all ranks what came out of it: of data, only what they have to know.

    Where it fails on one rank it fails on all, with the error of the first rank on which it did.
    """
    try:
        mine = (action(), None)
    except Exception as error:
        mine = (None, (type(error), str(error)))
    results = [pickle.loads(data) for data in exchange(pickle.dumps(mine))]
    failed = [(rank, error) for rank, (_, error) in enumerate(results) if error]
    if failed:
        rank, (kind, text) = failed[0]
        raise kind(text if len({error for _, error in failed}) == 1 and len(failed) == len(results) else f'rank {rank}: {text}')
    return [result for result, _ in results]


def on_first(action: Callable[[], T]) -> Callable[[], T | None]:
    """Do it on rank 0 only."""
    return lambda: action() if mpi.rank() == 0 else None


# ---- layout

def stored_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the file of an array."""
    return np.dtype(np.uint16) if dtype == dtypes.bfloat16 else dtype


def header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The header of a .npy file in C order."""
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(text, {'descr': np.lib.format.dtype_to_descr(stored_dtype(dtype)), 'fortran_order': False,
                                                'shape': shape})
    return text.getvalue()


def pieces(index: Index, itemsize: int) -> Iterator[Index]:
    """A block in parts of about `PIECE` bytes, cut along its first dimension; none of a block that holds nothing."""
    shape = tuple(s.stop - s.start for s in index)
    if not index:
        yield ()
    elif math.prod(shape):
        rows = max(1, PIECE // (itemsize * math.prod(shape[1:])))
        for start in range(index[0].start, index[0].stop, rows):
            yield (slice(start, min(start + rows, index[0].stop)), *index[1:])


def within(part: Index, whole: Index) -> Index:
    """The place of a part, counted from the start of what it is a part of."""
    return tuple(slice(p.start - w.start, p.stop - w.start) for p, w in zip(part, whole, strict=True))


def contains(whole: Index, part: Index) -> bool:
    return all(w.start <= p.start and p.stop <= w.stop for p, w in zip(part, whole, strict=True))


def checksum(part: np.ndarray) -> int:
    return zlib.crc32(_bytes(part))


# ---- reading and writing

def create(path: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Make the file of an array in its full size. Its header comes with the first block."""
    with mpi_io.file(path, 'create') as handle:
        handle.Set_size(len(header(shape, dtype)) + math.prod(shape) * dtype.itemsize)


def write(path: str, shape: tuple[int, ...], index: Index, block: np.ndarray) -> list[tuple[Index, int]]:
    """Write a block to where it lies in the array of this shape, and see it safe on the disk. The pieces and their checksums."""
    written = []
    head = header(shape, block.dtype)
    with mpi_io.file(path, 'write') as handle:
        if not any(s.start for s in index):
            _whole(path, mpi_io.moved(handle.Write_at, np.frombuffer(head, np.uint8)), len(head))
        for part in pieces(index, block.itemsize):
            data = _bytes(block[within(part, index)])
            with mpi_io.view(handle, len(head), *_in_bytes(shape, part, block.itemsize)):
                _whole(path, mpi_io.moved(handle.Write_at, data), data.size)
            written.append((part, zlib.crc32(data)))
        handle.Sync()
    return written


def read(path: str, shape: tuple[int, ...], dtype: np.dtype, index: Index) -> np.ndarray:
    """The part of an array that lies at `index`."""
    block = np.empty(tuple(s.stop - s.start for s in index), dtype)
    offset = len(header(shape, dtype))
    rest = block.reshape(-1).view(np.uint8)  # the pieces follow one another
    with mpi_io.file(path, 'read') as handle:
        for part in pieces(index, dtype.itemsize):
            size = dtype.itemsize * math.prod(s.stop - s.start for s in part)
            with mpi_io.view(handle, offset, *_in_bytes(shape, part, dtype.itemsize)):
                _whole(path, mpi_io.moved(handle.Read_at, rest[:size]), size)
            rest = rest[size:]
    return block


def _whole(path: str, done: int, wanted: int) -> None:
    if done != wanted:
        raise OSError(f'{path}: {done} bytes went through of {wanted}')


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def _in_bytes(shape: tuple[int, ...], index: Index, itemsize: int) -> tuple[list[int], Index]:
    """Shape and index of the same part of an array of bytes."""
    if not shape:
        return [itemsize], (slice(0, itemsize),)
    last = index[-1]
    return [*shape[:-1], shape[-1] * itemsize], (*index[:-1], slice(last.start * itemsize, last.stop * itemsize))


# ---- folders

def put_in_place(folder: str, name: str) -> None:
    """Rename a folder, once all that it holds is on the disk. From then on, and not before, it is there, whatever happens."""
    _sync(folder)
    os.rename(folder, name)
    _sync(os.path.dirname(name))


def write_text(path: str, text: str) -> None:
    """Write a file and see it safe on the disk."""
    with open(path, 'x', encoding='utf-8') as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
