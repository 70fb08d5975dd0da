"""Shardings as users ask for them: a P, which lies on the mesh at hand, or a NamedSharding."""

from typing import Any

from distad.types.array_type import ArrayType
from distad.types.mesh import AbstractMesh, Mesh, get_abstract_mesh
from distad.types.sharding import NamedSharding
from distad.types.spec import P


def is_sharding(s: Any) -> bool:
    """A leaf of a tree of shardings; None asks for nothing."""
    return s is None or isinstance(s, (P, NamedSharding))


def wanted(t: ArrayType, sharding) -> ArrayType:
    """The type of `t`'s shape and dtype in a user's sharding (a P on the mesh at hand, or a NamedSharding).

    A sharding does not speak of manual axes, so the value varies over those that it varied over.
    """
    return ArrayType(t.shape, t.dtype, weak_type=t.weak_type, sharding=named(sharding, t.mesh), varying=t.varying)


def named(sharding, mesh: AbstractMesh | Mesh | None = None) -> NamedSharding:
    """A user's sharding as NamedSharding: a P lies on the value's mesh, else on the current one."""
    if isinstance(sharding, NamedSharding):
        return sharding
    if isinstance(sharding, P):
        mesh = get_abstract_mesh() if mesh is None or mesh.empty else mesh
        if mesh.empty and (any(sharding.partitions) or sharding.unreduced or sharding.reduced):
            raise ValueError(f"{sharding!r} needs a mesh: make one current with set_mesh(make_mesh(...)), or hand a "
                             "NamedSharding.")
        return NamedSharding(mesh, sharding)
    raise TypeError(f"a sharding is a P or a NamedSharding, got {sharding!r}")
