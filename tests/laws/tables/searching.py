"""Where truth is, and which values there are."""

import numpy as np

from tests.laws.calls import Call, M, N, Operand, Table, boolean, call, f, i32


def nonzero(mask: Operand, size: int) -> Call:
    def reference(mask):
        found = np.flatnonzero(mask)[:size]
        return np.concatenate([found, np.full(size - found.size, mask.size)]).astype(np.int32)
    return call(reference, mask, size=size)


def unique(x: Operand, size: int) -> Call:
    def reference(x):
        values = sorted(set(x.tolist()))[:size]
        where = x.tolist().index
        first = [where(v) for v in values] + [where(min(x))] * (size - len(values))
        count = [int(np.sum(x == v)) for v in values] + [0] * (size - len(values))
        return [np.int32(first), np.int32(count), np.searchsorted(np.array(sorted(set(x.tolist()))), x).astype(np.int32)]
    return call(reference, x, size=size)


TABLE: Table = {
    'nonzero': [nonzero(boolean(N), N), nonzero(boolean(M, N), 5), nonzero(i32(N), 7)],
    'unique': [unique(i32(N), N), unique(i32(N, low=0, high=3), 2), unique(f(M), M)],
}
