"""Which part of an array lies on which rank.

A dimension split over ('X', 'Y') is cut into size(X) parts, and each of these into size(Y): X is major. Along unreduced
axes of kind sum a whole value is represented by itself on the first rank and zeros on the others; for max and min by
copies.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh


def index_of(t: ArrayType, coords: Mapping[str, int]) -> tuple[slice, ...]:
    """Where the block of the rank at these mesh coordinates lies in the whole array."""
    sizes = t.mesh.shape if any(t.partitions) else {}
    index = []
    for size, names in zip(t.shape, t.partitions):
        place, parts = 0, 1
        for name in names:
            place = place * sizes[name] + coords[name]
            parts *= sizes[name]
        length = size // parts
        index.append(slice(place * length, (place + 1) * length))
    return tuple(index)


def cut(value: np.ndarray, t: ArrayType, mesh: Mesh, rank: int) -> np.ndarray:
    """A rank's block of a whole value; the value itself, not a copy, where the block is all of it."""
    coords = mesh.coords(rank)
    if t.kind == 'sum' and any(coords[name] for name in t.unreduced):
        return np.zeros(t.local_shape, t.dtype)
    if not any(t.partitions):
        return value
    return np.ascontiguousarray(value[index_of(t, coords)])


def assemble(blocks: Mapping[int, np.ndarray], t: ArrayType, mesh: Mesh) -> np.ndarray:
    """The whole value from the blocks of all ranks of the mesh, by rank: copies once, summands added."""
    if t.varying:
        raise ValueError(f'a value of type {t} is another one on each rank along {sorted(t.varying)}: it is no whole')
    combine = {'sum': np.add, 'max': np.maximum, 'min': np.minimum}[t.kind]
    whole = np.zeros(t.shape, t.dtype)
    begun: set[tuple[tuple[int, ...], ...]] = set()
    for rank in mesh.ranks:
        coords = mesh.coords(rank)
        # Of the ranks that hold copies, the first along each axis speaks.
        if any(i for name, i in coords.items() if name not in t.unreduced and name not in t.split_axes):
            continue
        index = index_of(t, coords)
        part = tuple((s.start, s.stop) for s in index)
        whole[index] = combine(whole[index], blocks[rank]) if part in begun else blocks[rank]
        begun.add(part)
    return whole
