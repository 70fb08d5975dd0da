"""Tapers of signals: weights that fall off towards both ends, float32 (float64 with x64), replicated."""

from collections.abc import Callable

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value
from distad.numpy.creation import asarray, full
from distad.numpy.elementwise import i0
from distad.numpy.promotion import ArrayLike, converted
from distad.types import dtypes


def _taper(name: str, what: str, weights: Callable[[int], np.ndarray]) -> Callable[[int], Value]:
    def f(M: int) -> Value:
        return asarray(weights(M), dtypes.canonical(np.float64))
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"""{what}

    M: how many weights. Returns [M]. Nothing is communicated.

        jnp.{name}(5)
    """
    return f


bartlett = _taper('bartlett', 'A triangle, zero at both ends.', np.bartlett)
blackman = _taper('blackman', 'Blackman\'s taper: 0.42 - 0.5 cos x + 0.08 cos 2 x over one period.', np.blackman)
hamming = _taper('hamming', 'Hamming\'s taper: 0.54 - 0.46 cos x over one period.', np.hamming)
hanning = _taper('hanning', 'Hann\'s taper: (1 - cos x) / 2 over one period.', np.hanning)


def kaiser(M: int, beta: ArrayLike) -> Value:
    """Kaiser's taper, whose `beta` says how narrow it is: i0(beta sqrt(1 - x^2)) / i0(beta) for x from -1 to 1.

    M: how many weights; beta: a number, which may be traced. Returns [M]. Nothing is communicated.
    Source: J. F. Kaiser, "Digital filters", in F. F. Kuo and J. F. Kaiser (eds.), System analysis by digital computer (1966).

        jnp.kaiser(5, 8.6)
    """
    dtype = dtypes.canonical(np.float64)
    if M == 1:
        return full(1, 1, dtype)
    beta = converted(as_value(beta, 'kaiser'), dtype, False)
    return i0(beta * asarray(np.sqrt(1 - np.linspace(-1, 1, M) ** 2), dtype)) / i0(beta)


__all__ = ['bartlett', 'blackman', 'hamming', 'hanning', 'kaiser']
