"""Sums, maxima and minima over windows on a regular grid, and the adjoint pair that the derivative of the last two takes.

A dimension may be split where the windows are its single elements; others have to be whole. `lax.windows` exchanges borders where they
are not. One dimension is reduced after the other, and windows of 2, 4, 8, ... elements are put together from halves.
"""

import math
from collections.abc import Callable

import numpy as np

from distad.core.batching import inserted
from distad.core.primitive import BY_LINEARITY, NoRule, Place, Primitive, by_labels, signature
from distad.core.value import typeof
from distad.ops.makers import NUMBER, REAL, check_dtype
from distad.ops.reduction import limit
from distad.ops.strided import Along, dilated, spaced, windows_of
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, LINEAR_IN_FIRST, NONLINEAR, Linearity, show

Dims = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]

# One entry of each parameter for a dimension along which windows are the single elements.
IDLE = {'window_dimensions': 1, 'window_strides': 1, 'padding': (0, 0), 'base_dilation': 1, 'window_dilation': 1}


def windows_along(*, window_dimensions: Dims, window_strides: Dims, padding: Pads, base_dilation: Dims, window_dilation: Dims,
                  select: str = '') -> list[Along]:
    """The windows along each dimension."""
    return [Along(window=k, stride=s, padding=p, base_dilation=bd, window_dilation=wd) for k, s, p, bd, wd in zip(
        window_dimensions, window_strides, padding, base_dilation, window_dilation, strict=True)]


def params_of(alongs: list[Along]) -> dict:
    """The other way round: the parameters of a call."""
    return {'window_dimensions': tuple(a.window for a in alongs), 'window_strides': tuple(a.stride for a in alongs),
            'padding': tuple(a.padding for a in alongs), 'base_dilation': tuple(a.base_dilation for a in alongs),
            'window_dilation': tuple(a.window_dilation for a in alongs)}


def windowed(name: str, x: ArrayType, alongs: list[Along]) -> Dims:
    """How many windows there are along each dimension."""
    if len(alongs) != x.ndim or any(min(a.window, a.stride, a.base_dilation, a.window_dilation) < 1 for a in alongs):
        raise ValueError(f"{name} takes for each dimension a window, a stride and dilations of 1 or more, got {x} and {alongs}")
    return tuple(a.count(n) for a, n in zip(alongs, x.shape, strict=True))


def _labels(name: str, linearity: Linearity) -> Callable:
    def labels(*types: ArrayType, **params):
        dims = [d if along.idle else None for d, along in enumerate(windows_along(**params))]
        return signature(name, [dims] * len(types), [dims], linearity=linearity)
    return labels


def _with_batch(params: dict, d: int) -> dict:
    """The parameters for arrays with a batch dimension at place d."""
    return {**params, **{name: inserted(params[name], d, one) for name, one in IDLE.items()}}


# ---- the reductions

def _reduced(x: np.ndarray, along: Along, count: int, ufunc: np.ufunc, fill) -> np.ndarray:
    """The reduction over windows along the last dimension."""
    x = spaced(x, [along], [count], fill)
    k, s, step = along.window, along.stride, along.window_dilation
    if not count:
        return x[..., :0]

    def at(piece: np.ndarray, j: int) -> np.ndarray:
        """The element (or what begins at it) of number j of each window."""
        return piece[..., j * step:j * step + (count - 1) * s + 1:s]

    if (k - 1) // s <= 2 * k.bit_length():
        y = np.array(at(x, 0))
        for j in range(1, k):
            ufunc(y, at(x, j), out=y)
        return y
    y, piece, size, done = None, x, 1, 0
    while True:
        if k & size:
            y = np.array(at(piece, done)) if y is None else ufunc(y, at(piece, done), out=y)
            done += size
        if done == k:
            return y
        piece = ufunc(piece[..., :-size * step], piece[..., size * step:])
        size *= 2


def _reduction(name: str, ufunc: np.ufunc, accepts: str, neutral: Callable, *, jvp, linearity: Linearity, transpose) -> Primitive:
    labels = _labels(name, linearity)

    def shape(x: ArrayType, **params):
        check_dtype(name, accepts, x)
        return windowed(name, x, windows_along(**params)), x.dtype

    def impl(x, *, out, **params):
        if ufunc is np.add and dtypes.is_half(x.dtype):                   # half types are rounded once
            x = x.astype(np.float32)
        for d, along in enumerate(windows_along(**params)):
            if not along.idle:
                x = np.moveaxis(_reduced(np.moveaxis(x, d, -1), along, out.shape[d], ufunc, neutral(x.dtype)), -1, d)
        return x.astype(out.dtype, copy=False)

    def batch(axis, values, dims, **params):
        return made(*values, **_with_batch(params, dims[0])), dims[0]

    made = Primitive(name, type=by_labels(labels, shape), labels=labels, impl=impl, jvp=jvp, transpose=transpose, batch=batch,
                     linearity=linearity)
    return made


def _sum_transpose(ct, x, **params):
    """Each element gets the sum over the windows that it is in: windows over the cotangents of windows."""
    back = []
    for along, n, count in zip(windows_along(**params), x.type.shape, typeof(ct).shape, strict=True):
        before = along.reach - 1 - along.padding[0]
        after = dilated(n, along.base_dilation) + along.reach - 1 - dilated(count, along.stride) - before
        back.append(Along(window=along.window, stride=along.base_dilation, padding=(before, after), base_dilation=along.stride,
                          window_dilation=along.window_dilation))
    return reduce_window_sum(ct, **params_of(back))


reduce_window_sum = _reduction('reduce_window_sum', np.add, NUMBER, lambda dtype: dtype.type(0), jvp=BY_LINEARITY, linearity=ADDITIVE,
                               transpose=(_sum_transpose,))


# ---- winners: an adjoint pair, both linear in the first operand. The winner of a window is the first of equals; NaN wins.

def _winners(x: np.ndarray, alongs: list[Along], counts: Dims, sign: int) -> np.ndarray:
    """The number of the winning element for each window; -1 where the window has no element."""
    numbers = np.arange(x.size, dtype=np.int32 if x.size < 2**31 else np.int64).reshape(x.shape)
    whole = all(along.base_dilation == 1 and along.padding[0] <= 0 and along.extent(count) - along.padding[0] <= n
                for along, count, n in zip(alongs, counts, x.shape, strict=True))
    not_a_number = bool(np.any(x != x))
    values = windows_of(spaced(x, alongs, counts, 0), alongs, counts)
    numbers = windows_of(spaced(numbers, alongs, counts, -1), alongs, counts)
    best, winner = None, None
    for at in np.ndindex(values.shape[len(counts):]):
        value, number = values[(..., *at)], numbers[(..., *at)]
        if best is None:
            best, winner = np.array(value), np.array(number)
            continue
        wins = value > best if sign > 0 else value < best
        if not_a_number:
            wins |= (value != value) & (best == best)
        if not whole:                                                     # padding never wins, and gives way to any element
            wins |= winner < 0
            wins &= number >= 0
        np.copyto(best, value, where=wins)
        np.copyto(winner, number, where=wins)
    return winner


SIGNS = {'max': 1, 'min': -1}


def _pair_kernel(apply: Callable) -> Callable:
    def kernel(place: Place, ins, outs, params) -> Callable:
        alongs, sign, shape = windows_along(**params), SIGNS[params['select']], place.out(outs[0]).shape

        def run(t, x):
            counts = tuple(a.count(n) for a, n in zip(alongs, x.shape, strict=True))
            return apply(t, _winners(x, alongs, counts, sign), shape, all(a.stride >= a.reach for a in alongs))
        return run
    return kernel


def _gathered(t: np.ndarray, winner: np.ndarray, shape: Dims, apart: bool) -> np.ndarray:
    if not t.size:
        return np.zeros(shape, t.dtype)
    return np.where(winner < 0, t.dtype.type(0), np.take(t, np.maximum(winner, 0)))


def _scattered(ct: np.ndarray, winner: np.ndarray, shape: Dims, apart: bool) -> np.ndarray:
    """Cotangents of windows added up at their winners. Windows that lie apart have different ones."""
    work = np.float32 if dtypes.is_half(ct.dtype) else ct.dtype
    y = np.zeros(math.prod(shape), work)
    if winner.size and winner.min() < 0:
        there = winner >= 0
        winner, ct = winner[there], ct[there]
    if apart:
        y[winner.ravel()] = ct.ravel()
    else:
        np.add.at(y, winner.ravel(), ct.ravel().astype(work, copy=False))
    return y.reshape(shape).astype(ct.dtype, copy=False)


def _gather_shape(t: ArrayType, x: ArrayType, **params):
    if t.shape != x.shape:
        raise TypeError(f"select_and_gather_add takes two arrays of one shape, got {show((t, x))}")
    return windowed('select_and_gather_add', x, windows_along(**params)), t.dtype


def _scatter_shape(ct: ArrayType, x: ArrayType, **params):
    if ct.shape != windowed('select_and_scatter_add', x, windows_along(**params)):
        raise TypeError(f"select_and_scatter_add takes an array of one element for each window, got {show((ct, x))}")
    return x.shape, ct.dtype


def _pair(name: str, shape: Callable, apply: Callable, transpose: Callable) -> Primitive:
    labels = _labels(name, LINEAR_IN_FIRST)

    def batch(axis, values, dims, **params):
        values, d = axis.aligned(values, dims)
        return made(*values, **_with_batch(params, d)), d

    made = Primitive(name, type=by_labels(labels, shape), labels=labels, kernel=_pair_kernel(apply), jvp=BY_LINEARITY,
                     transpose=transpose, batch=batch, linearity=LINEAR_IN_FIRST)
    return made


select_and_gather_add = _pair('select_and_gather_add', _gather_shape, _gathered,
                              lambda ct, t, x, **params: [select_and_scatter_add(ct, x, **params), None])
select_and_scatter_add = _pair('select_and_scatter_add', _scatter_shape, _scattered,
                               lambda ct, t, x, **params: [select_and_gather_add(ct, x, **params), None])


# ---- max and min

def _extremum(select: str, ufunc: np.ufunc) -> Primitive:
    return _reduction(f'reduce_window_{select}', ufunc, REAL, lambda dtype: limit(dtype, -SIGNS[select]), linearity=NONLINEAR,
                      jvp=(lambda t, y, x, **params: select_and_gather_add(t, x, select=select, **params),),
                      transpose=NoRule('it is not linear'))


reduce_window_max = _extremum('max', np.maximum)
reduce_window_min = _extremum('min', np.minimum)


def neutral_of(primitive: Primitive, dtype: np.dtype):
    """What pads: it changes no sum, no maximum, no minimum."""
    return dtype.type(0) if primitive is reduce_window_sum else limit(dtype, -1 if primitive is reduce_window_max else 1)
