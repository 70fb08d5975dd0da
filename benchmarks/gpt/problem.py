"""A training step of a small GPT: 4 layers of width 256, 4 heads, 8 sequences of 128 tokens a rank, 512 words, SGD, float32."""

import math

import numpy as np

LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 4, 256, 4, 128, 8, 512
HEAD, INNER = WIDTH // HEADS, 4 * WIDTH
RATE, EPSILON = 0.1, 1e-5
ROWS = BATCH * LENGTH

SHAPES = {'words': (WORDS, WIDTH), 'places': (LENGTH, WIDTH)}
for _i in range(LAYERS):
    SHAPES |= {f'scale1_{_i}': (WIDTH,), f'shift1_{_i}': (WIDTH,), f'qkv_{_i}': (WIDTH, 3 * WIDTH), f'qkv_bias_{_i}': (3 * WIDTH,),
               f'merge_{_i}': (WIDTH, WIDTH), f'merge_bias_{_i}': (WIDTH,), f'scale2_{_i}': (WIDTH,), f'shift2_{_i}': (WIDTH,),
               f'up_{_i}': (WIDTH, INNER), f'up_bias_{_i}': (INNER,), f'down_{_i}': (INNER, WIDTH), f'down_bias_{_i}': (WIDTH,)}
SHAPES |= {'scale': (WIDTH,), 'shift': (WIDTH,), 'head': (WIDTH, WORDS)}
SIZE = sum(map(math.prod, SHAPES.values()))


def views(flat: np.ndarray) -> dict[str, np.ndarray]:
    """The parameters as parts of one flat array."""
    found, start = {}, 0
    for name, shape in SHAPES.items():
        found[name] = flat[start:start + math.prod(shape)].reshape(shape)
        start += math.prod(shape)
    return found


def init() -> np.ndarray:
    flat = (np.random.default_rng(0).standard_normal(SIZE) * 0.05).astype('f')
    for name, x in views(flat).items():
        if name.startswith('scale'):
            x[:] = 1
    return flat


def data(ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and the tokens to be guessed, [batch * ranks, length]."""
    tokens = np.random.default_rng(1).integers(0, WORDS, (BATCH * ranks, LENGTH))
    return tokens.astype('i4'), ((tokens * 7 + 3) % WORDS).astype('i4')


def checksum(before: np.ndarray, after: np.ndarray) -> float:
    """How far the parameters went."""
    return float(np.abs(np.asarray(after, 'd') - before).sum())
