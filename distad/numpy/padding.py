"""jnp.pad: one dimension after the other becomes what comes before it, itself, and what comes after it.

Split dimensions that are padded are gathered first, all by one all-gather, and the result is split again. A constant around all of
the array is the primitive `pad`, which gathers only where it has to.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.kind import whole_along
from distad.ops.cast import cast
from distad.ops.convert import convert_element_type

Pair = tuple[Any, Any]


def pad(array, pad_width, mode: str = 'constant', **kwargs: Any) -> Value:
    """Put values before and after the elements of each dimension.

    pad_width: one number, a pair (before, after), or a pair for each dimension. mode: 'constant' (with constant_values, 0 by
    default, given as pad_width is), 'edge', 'reflect', 'symmetric', 'wrap' or 'empty', as in NumPy. The result is split as
    the array.
    Communication: one all-gather where a split dimension is padded, unless zeros or one constant leave all blocks in place.
    Raises ShardingTypeError where a size of the result does not divide, or a constant that is not zero pads an unreduced array.

        jnp.pad(jnp.ones(2), 1)                   # 0., 1., 1., 0.
    """
    x = as_value(array, 'pad')
    t = typeof(x)
    widths = pairs('pad_width', pad_width, t.ndim, operator.index)
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError(f"pad: index can't contain negative values, got pad_width {pad_width}")
    extended = _by_mode(mode, kwargs, t.ndim)
    if not callable(extended):
        return slicing.pad(x, extended, [(*pair, 0) for pair in widths])
    goal = slicing.resized('pad', t, tuple(n + sum(pair) for n, pair in zip(t.shape, widths, strict=True)))
    padded = [d for d, pair in enumerate(widths) if any(pair)]
    x = whole_along(x, [d for d in range(t.ndim) if d in padded or goal.partitions[d] != t.partitions[d]])
    for d in padded:
        x = extended(x, d, *widths[d])
    return cast(x, goal)


def _by_mode(mode: str, options: dict, ndim: int) -> Any:
    """The constant to pad with, or the function `(x, dimension, before, after) -> x` that a mode is."""
    known = {'constant': ('constant_values',), 'reflect': ('reflect_type',), 'symmetric': ('reflect_type',), 'edge': (),
             'wrap': (), 'empty': ()}
    if mode not in known:
        raise NotImplementedError(f"pad: mode {mode!r} is not built yet. There are {', '.join(map(repr, sorted(known)))}.")
    if unknown := sorted(set(options) - set(known[mode])):
        raise ValueError(f"pad: unsupported keyword arguments for mode '{mode}': {unknown}")
    if options.get('reflect_type', 'even') != 'even':
        raise NotImplementedError("pad: reflect_type='odd' is not built yet. Subtract the even one from twice the edge.")
    if mode == 'edge':
        return _edge
    if mode in _PERIODS:
        return lambda x, d, before, after: _periodic(_PERIODS[mode], x, d, before, after)
    values = pairs('constant_values', options.get('constant_values', 0), ndim, lambda v: v)
    first = values[0][0] if values else 0
    if is_scalar(first) and all(is_scalar(v) and v == first for pair in values for v in pair):
        return first
    return lambda x, d, before, after: _constant(x, d, before, after, values[d])


def pairs(name: str, given: Any, ndim: int, read: Callable) -> list[Pair]:
    """A number, a pair, a pair for each dimension, or a dict of these by dimension, as a pair for each dimension."""
    if isinstance(given, dict):
        given = [given.get(d, given.get(d - ndim, (0, 0))) for d in range(ndim)]
        rows = [row if np.ndim(row) else (row,) for row in given]
    elif not _is_list(given):
        rows = [(given,)] * ndim
    elif any(map(_is_list, given)):
        rows = [row if _is_list(row) else () for row in given] * (ndim if len(given) == 1 else 1)
    else:
        rows = [tuple(given)] * ndim
    if len(rows) != ndim or any(len(row) not in (1, 2) for row in rows):
        raise ValueError(f"pad: {name} is a number, a pair, or a pair for each of the {ndim} dimensions, got {given}")
    return [(read(row[0]), read(row[-1])) for row in rows]


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple)) or bool(getattr(x, 'ndim', 0))


def _constant(x: Value, d: int, before: int, after: int, values: Pair) -> Value:
    for config, value in zip(((before, 0, 0), (0, after, 0)), values, strict=True):
        if not is_scalar(value):
            value = convert_element_type(as_value(value, 'pad'), new_dtype=x.dtype, weak_type=False)
        x = slicing.pad(x, value, [config if i == d else (0, 0, 0) for i in range(x.ndim)])
    return x


def _edge(x: Value, d: int, before: int, after: int) -> Value:
    _check_not_empty(x, d)

    def repeated(at: int, count: int) -> Value:
        part = slicing.slice_in_dim(x, at, at + 1, axis=d)
        return lax_shape.broadcast_in_dim(part, (*x.shape[:d], count, *x.shape[d + 1:]), range(x.ndim))

    return slicing.concatenate([repeated(0, before), x, repeated(x.shape[d] - 1, after)], d)


# The modes that repeat: the array and what follows it until it starts anew.
_PERIODS = {
    'wrap': lambda x, d: [x],
    'symmetric': lambda x, d: [x, slicing.rev(x, (d,))],
    'reflect': lambda x, d: [x, slicing.rev(slicing.slice_in_dim(x, 1, max(x.shape[d] - 1, 1), axis=d), (d,))]}


def _periodic(parts: Callable, x: Value, d: int, before: int, after: int) -> Value:
    _check_not_empty(x, d)
    period = slicing.concatenate(parts(x, d), d)
    start = -before % period.shape[d]
    stop = start + before + x.shape[d] + after
    tiled = slicing.concatenate([period] * -(-stop // period.shape[d]), d)
    return slicing.slice_in_dim(tiled, start, stop, axis=d)


def _check_not_empty(x: Value, d: int) -> None:
    if not x.shape[d]:
        raise ValueError(f"pad: dimension {d} of {x.type} is empty, there is nothing to repeat")


__all__ = ['pad']
