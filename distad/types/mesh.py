"""The mesh: ranks laid out as a grid whose axes have names.

An `AbstractMesh` is names, sizes and kinds of axes, which is all that types speak of. A `Mesh` adds which rank stands
where. Types hold abstract meshes alone; so two meshes of the same form over different ranks give the same types.

The mesh in use is a context variable, set by `set_mesh`. Inside `shard_map` the abstract mesh in use differs from the
concrete one in the kind of its axes: those that the body sees rank by rank are Manual.
"""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np


class AxisType(enum.Enum):
    """Who lays values along an axis: the compiler (Auto), the types (Explicit), the user's per-rank code (Manual)."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Device:
    """One rank as a place for data; `id` and `process_index` are its number in the world communicator."""

    id: int
    process_index: int

    @property
    def platform(self) -> str:
        return 'cpu'

    @property
    def device_kind(self) -> str:
        return 'cpu'

    def __repr__(self) -> str:
        return f'CpuDevice(id={self.id})'

    def __str__(self) -> str:
        return f'cpu:{self.id}'


class _Axes:
    """What both kinds of mesh say of their axes. Immutable; equal when all that it holds is equal."""

    __slots__ = ('axis_sizes', 'axis_names', 'axis_types', 'shape', '_hash')

    axis_sizes: tuple[int, ...]
    axis_names: tuple[str, ...]
    axis_types: tuple[AxisType, ...]
    shape: OrderedDict[str, int]

    def _hold(self, sizes: Iterable[int], names: str | Iterable[str],
              types: AxisType | Iterable[AxisType] | None) -> None:
        sizes = tuple(sizes)
        if not all(isinstance(size, (int, np.integer)) and size > 0 for size in sizes):
            raise ValueError(f'the axes of a mesh have sizes from 1 on, not {sizes}')
        sizes = tuple(map(int, sizes))
        names = (names,) if isinstance(names, str) else tuple(names)
        if types is None:
            types = AxisType.Explicit
        types = (types,) * len(names) if isinstance(types, AxisType) else tuple(types)
        if len(sizes) != len(names):
            raise ValueError(f'a mesh needs one name per axis, but the sizes are {sizes} and the names {names}')
        if len(types) != len(names):
            raise ValueError(f'a mesh needs one axis type per axis: the axes are {names}, the types {types}')
        if len(set(names)) != len(names):
            raise ValueError(f'a mesh needs distinct axis names, but they are {names}')
        set_field = object.__setattr__
        set_field(self, 'axis_sizes', sizes)
        set_field(self, 'axis_names', names)
        set_field(self, 'axis_types', types)
        set_field(self, 'shape', OrderedDict(zip(names, sizes, strict=True)))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f'a {type(self).__name__} does not change; make another one')

    def __hash__(self) -> int:
        return self._hash

    @property
    def shape_tuple(self) -> tuple[tuple[str, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        return not self.axis_names

    @property
    def explicit_axes(self) -> tuple[str, ...]:
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[str, ...]:
        return self._of_type(AxisType.Manual)

    @property
    def are_all_axes_manual(self) -> bool:
        return bool(self.axis_names) and len(self.manual_axes) == len(self.axis_names)

    @property
    def auto_axes(self) -> tuple[str, ...]:
        return self._of_type(AxisType.Auto)

    def _of_type(self, kind: AxisType) -> tuple[str, ...]:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    def axis_size(self, axes: str | Iterable[str]) -> int:
        """The number of ranks along an axis, or along several together."""
        names = (axes,) if isinstance(axes, str) else axes
        return math.prod(self.shape[name] for name in names)

    def in_order(self, axes: Iterable[str]) -> tuple[str, ...]:
        """The given axes in the order of the mesh, which is the order they are printed in."""
        return tuple(sorted(axes, key=self.axis_names.index))

    def _axes_text(self) -> str:
        return ', '.join(f'{name!r}: {size}' for name, size in self.shape_tuple)


class AbstractMesh(_Axes):
    """Names, sizes and kinds of mesh axes, without the ranks."""

    __slots__ = ()

    def __init__(self, axis_sizes: Sequence[int], axis_names: str | Sequence[str],
                 axis_types: AxisType | Sequence[AxisType] | None = None) -> None:
        self._hold(axis_sizes, axis_names, axis_types)
        object.__setattr__(self, '_hash', hash((self.axis_sizes, self.axis_names, self.axis_types)))

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def update(self, axis_sizes: Sequence[int] | None = None, axis_names: Sequence[str] | None = None,
               axis_types: Sequence[AxisType] | None = None) -> AbstractMesh:
        return AbstractMesh(self.axis_sizes if axis_sizes is None else axis_sizes,
                            self.axis_names if axis_names is None else axis_names,
                            self.axis_types if axis_types is None else axis_types)

    def with_types(self, kinds: dict[str, AxisType]) -> AbstractMesh:
        """The same mesh with some axes of another kind: `with_types({'X': AxisType.Manual})`."""
        return self.update(axis_types=[kinds.get(n, t) for n, t in zip(self.axis_names, self.axis_types, strict=True)])

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is AbstractMesh and self._hash == other._hash and self.axis_sizes == other.axis_sizes
            and self.axis_names == other.axis_names and self.axis_types == other.axis_types)

    __hash__ = _Axes.__hash__

    def __repr__(self) -> str:
        if self.empty:
            return 'AbstractMesh((), axis_types=())'
        return (f'AbstractMesh({self._axes_text()}, axis_types={self.axis_types}, '
                'device_kind=cpu, num_cores=None, platform=cpu)')

    def __reduce__(self) -> Any:
        return AbstractMesh, (self.axis_sizes, self.axis_names, self.axis_types)


class Mesh(_Axes):
    """A grid of devices with named axes: `Mesh(devices, ('X', 'Y'))`, where `devices` has one dimension per axis."""

    __slots__ = ('devices', 'abstract_mesh', 'ranks', '_coords')

    devices: np.ndarray
    abstract_mesh: AbstractMesh
    ranks: tuple[int, ...]

    def __init__(self, devices: Any, axis_names: str | Sequence[str],
                 axis_types: AxisType | Sequence[AxisType] | None = None) -> None:
        grid = np.array(devices, dtype=object)
        grid.flags.writeable = False
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self._hold(grid.shape, names, axis_types)
        members = tuple(grid.flat) if names else ()
        if not all(isinstance(device, Device) for device in members):
            raise TypeError(f'a mesh is a grid of devices, such as distad.devices(), not {devices!r}')
        if len(set(members)) != len(members):
            raise ValueError(f'a mesh holds each device once, but the devices are {list(members)}')
        ranks = tuple(device.process_index for device in members)
        coords = {rank: dict(zip(names, map(int, np.unravel_index(place, grid.shape)), strict=True))
                  for place, rank in enumerate(ranks)}
        set_field = object.__setattr__
        set_field(self, 'devices', grid)
        set_field(self, 'abstract_mesh', AbstractMesh(self.axis_sizes, names, self.axis_types))
        set_field(self, 'ranks', ranks)
        set_field(self, '_coords', coords)
        set_field(self, '_hash', hash((self.abstract_mesh, ranks)))

    def coords(self, rank: int) -> dict[str, int] | None:
        """Where a rank stands, axis by axis; None if it is not in the mesh."""
        return self._coords.get(rank)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is Mesh and self._hash == other._hash and self.ranks == other.ranks
            and self.abstract_mesh == other.abstract_mesh)

    __hash__ = _Axes.__hash__

    def __repr__(self) -> str:
        types = f', axis_types={self.axis_types}' if self.axis_names else ''
        return f'Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}{types})'

    def __str__(self) -> str:
        return 'Mesh()' if self.empty else f'Mesh({self._axes_text()}, axis_types={self.axis_types})'

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)


EMPTY_MESH = AbstractMesh((), ())
NO_MESH = Mesh(np.empty((), dtype=object), ())

_current: ContextVar[tuple[Mesh, AbstractMesh]] = ContextVar('distad_mesh', default=(NO_MESH, EMPTY_MESH))


def meshes_in_use() -> tuple[Mesh, AbstractMesh]:
    """What get_mesh and get_abstract_mesh give."""
    return _current.get()


def get_mesh() -> Mesh:
    """The mesh in use; an empty one if none was set."""
    return _current.get()[0]


def get_abstract_mesh() -> AbstractMesh:
    """The axes in use, as types see them here; an empty mesh if none was set."""
    return _current.get()[1]


class set_mesh:
    """Use a mesh from here on, or, as `with set_mesh(mesh):`, for the length of a block."""

    __slots__ = ('_mesh', '_before')

    def __init__(self, mesh: Mesh) -> None:
        if not isinstance(mesh, Mesh):
            raise ValueError(f'set_mesh takes a Mesh (from make_mesh), not {mesh!r}')
        self._mesh = mesh
        self._before = _current.get()
        _current.set((mesh, mesh.abstract_mesh))

    def __enter__(self) -> Mesh:
        return self._mesh

    def __exit__(self, *exc: object) -> None:
        _current.set(self._before)


@contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[None]:
    """Let types speak of these axes inside the block; the concrete mesh stays."""
    token = _current.set((_current.get()[0], mesh))
    try:
        yield
    finally:
        _current.reset(token)
