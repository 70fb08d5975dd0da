"""Matrix products, one process: squares, the shapes of a network's forward and backward pass, batches as attention has them."""

import numpy as np

CASES = {
    '256 x 256, f32': ('float32', (256, 256), (256, 256), 'ij,jk->ik'),
    '1024 x 1024, f32': ('float32', (1024, 1024), (1024, 1024), 'ij,jk->ik'),
    '1024 x 1024, f64': ('float64', (1024, 1024), (1024, 1024), 'ij,jk->ik'),
    'y = x w, 64 x 512 x 512': ('float32', (64, 512), (512, 512), 'ij,jk->ik'),
    "dx = dy w', 64 x 512 x 512": ('float32', (64, 512), (512, 512), 'ij,kj->ik'),
    "dw = x' dy, 64 x 512 x 512": ('float32', (64, 512), (64, 512), 'ji,jk->ik'),
    "q k', 32 heads of 128 x 64": ('float32', (8, 128, 4, 64), (8, 128, 4, 64), 'bqhd,bkhd->bhqk'),
    'p v, 32 heads of 128 x 64': ('float32', (8, 4, 128, 128), (8, 128, 4, 64), 'bhqk,bkhd->bqhd'),
    '256 products of 16 x 16': ('float32', (256, 16, 16), (256, 16, 16), 'bij,bjk->bik'),
}


def operands(dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]
