"""Donated arguments: arrays that the caller of a jitted function gives up, for results to be made in their memory.

As in JAX, an argument is taken if a result has its shape and dtype on this rank; it is deleted by the call, and using it later is an
error that tells where it went. Its block goes to the program in a box, so that the program holds the only reference; whether somebody
else looks at the memory (a NumPy view, another array that shares it) is seen from the count of references, and then it is left alone.
Inside a transformation nothing is given up.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from distad import tree
from distad.core.value import Array, delete
from distad.source import Source, user_source
from distad.types.array_type import ArrayType


@dataclass(frozen=True, slots=True, kw_only=True)
class Donation:
    """Which arguments of a function are donated, by place and by name."""

    nums: frozenset[int]
    names: frozenset[str]

    def leaves(self, dynamic: tuple[list, dict], static: tuple) -> tuple[list[bool], tuple[str, ...]]:
        """For each leaf of the arguments that are traced, whether it is donated, and what the user calls it."""
        (positional, named), fixed = dynamic, {i for i, _ in static[0]}
        count = len(positional) + len(fixed)
        places = [i for i in range(count) if i not in fixed]
        nums = {i % count for i in self.nums if -count <= i < count}
        flags, names = [], []
        for on, told, x in (*((i in nums, f"argument {i}", x) for i, x in zip(places, positional, strict=True)),
                            *((k in self.names, f"argument {k!r}", named[k]) for k in sorted(named))):
            for path, _ in tree.flatten_with_path(x)[0]:
                flags.append(on)
                names.append(told + tree.keystr(path))
        return flags, tuple(names)


def donation(fun: Callable, nums: tuple[int, ...], names: tuple[str, ...], static_nums: tuple[int, ...],
             static_names: tuple[str, ...]) -> Donation | None:
    """The donation that was asked for; None for none. What has a place and a name is found by either."""
    if not nums and not names:
        return None
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    placed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if parameters and all(p.kind is not p.VAR_POSITIONAL for p in parameters):
        for i in nums:
            if not -len(placed) <= i < len(placed):
                raise ValueError(f"jit: donate_argnums={nums} has {i}, but {_name(fun)} takes {len(placed)} positional arguments.")
    if parameters and all(p.kind is not p.VAR_KEYWORD for p in parameters):
        for name in names:
            if name not in [p.name for p in parameters]:
                raise ValueError(f"jit: donate_argnames has {name!r}, but {_name(fun)} takes no argument of that name.")

    def both(nums: tuple[int, ...], names: tuple[str, ...]) -> tuple[set[str], set[int]]:
        found = {placed[i] for i in nums if -len(placed) <= i < len(placed)} | set(names)
        return found, {*nums, *(i for i, name in enumerate(placed) if name in found)}

    by_name, by_place = both(nums, names)
    static_by_name, static_by_place = both(static_nums, static_names)
    if by_name & static_by_name or by_place & static_by_place:
        raise ValueError(f"jit: an argument of {_name(fun)} is static and donated: "
                         f"{sorted(by_name & static_by_name) or sorted(by_place & static_by_place)}. A static one has no memory.")
    return Donation(nums=frozenset(by_place), names=frozenset(by_name))


def usable(flags: Sequence[bool], ins: Sequence[ArrayType], outs: Sequence[ArrayType], name: str) -> tuple[int, ...]:
    """The donated arguments whose memory a result can take, each for one result; a warning names the others."""
    free = Counter((t.local_shape, t.dtype) for t in outs)
    found, left = [], []
    for i, (on, t) in enumerate(zip(flags, ins, strict=True)):
        if on and free[t.local_shape, t.dtype]:
            free[t.local_shape, t.dtype] -= 1
            found.append(i)
        elif on:
            left.append(t)
    if left:
        source = user_source()
        what = f"jit({name}) has no result of the shape and dtype of {', '.join(map(str, left))}. These arguments stay what they are."
        warnings.warn_explicit(f"Some donated buffers were not usable: {what}", UserWarning, source.file, source.line)
    return tuple(found)


class _Fate(NamedTuple):
    """What became of a donated array, put into words when somebody asks."""

    argument: str
    call: str
    source: Source

    def __str__(self) -> str:
        return (f"{self.argument} was donated to jit({self.call}), called at {self.source}, and its memory now holds results. Use what "
                "the call returned, or hand a copy, jnp.array(x)")


def give_up(leaves: Sequence, donated: Sequence[int], blocks: list, name: str, names: Sequence[str]) -> None:
    """Put the blocks of donated arguments into boxes, and delete the arrays."""
    if len(set(map(id, leaves))) < len(leaves):
        _check_apart(leaves, donated, name, names)
    source = user_source()
    for i in donated:
        x = leaves[i]
        blocks[i] = [blocks[i]]
        if x.__class__ is Array:
            delete(x, _Fate(names[i], name, source))


def _check_apart(leaves: Sequence, donated: Sequence[int], name: str, names: Sequence[str]) -> None:
    """Raise if a donated array is another argument too."""
    times = Counter(map(id, leaves))
    for i in donated:
        if times[id(leaves[i])] > 1 and isinstance(leaves[i], Array):
            other = next(k for k, x in enumerate(leaves) if x is leaves[i] and k != i)
            raise ValueError(f"jit({name}): {names[i]} is donated, and the same array, of type {leaves[i].type}, is {names[other]} of "
                             "this call: f(donate(a), a). Its memory would be written while it is read. Hand a copy, jnp.array(x), as "
                             "one of them.")


def _name(fun: Callable) -> str:
    return getattr(fun, '__name__', type(fun).__name__)
