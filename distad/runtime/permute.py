"""Point to point: each rank's block to the rank that the pairs name, zeros where nothing comes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from distad.config import config
from distad.runtime import mpi, sending
from distad.runtime.recorder import NOWHERE
from distad.runtime.world import Group


class _All:
    """Several requests waited for as one."""

    __slots__ = ('requests',)

    def __init__(self, requests: list):
        self.requests = requests

    def Test(self) -> bool:
        return mpi.test_all(self.requests)


def permute(group: Group, x: np.ndarray, pairs: Sequence[tuple[int, int]], *, where: Any = NOWHERE) -> np.ndarray:
    """The block of the rank that a pair `(source, this rank)` names; zeros without one. Non-blocking send and receive."""
    me = group.index
    to = next((d for s, d in pairs if s == me), None)
    source = next((s for s, d in pairs if d == me), None)
    if not x.nbytes or all(s == d for s, d in pairs):    # nobody sends
        return x if source == me else np.zeros(x.shape, x.dtype)
    if source == me:                                     # nothing for this rank to do, but it takes part: all count alike
        out, to, source = x, None, None
    else:
        out = np.zeros(x.shape, x.dtype) if source is None else np.empty(x.shape, x.dtype)
    sent = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    pieces = [slice(i, i + config.max_message_bytes) for i in range(0, sent.size, config.max_message_bytes)]

    def start(comm):
        into = None if source is None else out.reshape(-1).view(np.uint8)
        requests = [] if source is None else [comm.Irecv(into[piece], source) for piece in pieces]
        if to is not None:
            requests += [comm.Isend(sent[piece], to) for piece in pieces]
        return _All(requests)

    sending.communicate('collective-permute', group, x.dtype, sent.nbytes if to is not None else 0, where, start)
    return out
