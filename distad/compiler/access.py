"""Where an element of a result is read from: ops that only move elements, as maps of indices.

An index of an array has an entry for each dimension: a `Place` (loop, factor, offset), which is factor * i + offset for the loop
variable i, or offset alone where loop is None. A broadcast, slice, transpose or reverse gives the index of its operand; pad and
concatenate give one for each stretch of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distad.core.jaxpr import Equation


@dataclass(frozen=True, slots=True)
class Place:
    """factor * i + offset, for the variable i of a loop over the dimension `loop` of the space; offset where that is None."""

    loop: int | None
    factor: int
    offset: int

    def shifted(self, offset: int) -> Place:
        return Place(self.loop, self.factor, self.offset + offset)

    def times(self, factor: int, offset: int) -> Place:
        """factor * place + offset."""
        return Place(self.loop, self.factor * factor, self.offset * factor + offset)


Index = tuple[Place, ...]
ZERO = Place(None, 0, 0)

MOVES = frozenset({'broadcast_in_dim', 'slice', 'transpose', 'squeeze', 'reshape', 'rev', 'pad', 'concatenate'})
JOINS = frozenset({'pad', 'concatenate'})
# What is rather computed twice than kept.
CHEAP = frozenset({'add', 'add_any', 'sub', 'mul', 'neg', 'convert_element_type', 'max', 'min', 'select_n', 'stop_gradient',
                   'relabel', 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'and', 'or', 'not', 'abs', 'square'})


def local(v) -> tuple[int, ...]:
    """The shape of a rank's block."""
    return v.type.local_shape


def identity(shape: tuple[int, ...]) -> Index:
    return tuple(Place(d, 1, 0) if n > 1 else ZERO for d, n in enumerate(shape))


def elementwise_index(shape: tuple[int, ...], out: tuple[int, ...], index: Index) -> Index:
    """The index of an operand of an elementwise op where its result is read: dimensions of size 1 are read again and again."""
    return tuple(p if n == m else ZERO for p, n, m in zip(index, shape, out, strict=True)) if shape else ()


def rows_of(axes: Sequence[int], space: tuple[int, ...]) -> int | None:
    """How many dimensions count rows, where a reduction is over all that is behind them; dimensions of size 1 behind may stay."""
    k = min(axes, default=0)
    return k if k and all(n == 1 or d in axes for d, n in enumerate(space) if d >= k) else None


def keeps_last(axes: Sequence[int], space: tuple[int, ...]) -> bool:
    """Whether a reduction leaves elements that lie side by side, side by side: its last dimension that has more than one."""
    return max((d for d, n in enumerate(space) if n > 1), default=-1) not in axes


def is_move(eqn: Equation) -> bool:
    """Whether an equation only moves elements, from places that types alone tell: the same on every rank."""
    name = eqn.primitive.name
    if name not in MOVES:
        return False
    x, out = eqn.ins[0], eqn.outs[0]
    if name == 'slice':
        return all(not x.type.partitions[d] or n == out.type.shape[d] for d, n in enumerate(x.type.shape))
    if name == 'pad':
        config = eqn.params['padding_config']
        return all(inner == 0 for *_, inner in config) and all(
            c == (0, 0, 0) or not x.type.partitions[d] for d, c in enumerate(config))
    if name == 'reshape':
        return [n for n in local(x) if n != 1] == [n for n in local(out) if n != 1]
    return True


def through(eqn: Equation, index: Index) -> Index:
    """The index of the operand where the result is read at `index`; for moves with one operand."""
    name, params = eqn.primitive.name, eqn.params
    shape = local(eqn.ins[0])
    if name == 'broadcast_in_dim':
        out = local(eqn.outs[0])
        return tuple(index[d] if shape[i] == out[d] else ZERO for i, d in enumerate(params['broadcast_dimensions']))
    if name == 'slice':
        steps = params['strides'] or (1,) * len(shape)
        whole = [n == m for n, m in zip(shape, local(eqn.outs[0]), strict=True)]
        return tuple(p if w else p.times(s, a) for p, w, s, a in zip(index, whole, steps, params['start_indices'], strict=True))
    if name == 'transpose':
        back: list[Place] = [ZERO] * len(shape)
        for p, d in zip(index, params['permutation'], strict=True):
            back[d] = p
        return tuple(back)
    if name in ('squeeze', 'reshape'):
        given = iter([p for p, n in zip(index, local(eqn.outs[0]), strict=True) if n != 1])
        return tuple(ZERO if n == 1 else next(given) for n in shape)
    if name == 'rev':
        return tuple(p.times(-1, n - 1) if d in params['dimensions'] else p for d, (p, n) in enumerate(zip(index, shape, strict=True)))
    raise TypeError(f'{eqn.primitive} has no one index')


def parts(eqn: Equation) -> tuple[int, list[tuple[int, int, int | None]]]:
    """A pad or concatenation along one dimension: stretches (first, last, which operand) of the result, None for padding."""
    if eqn.primitive.name == 'concatenate':
        d, at, found = eqn.params['dimension'], 0, []
        for i, x in enumerate(eqn.ins):
            found.append((at, at + local(x)[d], i))
            at += local(x)[d]
        return d, found
    raise TypeError(f'{eqn.primitive} is no concatenation')


def padded(eqn: Equation) -> list[tuple[int, int, int]]:
    """Where the operand of a pad lies in the result: (dimension, first, last) for each dimension that grew or shrank."""
    shape = local(eqn.ins[0])
    return [(d, low, low + shape[d]) for d, (low, high, _) in enumerate(eqn.params['padding_config']) if low or high]


def cuts(eqn: Equation, index: Index) -> list[tuple[int, int]]:
    """Where the loops are to be cut so that on each stretch a pad or concatenation reads one operand: (loop, at)."""
    bounds = []
    if eqn.primitive.name == 'concatenate':
        d, stretches = parts(eqn)
        bounds = [(d, first) for first, _, _ in stretches] + [(d, stretches[-1][1])]
    else:
        for d, first, last in padded(eqn):
            bounds += [(d, first), (d, last)]
    found = []
    for d, at in bounds:
        p = index[d]
        if p.loop is not None:
            ahead = at - p.offset                                      # the first i with factor * i on the other side of this
            found.append((p.loop, -(-ahead // p.factor) if p.factor > 0 else -ahead // -p.factor + 1))
    return found


def chosen(eqn: Equation, index: Index, at: dict[int, int]) -> tuple[int, Index] | None:
    """Which operand a pad or concatenation reads on the stretch that begins at `at`, and at which index; 1 of pad is padding.

    None where it is outside: a branch that is not taken there.
    """
    def where(d: int) -> int:
        p = index[d]
        return p.offset + (p.factor * at[p.loop] if p.loop is not None else 0)
    if eqn.primitive.name == 'concatenate':
        d, stretches = parts(eqn)
        found = next((s for s in stretches if s[0] <= where(d) < s[1]), None)
        if found is None:
            return None
        first, _, which = found
        return which, tuple(p.shifted(-first) if i == d else p for i, p in enumerate(index))
    inside = all(first <= where(d) < last for d, first, last in padded(eqn))
    lows = {d: first for d, first, _ in padded(eqn)}
    return (0, tuple(p.shifted(-lows.get(d, 0)) for d, p in enumerate(index))) if inside else (1, ())
