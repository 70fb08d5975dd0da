"""ArrayType: shape, dtype, and the state of the array along every mesh axis.

    float32[8@X,4]        split: dimension 0 is sharded over X            S
    float32[4,2]          replicated: the same copy everywhere            N
    float32[4,2]{U:X}     unreduced: summands along X                     U
    float32[4,2]{R:X}     reduced: copies whose cotangents are summands   R
    float32[4]{V:X}       varying: each rank along X has its own value    V, on Manual axes only

A type is valid from birth: axes known and in one state each, dimensions divisible. Types are made all the time and
compared even more often, so they are interned: equal types are one object, and comparing is asking whether they are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from distad.errors import ShardingTypeError
from distad.types import dtypes
from distad.types.mesh import AbstractMesh, Mesh
from distad.types.sharding import REPLICATED, NamedSharding, array_sharding, block_shape, pad
from distad.types.spec import P, UnreducedKind

Partitions = tuple[tuple[str, ...], ...]
NO_AXES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualAxisType:
    """The states along Manual axes, under the names JAX gives them."""

    varying: frozenset[str]
    unreduced: frozenset[str]
    reduced: frozenset[str]
    unreduced_kind: UnreducedKind | None


class ArrayType:
    """The type of an array: `ArrayType((8, 4), 'float32', sharding=NamedSharding(mesh, P('X')))`.

    `partitions` are the mesh axes of each dimension, as tuples; `unreduced`, `reduced` and `varying` are sets of axes;
    `kind` says whether unreduced pieces make up the value by sum, max or min; `local_shape` is the shape of the block
    that one rank holds. `weak_type` marks a dtype that came from a Python number and gives way in promotion.
    """

    __slots__ = ('shape', 'dtype', 'weak_type', 'sharding', 'varying', 'mesh', 'partitions', 'unreduced', 'reduced',
                 'kind', 'local_shape', '_text', '_short', '__weakref__')

    shape: tuple[int, ...]
    dtype: np.dtype
    weak_type: bool
    sharding: NamedSharding
    varying: frozenset[str]
    mesh: AbstractMesh
    partitions: Partitions
    unreduced: frozenset[str]
    reduced: frozenset[str]
    kind: str
    local_shape: tuple[int, ...]

    def __new__(cls, shape: Iterable[int], dtype: Any, *, weak_type: bool = False,
                sharding: NamedSharding | None = None, varying: Iterable[str] = NO_AXES) -> ArrayType:
        sharding = REPLICATED if sharding is None else sharding
        shape = tuple(map(operator.index, shape))
        return _intern(shape, np.dtype(dtype), bool(weak_type), sharding.mesh.abstract_mesh,
                       pad(sharding.spec, len(shape)), frozenset(varying))

    def __init_subclass__(cls) -> None:
        raise TypeError('ArrayType has no subclasses')

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f'an ArrayType does not change; use .update({name}=...)')

    def __reduce__(self) -> Any:
        return _intern, (self.shape, self.dtype, self.weak_type, self.mesh, self.spec, self.varying)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def spec(self) -> P:
        return self.sharding.spec

    @property
    def local_bytes(self) -> int:
        """The bytes of the block that one rank holds."""
        return math.prod(self.local_shape) * self.dtype.itemsize

    @property
    def split_axes(self) -> frozenset[str]:
        """The mesh axes that some dimension is split over."""
        return frozenset(name for names in self.partitions for name in names)

    @property
    def manual_axis_type(self) -> ManualAxisType:
        manual = frozenset(self.mesh.manual_axes)
        unreduced = self.unreduced & manual
        return ManualAxisType(varying=self.varying, unreduced=unreduced, reduced=self.reduced & manual,
                              unreduced_kind=self.spec.unreduced_kind if unreduced else None)

    def update(self, *, shape: Iterable[int] | None = None, dtype: Any = None, weak_type: bool | None = None,
               partitions: Partitions | None = None, unreduced: Iterable[str] | None = None,
               reduced: Iterable[str] | None = None, varying: Iterable[str] | None = None, kind: str | None = None,
               mesh: Mesh | AbstractMesh | None = None) -> ArrayType:
        """The same type with some parts replaced.

        A new number of dimensions needs new `partitions`, unless no dimension is split.
        """
        shape = self.shape if shape is None else tuple(map(operator.index, shape))
        if partitions is None:
            partitions = self.partitions
            if len(shape) != len(partitions) and not any(partitions):
                partitions = ((),) * len(shape)
        return _intern(
            shape,
            self.dtype if dtype is None else np.dtype(dtype),
            self.weak_type if weak_type is None else bool(weak_type),
            self.mesh if mesh is None else mesh.abstract_mesh,
            _spec(tuple(partitions), self.unreduced if unreduced is None else frozenset(unreduced),
                  self.reduced if reduced is None else frozenset(reduced), self.kind if kind is None else kind),
            self.varying if varying is None else frozenset(varying))

    def tangent(self) -> ArrayType:
        """The type of tangents: the same states; float0 for values that have no derivative."""
        return _tangent(self)

    def dual(self) -> ArrayType:
        """The type of cotangents: unreduced and reduced axes change places, all other states stay."""
        return _dual(self)

    to_ct_aval = dual
    to_tangent_aval = tangent

    def short(self) -> str:
        """The type in the notation of jaxprs: 'f32[8@X,4]'."""
        return self._short

    def str_short(self, short_dtypes: bool = False) -> str:
        return self._short if short_dtypes else self._text.removeprefix('~')

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        weak = ', weak_type=True' if self.weak_type else ''
        return f'ShapedArray({self.str_short()}{weak})'


def axis_state(t: ArrayType, axis: str) -> str:
    """The state along one mesh axis: 'S', 'N', 'U', 'R' or 'V'. An axis that is not in the mesh is 'N'."""
    if axis in t.unreduced:
        return 'U'
    if axis in t.reduced:
        return 'R'
    if axis in t.varying:
        return 'V'
    return 'S' if any(axis in names for names in t.partitions) else 'N'


@lru_cache(maxsize=8192)
def _tangent(t: ArrayType) -> ArrayType:
    return t.update(dtype=dtypes.tangent_dtype(t.dtype))


@lru_cache(maxsize=8192)
def _dual(t: ArrayType) -> ArrayType:
    if t.kind != 'sum':
        raise ShardingTypeError(
            f'{t} has no cotangent type: only unreduced axes of kind sum have; make it whole with reshard first')
    return t.update(dtype=dtypes.tangent_dtype(t.dtype), unreduced=t.reduced, reduced=t.unreduced)


@lru_cache(maxsize=16384)
def _spec(partitions: Partitions, unreduced: frozenset[str], reduced: frozenset[str], kind: str) -> P:
    return P(*partitions, unreduced=unreduced, reduced=reduced,
             unreduced_kind=UnreducedKind[kind] if unreduced else None)


# All types that are alive. The cache in front of it is quick and bounded.
_alive: WeakValueDictionary[tuple, ArrayType] = WeakValueDictionary()


@lru_cache(maxsize=16384)
def _intern(shape: tuple[int, ...], dtype: np.dtype, weak_type: bool, mesh: AbstractMesh, spec: P,
            varying: frozenset[str]) -> ArrayType:
    if any(n < 0 for n in shape):
        raise ValueError(f'dimensions have sizes of zero or more, but the shape is {shape}')
    _check_manual(mesh, spec, varying)
    sharding = array_sharding(mesh, spec, shape)
    spec = sharding.spec
    key = (shape, dtype, weak_type, sharding, varying)
    t = _alive.get(key)
    if t is not None:
        return t
    t = object.__new__(ArrayType)
    fields = {'shape': shape, 'dtype': dtype, 'weak_type': weak_type, 'sharding': sharding, 'varying': varying,
              'mesh': mesh, 'partitions': spec.axes, 'unreduced': spec.unreduced, 'reduced': spec.reduced,
              'kind': 'sum' if spec.unreduced_kind is None else spec.unreduced_kind.name,
              'local_shape': block_shape(mesh, spec.axes, shape)}
    for field, value in fields.items():
        object.__setattr__(t, field, value)
    body = _body_text(t)
    object.__setattr__(t, '_text', ('~' if weak_type else '') + dtypes.name(dtype) + body)
    object.__setattr__(t, '_short', dtypes.short_name(dtype) + body)
    _alive[key] = t
    return t


def _check_manual(mesh: AbstractMesh, spec: P, varying: frozenset[str]) -> None:
    """Values vary over Manual axes only; dimensions are split over the others only; and no axis is in two states."""
    manual = set(mesh.manual_axes)
    for name in sorted(varying):
        if name not in manual:
            raise ValueError(f'a value varies over mesh axes that shard_map made manual, and {name!r} is none of them: '
                             f'these are {mesh.manual_axes}')
        if name in spec.unreduced or name in spec.reduced:
            raise ValueError(f'a mesh axis is in one state, but a type was to have {name!r} varying in {spec}')
    for names in spec.axes:
        for name in names:
            if name in manual:
                raise ValueError(f'{spec} splits a dimension over mesh axis {name!r}, which is manual here: '
                                 'the body of shard_map sees one block along it')


def _body_text(t: ArrayType) -> str:
    """All of the printed type but the dtype: '[8@X,4]{U:Y}'."""
    dims = ','.join(f'{n}@{_axes_text(names)}' if names else str(n)
                    for n, names in zip(t.shape, t.partitions, strict=True))
    letter = 'U' if t.kind == 'sum' else f'U_{t.kind}'
    states = [f'{state}:{_axes_text(t.mesh.in_order(axes))}'
              for state, axes in (('V', t.varying), (letter, t.unreduced), ('R', t.reduced)) if axes]
    return f'[{dims}]' + (f'{{{", ".join(states)}}}' if states else '')


def _axes_text(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f'({",".join(names)})'
