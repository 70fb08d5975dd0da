"""Chains of elementwise operations on 4 million elements, one process: arithmetic alone (12 operations), and with tanh, exp, log and
division (13 operations); float32 and float64.
"""

import numpy as np

SIZE = 4_000_000
DTYPES = ('float32', 'float64')


def arrays(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.standard_normal(SIZE).astype(dtype), random.standard_normal(SIZE).astype(dtype)


def arithmetic(x, y, maximum, minimum):
    half = x * 0.5
    t = half + y
    a = maximum(t * x - y, 0.0) * t + 0.25
    return minimum((a * a - x) * 0.1, 1.0) + half


def transcendental(x, y, tanh, exp, log):
    half = x * 0.5
    t = tanh(half + y)
    a = 1.0 / (exp(-(t * x)) + 1.0) * t
    return log(a * a + 1.0) + half
