"""NamedSharding: a spec on a mesh; and the one place that checks whether mesh, spec and shape fit together.

The mesh gives the names their sizes, so this is where an unknown axis, an axis on two dimensions, a spec longer than
the shape and a dimension that does not divide are found. Whoever makes a placement calls `array_sharding` or makes an
`ArrayType`, which calls it.
"""

from __future__ import annotations

from typing import Any

from distad.errors import DuplicateSpecError, IndivisibleError
from distad.types.mesh import EMPTY_MESH, AbstractMesh, Device, Mesh
from distad.types.spec import UNCONSTRAINED, P


class NamedSharding:
    """How an array lies on a mesh: `NamedSharding(mesh, P('X'))`, on a concrete mesh or an abstract one."""

    __slots__ = ('mesh', 'spec', '_hash')

    mesh: Mesh | AbstractMesh
    spec: P

    def __init__(self, mesh: Mesh | AbstractMesh, spec: P) -> None:
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise TypeError(f'NamedSharding takes a mesh, not {mesh!r}')
        if not isinstance(spec, P):
            raise TypeError(f'NamedSharding takes a PartitionSpec, such as P({spec!r}), not {spec!r}')
        check_axes(mesh, spec)
        object.__setattr__(self, 'mesh', mesh)
        object.__setattr__(self, 'spec', spec)
        object.__setattr__(self, '_hash', hash((mesh, spec)))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f'a NamedSharding does not change; use .update({name}=...)')

    def __reduce__(self) -> Any:
        return NamedSharding, (self.mesh, self.spec)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is NamedSharding and self._hash == other._hash
                                 and self.spec == other.spec and self.mesh == other.mesh)

    def __repr__(self) -> str:
        memory = ', memory_kind=device' if isinstance(self.mesh, Mesh) else ''
        return f'NamedSharding(mesh={self.mesh!s}, spec={self.spec}{memory})'

    def update(self, *, mesh: Mesh | AbstractMesh | None = None, spec: P | None = None) -> NamedSharding:
        return NamedSharding(self.mesh if mesh is None else mesh, self.spec if spec is None else spec)

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one rank's block of an array of this shape."""
        check_shape(self.mesh, self.spec, tuple(global_shape))
        return block_shape(self.mesh, self.spec.axes, tuple(global_shape))

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every rank holds the whole value. Reduced axes hold copies, unreduced ones do not."""
        sizes = self.mesh.shape
        used = [name for names in self.spec.axes for name in names] + list(self.spec.unreduced)
        return all(sizes[name] == 1 for name in used)

    def is_equivalent_to(self, other: NamedSharding, ndim: int) -> bool:
        """Whether both lay arrays of `ndim` dimensions alike: trailing Nones do not matter here."""
        return self.mesh == other.mesh and pad(self.spec, ndim) == pad(other.spec, ndim)

    @property
    def device_set(self) -> set[Device]:
        return set(self.mesh.devices.flat) if isinstance(self.mesh, Mesh) and not self.mesh.empty else set()

    @property
    def num_devices(self) -> int:
        return self.mesh.size


def array_sharding(mesh: Mesh | AbstractMesh, spec: P, shape: tuple[int, ...]) -> NamedSharding:
    """The sharding of an array of this shape as its type holds it: checked, abstract, one entry per dimension."""
    check_axes(mesh, spec)
    check_shape(mesh, spec, shape)
    return NamedSharding(mesh.abstract_mesh, pad(spec, len(shape)))


def pad(spec: P, ndim: int) -> P:
    """The spec with as many entries as the array has dimensions."""
    missing = ndim - len(spec)
    return spec if missing <= 0 else spec.update(partitions=spec.partitions + (None,) * missing)


def block_shape(mesh: Mesh | AbstractMesh, axes: tuple[tuple[str, ...], ...],
                shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a rank's block, for dimensions that divide."""
    head, tail = shape[:len(axes)], shape[len(axes):]
    return tuple(n // mesh.axis_size(names) for n, names in zip(head, axes, strict=True)) + tail


def check_axes(mesh: Mesh | AbstractMesh, spec: P) -> None:
    """Every axis of the spec is in the mesh, and no axis lies along two dimensions."""
    seen: set[Any] = set()
    for names in spec.axes:
        for name in names:
            if name is UNCONSTRAINED:
                continue
            _check_known(mesh, spec, name)
            if name in seen:
                raise DuplicateSpecError(f'mesh axis {name!r} stands twice in {spec}: '
                                         'an axis may split one array dimension, once')
            seen.add(name)
    for name in sorted(spec.unreduced | spec.reduced, key=str):
        _check_known(mesh, spec, name)


def _check_known(mesh: Mesh | AbstractMesh, spec: P, name: Any) -> None:
    if name in mesh.axis_names:
        return
    if mesh.empty:
        raise ValueError(f'{spec} names mesh axis {name!r}, but no mesh is in use; set_mesh(make_mesh(...)) makes one')
    known = ', '.join(f'{n!r} (size {size})' for n, size in mesh.shape_tuple)
    raise ValueError(f'{spec} names mesh axis {name!r}, which is not found in the mesh; its axes are {known}')


def check_shape(mesh: Mesh | AbstractMesh, spec: P, shape: tuple[int, ...]) -> None:
    """The spec has no more entries than the shape has dimensions, and each of these divides."""
    if len(spec) > len(shape):
        raise ValueError(f'{spec} has {len(spec)} entries, but the shape {shape} has {len(shape)} dimensions; '
                         'a spec has at most one entry per dimension')
    for dim, names in enumerate(spec.axes):
        if UNCONSTRAINED in names:
            raise ValueError(f'{spec} leaves dimension {dim} unconstrained, but a type says how each dimension lies')
        parts, size = mesh.axis_size(names), shape[dim]
        if size % parts:
            axes = ' * '.join(f'{name} (size {mesh.shape[name]})' for name in names)
            raise IndivisibleError(
                f'dimension {dim} of shape {shape} has size {size}, which is not evenly divisible into {parts} parts '
                f'along mesh axis {axes}, as {spec} asks; pad it to {size + -size % parts} or leave it unsplit')


REPLICATED = NamedSharding(EMPTY_MESH, P())
