"""From Python numbers and NumPy arrays to values."""

import numpy as np

from distad.core.eager import frozen
from distad.core.value import Array, Value, is_scalar, typeof
from distad.errors import TracerArrayConversionError
from distad.runtime import mpi
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.mesh import get_abstract_mesh, get_mesh


def as_value(x, what: str):
    """An array or tracer as it is; a number or NumPy array as array, replicated on the current mesh if there is one.

    The data is copied, so later changes to it are not seen. Every rank has to hand the same.
    """
    if isinstance(x, Value):
        return x
    if is_scalar(x) or isinstance(x, np.ndarray):
        t = typeof(x)
        return from_numpy(np.array(x, t.dtype), t)
    raise TypeError(f"{what} takes arrays and numbers, got {x!r} of type {type(x).__name__}")


def from_numpy(value: np.ndarray, t: ArrayType) -> Array:
    """A whole NumPy array as a value of type `t` (no mesh yet), replicated on the current mesh. It is not copied."""
    mesh = get_mesh()
    if mesh.empty:
        return Array(t, None, frozen(value))
    return Array(t.update(mesh=get_abstract_mesh()), mesh, frozen(value) if mpi.rank() in mesh.ranks else None)


def host(x) -> np.ndarray:
    """The NumPy value of something that is known now: for arguments that decide shapes."""
    if isinstance(x, Value) and not isinstance(x, Array):
        raise TracerArrayConversionError(f"a traced value of type {x.type} has no NumPy array: its value is not known while "
                                         "the program is traced")
    if isinstance(x, Array):
        return read(x)
    return np.asarray(x, dtypes.canonical(np.asarray(x).dtype))


def read(x: Array) -> np.ndarray:
    """The global value of an array that every rank holds whole. Reading never communicates."""
    t, block = x.type, x.block
    if t.unreduced or any(t.partitions):
        raise ValueError(
            f"an array of type {t} has no value on one rank: this rank holds {'a summand' if t.unreduced else 'a block'} of "
            "it. Ask for the whole with distad.process_allgather(x) (a collective), reshard it to P(), or look at this "
            "rank's part: x.addressable_shards.")
    if block is None:
        raise ValueError(f"this rank is not in the mesh {x.mesh} of an array of type {t} and holds no part of it")
    view = block.view()
    view.flags.writeable = False
    return view
