"""The one way out: every message of every collective is recorded, written into the black box and waited for here.

What is said of a collective is made once for its place (`said`), for a program makes most of them again and again. A collective has a
beginning, messages and an end; what serves control alone, an agreement of the ranks, is neither counted nor recorded.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

from distad.config import config
from distad.errors import DisagreementError
from distad.runtime import blackbox, mpi, recorder
from distad.runtime.recorder import Kind, Record
from distad.runtime.world import Channel, Group
from distad.source import user_source
from distad.types import dtypes


def communicate(op: str, group: Group, dtype: np.dtype, nbytes: int, where: Any, start: Callable[[Any], Any]) -> None:
    """Begin an operation with `start(comm)`, which gives a request, record it and wait for it."""
    where = placed(where)
    noted = begin(said(op, group, dtype, nbytes, where), group, where)
    message(noted, group.channel, start)
    recorder.end(noted)


def placed(where: Any) -> Any:
    return recorder.here(where) if where.source is None else where


def said(op: str, group: Group, dtype: np.dtype, nbytes: int, where: Any, messages: int = 1) -> Kind:
    """What is said of a collective, for the record and in the black box; made once for a place."""
    # Objects are told apart by their id(), as no hash is as quick; so they are kept.
    key = (id(where), op, dtype.num, nbytes, messages)
    found = group.known.get(key)
    if found is None:
        path = f' ({where.path})' if where.path else ''
        text = blackbox.text(f'{op} over {",".join(group.axes)}', f'{dtypes.name(dtype)}, at {where.source}{path}', group.ranks)
        found = remember(group, key, (Kind(op, group.axes, group.place, nbytes, dtype, where.path, where.source, group.ranks,
                                            messages, text), where))
    return found[0]


_KNOWN = 2048


def remember(group: Group, key: tuple, value: Any) -> Any:
    if len(group.known) >= _KNOWN:
        group.known.clear()
    group.known[key] = value
    return value


def begin(kind: Kind, group: Group, where: Any) -> list:
    """Note that a collective begins, and see that all ranks make the same one if that is asked for."""
    noted = recorder.begin(kind, group.channel.calls + 1)
    if config.check_comm:
        # What a rank sends to one other may differ in size.
        size = '' if kind.op == 'collective-permute' else f' {kind.nbytes} B'
        of = ''.join(f' of {t}' for t in where.types)
        _same_call(group, f'{kind.op}{of} over {",".join(kind.axes)},{size} {dtypes.name(kind.dtype)}, at {kind.source}')
    return noted


def message(noted: list, channel: Channel, start: Callable[..., Any], *arrays: np.ndarray) -> None:
    """One message of a recorded collective, which others can see in the black box; `start(comm, *arrays)` gives its request."""
    kind, sequence, _, started, _ = noted
    box = channel.box
    channel.calls = call = channel.calls + 1
    box.begin(sequence, channel.key, call, kind.nbytes, started, kind.text)
    request = start(channel.comm, *arrays)
    test = request.Test
    try:
        for _ in repeat(None, channel.tries):        # as `mpi.wait_in` does, but at no cost where that is enough
            if done := test():
                break
    except BaseException:
        channel.given_up.append(request)
        raise
    if not done:
        mpi.wait_in(channel, request, lambda: str(Record(*noted)), kind.nbytes)
    noted[4] = now = time.perf_counter()
    box.end(now)


# ---- control

def agree(group: Group, data: bytes) -> list[bytes]:
    """Every rank's bytes, on all of them. For control: neither counted nor recorded."""
    if group.size == 1:
        return [data]
    if config.check_comm:
        _same_call(group, f'an agreement over {",".join(group.axes)}, at {user_source()}')
    return everyone(group, data)


def everyone(group: Group, data: bytes) -> list[bytes]:
    sent = np.frombuffer(data, np.uint8)
    sizes = np.empty(group.size, np.int64)
    _exchange(group, lambda comm: comm.Iallgather(np.array([sent.size]), sizes))
    into = np.empty(int(sizes.sum()), np.uint8)
    _exchange(group, lambda comm: comm.Iallgatherv(sent, [into, sizes.tolist()]))
    ends = np.cumsum(sizes).tolist()
    return [into[end - size:end].tobytes() for end, size in zip(ends, sizes.tolist())]


def _same_call(group: Group, call: str) -> None:
    """With DISTAD_CHECK=comm: raise on all ranks, before anything is sent, unless they make the same call."""
    digests = np.empty((group.size, 8), np.uint8)
    mine = np.frombuffer(hashlib.blake2b(call.encode(), digest_size=8).digest(), np.uint8)
    _exchange(group, lambda comm: comm.Iallgather(mine, digests))
    if (digests == digests[0]).all():
        return
    calls = [text.decode() for text in everyone(group, call.encode())]
    told = '\n'.join(f'  rank {rank}: {text}' for rank, text in zip(group.ranks, calls, strict=True))
    alike = len({text.partition(', at ')[0] for text in calls}) == 1
    raise DisagreementError(
        f'the ranks meet in different calls:\n{told}\n'
        + ('The calls are alike and would have passed, but from different lines: what a rank runs must not depend on its number. '
           if alike else 'What a rank calls must not depend on its number. ')
        + 'Nothing was sent.')


def _exchange(group: Group, start: Callable[[Any], Any]) -> None:
    """What is neither counted nor recorded; in the black box it stands all the same, as ranks can wait in it."""
    channel, box = group.channel, group.channel.box
    channel.calls += 1
    what = f'the agreement of the ranks over {",".join(group.axes)}'
    box.begin(0, channel.key, channel.calls, 0, time.perf_counter(), blackbox.text(what, f'at {user_source()}', group.ranks))
    mpi.wait_in(channel, start(channel.comm), lambda: what)
    box.end(time.perf_counter())
