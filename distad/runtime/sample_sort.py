"""Sorting elements that lie on several ranks, and fetching them by their numbers. No rank ever holds more than a few blocks.

The sample sort: each rank sorts its block and shows a regular sample of it; the ranks agree on values that part the whole into
nearly equal runs, and send each element to the rank of its run; runs are merged, and their ends shifted between neighbours so that
all ranks have the same number of elements again. An element's rank and place break ties, so the sort is stable, no run is longer
than two blocks, and the result is one and the same for any number of ranks.

Source: H. Shi, J. Schaeffer, "Parallel sorting by regular sampling", J. Parallel Distrib. Comput. 14 (1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distad.runtime import collectives
from distad.runtime.ordering import comparable, order
from distad.runtime.world import Group

Columns = list[np.ndarray]                  # arrays of one length, whose elements at one place belong together

SORT_MESSAGES = ('all-gather', 'all-gather', 'collective-permute', 'collective-permute')


def sample_sort(group: Group, columns: Columns, num_keys: int, where: Any) -> Columns:
    """This rank's block of the sorted whole; `columns` is its block of the unsorted one, all of one length."""
    p, block = group.size, len(columns[0])
    columns = _sorted(columns, num_keys)
    if p == 1 or not block:
        return columns
    cuts = _cuts(group, columns, num_keys, where)
    counts = collectives.all_gather(group, np.diff([0, *cuts, block]), where=where)              # [from, to]
    columns = _exchanged(group, columns, counts[group.index], counts[:, group.index], where)
    columns = _sorted(columns, num_keys)                                                       # merges runs in order of ranks
    ends = np.cumsum(counts.sum(0))
    moves = np.array([_overlaps(end - size, end, p, block) for size, end in zip(counts.sum(0), ends, strict=True)])
    return _exchanged(group, columns, moves[group.index], moves[:, group.index], where)


def _sorted(columns: Columns, num_keys: int) -> Columns:
    at = order(columns[:num_keys])
    return [column[at] for column in columns]


def _overlaps(start: int, end: int, parts: int, length: int) -> list[int]:
    """How many of the places from start to end lie in each of the equal parts."""
    return [max(0, min(end, (k + 1) * length) - max(start, k * length)) for k in range(parts)]


def _cuts(group: Group, columns: Columns, num_keys: int, where: Any) -> list[int]:
    """Where this rank's sorted block is cut so that the runs of all ranks together are nearly equal."""
    p, block = group.size, len(columns[0])
    places = np.arange(p) * block // p
    sample = _packed([key[places] for key in columns[:num_keys]])
    shown = collectives.all_gather(group, sample, where=where)
    rows = [_unpacked(row, p, columns[:num_keys]) for row in shown]
    keys = [np.concatenate(parts) for parts in zip(*rows, strict=True)]                        # ties in the order of ranks
    return [_cut(columns[:num_keys], [key[i:i + 1] for key in keys], int(i) // p, places[i % p], group.index)
            for i in order(keys)[p::p]]


def _cut(keys: Columns, value: Columns, rank: int, place: int, mine: int) -> int:
    """How many elements of this rank come before an element of another one."""
    if rank == mine:
        return int(place)
    low, high = 0, len(keys[0])
    for key, v in zip(keys, value, strict=True):
        among, v = comparable(key[low:high]), comparable(v)
        low, high = (low + int(np.searchsorted(among, v, side)[0]) for side in ('left', 'right'))
    return high if mine < rank else low


# ---- fetching and sending by number

TAKE_MESSAGES = ('all-to-all', 'collective-permute', 'collective-permute')
PUT_MESSAGES = ('all-to-all', 'collective-permute')


def take(group: Group, x: np.ndarray, numbers: np.ndarray, where: Any) -> np.ndarray:
    """The elements of the whole, of which x is this rank's block, that have these numbers."""
    at, numbers, asked, told = _routes(group, x, numbers, where)
    requests, = _exchanged(group, [numbers], asked, told, where)
    answers, = _exchanged(group, [x[requests % len(x)]], told, asked, where)
    out = np.empty_like(answers)
    out[at] = answers
    return out


def put(group: Group, x: np.ndarray, numbers: np.ndarray, where: Any) -> np.ndarray:
    """The inverse: this rank's block of the whole in which the elements of x have these numbers, a permutation."""
    at, numbers, sent, come = _routes(group, x, numbers, where)
    numbers, values = _exchanged(group, [numbers, x[at]], sent, come, where)
    out = np.empty_like(values)
    out[numbers % len(x)] = values
    return out


def _routes(group: Group, x: np.ndarray, numbers: np.ndarray, where: Any):
    """Numbers in the order of the ranks that they lie on, and how many go to and come from each."""
    owners = numbers // len(x)
    at = np.argsort(owners, kind='stable')
    sends = np.bincount(owners, minlength=group.size)
    comes = collectives.all_to_all(group, sends.reshape(-1, 1), where=where).reshape(-1)
    return at, numbers[at], sends, comes


# ---- messages

def _exchanged(group: Group, columns: Columns, sends: np.ndarray, comes: np.ndarray, where: Any) -> Columns:
    """The first so many elements go to the first rank, and so on; what comes stands in the order of ranks."""
    ends = np.cumsum(sends)
    blocks = [_packed([c[end - n:end] for c in columns]) for n, end in zip(sends, ends, strict=True)]
    width = sum(c.dtype.itemsize for c in columns)
    came = collectives.all_to_all_v(group, blocks, [(int(n) * width,) for n in comes], where=where)
    rows = [_unpacked(part, int(n), columns) for part, n in zip(came, comes, strict=True)]
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]


def _packed(columns: Sequence[np.ndarray]) -> np.ndarray:
    """The bytes of several arrays, one after the other."""
    return np.concatenate([np.ascontiguousarray(c).view(np.uint8).reshape(-1) for c in columns])


def _unpacked(data: np.ndarray, n: int, like: Sequence[np.ndarray]) -> Columns:
    """The arrays of n elements that were packed."""
    ends = np.cumsum([n * c.dtype.itemsize for c in like])
    return [data[end - n * c.dtype.itemsize:end].copy().view(c.dtype) for end, c in zip(ends, like, strict=True)]
