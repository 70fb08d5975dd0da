"""The collectives: all-reduce, all-gather, reduce-scatter, all-to-all and permutation, for any dtype.

Every one goes out through `runtime.sending`, which records it, starts it without blocking and waits with a deadline. What
goes out is contiguous. Moves carry bytes, so no dtype is foreign to them. Sums carry what MPI can add: bool as the
uint8 whose max is "or", half-precision types as float32, rounded once at the end.

A sum is MPI's, in whatever order MPI finds fast for its size. Where the order matters, the summands travel instead, and each rank adds
its share of the elements (`runtime.exact`): of kind 'exact' the sum is rounded once, so no order can be told from it; with
DISTAD_REPRODUCIBLE=1 every other sum of floats is added by a tree over the ranks.

Among one rank, and for arrays that hold nothing, there is nothing to send: no call and no record. A result may then be
the operand itself. `where` is anything with the path of the equation, the user's source line and the types of the operands
(`recorder.Where`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distad.config import config
from distad.runtime import exact, mpi, recorder, sending
from distad.runtime.recorder import NOWHERE, Kind
from distad.runtime.sending import agree as agree
from distad.runtime.world import Channel, Group
from distad.types import dtypes
from distad.types.mesh import Mesh

_UINT8 = np.dtype(np.uint8)
_FLOAT32 = np.dtype(np.float32)


def all_reduce(group: Group, x: np.ndarray, kind: str = 'sum', *, given: bool = False, where: Any = NOWHERE) -> np.ndarray:
    """The sum (exact sum, max, min) over the ranks, on all of them. A NaN on one rank is one in the max and min too.

    An operand that is `given` may be overwritten, and becomes the result. Large ones go in several messages.
    """
    where = sending.placed(where)
    key = (id(where), x.dtype, x.shape, kind)
    plan = group.known.get(key)
    if plan is None or plan.stamp is not config.stamp:
        plan = sending.remember(group, key, _planned(group, x, kind, where))
    return _carried_out(plan, x, given)


def reducer(mesh: Mesh, axes: tuple[str, ...], kind: str, where: Any) -> Callable[[np.ndarray, bool], np.ndarray]:
    """The same for one equation of a program: `move(x, given)`. The communicator is made at its first call, by all ranks."""
    last: _Plan | None = None

    def move(x: np.ndarray, given: bool) -> np.ndarray:
        nonlocal last
        plan = last
        if (plan is None or plan.stamp is not config.stamp or plan.group.channel.closed or x.shape != plan.shape
                or x.dtype is not plan.operand):
            if where.source is None:
                return all_reduce(mpi.group(mesh, axes), x, kind, given=given, where=where)
            plan = last = _planned(mpi.group(mesh, axes), x, kind, where)
        return _carried_out(plan, x, given)
    return move


@dataclass(slots=True, eq=False, kw_only=True)
class _Plan:
    """All that is decided about the all-reduce of one place before its operand is there."""

    group: Group
    where: Any
    stamp: object
    shape: tuple[int, ...]
    operand: np.dtype
    wire: np.dtype
    add: Callable | None
    said: Kind | None = None           # None if there is nothing to send
    operation: Any = None
    start: Callable[..., Any] | None = None
    small: np.ndarray | None = None    # where it is summed, in the shape of the operand, once MPI has prepared that
    new: bool = True                   # has not been made yet


def _planned(group: Group, x: np.ndarray, kind: str, where: Any) -> _Plan:
    wire, operation, add = _way(x.dtype, kind, config.reproducible)
    plan = functools.partial(_Plan, group=group, where=where, stamp=config.stamp, shape=x.shape, operand=x.dtype, wire=wire, add=add)
    if _nothing_to_send(group, x):
        return plan()
    nbytes = x.size * wire.itemsize
    messages = 1 if nbytes <= min(2 * _PIECE, config.max_message_bytes) else -(-x.size // _step(wire))
    said = sending.said('all-reduce', group, x.dtype, nbytes, where, messages)
    in_place = mpi.in_place()
    return plan(said=said, operation=operation, start=lambda comm, out: comm.Iallreduce(in_place, out, operation))


def _prepared(plan: _Plan, make: bool = False) -> bool:
    """Use what MPI has prepared for such a sum, if it has."""
    found = mpi.prepared(plan.group.channel, plan.operation, plan.wire, math.prod(plan.shape), make)
    if found is None:
        return False
    array, request = found

    def begin(comm: Any) -> Any:
        request.Start()
        return request
    plan.start, plan.small = begin, array.reshape(plan.shape)
    return True


def _carried_out(plan: _Plan, x: np.ndarray, given: bool) -> np.ndarray:
    if (small := plan.small) is not None:
        small[...] = x
        noted = sending.begin(plan.said, plan.group, plan.where)
        sending.message(noted, plan.group.channel, plan.start)
        recorder.end(noted)
        if given and x.__class__ is np.ndarray:
            x[...] = small
            return x
        return small.astype(x.dtype)
    if plan.said is None:
        return x
    if plan.add is not None:
        return _all_added(plan.group, x, plan.add, plan.where)
    if plan.new and plan.said.messages == 1 and _prepared(plan):
        return _carried_out(plan, x, given)
    if plan.wire is not plan.operand:
        sent = _to_wire(x, plan.wire)
        return _from_wire(_reduced(plan, sent, given or sent is not x and plan.wire is not _UINT8), x.dtype)
    if given and x.__class__ is np.ndarray and x.flags.c_contiguous:
        return _reduced(plan, x, True)
    return _reduced(plan, np.asarray(x, order='C'), False)


def _reduced(plan: _Plan, sent: np.ndarray, given: bool) -> np.ndarray:
    """The sum in the dtype of the wire, in place of a contiguous operand or of its copy."""
    # MPI copies an operand that it must not overwrite before it adds. Here a piece is copied when its turn comes.
    noted, channel = sending.begin(plan.said, plan.group, plan.where), plan.group.channel
    if plan.said.messages == 1:
        out = sent if given else sent.copy()
        sending.message(noted, channel, plan.start, out)
    else:
        out = sent if given else np.empty_like(sent)
        for piece, summand in zip(_pieces(out), _pieces(sent), strict=True):
            if not given:
                piece[...] = summand
            sending.message(noted, channel, plan.start, piece)
    recorder.end(noted)
    if plan.new:
        plan.new = False
        if plan.said.messages == 1:
            _prepared(plan, make=True)
    return out


@functools.lru_cache
def _way(dtype: np.dtype, kind: str, reproducible: bool) -> tuple[np.dtype, Any, Callable | None]:
    """For sums (exact sums, maxima, minima) of a dtype: the dtype of the wire, MPI's operation, and who adds in its place."""
    wire, add = wire_dtype(dtype, kind), _adder(dtype, kind, reproducible)
    return wire, None if add else mpi.operation(_wire_kind(dtype, kind), wire), add


_PIECE = 4 << 20  # bytes of one message: large ones were three times as fast in pieces that stay in the cache


def _pieces(x: np.ndarray) -> list[np.ndarray]:
    step, flat = _step(x.dtype), x.reshape(-1)
    return [flat[i:i + step] for i in range(0, flat.size, step)]


def _step(dtype: np.dtype) -> int:
    """Elements of a piece."""
    return max(min(_PIECE, config.max_message_bytes) // dtype.itemsize, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """What brings [(n,) k] elements into [(n,) k]: one message, or where it is more than MPI gets at once several, by columns.

    `most`: the elements that the larger side has. All ranks cut alike, as they hold alike.
    """

    sent: np.ndarray
    into: np.ndarray
    most: int
    start: Callable[[Any, np.ndarray, np.ndarray], Any]

    @property
    def width(self) -> int:
        return max(config.max_message_bytes * self.sent.shape[-1] // (self.most * self.sent.itemsize), 1)

    @property
    def messages(self) -> int:
        return -(-self.sent.shape[-1] // self.width)

    def send(self, noted: list, channel: Channel) -> None:
        sent, into, width = self.sent, self.into, self.width
        if width >= sent.shape[-1]:
            sending.message(noted, channel, self.start, sent, into)
            return
        for i in range(0, sent.shape[-1], width):
            part = np.empty_like(into[..., i:i + width])
            sending.message(noted, channel, self.start, np.ascontiguousarray(sent[..., i:i + width]), part)
            into[..., i:i + width] = part


def _gathered(sent: np.ndarray, into: np.ndarray) -> _Rows:
    return _Rows(sent=sent, into=into, most=into.size, start=lambda comm, a, b: comm.Iallgather(a, b))


def _exchanged(sent: np.ndarray, into: np.ndarray) -> _Rows:
    return _Rows(sent=sent, into=into, most=sent.size, start=lambda comm, a, b: comm.Ialltoall(a, b))


def _send_rows(op: str, group: Group, dtype: np.dtype, rows: _Rows, where: Any) -> None:
    """A collective that is just this."""
    where = sending.placed(where)
    noted = sending.begin(sending.said(op, group, dtype, rows.sent.nbytes, where, rows.messages), group, where)
    rows.send(noted, group.channel)
    recorder.end(noted)


def reduce_scatter(group: Group, x: np.ndarray, kind: str = 'sum', *, where: Any = NOWHERE) -> np.ndarray:
    """Part `index` of the sum over the ranks. x: [n, ...], one part for each of the n ranks; returns [...]."""
    dtype, operation, add = _way(x.dtype, kind, config.reproducible)
    if _nothing_to_send(group, x):
        return x[group.index]
    if add is not None:
        return _part_added(group, x, add, where)
    sent = _to_wire(x, dtype)
    out = np.empty(x.shape[1:], dtype)
    _send_rows('reduce-scatter', group, x.dtype, _Rows(
        sent=sent.reshape(group.size, -1), into=out.reshape(-1), most=sent.size,
        start=lambda comm, a, b: comm.Ireduce_scatter_block(a, b, operation)), where)
    return _from_wire(out, x.dtype)


# ---- sums that are added here

_FEW = 1 << 14  # bytes that go to all ranks rather than each element to the rank that adds it


def _adder(dtype: np.dtype, kind: str, reproducible: bool) -> Callable[[np.ndarray], np.ndarray] | None:
    """How the summands [n, k] become the sum [k], in a dtype of the wire or, exact, their own; None where any order will do."""
    if not dtypes.is_float(dtype) or kind not in ('sum', 'exact'):
        return None
    return exact.rounded if kind == 'exact' else exact.in_order if reproducible else None


def _all_added(group: Group, x: np.ndarray, add: Callable, where: Any) -> np.ndarray:
    """Each rank adds a share of the elements and all gather the sums; or, if they are few, each adds all of them."""
    sent = _summands(x.reshape(-1), add)
    size = sent.size
    if sent.nbytes * group.size <= _FEW:
        parts = np.empty((group.size, size), sent.dtype)
        _send_rows('all-reduce', group, x.dtype, _gathered(_bytes(sent), _byte_rows(parts, group)), where)
        return add(parts).astype(x.dtype, copy=False).reshape(x.shape)
    share = -(-size // group.size)
    rows = np.concatenate([sent, np.zeros(share * group.size - size, sent.dtype)])
    parts, out = np.empty((group.size, share), sent.dtype), np.empty(share * group.size, x.dtype)
    where = sending.placed(where)
    noted = sending.begin(sending.said('all-reduce', group, x.dtype, rows.nbytes + share * x.itemsize, where), group, where)
    _exchanged(_byte_rows(rows, group), _byte_rows(parts, group)).send(noted, group.channel)
    mine = _bytes(add(parts).astype(x.dtype, copy=False))
    _gathered(mine, _byte_rows(out, group)).send(noted, group.channel)
    recorder.end(noted)
    return out[:size].reshape(x.shape)


def _part_added(group: Group, x: np.ndarray, add: Callable, where: Any) -> np.ndarray:
    rows = _summands(x.reshape(group.size, -1), add)
    parts = np.empty_like(rows)
    _send_rows('reduce-scatter', group, x.dtype, _exchanged(_byte_rows(rows, group), _byte_rows(parts, group)), where)
    return add(parts).astype(x.dtype, copy=False).reshape(x.shape[1:])


def _summands(x: np.ndarray, add: Callable) -> np.ndarray:
    """An exact sum rounds once, so its summands stay as they are; other sums of halves are added in float32."""
    return np.ascontiguousarray(x) if add is exact.rounded else _to_wire(x, wire_dtype(x.dtype))


# ---- moves

def all_gather(group: Group, x: np.ndarray, *, where: Any = NOWHERE) -> np.ndarray:
    """Every rank's x, on all of them: [n, ...]."""
    if _nothing_to_send(group, x):
        return np.broadcast_to(x, (group.size, *x.shape))
    sent = _bytes(x)
    out = np.empty((group.size, *x.shape), x.dtype)
    _send_rows('all-gather', group, x.dtype, _gathered(sent, _byte_rows(out, group)), where)
    return out


# MPI puts long runs in their places while they come, which saves a copy: gathering blocks of 1 to 16 MiB along their last dimension
# took 0.47 to 0.69 of the time for runs of 16 KiB and more, but 1.7 to 2 times as long for 8 KiB (two ranks; with four, and runs of
# 1 KiB, 4.5 times). A sum over ranks is always packed, as MPI adds its own datatypes only.
_LONG_RUN = 1 << 14


def all_gather_along(group: Group, x: np.ndarray, dim: int, shape: tuple[int, ...], *, where: Any = NOWHERE) -> np.ndarray:
    """Every rank's x side by side along a dimension, or along a new one before it: an array of this shape."""
    run = math.prod(x.shape[dim:]) * x.itemsize
    nbytes = x.nbytes * group.size
    if not dim or run < _LONG_RUN or nbytes > config.max_message_bytes or _nothing_to_send(group, x):
        return np.moveaxis(all_gather(group, x, where=where), 0, dim).reshape(shape)
    sent, out = _bytes(x), np.empty(shape, x.dtype)
    with mpi.strided(x.nbytes // run, run, run * group.size) as runs:
        sending.communicate('all-gather', group, x.dtype, x.nbytes, where,
                            lambda comm: comm.Iallgather(sent, [_bytes(out), 1, runs]))
    return out


def all_to_all(group: Group, x: np.ndarray, *, where: Any = NOWHERE) -> np.ndarray:
    """Part k goes to rank k. x: [n, ...], returns [n, ...]: what rank k had for this one stands at place k."""
    if _nothing_to_send(group, x):
        return x
    sent = _byte_rows(x, group)
    out = np.empty(x.shape, x.dtype)
    _send_rows('all-to-all', group, x.dtype, _exchanged(sent, _byte_rows(out, group)), where)
    return out


def all_to_all_v(group: Group, blocks: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]], *,
                 where: Any = NOWHERE) -> list[np.ndarray]:
    """Block k, of any shape, goes to rank k; `shapes` are those of what comes. This rank's own block does not travel.

    Recorded as the permutation it is when each rank sends to one other.
    """
    own = blocks[group.index]
    if group.size == 1 or not own.dtype.itemsize:
        return [own if k == group.index else np.empty(shape, own.dtype) for k, shape in enumerate(shapes)]
    empty = np.empty(0, own.dtype)
    sent = np.concatenate([_bytes(empty if k == group.index else block) for k, block in enumerate(blocks)])
    results = [own if k == group.index else np.empty(shape, own.dtype) for k, shape in enumerate(shapes)]
    counts = [0 if k == group.index else block.nbytes for k, block in enumerate(blocks)]
    comes = [0 if k == group.index else result.nbytes for k, result in enumerate(results)]
    into = np.empty(sum(comes), np.uint8)
    sending.communicate('collective-permute', group, own.dtype, sent.nbytes, where,
                 lambda comm: comm.Ialltoallv([sent, counts], [into, comes]))
    start = 0
    for k, size in enumerate(comes):
        if size:
            results[k] = into[start:start + size].view(own.dtype).reshape(shapes[k])
            start += size
    return results


# ---- what goes over the wire

def wire_dtype(dtype: np.dtype, kind: str = 'sum') -> np.dtype:
    """The dtype in which a sum (max, min) of this dtype travels."""
    if dtype.kind == 'b':
        return _UINT8
    if dtype == dtypes.float0:
        return dtype
    if dtypes.is_float(dtype) and dtype.itemsize < 4:
        return _FLOAT32
    if dtype.kind in 'iufc':
        return dtype
    raise TypeError(f'all-reduce: there is no {kind.replace("exact", "exact sum")} of {dtypes.name(dtype)}; convert to a number type '
                    'first')


def _wire_kind(dtype: np.dtype, kind: str) -> str:
    """The sum of booleans is "or", as adding zeros must keep them: the max of bytes that are 0 or 1. Integers add up exactly."""
    return kind if kind not in ('sum', 'exact') else 'max' if dtype.kind == 'b' else 'sum'


def _to_wire(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    x = np.asarray(x, order='C')
    return x if x.dtype is dtype else x.view(dtype) if x.dtype.kind == 'b' else x.astype(dtype, copy=False)


def _from_wire(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return x if x.dtype is dtype else x.view(dtype) if dtype.kind == 'b' else x.astype(dtype, copy=False)


def _bytes(x: np.ndarray) -> np.ndarray:
    """The bytes of an array, contiguous; the array's own memory where it is contiguous already."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def _byte_rows(x: np.ndarray, group: Group) -> np.ndarray:
    """The same as [n, k], a row for each rank."""
    return _bytes(x).reshape(group.size, -1)


def _nothing_to_send(group: Group, x: np.ndarray) -> bool:
    return len(group.ranks) == 1 or not x.nbytes
