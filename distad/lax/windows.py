"""Reductions over windows on a regular grid."""

from collections.abc import Callable, Sequence
from typing import Any

from distad import tree
from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import Value, is_scalar, typeof
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.borders import bordered, together
from distad.lax.kind import kindly, whole_along
from distad.lax.reduction import monoid, neutral
from distad.lax.slicing import pad, resized
from distad.ops import reduce_window as ops
from distad.ops.cast import cast
from distad.ops.reduce_window import params_of, windowed
from distad.ops.strided import Along, dilated
from distad.types.array_type import ArrayType
from distad.types.inference import infer

__all__ = ['padtype_to_pads', 'reduce_window']

Pads = str | Sequence[tuple[int, int]]

_FAST = {'add': ops.reduce_window_sum, 'max': ops.reduce_window_max, 'min': ops.reduce_window_min}


def padtype_to_pads(in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int],
                    padding: Pads) -> list[tuple[int, int]]:
    """Padding before and after each dimension, from a word: 'VALID' is none, with 'SAME' there are ceil(size / stride) windows, and
    an odd place is put after ('SAME') or before ('SAME_LOWER').

    in_shape, window_shape, window_strides: one number for each dimension; pairs are returned as they are.

    >>> padtype_to_pads((5,), (4,), (1,), 'SAME')
    [(1, 2)]
    """
    if not isinstance(padding, str):
        pads = [tuple(int(n) for n in pair) for pair in padding]
        if len(pads) != len(in_shape) or any(len(pair) != 2 for pair in pads):
            raise ValueError(f"padding has a pair (before, after) for each of {len(in_shape)} dimensions, got {padding}")
        return pads
    word = padding.upper()
    if word == 'VALID':
        return [(0, 0)] * len(in_shape)
    if word not in ('SAME', 'SAME_LOWER'):
        raise ValueError(f"padding is 'SAME', 'SAME_LOWER', 'VALID' or pairs (before, after), got {padding!r}")
    pads = []
    for n, k, s in zip(in_shape, window_shape, window_strides, strict=True):
        total = max(0, (-(-n // s) - 1) * s + k - n)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if word == 'SAME' else (more, less))
    return pads


def reduce_window(operand: Any, init_value: Any, computation: Callable, window_dimensions: Sequence[int],
                  window_strides: Sequence[int] | None = None, padding: Pads = 'VALID', base_dilation: Sequence[int] | None = None,
                  window_dilation: Sequence[int] | None = None) -> Any:
    """Reduce the elements of each window on a regular grid.

    Args:
      operand: [n@X, ...], or a pytree of such arrays of one shape. init_value: a number for each, where the reduction starts.
      computation: `(x, y) -> z`, associative, of values like the operand, element by element. Where it is none of add, mul, max, min,
        and, or, xor, the init_value has to be its neutral element.
      window_dimensions, window_strides: sizes of windows and steps between them, for each dimension.
      padding: 'VALID', 'SAME', 'SAME_LOWER' or pairs. base_dilation, window_dilation: distances between the elements of the array, and
        between those of a window.
    Returns: [windows, ...], split as the operand. Sums of an unreduced operand are unreduced. The derivative of max and min is that of
      the first of equal elements.
    Communication: for add, max and min the borders of blocks go to the neighbours along a split dimension, one message each, or none
      where windows lie within blocks; otherwise it is gathered.
    Raises: ShardingTypeError where the number of windows does not divide.

    >>> reduce_window(np.arange(4, dtype=np.float32), 0.0, lambda x, y: x + y, (2,), (2,))
    Array([1., 5.], dtype=float32)
    """
    leaves, structure = tree.flatten(operand)
    xs = [as_value(x, 'reduce_window') for x in leaves]
    starts = [typeof(x).dtype.type(v) if is_scalar(v) else as_value(v, 'reduce_window')
              for x, v in zip(xs, tree.leaves(init_value), strict=True)]
    if len({x.shape for x in xs}) != 1:
        raise ValueError(f"reduce_window takes arrays of one shape, got {', '.join(str(x.type) for x in xs)}")
    alongs = _alongs(xs[0].type, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    def combine(a: Sequence, b: Sequence) -> list:
        both = computation(tree.unflatten(structure, a), tree.unflatten(structure, b))
        out = [as_value(y, 'reduce_window') for y in tree.leaves(both)]
        if [y.shape for y in out] != [x.shape for x in a]:
            raise NotImplementedError(f"reduce_window takes a computation that works element by element, got one that makes "
                                      f"{', '.join(str(y.type) for y in out)} of two times {', '.join(str(x.type) for x in a)}")
        return out

    name, _ = monoid(computation, xs[0].type.dtype) if len(xs) == 1 else (None, '')
    fills = starts if name is None else [neutral(name, xs[0].type.dtype)]
    ys = [by_windows(_FAST[name], xs[0], alongs)] if name in _FAST else _by_slices(combine, xs, fills, alongs)
    if name is None or not is_scalar(starts[0]) or starts[0] != fills[0]:
        ys = combine([lax_shape.broadcast_in_dim(v, y.shape, ()) for v, y in zip(starts, ys, strict=True)], ys)
    return tree.unflatten(structure, ys)


def _alongs(t: ArrayType, sizes, strides, padding: Pads, base_dilation, window_dilation) -> list[Along]:
    ones = (1,) * t.ndim
    sizes, strides, base, dilation = (ones if v is None else tuple(int(n) for n in v)
                                      for v in (sizes, strides, base_dilation, window_dilation))
    if {len(sizes), len(strides), len(base), len(dilation)} != {t.ndim}:
        raise ValueError(f"reduce_window takes a window, a stride and dilations for each dimension of {t}, got {sizes}, {strides}, "
                         f"{base} and {dilation}")
    pads = padtype_to_pads(t.shape, [dilated(k, w) for k, w in zip(sizes, dilation, strict=True)], strides, padding)
    alongs = [Along(window=k, stride=s, padding=p, base_dilation=b, window_dilation=w)
              for k, s, p, b, w in zip(sizes, strides, pads, base, dilation, strict=True)]
    windowed('reduce_window', t, alongs)
    return alongs


def by_windows(primitive: Primitive, x: Value, alongs: Sequence[Along]) -> Value:
    """A reduction over windows by a primitive, also along split dimensions."""
    t, idle = typeof(x), Along(window=1)
    infer(primitive.labels(t, **params_of([idle] * t.ndim)), (t,))        # refuse in its own name, before borders are exchanged
    goal = resized('reduce_window', t, windowed('reduce_window', t, list(alongs)))
    busy = {d: along for d, along in enumerate(alongs) if not along.idle}
    blocks, after, split = bordered(x, busy, ops.neutral_of(primitive, t.dtype))
    here = [along for d in range(t.ndim) for along in ([idle] if d in split else []) + [after.get(d, idle)]]
    return together(kindly(primitive, blocks, **params_of(here)), goal)


def _by_slices(combine: Callable, xs: Sequence[Value], fills: Sequence, alongs: Sequence[Along]) -> list[Value]:
    """Slices that are moved against one another are combined: windows of 2, 4, 8, ... along one dimension after the other."""
    t = typeof(xs[0])
    counts = windowed('reduce_window', t, list(alongs))
    goals = [resized('reduce_window', typeof(x), counts) for x in xs]
    xs = [whole_along(x, [d for d, along in enumerate(alongs) if not along.idle]) for x in xs]
    config = [(*along.padding, along.base_dilation - 1) for along in alongs]
    xs = [pad(x, v, config) for x, v in zip(xs, fills, strict=True)]
    for d, (along, count) in enumerate(zip(alongs, counts, strict=True)):
        if not along.idle:
            xs = _along(combine, xs, d, along, count)
    return [cast(x, goal.update(weak_type=typeof(x).weak_type)) for x, goal in zip(xs, goals, strict=True)]


def _along(combine: Callable, xs: Sequence[Value], d: int, along: Along, count: int) -> list[Value]:
    step, done, size, pieces, out = along.window_dilation, 0, 1, list(xs), None
    while count:
        if along.window & size:
            start = done * step
            part = [slicing.slice_in_dim(x, start, start + (count - 1) * along.stride + 1, along.stride, axis=d) for x in pieces]
            out = part if out is None else combine(out, part)
            done += size
        if done == along.window:
            return out
        n = pieces[0].shape[d]
        pieces = combine([slicing.slice_in_dim(x, 0, n - size * step, axis=d) for x in pieces],
                         [slicing.slice_in_dim(x, size * step, n, axis=d) for x in pieces])
        size *= 2
    return [slicing.slice_in_dim(x, 0, 0, axis=d) for x in xs]
