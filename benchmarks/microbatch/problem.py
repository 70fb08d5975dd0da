"""One step of training with microbatches: 8 layers of 512 x 512, tanh, SGD, float32; 8 microbatches of 64 rows a rank.

Gradients are summed over the microbatches on each rank, and over the ranks once a step.
"""

import numpy as np

LAYERS, WIDTH, MICROBATCHES, ROWS, RATE = 8, 512, 8, 64, 1e-4


def data(ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights [layers, width, width] and inputs [microbatches, rows * ranks, width]."""
    random = np.random.default_rng(0)
    weights = (random.standard_normal((LAYERS, WIDTH, WIDTH)) * (1.2 / WIDTH ** .5)).astype('f')
    return weights, random.standard_normal((MICROBATCHES, ROWS * ranks, WIDTH)).astype('f')


def checksum(before: np.ndarray, after: np.ndarray) -> float:
    """How far the weights went."""
    return float(np.abs(np.asarray(after, 'd') - before).sum())
