"""Windows whose place is known only at run time: slices, lookups and scatters, inside and outside of bounds, and twice at one
place."""

from collections.abc import Callable, Iterator

import numpy as np

from distad.ops.windows import Windows
from tests.laws.calls import Call, Elsewhere, K, M, N, Operand, Table, call, f, i32


def corner(starts, shape, sizes):
    """The slices of a window, moved inside where it reaches beyond the array."""
    inside = [min(max(int(s), 0), m - n) for s, m, n in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(a, a + n) for a, n in zip(inside, sizes, strict=True))


def dynamic_slice(x: Operand, sizes: tuple[int, ...]) -> Call:
    starts = [i32(low=-2, high=n + 2) for n in x.shape]
    return call(lambda x, *starts: x[corner(starts, x.shape, sizes)], x, *starts, slice_sizes=sizes)


def dynamic_update(x: Operand, update: Operand) -> Call:
    def reference(x, update, *starts):
        y = x.copy()
        y[corner(starts, x.shape, update.shape)] = update
        return y
    return call(reference, x, update, *(i32(low=-2, high=n + 2) for n in x.shape))


# ---- gather and scatter, one window after the other

def windows_in(shape, indices, windows: Windows, sizes, mode: str) -> Iterator[tuple[tuple, tuple | None]]:
    """For each place of the indices the slices of its window; None if it reaches beyond the array and so does not count."""
    for place in np.ndindex(indices.shape[:-1]):
        at = dict.fromkeys(range(len(shape)), 0)
        for d, j in zip(windows.operand_batching_dims, windows.start_indices_batching_dims, strict=True):
            at[d] = place[j]
        at |= {d: int(start) for d, start in zip(windows.start_index_map, indices[place], strict=True)}
        outside = any(not 0 <= at[d] <= shape[d] - sizes[d] for d in windows.start_index_map)
        if outside and mode == 'fill':
            yield place, None
        else:
            yield place, corner([at[d] for d in range(len(shape))], shape, sizes)


def result_of(shape, indices, windows: Windows, sizes) -> tuple[tuple[int, ...], Callable]:
    """The shape of all windows together, and where in it lies the window of a place."""
    kept = iter(sizes[d] for d in windows.window_dims(len(shape)))
    batch = iter(indices.shape[:-1])
    ndim = len(windows.offset_dims) + indices.ndim - 1
    whole = tuple(next(kept) if d in windows.offset_dims else next(batch) for d in range(ndim))

    def position(place):
        places = iter(place)
        return tuple(slice(None) if d in windows.offset_dims else next(places) for d in range(ndim))
    return whole, position


def gathered(x: Operand, indices: Operand, windows: Windows, sizes: tuple[int, ...], mode: str = 'clip', fill: float = 0.0) -> Call:
    def reference(x, indices):
        shape, position = result_of(x.shape, indices, windows, sizes)
        y = np.full(shape, fill, x.dtype)
        for place, window in windows_in(x.shape, indices, windows, sizes, mode):
            if window is not None:
                y[position(place)] = x[window].reshape(y[position(place)].shape)
        return y
    return call(reference, x, indices, windows=windows, slice_sizes=sizes, mode=mode, fill=x.dtype.type(fill)).but(places=7)


def scattered(combine: Callable, x: Operand, indices: Operand, windows: Windows, sizes: tuple[int, ...],
              mode: str = 'clip') -> Call:
    shape, position = result_of(x.shape, np.zeros(indices.shape), windows, sizes)

    def reference(x, indices, updates):
        y = x.copy()
        for place, window in windows_in(x.shape, indices, windows, sizes, mode):
            if window is not None:
                y[window] = combine(y[window], updates[position(place)].reshape(y[window].shape))
        return y
    updates = Operand(shape=shape, dtype=x.dtype, low=0.5 if combine is np.multiply else x.low, high=x.high)
    return call(reference, x, indices, updates, windows=windows, slice_sizes=sizes, mode=mode).but(places=7)


def gathered_last(x: Operand, indices: Operand, windows: Windows, sizes: tuple[int, ...], mode: str = 'clip') -> Call:
    """Of places that name one element the last alone has it."""
    def reference(x, indices):
        shape, position = result_of(x.shape, indices, windows, sizes)
        y, owner = np.zeros(shape, x.dtype), np.zeros(x.shape, int)
        numbers = np.arange(1, y.size + 1).reshape(shape)
        inside = [(position(p), window) for p, window in windows_in(x.shape, indices, windows, sizes, mode) if window is not None]
        for at, window in inside:
            owner[window] = numbers[at].reshape(owner[window].shape)
        for at, window in inside:
            y[at] = np.where(owner[window].reshape(y[at].shape) == numbers[at], x[window].reshape(y[at].shape), 0)
        return y
    return call(reference, x, indices, windows=windows, slice_sizes=sizes, mode=mode).but(places=7)


ROWS = Windows(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
COLUMNS = Windows(offset_dims=(0,), collapsed_slice_dims=(1,), start_index_map=(1,))
PAIRS = Windows(offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,))
POINTS = Windows(offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1))
BOXES = Windows(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))
ALONG = Windows(offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,),
                start_indices_batching_dims=(0,))

# operand, indices (some of them out of bounds), windows, their sizes
FORMS = [
    (f(M, N), i32(K, 1, low=-2, high=M + 1), ROWS, (1, N)), (f(M, N), i32(4, 1, low=0, high=N - 1), COLUMNS, (M, 1)),
    (f(M, N), i32(4, 6, 1, low=0, high=M - 1), PAIRS, (1, N)), (f(M, N), i32(K, 2, low=-1, high=M), POINTS, (1, 1)),
    (f(M, N), i32(4, 2, low=-1, high=M), BOXES, (3, 4)), (f(M, N), i32(M, 1, low=0, high=N - 1), ALONG, (1, 1))]


def each(combine: Callable) -> list[Call]:
    return [*(scattered(combine, *form) for form in FORMS), *(scattered(combine, *form, mode='fill') for form in (FORMS[0], FORMS[3])),
            scattered(combine, i32(M, N), *FORMS[0][1:])]


TABLE: Table = {
    'dynamic_slice': [dynamic_slice(f(M, N), (4, N)), dynamic_slice(f(M, N), (M, 5)), dynamic_slice(i32(N), (6,))],
    'dynamic_update_slice': [dynamic_update(f(M, N), f(4, N)), dynamic_update(f(M, N), f(M, 5)), dynamic_update(i32(N), i32(6))],
    'gather': [*(gathered(*form) for form in FORMS), gathered(*FORMS[0], mode='fill', fill=7.0), gathered(*FORMS[3], mode='fill'),
               gathered(i32(M, N), *FORMS[0][1:])],
    'gather-last': [*(gathered_last(*form) for form in FORMS), *(gathered_last(*form, mode='fill') for form in (FORMS[0], FORMS[3]))],
    'scatter-add': each(np.add), 'scatter': each(lambda old, new: new),
    'add-winners': Elsewhere(by='scatter-max', why='the derivative of the greater'),
    'pick-winners': Elsewhere(by='scatter-max', why='the derivative of the greater'),
    'scatter-min': each(np.minimum), 'scatter-max': each(np.maximum),
    'scatter-mul': each(np.multiply),
}
