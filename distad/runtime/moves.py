"""From one type to another: the plan, a pure function of the two types, and carrying it out.

    from \\ to   N, R          S                      U
    N, R        free          local slice            keep on the first rank
    U           all-reduce    reduce-scatter         free
    S           all-gather    all-to-all, permute    embed in zeros

The rows hold along one axis. Along several at once a plan has one message or two that add up the axes that cease to be
unreduced, and at most one that brings every piece of the array to the ranks that hold it in the end. The last needs no
table. Each rank knows where the old and the new block of every rank lie, and rank r sends to rank q the intersection of its
old block with the new one of q. Slices and embedding in zeros are intersections too, with oneself.

Of several plans the cheapest is taken, where one more message costs as much as some bytes. So a value unreduced over two
axes that becomes split over one of them is summed by one all-reduce if it is small, and then cut; if it is large, a
reduce-scatter over that axis comes first, and the all-reduce over the other is of a part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from distad.errors import ShardingTypeError
from distad.runtime import collectives, mpi
from distad.runtime.blocks import index_of
from distad.runtime.packing import together
from distad.runtime.recorder import NOWHERE
from distad.types.array_type import ArrayType, Partitions
from distad.types.mesh import Mesh

Index = tuple[slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One arrow of a plan: from blocks of the operand type to blocks of the result type.

    `kind` is 'local' or the name of the collective, `axes` are those it runs over, in the order of its ranks; a sum is `exact`
    where the user asked for it.
    """

    kind: str
    axes: tuple[str, ...]
    operand: ArrayType
    result: ArrayType
    exact: bool = False

    @property
    def reduction(self) -> str:
        return 'exact' if self.exact and self.operand.kind == 'sum' else self.operand.kind

    @property
    def bytes(self) -> int:
        """What a rank hands to MPI; for a permutation, where ranks differ, at most so much on average."""
        if self.kind == 'local':
            return 0
        itemsize = self.operand.dtype.itemsize
        if self.kind in ('all-reduce', 'reduce-scatter'):
            itemsize = collectives.wire_dtype(self.operand.dtype, self.operand.kind).itemsize
        if self.kind == 'all-reduce':
            return itemsize * math.prod(self.operand.local_shape)
        piece = itemsize * math.prod(map(min, self.operand.local_shape, self.result.local_shape))
        return piece * (self.operand.mesh.axis_size(self.axes) if self.kind in ('reduce-scatter', 'all-to-all') else 1)

    def __repr__(self) -> str:
        over = f' over {",".join(self.axes)}, {self.bytes} B' if self.axes else ''
        return f'{self.kind}{over}: {self.operand} -> {self.result}'


Plan = tuple[Step, ...]

# ---- planning


@lru_cache(maxsize=8192)
def plan(src: ArrayType, dst: ArrayType, exact: bool = False) -> Plan:
    """The steps from blocks of one type to blocks of another. Empty if every rank already holds what it needs."""
    if exact:
        return tuple(replace(step, exact=True) for step in plan(src, dst))
    if src.mesh.empty:
        src = src.update(mesh=dst.mesh)
    _check(src, dst)
    if not src.size * src.dtype.itemsize:  # it holds nothing, so there is nothing to send
        return () if src.local_shape == dst.local_shape else (Step(kind='local', axes=(), operand=src, result=dst),)
    leaving = dst.mesh.in_order(_summed(src) - _summed(dst))
    if not leaving:
        return _route(src, dst)
    plans = [_by_all_reduce(src, dst, leaving)]
    scattered = tuple(name for name in leaving if name in dst.split_axes)
    if src.kind == 'sum' and scattered:
        plans += _by_reduce_scatter(src, dst, scattered)
    return min(plans, key=lambda steps: sum(map(_cost, messages(steps))))


MESSAGE = 1 << 18       # bytes: what could be sent in the time that it takes to start one more message and wait for it


def _cost(step: Step) -> float:
    """What a rank sends, and a message. An all-reduce does the work of a reduce-scatter and of an all-gather."""
    size = step.operand.mesh.axis_size(step.axes)
    others = {'all-reduce': 2 * (size - 1) / size, 'all-gather': size - 1, 'collective-permute': 1}.get(step.kind, (size - 1) / size)
    return step.bytes * others + MESSAGE


def messages(steps: Plan) -> Plan:
    """The steps that communicate."""
    return tuple(s for s in steps if s.kind != 'local')


def _check(src: ArrayType, dst: ArrayType) -> None:
    if src.shape != dst.shape or src.dtype != dst.dtype or src.mesh != dst.mesh:
        raise ValueError(f'reshard keeps shape, dtype and mesh, but got {src} on {src.mesh} and {dst} on {dst.mesh}')
    if src.varying != dst.varying:
        raise ShardingTypeError(f'reshard keeps the varying axes, but got {src} and {dst}; use pcast')
    if _summed(src) & _summed(dst) and src.kind != dst.kind:
        raise ShardingTypeError(f'reshard cannot turn a {src.kind} to come into a {dst.kind} to come: {src} to {dst}; '
                                f'reduce the {src.kind} first')
    if dst.kind != 'sum' and _summed(dst) & src.split_axes:
        raise ShardingTypeError(f'reshard cannot make split axes unreduced of kind {dst.kind}: {src} to {dst}; only a '
                                'sum has zeros for what a rank does not hold; gather these axes first')


def _by_all_reduce(src: ArrayType, dst: ArrayType, leaving: tuple[str, ...]) -> Plan:
    """Sum all over these axes, of as small a block as local slices can make it before."""
    free = _held_whole(src)
    cut = tuple(_extended(p, q, free) for p, q in zip(_partitions(src), _partitions(dst)))
    small = _between(src, dst, cut, src.unreduced)
    summed = _between(src, dst, cut, src.unreduced - set(leaving))
    step = Step(kind='all-reduce', axes=leaving, operand=small, result=summed)
    return _route(src, small) + (step,) + _route(summed, dst)


def _by_reduce_scatter(src: ArrayType, dst: ArrayType, leaving: tuple[str, ...]) -> list[Plan]:
    """Sum and keep a part, along the dimensions where these axes go, and of that part sum over the others; none if the dimensions do
    not divide so."""
    usable = _held_whole(src) | set(leaving)
    scattered = []
    for p, q in zip(_partitions(src), _partitions(dst)):
        cut = _extended(p, q, usable)
        scattered.append(cut + tuple(name for name in q if name in leaving and name not in cut))
    if any(n % src.mesh.axis_size(names) for n, names in zip(src.shape, scattered)):
        return []
    summed = _between(src, dst, tuple(scattered), src.unreduced - set(leaving))
    axes = tuple(name for names in scattered for name in names if name in leaving)
    step = Step(kind='reduce-scatter', axes=axes, operand=src, result=summed)
    return [(step,) + plan(summed, dst)]


def _between(src: ArrayType, dst: ArrayType, partitions: Partitions, unreduced: frozenset[str]) -> ArrayType:
    """A type on the way: laid out so, and in all else as the destination."""
    used = unreduced.union(*partitions)
    return dst.update(partitions=partitions, unreduced=unreduced, kind=src.kind, reduced=dst.reduced - used)


def _extended(names: tuple[str, ...], goal: tuple[str, ...], usable: frozenset[str] | set[str]) -> tuple[str, ...]:
    """The axes of a dimension and the next ones on the way to the goal: within each block a slice, so no data moves."""
    if goal[:len(names)] != names:
        return names
    return names + tuple(itertools.takewhile(usable.__contains__, goal[len(names):]))


def _route(src: ArrayType, dst: ArrayType) -> Plan:
    """At most one step, from a type to one with the same sums still to come, or more of them."""
    made = _made_unreduced(src, dst)
    old, new = _partitions(src), _partitions(dst)
    if old == new and not made:
        return ()
    # Along the other axes each rank already holds, of what it needs, all that the ranks along that axis hold.
    moved = tuple(name for p, q in zip(old, new) for name in p
                  if name not in made and not _in_place(src, name, p, q))
    return (Step(kind=_route_kind(old, new, set(moved), made), axes=moved, operand=src, result=dst),)


def _route_kind(old: Partitions, new: Partitions, moved: set[str], embedded: frozenset[str]) -> str:
    """The plain collective that does the move, if all pieces that ranks exchange have one size; else a permutation."""
    if not moved:
        return 'local'
    for p, q in zip(old, new):
        leaves, arrives = moved.intersection(p), moved.intersection(q)
        if leaves and p[:len(q)] != q or arrives and embedded.intersection(p):
            return 'collective-permute'
    return 'all-to-all' if any(moved.intersection(q) for q in new) else 'all-gather'


def _in_place(t: ArrayType, name: str, old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Whether an axis cuts the dimension into the same parts, for the same ranks, before and after."""
    if name not in new:
        return False
    size = t.mesh.axis_size
    return size(old[:old.index(name)]) == size(new[:new.index(name)])


# Axes of size 1 hold the same in every state, so plans do not see them.

def _partitions(t: ArrayType) -> Partitions:
    return tuple(tuple(name for name in names if t.mesh.axis_size(name) > 1) for names in t.partitions)


def _summed(t: ArrayType) -> frozenset[str]:
    return frozenset(name for name in t.unreduced if t.mesh.axis_size(name) > 1)


def _held_whole(t: ArrayType) -> frozenset[str]:
    return frozenset(t.mesh.axis_names) - t.split_axes - t.unreduced - t.varying


def _made_unreduced(src: ArrayType, dst: ArrayType) -> frozenset[str]:
    """The axes along which zeros come in. For max and min copies do as well, so nothing has to be done."""
    return _summed(dst) - _summed(src) if dst.kind == 'sum' else frozenset()


# ---- carrying out


def run(steps: Plan, mesh: Mesh, block: np.ndarray, where: Any = NOWHERE) -> np.ndarray:
    """This rank's block after the steps. Without a message it may be the given block or a view of it."""
    return _run_together((steps,), mesh, [block], where)[0]


def mover(place: Any, ins: Sequence[ArrayType], outs: Sequence[ArrayType],
          exact: bool = False) -> Callable[..., list[np.ndarray]]:
    """A function from blocks of some types to blocks of others, in which alike messages travel as one.

    `place` has the mesh and, for the record, path and source of the equation.
    """
    plans = tuple(plan(src, dst, exact) for src, dst in zip(ins, outs))
    if not any(plans):
        return lambda *blocks: list(blocks)
    if len(alike(plans)) == 1 and all(len(steps) == 1 and steps[0].kind == 'all-reduce' for steps in plans):
        step = plans[0][0]
        return together(collectives.reducer(place.mesh, step.axes, step.reduction, place))
    return lambda *blocks: _run_together(plans, place.mesh, list(blocks), place)


def alike(plans: Sequence[Plan]) -> dict[Any, list[int]]:
    """Which values travel together: their numbers, by the messages that their plans send."""
    found: dict[Any, list[int]] = {}
    for i, steps in enumerate(plans):
        key = tuple((s.kind, s.axes, s.operand.dtype, s.reduction) for s in messages(steps))
        found.setdefault(key, []).append(i)
    return found


def _run_together(plans: tuple[Plan, ...], mesh: Mesh, blocks: list[np.ndarray], where: Any) -> list[np.ndarray]:
    """Values whose plans send the same messages go through them together, a message at a time."""
    coords = mesh.coords(mpi.rank())
    for key, members in alike(plans).items():
        left = {i: list(plans[i]) for i in members}
        for kind, axes, *_ in key:
            heads = []
            for i in members:
                blocks[i] = _run_local(left[i], coords, blocks[i])
                heads.append(left[i].pop(0))
            moved = _MESSAGES[kind](heads, coords, [blocks[i] for i in members], mpi.group(mesh, axes), where)
            for i, step, block in zip(members, heads, moved):
                blocks[i] = _first_only(step, coords, block)
        for i in members:
            blocks[i] = _run_local(left[i], coords, blocks[i])
    return blocks


def _run_local(steps: list[Step], coords: dict[str, int], block: np.ndarray) -> np.ndarray:
    """Take the local steps off the front of a list, and run them."""
    while steps and steps[0].kind == 'local':
        step = steps.pop(0)
        (sends, recvs) = _pieces(step, tuple(coords.items()))
        whole = _shape(sends[0]) == block.shape                      # then not a view, which nobody could write over
        block = _first_only(step, coords, _place(step, recvs, [block if whole else block[sends[0]]]))
    return block


def _first_only(step: Step, coords: dict[str, int], block: np.ndarray) -> np.ndarray:
    """What was whole and becomes unreduced stays on the first rank along these axes; the others hold zeros."""
    kept = _made_unreduced(step.operand, step.result) - step.operand.split_axes
    return np.zeros_like(block) if any(coords[name] for name in kept) else block


def _all_reduce(steps, coords, blocks, group, where):
    out = collectives.all_reduce(group, _packed(blocks), steps[0].reduction, given=len(blocks) > 1, where=where)
    return [part.reshape(b.shape) for part, b in zip(_split(out, [b.size for b in blocks]), blocks)]


def _all_gather(steps, coords, blocks, group, where):
    pieces = [_pieces(s, tuple(coords.items())) for s in steps]
    sent = [block[sends[0]] for block, (sends, _) in zip(blocks, pieces)]
    if len(steps) == 1 and (dim := _side_by_side(pieces[0][1], shape := steps[0].result.local_shape)) is not None:
        return [collectives.all_gather_along(group, sent[0], dim, shape, where=where)]
    out = collectives.all_gather(group, _packed(sent), where=where)
    parts = _split(out, [x.size for x in sent])
    return [_place(s, recvs, part.reshape(group.size, *x.shape))
            for s, (_, recvs), part, x in zip(steps, pieces, parts, sent)]


def _reduce_scatter(steps, coords, blocks, group, where):
    rows = [_rows(block, _pieces(s, tuple(coords.items()))[0]) for s, block in zip(steps, blocks)]
    out = collectives.reduce_scatter(group, _packed_rows(rows), steps[0].reduction, where=where)
    return [part.reshape(s.result.local_shape) for s, part in zip(steps, _split(out, [row.shape[1] for row in rows]))]


def _all_to_all(steps, coords, blocks, group, where):
    pieces = [_pieces(s, tuple(coords.items())) for s in steps]
    rows = [_rows(block, sends) for block, (sends, _) in zip(blocks, pieces)]
    out = collectives.all_to_all(group, _packed_rows(rows), where=where)
    results = []
    for step, (_, recvs), part in zip(steps, pieces, _split(out, [row.shape[1] for row in rows])):
        results.append(_place(step, recvs, part.reshape(group.size, *_shape(recvs[0]))))
    return results


def _permute(steps, coords, blocks, group, where):
    pieces = [_pieces(s, tuple(coords.items())) for s in steps]
    sent = [_packed([block[sends[k]] for block, (sends, _) in zip(blocks, pieces)]) for k in range(group.size)]
    sizes = [[math.prod(_shape(recvs[k])) for _, recvs in pieces] for k in range(group.size)]
    came = collectives.all_to_all_v(group, sent, [(sum(s),) for s in sizes], where=where)
    parts = [_split(flat, s) for flat, s in zip(came, sizes)]
    return [_place(step, recvs, [parts[k][i].reshape(_shape(recvs[k])) for k in range(group.size)])
            for i, (step, (_, recvs)) in enumerate(zip(steps, pieces))]


_MESSAGES = {'all-reduce': _all_reduce, 'all-gather': _all_gather, 'reduce-scatter': _reduce_scatter,
             'all-to-all': _all_to_all, 'collective-permute': _permute}


@lru_cache(maxsize=8192)
def _pieces(step: Step, here: tuple[tuple[str, int], ...]) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
    """What goes to each rank of the group, within the old block; and where what comes from each lies in the new one."""
    coords = dict(here)
    old, new = index_of(step.operand, coords), index_of(step.result, coords)
    sends, recvs = [], []
    for place in itertools.product(*(range(step.operand.mesh.axis_size(name)) for name in step.axes)):
        other = coords | dict(zip(step.axes, place))
        sends.append(_common(old, index_of(step.result, other)))
        recvs.append(_common(new, index_of(step.operand, other)))
    return tuple(sends), tuple(recvs)


def _common(block: Index, other: Index) -> Index:
    """The intersection of two blocks, counted from the start of the first one."""
    index = []
    for a, b in zip(block, other):
        start = max(a.start, b.start)
        stop = max(start, min(a.stop, b.stop))
        index.append(slice(start - a.start, stop - a.start))
    return tuple(index)


def _shape(index: Index) -> tuple[int, ...]:
    return tuple(s.stop - s.start for s in index)


def _place(step: Step, recvs: tuple[Index, ...], parts: Sequence[np.ndarray]) -> np.ndarray:
    """The new block from its pieces, with zeros where none comes."""
    shape = step.result.local_shape
    if len(parts) == 1 and parts[0].shape == shape:
        return parts[0]
    if isinstance(parts, np.ndarray) and _in_rows(recvs, shape):
        return parts.reshape(shape)
    covered = sum(math.prod(_shape(index)) for index in recvs) == math.prod(shape)
    out = (np.empty if covered else np.zeros)(shape, step.result.dtype)
    for index, part in zip(recvs, parts):
        out[index] = part
    return out


def _rows(block: np.ndarray, sends: tuple[Index, ...]) -> np.ndarray:
    """One row for each rank of the group: the block as it lies, if that is their order."""
    if _in_rows(sends, block.shape):
        return block.reshape(len(sends), -1)
    return np.stack([block[index].reshape(-1) for index in sends])


def _in_rows(pieces: tuple[Index, ...], shape: tuple[int, ...]) -> bool:
    """Whether the pieces are the rows of an array of this shape, one after the other."""
    start = 0
    for index in pieces:
        if not shape or index[0].start != start or _shape(index)[1:] != shape[1:]:
            return False
        start = index[0].stop
    return start == shape[0]


def _side_by_side(pieces: tuple[Index, ...], shape: tuple[int, ...]) -> int | None:
    """The dimension along which the pieces make up an array of this shape, one after the other, if they do."""
    for dim, size in enumerate(shape):
        one = _shape(pieces[0])
        if one[:dim] + one[dim + 1:] == shape[:dim] + shape[dim + 1:] and one[dim] * len(pieces) == size:
            if all(piece[dim].start == k * one[dim] and _shape(piece) == one for k, piece in enumerate(pieces)):
                return dim
    return None


def _packed(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The values one after the other, in one flat array."""
    return arrays[0].reshape(-1) if len(arrays) == 1 else np.concatenate([x.reshape(-1) for x in arrays])


def _packed_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def _split(flat: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Undo packing, along the last dimension."""
    ends = list(itertools.accumulate(sizes))
    return [flat[..., end - size:end] for end, size in zip(ends, sizes)]
