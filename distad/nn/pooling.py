"""Pooling: the mean, maximum or minimum of each window. Along split dimensions only the borders of blocks are sent."""

import math
from collections.abc import Sequence

import numpy as np

from distad.core.primitive import Primitive
from distad.core.value import Value
from distad.lax.kind import kindly
from distad.lax.windows import Pads, by_windows, padtype_to_pads
from distad.numpy.promotion import inexact
from distad.ops import arithmetic
from distad.ops import reduce_window as ops
from distad.ops.strided import Along

__all__ = ['avg_pool', 'max_pool', 'min_pool']


def avg_pool(inputs, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Pads = 'VALID',
             count_include_pad: bool = True) -> Value:
    """The mean of each window.

    Args:
      inputs: [..., n@X, m, features], with as many dimensions before the last one as `window_shape` has numbers, and any batch; float.
      window_shape: sizes of windows. strides: steps between them, 1 by default. padding: 'VALID', 'SAME' or pairs.
      count_include_pad: whether the places of padding count, as zeros.
    Returns: [..., windows@X, windows, features], split as the inputs. Unreduced inputs stay so.
    Communication: along a split dimension the borders of blocks go to the neighbours, or nothing where windows lie within blocks.
    Raises: ShardingTypeError where the number of windows does not divide.

    >>> avg_pool(np.arange(4, dtype=np.float32)[:, None], (2,), (2,)).ravel()
    Array([0.5, 2.5], dtype=float32)
    """
    x = inexact(inputs, 'avg_pool')
    alongs = _alongs('avg_pool', x, window_shape, strides, padding)
    y = by_windows(ops.reduce_window_sum, x, alongs)
    if count_include_pad:
        return kindly(arithmetic.div, y, y.dtype.type(math.prod(along.window for along in alongs)))
    counts = np.ones((1,) * x.ndim, y.dtype)
    for d, (along, n) in enumerate(zip(alongs, x.shape, strict=True)):
        at = np.arange(along.count(n))[:, None] * along.stride + np.arange(along.window) - along.padding[0]
        if not along.idle:
            counts = counts * np.sum((at >= 0) & (at < n), 1, dtype=y.dtype).reshape([-1 if k == d else 1 for k in range(x.ndim)])
    return y / counts


def max_pool(inputs, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Pads = 'VALID') -> Value:
    """The maximum of each window; padding never wins. The derivative is that of the first of equal elements. All else as `avg_pool`;
    unreduced inputs are refused.

    >>> max_pool(np.arange(4, dtype=np.float32)[:, None], (2,), (2,)).ravel()
    Array([1., 3.], dtype=float32)
    """
    return _pool('max_pool', ops.reduce_window_max, inputs, window_shape, strides, padding)


def min_pool(inputs, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Pads = 'VALID') -> Value:
    """The minimum of each window. All else as `max_pool`.

    >>> min_pool(np.arange(4, dtype=np.float32)[:, None], (2,), (2,)).ravel()
    Array([0., 2.], dtype=float32)
    """
    return _pool('min_pool', ops.reduce_window_min, inputs, window_shape, strides, padding)


def _pool(name: str, primitive: Primitive, inputs, window_shape, strides, padding: Pads) -> Value:
    x = inexact(inputs, name)
    return by_windows(primitive, x, _alongs(name, x, window_shape, strides, padding))


def _alongs(name: str, x: Value, window_shape: Sequence[int], strides: Sequence[int] | None, padding: Pads) -> list[Along]:
    sizes = tuple(int(k) for k in window_shape)
    steps = (1,) * len(sizes) if strides is None else tuple(int(s) for s in strides)
    batch = x.ndim - len(sizes) - 1
    if batch < 0 or len(steps) != len(sizes) or min((*sizes, *steps), default=1) < 1:
        raise ValueError(f"{name} takes a window and a stride for each dimension between batch and features, got {x.type}, "
                         f"{window_shape} and {strides}")
    pads = padtype_to_pads(x.shape[batch:-1], sizes, steps, padding)
    return [Along(window=1)] * batch + [Along(window=k, stride=s, padding=p) for k, s, p in zip(sizes, steps, pads, strict=True)] + [
        Along(window=1)]
