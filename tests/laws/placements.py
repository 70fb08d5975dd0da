"""All ways to put operands on a mesh, and a good sample where they are too many."""

import math
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from distad.types import dtypes
from distad.types.array_type import ArrayType, axis_state
from distad.types.mesh import AbstractMesh

Types = tuple[ArrayType, ...]
State = str | int  # 'N', 'R', 'V', a kind of unreduced, or the dimension that is split
KINDS = {'U': 'sum', 'U max': 'max', 'U min': 'min'}


def states(t: ArrayType, manual: bool = False) -> list[State]:
    """What a value may be along one axis of any size. (Keys and bools are no numbers: there is no sum, or no max, of them.)"""
    summands = [] if t.dtype == dtypes.KEY else ['U'] if t.dtype == np.bool_ else ['U', 'U max', *(['U min'] if manual else [])]
    return ['N', 'R', *(['V'] if manual else range(t.ndim)), *summands]


@lru_cache(maxsize=65536)
def placed(t: ArrayType, mesh: AbstractMesh, at: tuple[State, ...], flip: bool = False) -> ArrayType | None:
    """The type in these states, one for each axis of the mesh, if there is such a type.

    `flip`: two axes on one dimension stand in reverse order.
    """
    by_axis = list(zip(mesh.axis_names, at, strict=True))
    partitions = tuple(tuple(a for a, s in (by_axis[::-1] if flip else by_axis) if s == d) for d in range(t.ndim))
    summed = {a: s for a, s in by_axis if s in KINDS}
    if len(set(summed.values())) > 1 or any(n % mesh.axis_size(axes) for n, axes in zip(t.shape, partitions)):
        return None
    return t.update(mesh=mesh, partitions=partitions, unreduced=summed, reduced=[a for a, s in by_axis if s == 'R'],
                    varying=[a for a, s in by_axis if s == 'V'], kind=KINDS[next(iter(summed.values()), 'U')])


def state_along(t: ArrayType, axis: str) -> State:
    """The state that `placed` would give it."""
    letter = axis_state(t, axis)
    if letter == 'S':
        return next(d for d, axes in enumerate(t.partitions) if axis in axes)
    return next(s for s, kind in KINDS.items() if kind == t.kind) if letter == 'U' else letter


def candidates(types: Types, literal: Sequence[bool], mesh: AbstractMesh, accepts: Callable[[Types], bool],
               mended: Callable[[Types], Types], most: int) -> Iterator[Types]:
    """Placements of the operands: all if they are not many more than `most`, else a sample with many accepted ones.

    Axes are independent of one another, mostly. So what is accepted along several axes is looked for where each of them alone
    is accepted; and everywhere, for what this misses and for what has to be rejected. Where the operands are too many to try
    everything along one axis, `mended` says what would be accepted in place of what is not.
    """
    choices = [[['N'] if lit or axis in mesh.auto_axes else states(t, axis in mesh.manual_axes)
                for t, lit in zip(types, literal, strict=True)] for axis in mesh.axis_names]

    def on(combination: tuple[tuple[State, ...], ...], flip: bool) -> Types | None:
        """The operands in states by axis and operand; literals stay what they are."""
        made = tuple(t if lit else placed(t, mesh, at, flip)
                     for t, lit, at in zip(types, literal, zip(*combination, strict=True), strict=True))
        return None if None in made else made

    others: list[tuple[State, ...]] = [('N',) * len(types)] * len(choices)
    alone: list[list[tuple[State, ...]]] = []
    for i, of_operands in enumerate(choices):
        alone.append([])
        for states_along in dict.fromkeys([*alike(of_operands), *sample(of_operands, most)]):
            made = on((*others[:i], states_along, *others[i + 1:]), False)
            if made is not None and not accepts(made) and math.prod(map(len, of_operands)) > most:
                made = mended(made)
            if made is not None and accepts(made):
                alone[i].append(tuple(state_along(t, mesh.axis_names[i]) for t in made))
        alone[i] = list(dict.fromkeys(alone[i]))
        if alone[i] and others[i] not in alone[i]:                   # ops over manual axes: N there is refused
            others[i] = alone[i][0]
    if len(choices) > 1:
        anywhere = [list(sample(row, most)) for row in choices]
        for rows, some in ((alone, most), (anywhere, most // 3)):
            for combination in sample(rows, some):
                yield from (made for flip in (False, True) if (made := on(combination, flip)) is not None)


def alike(rows: Sequence[Sequence[State]]) -> list[tuple[State, ...]]:
    """All operands in one state, those that cannot be in it in their first one: what is accepted most often."""
    return [tuple(s if s in row else row[0] for row in rows) for s in dict.fromkeys(s for row in rows for s in row)]


def sample(rows: Sequence[Sequence], most: int) -> Iterator[tuple]:
    """Some `most` elements of the product of the rows, the first of all among them."""
    count = math.prod(map(len, rows))
    some = range(count) if count <= most else [0, *random.Random(count).sample(range(1, count), most - 1)]
    for i in some:
        chosen = []
        for row in reversed(rows):
            i, at = divmod(i, len(row))
            chosen.append(row[at])
        yield tuple(reversed(chosen))


def varied(accepted: Sequence[Types], mesh: AbstractMesh, most: int) -> list[Types]:
    """A sample in which each state of each operand along each axis is met early. The first one is always in it."""
    if not accepted:
        return []
    order = sorted(accepted[1:], key=lambda types: zlib.crc32(' '.join(map(str, types)).encode()))
    seen = set(features(accepted[0], mesh))
    chosen, rest = [accepted[0]], []
    for types in order:
        new = features(types, mesh) - seen
        (chosen if new else rest).append(types)
        seen |= new
    return (chosen + rest)[:most]


def features(types: Types, mesh: AbstractMesh) -> set:
    """What is worth to be seen once: the state of each operand along each axis, and dimensions split twice."""
    return ({(i, a, axis_state(t, a), t.kind, t.partitions if a in t.split_axes else None)
             for i, t in enumerate(types) if not t.mesh.empty for a in mesh.axis_names})
