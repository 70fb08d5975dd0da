"""The heat equation on 1024 x 1024 points, float32, zero outside, 100 steps u + C (up + down + left + right - 4 u).

Rows are split over the ranks, which exchange their first and last rows before each step. The gradient is that of 0.5 sum(u^2) at the
end, in the values at the start. The operator is symmetric: its adjoint is itself.
"""

import numpy as np

SIZE, STEPS, RATE = 1024, 100, 0.1


def data() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype('f')
