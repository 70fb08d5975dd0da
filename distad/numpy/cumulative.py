"""Accumulation along a dimension, and its inverse, differences, under NumPy's names."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax import cumulative as lax
from distad.lax import slicing as lax_slicing
from distad.lax.cumulative import ranks_along
from distad.lax.dims import dim_of, dims_of
from distad.lax.kind import kindly
from distad.lax.reduction import numbers_along
from distad.numpy.elementwise import absolute, add, divide, multiply, remainder, subtract
from distad.numpy.joining import concatenate
from distad.numpy.logic import isnan, logical_and, logical_or, not_equal, where
from distad.numpy.promotion import ArrayLike, converted, inexact, promoted
from distad.numpy.reductions import sum
from distad.numpy.repeating import roll
from distad.numpy.shapes import broadcast_to, expand_dims, ravel
from distad.ops.compare import eq, or_, select_n
from distad.types import dtypes

__all__ = ['cumprod', 'cumsum', 'cumulative_prod', 'cumulative_sum', 'diff', 'ediff1d', 'gradient', 'nancumprod', 'nancumsum',
           'trapezoid', 'unwrap']


# ---- cumulative sums and products

def _cumulative(name: str, f: Callable, a, axis: int | None, dtype, out, neutral: int | None = None) -> Value:
    if out is not None:
        raise NotImplementedError(f"{name}: arrays are immutable, so there is no out=. Use the result.")
    x = as_value(a, name)
    x, d = (ravel(x), 0) if axis is None else (x, dim_of(name, axis, x.ndim))
    if neutral is not None and dtypes.is_float(x.dtype):
        x = where(isnan(x), x.dtype.type(neutral), x)
    if dtype is None:
        dtype = np.int64 if x.dtype == bool else x.dtype
    return f(converted(x, dtypes.canonical(dtype), x.weak_type), axis=d)


def cumsum(a: ArrayLike, axis: int | None = None, dtype=None, out: None = None) -> Value:
    """The sum of all elements up to each one.

    Args:
      a: [..., n@X, ...], any number type; truth values are added up in int32. axis: the dimension n; None for all elements in one
        row. dtype: of the sums.
    Returns: an array like `a`; unreduced and reduced stay so.
    Communication: where the dimension is split, one all-gather of the ranks' totals.

    >>> cumsum(np.float32([1, 2, 3]))
    Array([1., 3., 6.], dtype=float32)
    """
    return _cumulative('cumsum', lax.cumsum, a, axis, dtype, out)


def cumprod(a: ArrayLike, axis: int | None = None, dtype=None, out: None = None) -> Value:
    """The product of all elements up to each one; an unreduced array is refused. All else as `cumsum`.

    >>> cumprod(np.float32([1, 2, 3]))
    Array([1., 2., 6.], dtype=float32)
    """
    return _cumulative('cumprod', lax.cumprod, a, axis, dtype, out)


def nancumsum(a: ArrayLike, axis: int | None = None, dtype=None, out: None = None) -> Value:
    """As `cumsum`, with 0 for NaN; an unreduced array is refused.

    >>> nancumsum(np.float32([1, np.nan, 3]))
    Array([1., 1., 4.], dtype=float32)
    """
    return _cumulative('nancumsum', lax.cumsum, a, axis, dtype, out, 0)


def nancumprod(a: ArrayLike, axis: int | None = None, dtype=None, out: None = None) -> Value:
    """As `cumprod`, with 1 for NaN.

    >>> nancumprod(np.float32([1, np.nan, 3]))
    Array([1., 1., 3.], dtype=float32)
    """
    return _cumulative('nancumprod', lax.cumprod, a, axis, dtype, out, 1)


def cumulative_sum(x: ArrayLike, /, *, axis: int | None = None, dtype=None, include_initial: bool = False) -> Value:
    """As `cumsum`; narrow integers are added up in int32 (uint32), and a 0 can stand in front.

    Args: axis: needed for more than one dimension. include_initial: whether to put 0 before the first sum.

    >>> cumulative_sum(np.float32([1, 2]), include_initial=True)
    Array([0., 1., 3.], dtype=float32)
    """
    return _with_initial('cumulative_sum', cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(x: ArrayLike, /, *, axis: int | None = None, dtype=None, include_initial: bool = False) -> Value:
    """As `cumprod`; narrow integers are multiplied in int32 (uint32), and a 1 can stand in front. See `cumulative_sum`.

    >>> cumulative_prod(np.float32([1, 2]), include_initial=True)
    Array([1., 1., 2.], dtype=float32)
    """
    return _with_initial('cumulative_prod', cumprod, x, axis, dtype, include_initial, 1)


def _with_initial(name: str, f: Callable, x, axis: int | None, dtype, include_initial: bool, initial: int) -> Value:
    x = as_value(x, name)
    if x.ndim != 1 and axis is None or not x.ndim:
        raise ValueError(f"{name} needs an axis for an array of {x.ndim} dimensions, {x.type}")
    d = dim_of(name, 0 if axis is None else axis, x.ndim)
    if dtype is None and x.dtype.kind in 'iu':
        dtype = np.promote_types(x.dtype, dtypes.canonical(np.uint64 if x.dtype.kind == 'u' else np.int64))
    y = f(x, d, dtype)
    if not include_initial:
        return y
    return lax_slicing.pad(y, y.dtype.type(initial), [(int(k == d), 0, 0) for k in range(y.ndim)])


# ---- differences

def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None) -> Value:
    """Differences of neighbours along a dimension, n times.

    Args:
      a: [..., m, ...], any dtype; of truth values it tells whether they differ. n: how often. axis: the dimension m.
      prepend, append: what stands before and after the array along the dimension: numbers or arrays.
    Returns: [..., m - n, ...], split as `a`; unreduced and reduced stay so.
    Communication: where the dimension is split, one element to a neighbour if n is 1 and one is put in front or at the end;
      otherwise an all-gather.
    Raises: ShardingTypeError where it is split and the size of the result does not divide.

    >>> diff(np.float32([1, 2, 4]))
    Array([1., 2.], dtype=float32)
    """
    x = as_value(a, 'diff')
    if not x.ndim:
        raise ValueError('diff requires input that is at least one dimensional')
    if n < 0:
        raise ValueError(f"diff: order must be non-negative but got {n}")
    if not n:
        return x
    d = dim_of('diff', axis, x.ndim)
    f = not_equal if x.dtype == bool else subtract
    ends = [_edge(end, x, d) for end in (prepend, append)]
    if n == 1 and ranks_along(x.type, d) > 1 and [0 if e is None else e.shape[d] for e in ends] in ([1, 0], [0, 1]):
        here, there = promoted('diff', x, next(e for e in ends if e is not None))
        before = prepend is not None
        beside = neighbour(here, d, -1 if before else 1, there)
        return f(here, beside) if before else f(beside, here)
    if prepend is not None or append is not None:
        x = concatenate([part for part in (ends[0], x, ends[1]) if part is not None], d)
    for _ in range(n):
        m = x.shape[d]
        x = f(lax_slicing.slice_in_dim(x, min(1, m), m, axis=d), lax_slicing.slice_in_dim(x, 0, max(m - 1, 0), axis=d))
    return x


def neighbour(x: Value, d: int, step: int, outside: Value) -> Value:
    """At each place of a dimension the element one before (step -1) or after it (1); `outside` beyond the end, [..., 1, ...] or
    like x."""
    at = numbers_along(x, d, np.dtype(np.int32))
    last = np.int32(0 if step < 0 else x.shape[d] - 1)
    return where(kindly(eq, at, last), outside, roll(x, -step, d))


def _edge(value, x: Value, d: int):
    """What stands at an end: a number is repeated over the other dimensions."""
    if value is None:
        return None
    value = as_value(value, 'diff')
    if value.ndim:
        return value
    return broadcast_to(value, tuple(1 if k == d else m for k, m in enumerate(x.shape)))


def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi) -> Value:
    """Phases along a dimension without their leaps: whole periods are added so that no step is larger than half a period.

    Args:
      p: [..., n, ...], real. discont: steps below it stay as they are, by default half a period. axis: the dimension n.
      period: of the phases; for integers a whole number keeps them integers.
    Returns: [..., n, ...], split as `p`.
    Communication: where the dimension is split, one element to a neighbour and that of `cumsum`.
    Raises: ShardingTypeError for unreduced phases.

    >>> unwrap(np.float32([0, 3, -3]))
    Array([0.       , 3.       , 3.2831855], dtype=float32)
    """
    x, length = promoted('unwrap', as_value(p, 'unwrap'), period)
    x = as_value(x, 'unwrap')
    d = dim_of('unwrap', axis, x.ndim)
    half = length / 2 if dtypes.is_float(x.dtype) else length // 2
    step = diff(x, axis=d, prepend=0)
    near = remainder(step + half, length) - half
    # A step of just half a period keeps its sign.
    near = where(logical_and(near == -half, step > 0), half if dtypes.is_float(x.dtype) else near + length * (length % 2 == 0), near)
    first = kindly(eq, numbers_along(x, d, np.dtype(np.int32)), np.int32(0))
    small = logical_or(first, absolute(step) < (length / 2 if discont is None else discont))
    return x + cumsum(where(small, 0, near - step), d, dtype=x.dtype)


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Value:
    """Differences of neighbours in the flat array, between two given ends. All else as `diff`.

    >>> ediff1d(np.float32([1, 2, 4]), to_begin=0)
    Array([0., 1., 2.], dtype=float32)
    """
    y = diff(ravel(as_value(ary, 'ediff1d')))
    ends = [None if end is None else ravel(converted(as_value(end, 'ediff1d'), y.dtype, False)) for end in (to_begin, to_end)]
    parts = [part for part in (ends[0], y, ends[1]) if part is not None]
    return concatenate(parts) if len(parts) > 1 else y


def gradient(f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = None,
             edge_order: int | None = None) -> Value | list[Value]:
    """The derivative along dimensions by central differences, one-sided at the ends.

    Args:
      f: [..., n, ...], any number type, n at least 2. varargs: for each dimension the distance of neighbours or the places [n]; one
        for all, or none for distance 1. axis: the dimensions; None for all. edge_order: 1.
    Returns: an array like f for each dimension; one alone, not in a list.
    Communication: where the dimension is split, one element to each neighbour; places instead of a distance are refused there.
    Source: B. Fornberg, "Generation of finite difference formulas on arbitrarily spaced grids", Math. Comp. 51 (1988).

    >>> gradient(np.float32([1, 2, 4]))
    Array([1. , 1.5, 2. ], dtype=float32)
    """
    if edge_order not in (None, 1):
        raise NotImplementedError(f"gradient takes first-order differences at the ends, got edge_order={edge_order}")
    x = inexact(as_value(f, 'gradient'), 'gradient')
    dims = tuple(range(x.ndim)) if axis is None else dims_of('gradient', axis, x.ndim)
    if len(varargs) not in (0, 1, len(dims)):
        raise TypeError(f"gradient takes no distance, one, or one for each of {len(dims)} dimensions, got {len(varargs)}")
    steps = varargs * len(dims) if len(varargs) == 1 else varargs or (1.0,) * len(dims)
    found = [_slope(x, h, d) for h, d in zip(steps, dims, strict=True)]
    return found[0] if len(found) == 1 else found


def _slope(x: Value, h, d: int) -> Value:
    n = x.shape[d]
    if n < 2:
        raise ValueError(f"gradient needs two elements or more along dimension {d} of {x.type}")

    def part(a: int, b: int) -> Value:
        return lax_slicing.slice_in_dim(x, a, b, axis=d)

    if np.ndim(h) == 0 and ranks_along(x.type, d) > 1:
        rise = subtract(neighbour(x, d, 1, x), neighbour(x, d, -1, x))
        return divide(rise, multiply(_at_ends(x, d, 2.0, 1.0), h))
    ends = [subtract(part(1, 2), part(0, 1)), subtract(part(n - 1, n), part(n - 2, n - 1))]
    if np.ndim(h) == 0:
        inner = divide(subtract(part(2, n), part(0, n - 2)), multiply(2, h))
        ends = [divide(end, h) for end in ends]
    else:
        line = expand_dims(diff(as_value(h, 'gradient')), tuple(k for k in range(x.ndim) if k != d))
        if line.shape[d] != n - 1:
            raise ValueError(f"gradient: the places along dimension {d} of {x.type} must be {n}, got {line.shape[d] + 1}")
        before, after = (lax_slicing.slice_in_dim(line, a, a + n - 2, axis=d) for a in (0, 1))
        forward = divide(subtract(part(2, n), part(1, n - 1)), after)
        backward = divide(subtract(part(1, n - 1), part(0, n - 2)), before)
        inner = divide(add(multiply(before, forward), multiply(after, backward)), add(before, after))
        ends = [divide(ends[0], lax_slicing.slice_in_dim(line, 0, 1, axis=d)),
                divide(ends[1], lax_slicing.slice_in_dim(line, n - 2, n - 1, axis=d))]
    return concatenate([ends[0], inner, ends[1]], d)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Value:
    """The integral along a dimension by the trapezoidal rule.

    Args:
      y: [..., n@X, ...], any number type. x: the places [n] or [..., n, ...]; else `dx`, their distance. axis: the dimension n.
    Returns: the other dimensions, split as they were; unreduced and reduced stay so.
    Communication: where the dimension is split, one all-reduce of the result for equal distances; with `x` an all-gather.

    >>> trapezoid(np.float32([1, 2, 4]))
    Array(4.5, dtype=float32)
    """
    y = inexact(as_value(y, 'trapezoid'), 'trapezoid')
    d = dim_of('trapezoid', axis, y.ndim)
    if x is None and is_scalar(dx):
        return sum(multiply(y, multiply(_at_ends(y, d, 1.0, 0.5), dx)), d)
    if x is None:
        steps = as_value(dx, 'trapezoid')
    else:
        x = promoted('trapezoid', as_value(x, 'trapezoid'), y)[0]
        steps = diff(x, axis=0 if x.ndim == 1 else d)
    if steps.ndim == 1:
        steps = expand_dims(steps, tuple(k for k in range(y.ndim) if k != d))
    n = y.shape[d]
    both = add(lax_slicing.slice_in_dim(y, 1, n, axis=d), lax_slicing.slice_in_dim(y, 0, n - 1, axis=d))
    return multiply(sum(multiply(both, steps), d), 0.5)


def _at_ends(y: Value, d: int, inside: float, ends: float) -> Value:
    """A number at the first and the last place of a dimension, another one elsewhere."""
    at = numbers_along(y, d, np.dtype(np.int32))
    outer = kindly(or_, kindly(eq, at, np.int32(0)), kindly(eq, at, np.int32(y.shape[d] - 1)))
    real = typeof(y).dtype.type(0).real.dtype
    return kindly(select_n, outer, real.type(inside), real.type(ends))
