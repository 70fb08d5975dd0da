"""With DISTAD_CHECK=comm: values whose types say that ranks hold the same are compared where they enter and leave programs."""

from collections.abc import Iterable

import numpy as np

from distad.core.value import Array, typeof
from distad.runtime import agreement, mpi
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh


def check_alike(what: str, names: Iterable[str], values: Iterable, mesh: Mesh | None) -> None:
    """Raise on all ranks of a mesh if one of them holds another value where it should be the same.

    Along which axes: those on which a placed value is replicated or reduced; all of them for one that was never placed.
    """
    if mesh is None or mesh.size == 1 or mpi.rank() not in mesh.ranks:
        return
    compared = []
    for name, x in zip(names, values, strict=True):
        t = typeof(x)
        block = x.block if isinstance(x, Array) else np.asarray(x, t.dtype)
        compared.append((f'{name} {t}', mesh.axis_names if t.mesh.empty else _same_along(t), block))
    agreement.same_values(mesh, what, compared)


def _same_along(t: ArrayType) -> tuple[str, ...]:
    return tuple(axis for axis in t.mesh.axis_names if axis not in t.split_axes and axis not in t.unreduced)
