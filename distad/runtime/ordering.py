"""The order of elements on one rank: stable, by several keys, NaN last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distad.types import dtypes


def comparable(x: np.ndarray) -> np.ndarray:
    """The values in a dtype that NumPy sorts, NaN last."""
    return x.astype(np.float32) if dtypes.is_half(x.dtype) else x


def order(keys: Sequence[np.ndarray], axis: int = -1) -> np.ndarray:
    """The permutation along a dimension that sorts, by the first key, then by the second, and so on."""
    if len(keys) == 1:
        return np.argsort(comparable(keys[0]), axis=axis, kind='stable')
    return np.lexsort([comparable(key) for key in reversed(keys)], axis=axis)


def reversed_order(keys: Sequence[np.ndarray], axis: int = -1) -> np.ndarray:
    """The permutation that sorts from the greatest to the least, NaN first. Of equal elements the first still comes first."""
    backwards = order([np.flip(key, axis) for key in keys], axis)
    return keys[0].shape[axis] - 1 - np.flip(backwards, axis)
