"""The number makers: bit for bit the published cipher and JAX's use of it, whole or block by block."""

import json
import math
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from distad.runtime import threefry
from distad.types.dtypes import KEY

WORDS = json.loads(Path(__file__).with_name('data.json').read_text())['words']


def key_of(row: dict) -> np.ndarray:
    return threefry.seed(row['seed'] if row['x64'] else np.int32(row['seed']))


def pairs(keys: np.ndarray) -> list:
    return np.stack([keys['hi'], keys['lo']], -1).tolist()


# Random123's published answers: counter, key, cipher.
@pytest.mark.parametrize(('counter', 'key', 'cipher'), [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
])
def test_cipher_meets_the_published_answers(counter, key, cipher):
    # The counter is reached as a position, split along a dimension of 2**32: the element (hi, lo) of [2**32, 2**32].
    key = np.array(key, np.uint32).view(KEY)[0]
    drawn = threefry.bits(key, 64, (1, 1), counter, (2**32, 2**32)).item()
    assert (drawn >> 32, drawn & 0xFFFFFFFF) == cipher


@pytest.mark.parametrize('row', WORDS, ids=lambda row: f'{row["seed"]}-x64-{row["x64"]}')
def test_words_are_those_of_jax(row):
    key = key_of(row)
    assert pairs(key) == row['key']
    assert pairs(threefry.split(key, (2, 1))) == row['split']
    for data, folded in row['fold_in'].items():
        assert pairs(threefry.fold_in(key, int(data))) == folded
    for width, drawn in row['bits'].items():
        block = threefry.bits(key, int(width), (2, 3))
        assert block.dtype == f'uint{width}'
        assert block.tolist() == drawn


@pytest.mark.parametrize('shape', [(), (0,), (7,), (5, 6), (3, 0, 2), (4, 3, 5), (1, 6, 1, 4), (70_001,), (3, 40_000)])
@pytest.mark.parametrize('width', [8, 16, 32, 64])
def test_blocks_assemble_to_the_whole(shape, width):
    key = threefry.seed(11)
    whole = threefry.bits(key, width, shape)
    assembled = np.zeros_like(whole)
    # Cut each dimension in up to three uneven parts.
    cuts = [sorted({0, full // 3, full - full // 4, full}) for full in shape]
    for corner in product(*map(pairwise, cuts)):
        starts = tuple(start for start, _ in corner)
        block = threefry.bits(key, width, tuple(stop - start for start, stop in corner), starts, shape)
        assembled[tuple(slice(*ends) for ends in corner)] = block
    np.testing.assert_array_equal(assembled, whole)


@pytest.mark.parametrize('shape', [(), (3,), (2, 50_000)])
def test_many_keys_draw_what_each_would(shape):
    keys = threefry.split(threefry.seed(5), (3, 2))
    many = threefry.bits(keys, 32, shape)
    assert many.shape == (3, 2, *shape)
    for index in np.ndindex(keys.shape):
        np.testing.assert_array_equal(many[index], threefry.bits(keys[index], 32, shape))
        assert pairs(threefry.split(keys, (4,))[index]) == pairs(threefry.split(keys[index], (4,)))
        assert pairs(threefry.fold_in(keys, np.arange(2))[index]) == pairs(threefry.fold_in(keys[index], index[1]))


def test_many_more_keys_than_a_chunk_holds():
    keys = threefry.split(threefry.seed(5), (70_000,))
    many = threefry.bits(keys, 16, (3,))
    for index in (0, 10_922, 10_923, 69_999):
        np.testing.assert_array_equal(many[index], threefry.bits(keys[index], 16, (3,)))


def test_positions_beyond_32_bits_do_not_repeat():
    key = threefry.seed(1)
    shape = (2**22, 2**12)
    near, far = (threefry.bits(key, 32, (2, 8), (row, 16), shape) for row in (3, 2**20 + 3))
    assert not (near == far).any()


def test_seeds_beyond_64_bits_are_refused():
    with pytest.raises(OverflowError):
        threefry.seed(2**64)


@pytest.mark.parametrize('width', [8, 16, 32, 64])
def test_every_bit_is_fair_and_independent_of_its_neighbours(width):
    count = 1 << 14
    drawn = threefry.bits(threefry.seed(7), width, (count,))
    planes = (drawn[:, None] >> np.arange(width, dtype=drawn.dtype)) & drawn.dtype.type(1)
    bound = 5 / math.sqrt(count)  # five standard deviations of a mean of signs
    signs = 2. * planes - 1
    assert abs(signs.mean(0)).max() < bound
    assert abs((signs[1:] * signs[:-1]).mean(0)).max() < bound
    assert abs(signs.T @ signs / count - np.eye(width)).max() < bound
