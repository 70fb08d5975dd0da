"""Arrays on every placement: put there from NumPy, read back, and the cotangents that go with them."""

import itertools
import random
from collections.abc import Callable, Sequence

import numpy as np

import distad as jax
from distad.core.eager import frozen
from distad.core.value import Array
from distad.runtime import collectives, mpi, recorder
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh
from tests.laws.blocks import block, whole
from tests.laws.placements import placed, states


def placements(shape: Sequence[int], mesh: Mesh, dtype='float32') -> list[ArrayType]:
    """All types of an array of this shape: along each axis replicated, reduced, split or unreduced; replicated first."""
    t = ArrayType(shape, dtype)
    ways = [[s for s in states(t) if s != 'U max' and (dtype != 'bool' or s != 'U')]] * len(mesh.axis_names)
    found = [placed(t, mesh.abstract_mesh, at) for at in itertools.product(*ways)]
    return [t for t in found if t is not None]


def some(rows: Sequence[Sequence], most: int) -> list[tuple]:
    """A sample of the product of the rows: the same on every rank, all of it if it is small."""
    everything = list(itertools.product(*rows))
    return everything if len(everything) <= most else random.Random(len(everything)).sample(everything, most)


def put(value: np.ndarray, t: ArrayType, mesh: Mesh) -> Array:
    """An array of a type, without the library's own moves. Summands are random; of whole numbers they are whole."""
    if mpi.rank() not in mesh.ranks:
        return Array(t, mesh, None)
    value = np.asarray(value, t.dtype)
    if t.unreduced and t.dtype.kind in 'fc' and np.all(value == np.round(value)):
        parts = [block(part.astype(np.int32), t.update(dtype=np.int32), mesh, mpi.rank()) for part in (value.real, value.imag)]
        return Array(t, mesh, frozen((parts[0] + 1j * parts[1] if t.dtype.kind == 'c' else parts[0]).astype(t.dtype)))
    return Array(t, mesh, frozen(block(value, t, mesh, mpi.rank())))


def get(x: Array, mesh: Mesh) -> np.ndarray:
    """The value on every rank: sums made, copies compared. A collective that no counter sees."""
    part = np.array(x.block, order='C')
    parts = collectives.agree(mpi.group(mesh, mesh.axis_names), part.tobytes())
    blocks = [np.frombuffer(p, part.dtype).reshape(part.shape) for p in parts]
    return whole(blocks, x.type, mesh)[0]


def numbers(shape: Sequence[int], seed: int, dtype='float32') -> np.ndarray:
    """Small whole numbers: sums and products of them are exact in any order."""
    x = np.random.default_rng([seed, *shape]).integers(-3, 4, shape)
    return (x + 1j * np.roll(x, 1) if np.dtype(dtype).kind == 'c' else x).astype(dtype)


def gradients(f: Callable, args: Sequence[Array], ct: np.ndarray, mesh: Mesh) -> list[np.ndarray]:
    """Cotangents of the arguments; each has the dual type, and the ranks agree on copies."""
    y, back = jax.vjp(f, *args)
    cts = back(put(ct, y.type.dual().update(weak_type=False), mesh))
    for x, c in zip(args, cts, strict=True):
        assert c.type == x.type.dual(), f'{x.type} has a cotangent of type {c.type}'
    return [get(c, mesh) for c in cts]


def counted(f: Callable) -> tuple[dict[str, int], int]:
    """What a call sends: collectives by kind, and the bytes that this rank hands to MPI."""
    with recorder.count() as c:
        f()
    return c.by_op, c.bytes
