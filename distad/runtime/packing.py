"""Several arrays in one message: flat, by dtype."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np


def together(move: Callable[[np.ndarray, bool], np.ndarray]) -> Callable[..., list[np.ndarray]]:
    """A function of blocks that sends them flat, a message for each dtype. `move(flat, given)` keeps the shape of what it gets;
    if it is `given`, nobody else holds it. Who has the blocks side by side already, in a flat array that may be written, calls `.flat`.
    """
    def run(*blocks: np.ndarray) -> list[np.ndarray]:
        if len(blocks) == 1:
            return [move(np.asarray(blocks[0], order='C'), False)]
        out: list = [None] * len(blocks)
        for members in by_dtype(blocks):
            parts = [np.asarray(blocks[i]) for i in members]
            moved = move(np.concatenate([p.reshape(-1) for p in parts]), True)
            start = 0
            for i, p in zip(members, parts, strict=True):
                out[i] = moved[start:start + p.size].reshape(p.shape)
                start += p.size
        return out
    run.flat = partial(move, given=True)
    return run


def rows_together(move: Callable[[np.ndarray], np.ndarray], before: Callable, after: Callable) -> Callable[..., list[np.ndarray]]:
    """The same for moves of rows `[n, ...]`: `before(block)` makes the rows `[n, k]`, `after(rows, i)` the i-th result."""
    def run(*blocks: np.ndarray) -> list[np.ndarray]:
        out: list = [None] * len(blocks)
        for members in by_dtype(blocks):
            parts = [before(np.asarray(blocks[i])) for i in members]
            moved = move(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))
            start = 0
            for i, p in zip(members, parts, strict=True):
                size = p.shape[-1]
                out[i] = after(moved[..., start:start + size], i)
                start += size
        return out
    return run


def by_dtype(blocks: Sequence[np.ndarray]) -> list[list[int]]:
    """Positions of the blocks of each dtype."""
    found: dict = {}
    for i, b in enumerate(blocks):
        found.setdefault(np.asarray(b).dtype, []).append(i)
    return list(found.values())
