"""The chains in NumPy, 64 Ki elements at a time: every intermediate value stays in the cache, every result has its buffer."""

import numpy as np
from measure import report
from problem import DTYPES, SIZE, arrays

BLOCK = 1 << 16


def arithmetic(x, y, o, half, t, c) -> None:
    np.multiply(x, c[.5], half)
    np.add(half, y, t)
    np.multiply(t, x, o)
    np.subtract(o, y, o)
    np.maximum(o, c[0.], out=o)
    np.multiply(o, t, o)
    np.add(o, c[.25], o)
    np.multiply(o, o, o)
    np.subtract(o, x, o)
    np.multiply(o, c[.1], o)
    np.minimum(o, c[1.], out=o)
    np.add(o, half, o)


def transcendental(x, y, o, half, t, c) -> None:
    np.multiply(x, c[.5], half)
    np.add(half, y, t)
    np.tanh(t, t)
    np.multiply(t, x, o)
    np.negative(o, o)
    np.exp(o, o)
    np.add(o, c[1.], o)
    np.divide(c[1.], o, o)
    np.multiply(o, t, o)
    np.multiply(o, o, o)
    np.add(o, c[1.], o)
    np.log(o, o)
    np.add(o, half, o)


for dtype in DTYPES:
    x, y = arrays(dtype)
    out, half, t = np.empty_like(x), np.empty(BLOCK, dtype), np.empty(BLOCK, dtype)
    constants = {v: np.array(v, dtype) for v in (.5, 0., .25, .1, 1.)}
    for name, chain in (('arithmetic', arithmetic), ('transcendental', transcendental)):
        def run() -> None:
            for i in range(0, SIZE, BLOCK):
                n = min(BLOCK, SIZE - i)
                chain(x[i:i + n], y[i:i + n], out[i:i + n], half[:n], t[:n], constants)  # noqa: B023
        run()
        report(f'{name} {dtype}', run, float(np.abs(out.astype('d')).sum()))
