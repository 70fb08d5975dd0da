"""Meshes and shardings under the names of jax.sharding."""

from distad.types.mesh import AbstractMesh, AxisType, Mesh, get_abstract_mesh, get_mesh, set_mesh
from distad.types.mesh import set_mesh as use_mesh
from distad.types.sharding import NamedSharding
from distad.types.spec import P, UnreducedKind
from distad.types.spec import P as PartitionSpec

__all__ = ['AbstractMesh', 'AxisType', 'Mesh', 'NamedSharding', 'P', 'PartitionSpec', 'UnreducedKind', 'get_abstract_mesh',
           'get_mesh', 'set_mesh', 'use_mesh']
