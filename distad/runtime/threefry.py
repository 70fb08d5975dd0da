"""Random bits as a pure function of a key and a global index: the Threefry-2x32 block cipher with 20 rounds.

A counter-based generator has no state to share or to advance: number `i` of the stream of a key is the cipher of `i`
under that key. So a rank makes just the block it holds, nothing is sent, and a program draws the same numbers on any
mesh. The numbers are those of JAX (its default, "partitionable", scheme): the counter of an element is its row-major
position in the global array, as two 32-bit words.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11 (2011),
section 4.2 (Threefry; the 2x32 variant and its constants as in Random123).
"""

import math
from collections.abc import Sequence

import numpy as np

from distad.types.dtypes import KEY

_PARITY = np.uint32(0x1BD11BDA)  # the constant of the key schedule, from Skein
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_GROUPS = 5  # groups of four rounds, a piece of the key is added after each
_CHUNK = 1 << 15  # elements hashed at a time: three buffers of this length stay in the cache through all the rounds

_LEFT = tuple(tuple(np.uint32(r) for r in group) for group in _ROTATIONS)
_RIGHT = tuple(tuple(np.uint32(32 - r) for r in group) for group in _ROTATIONS)
_UINT = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def seed(value: int | np.ndarray) -> np.ndarray:
    """The key of an integer seed, as two words: the upper one is zero where the integer's dtype has 32 bits or fewer.

    value: integers of any shape, of which a Python int counts as 64 bits. Returns keys of that shape.
    """
    value = np.asarray(value)
    words = value.astype(np.uint64)
    keys = np.empty(value.shape, KEY)
    keys['hi'] = words >> np.uint64(32) if value.dtype.itemsize == 8 else 0
    keys['lo'] = words.astype(np.uint32)
    return keys


def split(key: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """New keys of shape `key.shape + shape`: the ciphers of the positions in `shape`."""
    return _ciphers(key, shape, (0,) * len(shape), shape, KEY, _to_key)


def fold_in(key: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The key of `key` and a 32-bit integer: the cipher of the integer's seed. Shapes broadcast."""
    key, counter = np.broadcast_arrays(np.asarray(key, KEY), seed(np.asarray(data).astype(np.uint32)))
    x0, x1 = counter['hi'].flatten(), counter['lo'].flatten()
    _encrypt(key['hi'].ravel(), key['lo'].ravel(), x0, x1, np.empty_like(x0))
    new = np.empty(key.shape, KEY)
    new['hi'], new['lo'] = x0.reshape(key.shape), x1.reshape(key.shape)
    return new


def bits(
    key: np.ndarray,
    width: int,
    shape: tuple[int, ...],
    starts: Sequence[int] | None = None,
    global_shape: tuple[int, ...] | None = None,
) -> np.ndarray:
    """The block of random unsigned integers that has its corner at `starts` in the array of `global_shape`.

    key: keys of any shape. width: 8, 16, 32 or 64. Returns `key.shape + shape`, by default the whole array.
    """
    starts = (0,) * len(shape) if starts is None else tuple(starts)
    whole = shape if global_shape is None else global_shape
    return _ciphers(key, shape, starts, whole, _UINT[width], _to_long if width == 64 else _to_word)


def _to_key(x0, x1, out):
    out['hi'], out['lo'] = x0, x1


def _to_word(x0, x1, out):
    np.bitwise_xor(x0, x1, out=x0)
    out[...] = x0  # a narrower word is the low end of it


def _to_long(x0, x1, out):
    out[...] = x0
    out <<= np.uint64(32)
    out |= x1


def _ciphers(key, shape, starts, whole, dtype, store) -> np.ndarray:
    """Hash the positions of a block under each key, chunk by chunk; `store` writes a chunk of the result."""
    key = np.asarray(key, KEY)
    count = math.prod(shape)
    out = np.empty(key.shape + shape, dtype)
    keys, rows = key.reshape(-1), out.reshape(key.size, count)
    dims = _merge(shape, starts, whole)
    x0, x1, scratch = (np.empty(min(_CHUNK, max(rows.size, 1)), np.uint32) for _ in range(3))
    together = max(1, _CHUNK // max(count, 1))  # short rows are hashed many keys at a time
    for first in range(0, key.size if count else 0, together):
        group = keys[first : first + together]
        one = len(group) == 1
        for begin in range(0, count, _CHUNK):
            length = min(_CHUNK, count - begin)
            size = len(group) * length
            high, low, spare = x0[:size], x1[:size], scratch[:size]
            _positions(begin, length, dims, high.reshape(-1, length), low.reshape(-1, length))
            k0, k1 = (group[word][0] if one else np.repeat(group[word], length) for word in ('hi', 'lo'))
            _encrypt(k0, k1, high, low, spare)
            target = rows[first : first + together, begin : begin + length]
            store(high.reshape(target.shape), low.reshape(target.shape), target)
    return out


def _merge(shape, starts, whole) -> list[tuple[int, int, int]]:
    """(length, start, stride) per dimension of a block, outermost first; dimensions that run on are merged into one."""
    dims: list[tuple[int, int, int]] = []
    stride = math.prod(whole)
    for length, start, full in zip(shape, starts, whole, strict=True):
        stride //= max(full, 1)
        outer, at, _ = dims[-1] if dims else (1, 0, 0)
        if length == full or outer == 1:
            dims[-1:] = [(outer * length, at * full + start, stride)]
        else:
            dims.append((length, start, stride))
    return dims


def _positions(begin, length, dims, high, low) -> None:
    """Write the global row-major positions of `length` elements of the block, from its `begin`-th on, as two words."""
    local = np.arange(begin, begin + length, dtype=np.uint64)
    if len(dims) > 1:
        position = np.zeros_like(local)
        for size, start, stride in reversed(dims):
            local, index = np.divmod(local, np.uint64(size))
            position += (index + np.uint64(start)) * np.uint64(stride)
    else:
        position = local + np.uint64(sum(start * stride for _, start, stride in dims))
    low[...] = position
    high[...] = position >> np.uint64(32)


def _encrypt(k0, k1, x0, x1, scratch) -> None:
    """Threefry-2x32-20 of the counters (x0, x1) under the key (k0, k1), in place. Keys are scalars or like x0."""
    schedule = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0 += schedule[0]
    x1 += schedule[1]
    for group in range(_GROUPS):
        for left, right in zip(_LEFT[group % 2], _RIGHT[group % 2], strict=True):
            x0 += x1
            np.left_shift(x1, left, out=scratch)
            x1 >>= right
            x1 |= scratch
            x1 ^= x0
        x0 += schedule[(group + 1) % 3]
        x1 += schedule[(group + 2) % 3]
        x1 += np.uint32(group + 1)
