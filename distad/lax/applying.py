"""A function applied to elements of an array, as often as indices name them.

How often is counted by a scatter of ones, so a function that is no sum needs no scatter of its own: it is applied to the whole array,
and what has been named often enough stays as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distad.control.conditional import while_loop
from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax.indexing import ScatterDimensionNumbers, scatter_add
from distad.lax.kind import kindly
from distad.lax.reduction import reduce_max
from distad.ops.basic import zeros_of
from distad.ops.compare import lt, select_n

__all__ = ['scatter_apply']


def scatter_apply(operand, scatter_indices, func: Callable[[Value], Value], dimension_numbers: ScatterDimensionNumbers, *,
                  update_shape: Sequence[int] = (), indices_are_sorted: bool = False, unique_indices: bool = False,
                  mode: Any = None) -> Value:
    """A function applied to windows of an array, as often as the indices name them.

    Args:
      operand: [n@X, ...]. scatter_indices: integers [b..., k], the first corners of windows. dimension_numbers: as of `scatter`.
      func: element by element. update_shape: the shape that updates would have.
      unique_indices: no element is named twice. With traced indices a gradient takes this promise.
    Returns: an array of the type of the operand.
    Communication: one all-reduce of a number where the operand is split, if elements may be named twice.
    Raises: ShardingTypeError for an unreduced operand, unless `func` is linear.

    >>> scatter_apply(np.float32([1, 2, 3]), np.array([1]), lambda x: -x, ScatterDimensionNumbers((), (0,), (0,)))
    Array([ 1., -2.,  3.], dtype=float32)
    """
    x = as_value(operand, 'scatter_apply')
    t = typeof(x)
    counts = t.update(dtype=np.int32, weak_type=False, unreduced=(), reduced=t.reduced | t.unreduced, kind='sum')
    times = scatter_add(zeros_of(counts), scatter_indices, np.ones(tuple(update_shape), np.int32), dimension_numbers, mode=mode)
    return applied(func, x, times, once=unique_indices)


def applied(func: Callable[[Value], Value], x: Value, times: Value, *, once: bool) -> Value:
    """A function applied to each element of x as many times as `times` says; `once`: at most one time."""
    def step(done, y):
        return kindly(select_n, kindly(lt, done, times), y, func(y))

    if once:
        return step(np.int32(0), x)
    most = reduce_max(times, tuple(range(times.ndim)))
    return while_loop(lambda state: kindly(lt, state[0], most), lambda state: (state[0] + 1, step(*state)), (np.int32(0), x))[1]
