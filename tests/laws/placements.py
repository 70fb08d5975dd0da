"""All ways to put operands on a mesh, and a good sample where they are too many."""

import math
import random
import zlib
from collections.abc import Callable, Iterator, Sequence

from distad.types import dtypes
from distad.types.array_type import ArrayType, axis_state
from distad.types.mesh import AbstractMesh

Types = tuple[ArrayType, ...]
State = str | int  # 'N', 'R', 'V', 'U', 'U max', or the dimension that is split


def states(t: ArrayType, manual: bool = False) -> list[State]:
    """What a value may be along one axis of any size. (Keys and bools are no numbers: there is no sum, or no max, of them.)"""
    summands = [] if t.dtype == dtypes.KEY else ['U', 'U max'] if t.dtype != bool else ['U']
    return ['N', 'R', *(['V'] if manual else range(t.ndim)), *summands]


def placed(t: ArrayType, mesh: AbstractMesh, at: dict[str, State], flip: bool = False) -> ArrayType | None:
    """The type in these states, if there is such a type. `flip`: two axes on one dimension stand in reverse order."""
    names = mesh.axis_names[::-1] if flip else mesh.axis_names
    partitions = tuple(tuple(a for a in names if at.get(a, 'N') == d) for d in range(t.ndim))
    kinds = {s.removeprefix('U').strip() or 'sum' for s in at.values() if isinstance(s, str) and s[0] == 'U'}
    if len(kinds) > 1 or any(n % mesh.axis_size(axes) for n, axes in zip(t.shape, partitions)):
        return None
    return t.update(mesh=mesh, partitions=partitions, reduced=[a for a, s in at.items() if s == 'R'],
                    unreduced=[a for a, s in at.items() if isinstance(s, str) and s[0] == 'U'],
                    varying=[a for a, s in at.items() if s == 'V'],
                    kind=kinds.pop() if kinds else 'sum')


def on_axes(types: Types, literal: Sequence[bool], mesh: AbstractMesh,
            at: Sequence[dict[str, State]], flip: bool = False) -> Types | None:
    made = tuple(t if lit else placed(t, mesh, states, flip) for t, lit, states in zip(types, literal, at, strict=True))
    return None if None in made else made


def candidates(types: Types, literal: Sequence[bool], mesh: AbstractMesh, accepts: Callable[[Types], bool],
               most: int) -> Iterator[Types]:
    """Placements of the operands: at most about twice `most`, and among them all accepted ones if these are not too many.

    Axes are independent of one another, mostly. So what is accepted along several axes is looked for where each of them alone
    is accepted; and everywhere, for what this misses and for what has to be rejected.
    """
    choices = {axis: [['N'] if lit else states(t, axis in mesh.manual_axes) for t, lit in zip(types, literal, strict=True)]
               for axis in mesh.axis_names}
    alone: list[list[tuple[State, ...]]] = []
    for axis in mesh.axis_names:
        alone.append([])
        for combination in sample(choices[axis], most):
            made = on_axes(types, literal, mesh, [{axis: s} for s in combination])
            if made is not None and accepts(made):
                alone[-1].append(combination)
    anywhere = [list(sample(choices[axis], most)) for axis in mesh.axis_names]
    for rows in (alone, anywhere):
        for combination in sample(rows, most):
            at = [dict(zip(mesh.axis_names, operand, strict=True)) for operand in zip(*combination, strict=True)]
            for flip in (False, True) if len(mesh.axis_names) > 1 else (False,):
                made = on_axes(types, literal, mesh, at, flip)
                if made is not None:
                    yield made
    replicated = on_axes(types, literal, mesh, [{}] * len(types))
    for i in range(len(types)):                                             # one was never placed
        yield (*replicated[:i], types[i], *replicated[i + 1:])


def sample(rows: Sequence[Sequence], most: int) -> Iterator[tuple]:
    """Some `most` elements of the product of the rows, its first among them."""
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
