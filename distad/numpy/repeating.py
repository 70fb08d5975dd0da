"""Elements repeated and moved round: tile, repeat, roll, rot90.

All of these are linear and keep unreduced and reduced axes. None gathers an array: an element repeated in place stays on its rank,
and of a dimension that is rolled each rank sends what its neighbours lack.
"""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from distad.core.lift import as_value, read
from distad.core.value import Value, typeof
from distad.errors import ConcretizationTypeError, ShardingTypeError
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.dims import dim_of, dims_of
from distad.lax.dynamic import dynamic_slice_in_dim
from distad.lax.kind import kindly, whole_along, with_sharding
from distad.lax.shape import Sharding, written
from distad.numpy.elementwise import remainder
from distad.numpy.joining import flip
from distad.numpy.known import known
from distad.numpy.shapes import ravel, transpose
from distad.numpy.taking import take
from distad.ops.broadcast import broadcast_in_dim
from distad.ops.cast import cast
from distad.ops.reshape import reshape as reshape_p
from distad.ops.roll import roll as roll_p


def tile(A, reps: int | Sequence[int]) -> Value:
    """An array laid side by side with itself.

    A: [n, ..]; reps: how often along each dimension, of which missing ones are 1 in front. The result [reps * n, ..] is split as
    the array. Communication: none. Raises ShardingTypeError for repeats along a split dimension, whose copies would have to go
    elsewhere.

        jnp.tile(jnp.arange(2.), (2, 2))          # float32[2,4]
    """
    x = as_value(A, 'tile')
    times = tuple(operator.index(n) for n in (reps if isinstance(reps, (tuple, list, np.ndarray)) else (reps,)))
    n = max(len(times), x.ndim)
    times = (1,) * (n - len(times)) + times
    if x.ndim < n:
        x = lax_shape.expand_dims(x, range(n - x.ndim))
    t = typeof(x)
    split = [d for d, k in enumerate(times) if k != 1 and t.mesh.axis_size(t.partitions[d]) > 1]
    if split:
        raise ShardingTypeError(f"tile of {t} cannot repeat dimension {split[0]}, which is split over "
                                f"{', '.join(t.partitions[split[0]])}. Gather it first: reshard(x, "
                                f"{written(slicing.whole(t, split))}), or use repeat, whose copies stay side by side.")
    return _repeated(x, times, behind=False)


def _repeated(x: Value, times: Sequence[int], *, behind: bool) -> Value:
    """Dimensions repeated, each as a whole or (`behind`) element by element."""
    for d, k in enumerate(times):
        if k == 1:
            continue
        t = typeof(x)
        at = d + 1 if behind else d
        y = broadcast_in_dim(x, shape=(*t.shape[:at], k, *t.shape[at:]), sharding=None,
                             broadcast_dimensions=tuple(i + (i >= at) for i in range(t.ndim)))
        x = reshape_p(y, new_sizes=(*t.shape[:d], k * t.shape[d], *t.shape[d + 1:]))
    return x


def repeat(a, repeats, axis: int | None = None, *, total_repeat_length: int | None = None,
           out_sharding: Sharding = None) -> Value:
    """Each element several times, one after the other.

    a: [n, ..]; repeats: a number, or one for each element along `axis`, known while the program is traced. axis: the dimension,
    or None for the array as one row. total_repeat_length: the size of the result, to which it is cut off or filled up with the
    last element. The result is split as the array; if repeats differ, a split `axis` becomes whole. With `out_sharding` it lies
    as asked for.
    Communication: none if one number says how often; else an all-reduce of the result where `axis` is split.
    Raises ConcretizationTypeError for traced repeats.

        jnp.repeat(jnp.arange(2.), 2)             # 0., 0., 1., 1.
    """
    x = as_value(a, 'repeat')
    if axis is None or not x.ndim:
        x, axis = ravel(x), 0
    d = dim_of('repeat', axis, x.ndim)
    times = _times(repeats)
    if times.size == 1 and total_repeat_length is None:
        return with_sharding(_repeated(x, [int(times.flat[0]) if i == d else 1 for i in range(x.ndim)], behind=True),
                             out_sharding)
    if times.ndim > 1 or times.size not in (1, x.shape[d]):
        raise ValueError(f"repeat: repeats is a number or one for each of the {x.shape[d]} elements along dimension {d} of "
                         f"{x.type}, got shape {times.shape}")
    places = np.repeat(np.arange(x.shape[d], dtype=np.int32), np.broadcast_to(times, x.shape[d]))
    if total_repeat_length is not None:
        missing = max(operator.index(total_repeat_length) - places.size, 0)
        places = np.append(places, np.full(missing, max(x.shape[d] - 1, 0), np.int32))[:total_repeat_length]
    return with_sharding(take(x, places, d, mode='clip'), out_sharding)


def _times(repeats) -> np.ndarray:
    if isinstance(repeats, Value):
        array = known(repeats)
        if array is None:
            raise ConcretizationTypeError(f"repeat of traced repeats of type {repeats.type}: how long the result is, is not known "
                                          "while the program is traced. Use NumPy numbers.")
        repeats = read(array)
    times = np.asarray(repeats)
    if times.dtype.kind not in 'iu' or (times < 0).any():
        raise TypeError(f"repeat: repeats are integers, zero or more, got {repeats!r}")
    return times


def roll(a, shift, axis: int | Sequence[int] | None = None) -> Value:
    """Elements moved on along dimensions; those that leave at the end come in at the front.

    a: [n, ..]; shift: a number of places, or one for each of `axis`; axis: the dimensions, or None for the array as one row.
    The type stays. Communication: where a rolled dimension is split, at most two messages from neighbour to neighbour, with
    together one block at most; an all-gather if the shift is traced.

        jnp.roll(jnp.arange(4), 1)                # 3, 0, 1, 2
    """
    x = as_value(a, 'roll')
    if axis is None:
        return cast(lax_shape.reshape(roll(ravel(x), shift, 0), x.shape), typeof(x))
    dims = [dim_of('roll', d, x.ndim) for d in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    shifts = shift if isinstance(shift, (tuple, list)) or np.ndim(shift) else [shift]
    shifts = [shifts[0]] * len(dims) if len(shifts) == 1 else list(shifts)
    dims = dims * len(shifts) if len(dims) == 1 else dims
    if len(dims) != len(shifts):
        raise ValueError(f"roll: there are {len(shifts)} shifts for the dimensions {dims}")
    for d, s in zip(dims, shifts, strict=True):
        x = _rolled(x, s, d)
    return x


def _rolled(x: Value, shift: Any, d: int) -> Value:
    n = x.shape[d]
    array = known(shift) if isinstance(shift, Value) else np.asarray(shift)
    if array is not None:
        places = operator.index(np.asarray(read(array) if isinstance(array, Value) else array).item())
        return kindly(roll_p, x, shift=places % n, axis=d) if n and places % n else x
    if not n:
        return x
    y = whole_along(x, (d,))
    twice = slicing.concatenate([y, y], d)
    return cast(dynamic_slice_in_dim(twice, remainder(-shift, np.int32(n)), n, axis=d), typeof(x))


def rot90(m, k: int = 1, axes: Sequence[int] = (0, 1)) -> Value:
    """A quarter turn, k times, from the first of two dimensions towards the second.

    m: [.., n, m, ..]. Communication: an all-gather where a dimension that turns round is split.

        jnp.rot90(jnp.array([[1, 2], [3, 4]]))    # [[2, 4], [1, 3]]
    """
    x = as_value(m, 'rot90')
    first, second = dims_of('rot90', axes, x.ndim)
    k = operator.index(k) % 4
    if k in (0, 2):
        return flip(x, (first, second)) if k else x
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return transpose(flip(x, second if k == 1 else first), order)


__all__ = ['repeat', 'roll', 'rot90', 'tile']
