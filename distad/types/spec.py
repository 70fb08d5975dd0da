"""PartitionSpec, written P: which mesh axes each array dimension is split over, and which axes hold summands.

    P('X', None)                    dimension 0 along X, dimension 1 whole
    P(('X', 'Y'))                   dimension 0 along X and, within each of its parts, along Y
    P(None, unreduced={'X'})        the ranks along X hold summands
    P(None, reduced={'X'})          the ranks along X hold copies whose cotangents are summands

A spec knows neither mesh nor shape, so it checks only itself; `NamedSharding` brings in the mesh and
`ArrayType` the shape. Equal specs are one object, which makes comparing them free.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import lru_cache
from typing import Any


class UnreducedKind(enum.Enum):
    """How the pieces along unreduced axes make up the value."""

    sum = 1
    max = 2
    min = 3


class _Unconstrained:
    """The entry of a spec that leaves a dimension to the compiler."""

    __slots__ = ()

    def __repr__(self) -> str:
        return 'UNCONSTRAINED'

    def __reduce__(self) -> str:
        return 'UNCONSTRAINED'


UNCONSTRAINED = _Unconstrained()


class P:
    """`P(*partitions, unreduced=set(), reduced=set(), unreduced_kind=None)`: one entry per array dimension.

    An entry is None (whole), the name of a mesh axis, or a tuple of names, the first cutting coarsest. Trailing
    Nones count: `P('X')` and `P('X', None)` differ. `axes` gives the entries as tuples of names, all alike.
    """

    __slots__ = ('partitions', 'unreduced', 'reduced', 'unreduced_kind', 'axes', '_hash', '__weakref__')

    UNCONSTRAINED = UNCONSTRAINED

    partitions: tuple[Any, ...]
    unreduced: frozenset[str]
    reduced: frozenset[str]
    unreduced_kind: UnreducedKind | None
    axes: tuple[tuple[str, ...], ...]

    def __new__(cls, *partitions: Any, unreduced: set[str] | frozenset[str] = frozenset(),
                reduced: set[str] | frozenset[str] = frozenset(), unreduced_kind: UnreducedKind | None = None) -> P:
        entries = tuple(_entry(p) for p in partitions)
        unreduced, reduced = _names('unreduced', unreduced), _names('reduced', reduced)
        if unreduced_kind is not None and not isinstance(unreduced_kind, UnreducedKind):
            raise TypeError(f'unreduced_kind is an UnreducedKind (sum, max or min), not {unreduced_kind!r}')
        if unreduced_kind is not None and not unreduced:
            raise ValueError(f'unreduced_kind={unreduced_kind.name} needs unreduced axes, but there are none')
        if unreduced and unreduced_kind is None:
            unreduced_kind = UnreducedKind.sum
        return _intern(entries, unreduced, reduced, unreduced_kind)

    def __init_subclass__(cls) -> None:
        raise TypeError('PartitionSpec has no subclasses')

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f'a PartitionSpec does not change; use .update({name}=...)')

    def __reduce__(self) -> Any:
        return _rebuild, (self.partitions, self.unreduced, self.reduced, self.unreduced_kind)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        # The intern table is bounded, so an equal spec may, rarely, be another object.
        return self is other or (
            type(other) is P and self._hash == other._hash and self.partitions == other.partitions
            and self.unreduced == other.unreduced and self.reduced == other.reduced
            and self.unreduced_kind is other.unreduced_kind)

    def update(self, **changes: Any) -> P:
        """The same spec with some of partitions, unreduced, reduced and unreduced_kind replaced."""
        fields = {'partitions': self.partitions, 'unreduced': self.unreduced, 'reduced': self.reduced} | changes
        if fields['unreduced']:
            fields.setdefault('unreduced_kind', self.unreduced_kind)
        return P(*fields.pop('partitions'), **fields)

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, index: Any) -> Any:
        return self._as_sequence()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._as_sequence())

    def index(self, entry: Any) -> int:
        return self.partitions.index(_entry(entry))

    def count(self, entry: Any) -> int:
        return self.partitions.count(_entry(entry))

    def _as_sequence(self) -> tuple[Any, ...]:
        if self.unreduced or self.reduced:
            raise ValueError(f'{self} is more than a sequence of partitions; read .partitions, .unreduced and .reduced')
        return self.partitions

    def __add__(self, other: Any) -> P:
        if isinstance(other, P):
            if self.unreduced_kind is not other.unreduced_kind:
                raise TypeError(f'{self} and {other} cannot be joined: their unreduced kinds differ')
            return P(*self.partitions, *other.partitions, unreduced=self.unreduced | other.unreduced,
                     reduced=self.reduced | other.reduced, unreduced_kind=self.unreduced_kind)
        if isinstance(other, tuple):
            return P(*self._plain(other), *other)
        return NotImplemented

    def __radd__(self, other: Any) -> P:
        return P(*other, *self._plain(other)) if isinstance(other, tuple) else NotImplemented

    def _plain(self, other: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.unreduced or self.reduced:
            raise TypeError(f'{self} and the tuple {other} cannot be joined: a tuple has no unreduced or reduced axes; '
                            'use .update(partitions=...)')
        return self.partitions

    def __repr__(self) -> str:
        parts = [repr(p) for p in self.partitions]
        if self.unreduced:
            parts.append(f'unreduced={_set_text(self.unreduced)}')
        if self.reduced:
            parts.append(f'reduced={_set_text(self.reduced)}')
        if self.unreduced_kind is not None:
            parts.append(f'unreduced_kind={self.unreduced_kind.name}')
        # A single partition prints like the one-tuple it is.
        comma = ',' if len(parts) == 1 and self.partitions else ''
        return f'P({", ".join(parts)}{comma})'


PartitionSpec = P


def _entry(partition: Any) -> Any:
    """The canonical form of one entry: None, a name, or a tuple of two or more names."""
    if not isinstance(partition, (tuple, list)):
        return None if partition == '' else partition
    for name in partition:
        if isinstance(name, (tuple, list)):
            raise ValueError(f'an entry of a PartitionSpec is None, a name or a flat tuple of names, not {partition!r}')
    if len(partition) < 2:
        return partition[0] if partition else None
    return tuple(partition)


def _names(what: str, names: Any) -> frozenset[str]:
    if not isinstance(names, (set, frozenset)):
        raise TypeError(f'P({what}=...) takes a set of axis names, not {names!r}')
    if None in names:
        raise ValueError(f'P({what}=...) takes names of mesh axes, and None is none')
    return frozenset(names)


def _set_text(names: frozenset[str]) -> str:
    # Sorted, because the order of a Python set differs between runs and all ranks must print alike.
    return '{' + ', '.join(repr(name) for name in sorted(names, key=str)) + '}'


@lru_cache(maxsize=8192)
def _intern(partitions: tuple[Any, ...], unreduced: frozenset[str], reduced: frozenset[str],
            kind: UnreducedKind | None) -> P:
    axes = tuple(() if p is None else p if isinstance(p, tuple) else (p,) for p in partitions)
    split = frozenset(name for names in axes for name in names)
    for here, there, names in (('unreduced', 'reduced', unreduced & reduced),
                               ('partitions', 'unreduced', split & unreduced),
                               ('partitions', 'reduced', split & reduced)):
        if names:
            raise ValueError(f'a mesh axis is in one state, but {_set_text(names)} is in both {here} and {there} of a '
                             f'PartitionSpec with partitions={partitions}, unreduced={_set_text(unreduced)}, '
                             f'reduced={_set_text(reduced)}')
    spec = object.__new__(P)
    set_field = object.__setattr__
    set_field(spec, 'partitions', partitions)
    set_field(spec, 'unreduced', unreduced)
    set_field(spec, 'reduced', reduced)
    set_field(spec, 'unreduced_kind', kind)
    set_field(spec, 'axes', axes)
    set_field(spec, '_hash', hash((partitions, unreduced, reduced, kind)))
    return spec


def _rebuild(partitions: tuple[Any, ...], unreduced: frozenset[str], reduced: frozenset[str],
             kind: UnreducedKind | None) -> P:
    return P(*partitions, unreduced=unreduced, reduced=reduced, unreduced_kind=kind)


def written(spec: P) -> str:
    """The spec as code. Its printed form tells the kind, as JAX's does; the default needs no word, and that one is no code."""
    return repr(spec).replace(', unreduced_kind=sum', '')
