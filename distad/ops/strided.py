"""Windows on a regular grid, on blocks: arrays embedded in padding, and strided views of all windows at once.

Along each dimension window number o has its elements at o * stride + j * dilation, j = 0, 1, ..., counted in an array whose own
elements stand `base_dilation` apart, after `low` places of padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Along:
    """The windows along one dimension."""

    window: int
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    base_dilation: int = 1
    window_dilation: int = 1

    @property
    def reach(self) -> int:
        """How many places a window covers."""
        return dilated(self.window, self.window_dilation)

    @property
    def idle(self) -> bool:
        """Whether the windows are the single elements."""
        return self.window == self.stride == self.base_dilation == 1 and self.padding == (0, 0)

    def count(self, size: int) -> int:
        """How many windows there are along `size` elements."""
        return max(0, (dilated(size, self.base_dilation) + sum(self.padding) - self.reach) // self.stride + 1)

    def extent(self, count: int) -> int:
        """How many places so many windows cover."""
        return (count - 1) * self.stride + self.reach if count and self.window else 0


def dilated(size: int, dilation: int) -> int:
    """The number of places that elements `dilation` apart take."""
    return (size - 1) * dilation + 1 if size else 0


def spaced(x: np.ndarray, alongs: Sequence[Along], counts: Sequence[int], fill) -> np.ndarray:
    """The places that windows cover along the last dimensions: elements where there are some, else `fill`. A view if it can be."""
    first = x.ndim - len(alongs)
    shape = list(x.shape[:first])
    of, to = [slice(None)] * first, [slice(None)] * first
    inside = True
    for a, n, count in zip(alongs, x.shape[first:], counts, strict=True):
        extent, low, step = a.extent(count), a.padding[0], a.base_dilation
        start = max(0, -(low // step))
        stop = max(start, min(n, (extent - 1 - low) // step + 1))
        begin = low + start * step
        shape.append(extent)
        of.append(slice(start, stop))
        to.append(slice(begin, begin + dilated(stop - start, step), step) if stop > start else slice(0, 0))
        inside &= stop - start == extent
    if inside:
        return x[tuple(of)]
    out = np.empty_like(x, shape=shape)
    out[...] = fill
    out[tuple(to)] = x[tuple(of)]
    return out


def windows_of(x: np.ndarray, alongs: Sequence[Along], counts: Sequence[int]) -> np.ndarray:
    """All windows of an array that `spaced` made: [..., windows..., elements of a window...], a view."""
    first = x.ndim - len(alongs)
    steps = x.strides[first:]
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:first], *counts, *(a.window for a in alongs)),
        (*x.strides[:first], *(s * a.stride for s, a in zip(steps, alongs, strict=True)),
         *(s * a.window_dilation for s, a in zip(steps, alongs, strict=True))), writeable=False)
