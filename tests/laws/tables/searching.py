"""Where truth is, and which values there are."""

import numpy as np

from tests.laws.calls import Call, M, N, Operand, Table, boolean, call, f, i32


def nonzero(mask: Operand, size: int) -> Call:
    def row(mask):
        found = np.flatnonzero(mask)[:size]
        return np.concatenate([found, np.full(size - found.size, mask.size)]).astype(np.int32)
    return call(lambda mask: np.stack([row(one) for one in mask]) if mask.ndim > 1 else row(mask), mask, size=size)


def unique(x: Operand, size: int) -> Call:
    def of_rows(rows):
        all_values = sorted(set(map(tuple, rows.tolist())))
        values = all_values[:size]
        where = [tuple(row) for row in rows.tolist()].index
        first = [where(v) for v in values] + [where(all_values[0])] * (size - len(values))
        count = [sum(tuple(row) == v for row in rows.tolist()) for v in values] + [0] * (size - len(values))
        return [np.int32(first), np.int32(count), np.int32([all_values.index(tuple(row)) for row in rows.tolist()])]

    def reference(x):
        return [np.stack(ys) for ys in zip(*map(of_rows, x), strict=True)] if x.ndim > 2 else of_rows(x)
    return call(reference, x, size=size, equal_nan=True)


TABLE: Table = {
    'nonzero': [nonzero(boolean(N), N), nonzero(boolean(M, N), 5), nonzero(i32(N), 7)],
    'unique': [unique(i32(N, 1), N), unique(i32(M, 5, 1, low=0, high=3), 2), unique(i32(N, 2, low=0, high=2), 8), unique(f(M, 1), M)],
}
