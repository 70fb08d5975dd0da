"""Meshes and shardings under the names of jax.sharding."""

from collections.abc import Callable
from typing import Any

from distad.core.forbid import no_collectives
from distad.lax.placement import reshard
from distad.types.mesh import AbstractMesh, AxisType, Mesh, get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from distad.types.mesh import set_mesh as use_mesh
from distad.types.sharding import NamedSharding
from distad.types.spec import P, UnreducedKind
from distad.types.spec import P as PartitionSpec

__all__ = ['AbstractMesh', 'AxisType', 'Mesh', 'NamedSharding', 'P', 'PartitionSpec', 'UnreducedKind', 'get_abstract_mesh',
           'auto_axes', 'get_mesh', 'no_collectives', 'reshard', 'set_mesh', 'use_abstract_mesh', 'use_mesh']


def auto_axes(fun: Callable, **options: Any) -> Callable:
    """Refused: distad has no Auto axes, on which a compiler would choose the shardings inside `fun`."""
    raise NotImplementedError('auto_axes: distad has no Auto axes. Say how the values lie with out_sharding= or reshard; types '
                              'that do not go together are errors that name what to write.')
