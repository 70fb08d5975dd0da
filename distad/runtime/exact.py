"""Sums of what several ranks had, whose bits do not depend on how it travelled: parts [p, k], one from each rank, to [k].

`in_order` adds by a binary tree over the ranks, each element like every other one. `rounded` gives the exact sum, rounded once: so
the parts may come in any order, from ranks that are arranged in any way.

An exact sum is first tried in two doubles, a sum and the sum of what its additions lost (Knuth's TwoSum; Ogita, Rump and Oishi,
"Accurate sum and dot product", 2005): if the second one lost nothing, the two are the sum. Where they are not, it is made of 32-bit
pieces in 64-bit integers (Neal, "Fast exact summation using small and large superaccumulators", arXiv:1505.05571, 2015).
"""

from __future__ import annotations

import numpy as np

_LIMB = 32
_MASK = np.int64((1 << _LIMB) - 1)
_LOW = 26                                  # a mantissa of 53 bits is added in two parts, which shifted by 31 still fit in 64 bits
_CHUNK = 1 << 14
# How many bits of an exact sum are kept to be rounded, the last one saying whether there are more: two beyond those of the dtype at
# least, and few enough to be exact in float64, or for bfloat16, which is made from float32, in that. An int64 becomes a float64 by
# the one rounding.
_KEPT = {'float64': 62, 'float32': 50, 'float16': 50, 'bfloat16': 22}


def in_order(parts: np.ndarray) -> np.ndarray:
    """The sum by a binary tree over the parts: ((0 + 1) + (2 + 3)) + 4."""
    while len(parts) > 1:
        even = len(parts) // 2 * 2
        pairs = parts[0:even:2] + parts[1:even:2]
        parts = pairs if even == len(parts) else np.concatenate([pairs, parts[even:]])
    return parts[0]


def rounded(parts: np.ndarray) -> np.ndarray:
    """The exact sum of floats, real or complex, rounded to their dtype once, to nearest, ties to even."""
    size = parts.shape[1]
    if parts.dtype.kind == 'c':
        real = np.ascontiguousarray(parts).view(parts.real.dtype)
        return rounded(real).view(parts.dtype)
    if len(parts) == 2:                                           # IEEE's addition is just that
        with np.errstate(all='ignore'):
            out = parts[0] + parts[1]
        out[np.isnan(out)] = np.nan
        return out
    out = np.empty(size, parts.dtype)
    for start in range(0, size, _CHUNK):
        out[start:start + _CHUNK] = _rounded(parts[:, start:start + _CHUNK].astype(np.float64), parts.dtype)
    return out


def _rounded(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """x: float64[p, k], each number one of `dtype`."""
    with np.errstate(all='ignore'):
        total, error, exact = x[0], np.zeros_like(x[0]), np.ones(x.shape[1], bool)
        for one in x[1:]:
            total, lost = _two_sum(total, one)
            error, lost = _two_sum(error, lost)
            exact &= lost == 0
        total, error = _two_sum(total, error)
        if dtype.itemsize < 8:
            exact &= error == 0                                   # else there would be two roundings
        if dtype.kind == 'V':
            exact &= total.astype(np.float32) == total            # bfloat16 is made from float32
        out = total.astype(dtype)
        zero = total == 0
        if zero.any():
            out[zero & exact] = 0
            out[zero & np.signbit(x).all(axis=0)] = -0.0
        if not exact.all():
            rest = ~exact
            out[rest] = _accumulated(x[:, rest], dtype)
    return out


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and what the rounding lost: together exactly a + b."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _accumulated(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The same by integers. What is not finite adds up as ever, with one NaN."""
    finite = np.isfinite(x).all(axis=0)
    plain = x.sum(axis=0)
    plain[np.isnan(plain)] = np.nan
    limbs, base = _limbs(np.where(finite, x, 0))
    _carry(limbs)
    negative = limbs[-1] < 0
    limbs[:, negative] *= -1
    _carry(limbs)
    value, exponent = _leading(limbs, _KEPT[dtype.name])
    total = np.ldexp(value, exponent + base)
    return np.where(finite, np.where(negative, -total, total), plain).astype(dtype)


def _limbs(x: np.ndarray) -> tuple[np.ndarray, int]:
    """The columns added up: sum of int64 limbs[j] * 2 ** (base + 32 j), not carried yet. The two lowest limbs are zero."""
    fraction, exponent = np.frexp(x)
    mantissa = (fraction * 2.0 ** 53).astype(np.int64)
    used = mantissa != 0
    base = int(exponent.min(where=used, initial=exponent.max(initial=0)))
    place = np.where(used, exponent - base, 0) + 2 * _LIMB
    limbs = np.zeros((int(place.max(initial=0)) // _LIMB + 4, x.shape[1]), np.int64)
    columns = np.arange(x.shape[1])
    for m, at in zip(mantissa, place, strict=True):
        for piece, bit in ((m & ((1 << _LOW) - 1), at), (m >> _LOW, at + _LOW)):
            shifted = piece << (bit % _LIMB)
            limbs[bit // _LIMB, columns] += shifted & _MASK
            limbs[bit // _LIMB + 1, columns] += shifted >> _LIMB
    return limbs, base - 53 - 2 * _LIMB


def _carry(limbs: np.ndarray) -> None:
    """Bring all limbs but the last one into 0 ... 2 ** 32 - 1."""
    for low, high in zip(limbs[:-1], limbs[1:], strict=True):
        high += low >> _LIMB
        low &= _MASK


def _leading(limbs: np.ndarray, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `kept` bits of a sum that is not negative, as float64, and the exponent of the last of these bits.

    The last bit is one if anything is left out: rounded to two or more bits less, this gives what the whole sum would.
    """
    top = np.maximum(len(limbs) - 1 - np.argmax(limbs[::-1] != 0, axis=0), 2)
    below = np.logical_or.accumulate(limbs != 0, axis=0)
    a, b, c = (np.take_along_axis(limbs, (top - i)[None], axis=0)[0].astype(np.uint64) for i in range(3))
    left = (_LIMB - np.frexp(a.astype(np.float64))[1]).astype(np.uint64)           # the leading zeros of the first limb
    right = np.uint64(_LIMB) - left
    leading = ((a << np.uint64(_LIMB) | b) << left) | (c >> right)
    dropped = np.uint64(64 - kept)
    sticky = np.take_along_axis(below, np.maximum(top - 3, 0)[None], axis=0)[0] & (top > 2)
    sticky |= (c & ((np.uint64(1) << right) - np.uint64(1))) != 0
    sticky |= (leading & ((np.uint64(1) << dropped) - np.uint64(1))) != 0
    value = (leading >> dropped).astype(np.int64) | sticky
    return value.astype(np.float64), (top - 1) * _LIMB - left.astype(np.int64) + (64 - kept)
