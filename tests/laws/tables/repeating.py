"""Elements moved round."""

import numpy as np

from tests.laws.calls import Call, K, M, N, Operand, Table, boolean, c, call, f, i32


def roll(x: Operand, shift: int, axis: int) -> Call:
    return call(lambda x: np.roll(x, shift, axis), x, shift=shift, axis=axis).but(communicates=True)


TABLE: Table = {
    'roll': [roll(f(M, N), 1, 0), roll(f(M, N), -7, 1), roll(f(M, N, K), 12, 1), roll(i32(N), 100, 0), roll(c(M), 4, 0),
             roll(boolean(M), 11, 0)],
}
