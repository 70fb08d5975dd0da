"""Windows in an array, named by index vectors: the arithmetic that gather and scatter share, on blocks.

An index array [b..., k] holds, for each place b, the first corner of a window along k dimensions of an operand. The operand may be
one rank's part of a dimension that windows of size 1 are picked from: then a window that lies elsewhere is not ours.
"""

import math
from dataclasses import dataclass

import numpy as np

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How windows, indices and operand fit together, in the words of lax.GatherDimensionNumbers.

    `offset_dims`: the dimensions of the windows in the result (or the updates). `collapsed_slice_dims`: operand dimensions whose
    window has size 1 and goes. `start_index_map`: the operand dimension that each entry of an index vector is for.
    `operand_batching_dims`, `start_indices_batching_dims`: dimensions that operand and indices share.
    """

    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()

    def window_dims(self, ndim: int) -> Dims:
        """The operand dimensions that windows keep, in order."""
        gone = {*self.collapsed_slice_dims, *self.operand_batching_dims}
        return tuple(d for d in range(ndim) if d not in gone)

    def batched(self, sizes: Dims, count: int, table: bool, indices: bool) -> tuple['Windows', Dims]:
        """The windows of `count` tables, or of as many index arrays, or of pairs of them; each with the batch in front.

        One index array in many tables: windows take the batch as a whole. Many in one: the batch is among the places. Pairs: a
        dimension that both share.
        """
        def moved(dims: Dims) -> Dims:
            return tuple(d + 1 for d in dims)

        both = (0,) if table and indices else ()
        move = moved if table else tuple
        made = Windows(
            offset_dims=(*(() if indices else (0,)), *moved(self.offset_dims)),
            collapsed_slice_dims=move(self.collapsed_slice_dims), start_index_map=move(self.start_index_map),
            operand_batching_dims=(*both, *move(self.operand_batching_dims)),
            start_indices_batching_dims=(*both, *(moved if indices else tuple)(self.start_indices_batching_dims)))
        return made, (1 if both else count, *sizes) if table else sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A rank's block of an operand: sizes of the whole, of the block, and where the block begins."""

    whole: Dims
    block: Dims
    starts: Dims


def places(indices: np.ndarray, windows: Windows, sizes: Dims, part: Part, mode: str) -> tuple[list, np.ndarray | None]:
    """For each operand dimension an array of positions over `[b..., w...]`, and which places b are ours (None: all).

    `sizes` are those of the windows in the whole. Windows that reach beyond the operand are moved inside (mode 'clip') or are
    not ours (mode 'fill').
    """
    batch = indices.shape[:-1]
    ours = ~beyond(indices, windows, sizes, part) if mode == 'fill' else None
    corner: dict[int, np.ndarray] = {}
    for k, d in enumerate(windows.start_index_map):
        start, most = indices[..., k].astype(np.int64), part.whole[d] - sizes[d]
        start = np.clip(start, 0, max(most, 0))
        if part.block[d] != part.whole[d]:
            start = start - part.starts[d]
            here = (start >= 0) & (start < part.block[d])
            ours = here if ours is None else ours & here
            start = np.where(here, start, 0)
        corner[d] = start
    window_dims = windows.window_dims(len(part.whole))
    shape = (len(batch), len(window_dims))
    found = []
    for d in range(len(part.whole)):
        at = np.zeros((1,) * sum(shape), np.int64)
        if d in windows.operand_batching_dims:
            j = windows.start_indices_batching_dims[windows.operand_batching_dims.index(d)]
            at = _along(np.arange(batch[j]), j, sum(shape))
        if d in corner:
            at = corner[d].reshape(batch + (1,) * shape[1])
        if d in window_dims:
            length = part.block[d] if sizes[d] == part.whole[d] and part.block[d] != part.whole[d] else sizes[d]
            at = at + _along(np.arange(length), shape[0] + window_dims.index(d), sum(shape))
        found.append(at)
    return found, None if ours is None or ours.all() else ours


def beyond(indices: np.ndarray, windows: Windows, sizes: Dims, part: Part) -> np.ndarray:
    """Which places name a window that reaches beyond the whole operand: bool [b...]."""
    outside = np.zeros(indices.shape[:-1], bool)
    for k, d in enumerate(windows.start_index_map):
        start = indices[..., k].astype(np.int64)
        outside |= (start < 0) | (start > part.whole[d] - sizes[d])
    return outside


def _along(line: np.ndarray, dim: int, ndim: int) -> np.ndarray:
    return line.reshape([-1 if d == dim else 1 for d in range(ndim)])


def one_row(windows: Windows, sizes: Dims, part: Part) -> int | None:
    """The one dimension that is picked from, where windows are otherwise the whole operand: a lookup of rows."""
    if len(windows.start_index_map) != 1 or windows.operand_batching_dims:
        return None
    d, = windows.start_index_map
    whole = all(sizes[i] == n for i, n in enumerate(part.whole) if i != d)
    return d if whole and windows.collapsed_slice_dims == (d,) else None


def one_box(found: list[np.ndarray], batch: Dims) -> tuple[slice, ...] | None:
    """The one window as a slice of each dimension, where there is one place: NumPy then copies it as a whole."""
    if math.prod(batch) != 1 or not all(f.size for f in found):
        return None
    return tuple(slice(int(f.flat[0]), int(f.flat[0]) + f.size) for f in found)


def take(x: np.ndarray, indices: np.ndarray, windows: Windows, sizes: Dims, part: Part, mode: str, fill) -> np.ndarray:
    """The windows of an operand: [b..., w...] with the window dimensions where `offset_dims` says."""
    found, ours = places(indices, windows, sizes, part, mode)
    n = indices.ndim - 1
    row = one_row(windows, sizes, part)
    if row is not None:
        line = found[row].reshape(indices.shape[:-1])
        y = np.moveaxis(np.take(x, line, axis=row), range(row, row + n), range(n))
    elif (box := one_box(found, indices.shape[:-1])) is not None:
        y = x[box].reshape(np.broadcast_shapes(*(f.shape for f in found)))
    elif all(m > 0 for m in x.shape) or not indices.size:
        y = x[tuple(np.broadcast_arrays(*found))] if found else np.broadcast_to(x, indices.shape[:-1])
    else:
        y = np.zeros(np.broadcast_shapes(*(f.shape for f in found)), x.dtype)
    if ours is not None:
        y = np.where(ours.reshape(ours.shape + (1,) * (y.ndim - n)), y, fill)
    return np.moveaxis(y, range(n, y.ndim), windows.offset_dims)


def put(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, windows: Windows, sizes: Dims, part: Part, mode: str,
        combine: np.ufunc | None) -> np.ndarray:
    """A copy of the operand with windows combined with (or, without `combine`, replaced by) the updates, in their order."""
    found, ours = places(indices, windows, sizes, part, mode)
    n = indices.ndim - 1
    out = np.array(x)
    new = np.moveaxis(updates, windows.offset_dims, range(n, updates.ndim))
    row = one_row(windows, sizes, part)
    if row is not None:
        line, target = found[row].reshape(-1), np.moveaxis(out, row, 0)
        new = new.reshape(line.size, *target.shape[1:])
        if ours is not None:
            line, new = line[ours.reshape(-1)], new[ours.reshape(-1)]
        where: tuple | np.ndarray = line
    elif found and (box := one_box(found, indices.shape[:-1])) is not None:
        if ours is None:
            target = out[box]
            new = new.reshape(target.shape)
            target[...] = new if combine is None else combine(target, new)
        return out
    else:
        if not found:
            found, target = [], out.reshape(1)
            where = np.zeros(new.shape, np.int64)
        else:
            target, where = out, tuple(np.broadcast_arrays(*found))
        if ours is not None:
            keep = np.broadcast_to(ours.reshape(ours.shape + (1,) * (new.ndim - n)), new.shape)
            where = tuple(w[keep] for w in where) if isinstance(where, tuple) else where[keep]
            new = new[keep]
    if combine is None:
        target[where] = new
    else:
        combine.at(target, where, new)
    return out


def take_last(x: np.ndarray, indices: np.ndarray, windows: Windows, sizes: Dims, part: Part, mode: str) -> np.ndarray:
    """As `take`; but of places that name one element the last alone has it. What the others have, and what is not ours, is zero."""
    zero = x.dtype.type(0)
    y = take(x, indices, windows, sizes, part, mode, zero)
    if math.prod(indices.shape[:-1]) == 1:
        return y
    mine = np.arange(1, y.size + 1).reshape(y.shape)
    board = put(np.zeros(x.shape, mine.dtype), indices, mine, windows, sizes, part, mode, None)
    return np.where(take(board, indices, windows, sizes, part, mode, 0) == mine, y, zero)
