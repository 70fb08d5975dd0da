"""Whether arrays are equal, as one truth value: comparisons followed by `all`, which sums up split dimensions."""

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value
from distad.numpy.logic import equal, isclose, isnan, logical_and, logical_or
from distad.numpy.promotion import ArrayLike
from distad.numpy.reductions import all

__all__ = ['allclose', 'array_equal', 'array_equiv']


def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-5, atol: ArrayLike = 1e-8, equal_nan: bool = False) -> Value:
    """Whether all elements are close; see `isclose`.

    a, b: arrays and numbers that broadcast. The result is a replicated bool. Communication: an all-reduce of one byte over the
    axes that split a or b. Raises ShardingTypeError for unreduced operands.

        jnp.allclose(1.0, 1.0 + 1e-7)
    """
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Value:
    """Whether two arrays have one shape and the same elements; with `equal_nan` NaN equals NaN.

    a1, a2: arrays and numbers. The result is a replicated bool. Communication: an all-reduce of one byte over the axes that
    split a1 or a2. Raises ShardingTypeError for unreduced operands.

        jnp.array_equal(1.0, 1.0)
    """
    x, y = as_value(a1, 'array_equal'), as_value(a2, 'array_equal')
    if x.shape != y.shape:
        return as_value(np.bool_(False), 'array_equal')
    same = equal(x, y)
    return all(logical_or(same, logical_and(isnan(x), isnan(y))) if equal_nan else same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Value:
    """Whether two arrays broadcast and then have the same elements; see `array_equal`.

        jnp.array_equiv(1.0, jnp.ones(3))
    """
    x, y = as_value(a1, 'array_equiv'), as_value(a2, 'array_equiv')
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return as_value(np.bool_(False), 'array_equiv')
    return all(equal(x, y))
