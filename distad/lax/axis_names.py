"""Axis names, as collectives are given them: those of manual mesh axes, and those of the axes that vmaps around map over.

Both may stand in one collective, in any order: the first is the major one. Neighbouring mesh axes are one run, so they stay one
message; a mapped axis is a run of its own. A name that a vmap gives hides a mesh axis of that name.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby

from distad.core.batching import size_of
from distad.types.mesh import get_abstract_mesh

Axes = Hashable | Sequence[Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Axes that one step of a collective goes over: mesh axes, or one mapped axis."""

    axes: tuple[str, ...] = ()
    mapped: tuple[Hashable, ...] = ()
    size: int

    @property
    def label(self) -> str:
        return ', '.join(map(str, self.axes + self.mapped))


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The axes of a collective: `runs`, the major first; `dims`, the dimensions of the operand that a psum was given besides."""

    runs: tuple[Run, ...]
    dims: tuple[int, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(axis for run in self.runs for axis in run.axes)

    @property
    def mapped(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.mapped)

    @property
    def size(self) -> int:
        return math.prod(run.size for run in self.runs)


def split(name: str, axis_name: Axes, *, positional: bool = False) -> Names:
    """The names given to a collective, checked against the axes around. `positional`: ints are dimensions of the operand."""
    if isinstance(axis_name, list):
        axis_name = tuple(axis_name)
    if axis_name.__hash__ is None or not isinstance(axis_name, (str, tuple)) and size_of(axis_name) is None:
        raise TypeError(f"{name}: axis_name is a string or a tuple of strings, got {axis_name!r}")
    given = axis_name if isinstance(axis_name, tuple) and size_of(axis_name) is None else (axis_name,)
    dims = tuple(a for a in given if positional and isinstance(a, int) and size_of(a) is None)
    given = tuple(a for a in given if a not in dims)
    mesh = get_abstract_mesh()
    manual = (*mesh.manual_axes, *mesh.auto_axes)
    for axis in given:
        if size_of(axis) is None and axis not in manual:
            raise NameError(f"unbound axis name: {axis}. {name} works over the manual axes of a shard_map around "
                            f"({', '.join(manual) or 'there are none here'}), and over axes that a vmap around gives a name to.")
    if len(set(given)) != len(given):
        raise ValueError(f"{name}: an axis stands twice in {given}")
    runs: list[Run] = []
    for mapped, some in groupby(given, lambda axis: size_of(axis) is not None):
        some = tuple(some)
        runs += [Run(mapped=(a,), size=size_of(a)) for a in some] if mapped else [Run(axes=some, size=mesh.axis_size(some))]
    return Names(runs=tuple(runs), dims=dims)
