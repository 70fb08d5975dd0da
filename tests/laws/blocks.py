"""Whole values and blocks: what each rank holds of a value of some type, and what the blocks of all ranks mean.

Written anew, so that a fault of the library's own cutting and assembling is not repeated here. Summands are random, with the
value as their sum: an op that is not linear cannot pass for one that is.
"""

import zlib
from collections.abc import Sequence
from functools import lru_cache, reduce

import numpy as np

from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh

Coords = dict[str, int]


def version_axes(t: ArrayType) -> frozenset[str]:
    """The axes along which each rank has a value of its own: those it varies over, and those that types do not tell of."""
    return t.varying | frozenset(t.mesh.auto_axes)


def place_of(mesh: Mesh, axes, coords: Coords) -> int:
    """A rank's number among those along these axes."""
    at = 0
    for axis in mesh.abstract_mesh.in_order(axes):
        at = at * mesh.shape[axis] + coords[axis]
    return at


def block(value: np.ndarray, t: ArrayType, mesh: Mesh, rank: int) -> np.ndarray:
    """A rank's block of a whole value. Summands are random, with the value as their sum (or max or min)."""
    coords = mesh.coords(rank)
    part = summand(value, t, mesh, coords) if t.unreduced else value
    return np.ascontiguousarray(part[index(t, mesh, coords)]).reshape(t.local_shape)


def index(t: ArrayType, mesh: Mesh, coords: Coords) -> tuple[slice, ...]:
    """Where the rank's block lies: written anew, so that a fault in the library is not repeated here."""
    slices = []
    for n, axes in zip(t.shape, t.partitions, strict=True):
        at = 0
        for axis in axes:
            n //= mesh.shape[axis]
            at += coords[axis] * n
        slices.append(slice(at, at + n))
    return tuple(slices)


def summand(value: np.ndarray, t: ArrayType, mesh: Mesh, coords: Coords) -> np.ndarray:
    count, mine = mesh.abstract_mesh.axis_size(tuple(t.unreduced)), place_of(mesh, t.unreduced, coords)
    seed = zlib.crc32(np.ascontiguousarray(value))
    if t.kind != 'sum' or t.dtype == np.bool_ or t.dtype.itemsize == 2 or t.dtype.kind == 'u':
        one = np.ones((), t.dtype)
        rest = {'sum': lambda: one ^ one if t.dtype == np.bool_ else one - one, 'max': lambda: value - one,
                'min': lambda: value + one}[t.kind]()
        return np.where(_owners(value.shape, count, seed) == mine, value, rest)
    noise = _noise(value.shape, value.dtype, count - 1, seed)
    return noise[mine] if mine < count - 1 else value - sum(noise, np.zeros((), value.dtype))


@lru_cache(maxsize=1024)
def _owners(shape: tuple[int, ...], count: int, seed: int) -> np.ndarray:
    """Which rank has the element, where only one has it."""
    return np.random.default_rng(seed).integers(0, count, shape)


@lru_cache(maxsize=1024)
def _noise(shape: tuple[int, ...], dtype: np.dtype, count: int, seed: int) -> list[np.ndarray]:
    """All summands but the last; others for each value, or they would cancel where they must not."""
    rng = np.random.default_rng(seed)

    def draw():
        x = rng.integers(-9, 9, shape) / (1 if dtype.kind in 'iu' else 7)
        return np.asarray(x + 1j * rng.integers(-9, 9, shape) / 7 if dtype.kind == 'c' else x).astype(dtype)

    return [draw() for _ in range(count)]


def whole(blocks: Sequence[np.ndarray], t: ArrayType, mesh: Mesh) -> dict[int, np.ndarray]:
    """The values that blocks mean, by the place along the axes over which they vary (0 if over none); summands combined.

    Raises AssertionError when ranks that hold a copy differ.
    """
    combine = {'sum': np.add, 'max': np.maximum, 'min': np.minimum}[t.kind]
    parts: dict[tuple, np.ndarray] = {}
    summands: dict[int, dict[int, np.ndarray]] = {}
    for rank, part in zip(mesh.ranks, blocks, strict=True):
        coords = mesh.coords(rank)
        version, which, where = place_of(mesh, version_axes(t), coords), place_of(mesh, t.unreduced, coords), index(t, mesh, coords)
        before = parts.setdefault((version, which, *(s.start for s in where)), part)
        if before is not part and before.tobytes() != part.tobytes():
            raise AssertionError(f'copies differ between ranks: {before.ravel()[:4]} and {part.ravel()[:4]} ...')
        summands.setdefault(version, {}).setdefault(which, np.zeros(t.shape, t.dtype))[where] = part
    return {version: reduce(combine, them.values()) for version, them in summands.items()}
