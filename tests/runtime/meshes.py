"""Meshes, and all types of a shape on a mesh."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from distad.types.array_type import ArrayType
from distad.types.mesh import AbstractMesh, Device, Mesh


def mesh_of(sizes: tuple[int, ...], ranks: list[int] | None = None) -> Mesh:
    """A mesh of axes X, Y, Z over the given ranks, or over the first ones."""
    devices = [Device(r, r) for r in ranks or range(np.prod(sizes))]
    return Mesh(np.array(devices, dtype=object).reshape(sizes), tuple('XYZ'[:len(sizes)]))


def types_on(mesh: AbstractMesh, shape: tuple[int, ...], dtype: object = np.float32) -> Iterator[ArrayType]:
    """Every type of this shape: each axis replicated, reduced, unreduced or on a dimension, there in any order."""
    states = ['N', 'R', 'U', *range(len(shape))]
    whole = ArrayType(shape, dtype).update(mesh=mesh)
    for places in itertools.product(states, repeat=len(mesh.axis_names)):
        at = dict(zip(mesh.axis_names, places))
        on = [[name for name in mesh.axis_names if at[name] == dim] for dim in range(len(shape))]
        for partitions in itertools.product(*(itertools.permutations(names) for names in on)):
            if any(n % mesh.axis_size(names) for n, names in zip(shape, partitions)):
                continue
            yield whole.update(partitions=partitions, unreduced=[n for n in at if at[n] == 'U'],
                               reduced=[n for n in at if at[n] == 'R'])
