"""Lookups and updates by arrays of indices: gather, scatter and its kin, kind to every placement.

A lookup in a table that is split takes from each rank what it has; the one all-reduce that follows is of the result's size, not of
the table's. Its gradient adds every update on the rank that has the row, and sends nothing. Where table and indices are split over
one axis the indices are gathered, for they are small, and the result is scattered back as the indices lay.
"""

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from distad.control.custom import call_custom_jvp
from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import Value, is_scalar, typeof
from distad.errors import ShardingTypeError
from distad.lax import shape as lax_shape
from distad.lax import slicing
from distad.lax.creation import full_like
from distad.lax.dims import dims_of
from distad.lax.kind import kindly, placed, settle, wanted, whole_along, with_sharding
from distad.lax.shape import Sharding
from distad.ops import arithmetic, compare
from distad.ops import gather as ops
from distad.ops import scatter as scattering
from distad.ops.basic import instantiated
from distad.ops.cast import cast
from distad.ops.convert import convert_element_type
from distad.ops.windows import Windows
from distad.types import dtypes
from distad.types.array_type import ArrayType

Dims = tuple[int, ...]
Indices = Value | np.ndarray


class GatherScatterMode(Enum):
    """What becomes of an index beyond the bounds: moved to the next one inside, or filled in (get) and dropped (set)."""

    CLIP = 'clip'
    FILL_OR_DROP = 'fill'
    PROMISE_IN_BOUNDS = 'promise_in_bounds'

    @staticmethod
    def from_any(mode: 'str | GatherScatterMode | None') -> 'GatherScatterMode':
        """A mode by its name; None fills and drops."""
        if isinstance(mode, GatherScatterMode):
            return mode
        names = {None: 'fill', 'drop': 'fill'}
        try:
            return GatherScatterMode(names.get(mode, mode))
        except ValueError:
            raise ValueError(f'Unknown gather mode "{mode}": it is one of clip, fill, drop, promise_in_bounds') from None


class GatherDimensionNumbers(NamedTuple):
    """How operand, indices and result of a gather go together.

    `offset_dims`: dimensions of the result that windows have. `collapsed_slice_dims`: operand dimensions that are dropped from
    windows. `start_index_map`: the operand dimension for each entry of an index vector (the last dimension of the indices).
    `operand_batching_dims`, `start_indices_batching_dims`: dimensions that operand and indices share.
    """

    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()


class ScatterDimensionNumbers(NamedTuple):
    """How operand, indices and updates of a scatter go together: as of a gather, whose result is the updates."""

    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    operand_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()


# ---- what all lookups and updates share

def bounds(mode: Any) -> str:
    """'clip' or 'fill', as the primitives have it. A promise that no index is out of bounds is not relied on."""
    return 'fill' if GatherScatterMode.from_any(mode) is GatherScatterMode.FILL_OR_DROP else 'clip'


def filling(dtype: np.dtype, value: Any = None) -> np.generic:
    """The number for elements that are not there: NaN, or the least integer, or for unsigned ones the greatest."""
    return _filling(dtype, None if value is None or value != value else dtype.type(value))


@lru_cache(maxsize=256)          # one NaN for all calls of a dtype, since a NaN equals no other and is part of a key
def _filling(dtype: np.dtype, value: Any) -> np.generic:
    if value is not None:
        return value
    if dtypes.is_float(dtype):
        return dtype.type(np.nan)
    if dtype.kind in 'iu':
        info = np.iinfo(dtype)
        return dtype.type(info.min if dtype.kind == 'i' else info.max)
    return dtype.type(True) if dtype.kind == 'b' else np.zeros((), dtype)[()]


def wrapped(name: str, index: Any, n: int) -> Indices:
    """Indices of a dimension of n elements, negative ones counted from its end."""
    if isinstance(index, Value):
        t = typeof(index)
        _check_integers(name, t)
        if t.dtype.kind == 'u':
            return index
        wide = _as_index(index)
        dtype = typeof(wide).dtype
        return kindly(compare.select_n, kindly(compare.lt, wide, dtype.type(0)), wide, kindly(arithmetic.add, wide, dtype.type(n)))
    index = np.asarray(index)
    if not index.size:
        index = index.astype(np.int32)
    _check_integers(name, typeof(index))
    return np.where(index < 0, index + n, index).astype(dtypes.canonical(np.int64))


def _check_integers(name: str, t: ArrayType) -> None:
    if t.dtype.kind not in 'iu':
        raise TypeError(f"{name}: indices are integers (or truth values), got {t}")
    if t.unreduced:
        over = ', '.join(sorted(t.unreduced))
        raise ShardingTypeError(f"{name} takes indices that are known on each rank, got {t}, whose sum over {over} is still to "
                                "come: it is a non-linear operation of them and cannot accept input that is unreduced. Reduce "
                                "them first: reshard(index, P(...)) without unreduced.")


def _as_index(x):
    """Small integers are too small for positions."""
    dtype = typeof(x).dtype
    wide = np.dtype(np.int64 if dtype.itemsize == 8 else np.int32)
    return x if dtype == wide else convert_element_type(x, new_dtype=wide, weak_type=False)


def vectors(components: Sequence[Indices], shape: Dims) -> Value:
    """Index vectors [shape..., k] from k arrays that broadcast to the shape."""
    if all(isinstance(c, np.ndarray) for c in components):
        dtype = dtypes.canonical(np.int64)
        stack = [np.broadcast_to(c, shape) for c in components]
        return as_value(np.stack(stack, -1) if stack else np.zeros((*shape, 0), dtype), 'indexing')
    xs = []
    for c in components:
        x = _as_index(as_value(c, 'indexing'))
        if x.shape != shape:
            x = lax_shape.broadcast_in_dim(x, shape, range(len(shape) - x.ndim, len(shape)))
        xs.append(lax_shape.expand_dims(x, (len(shape),)))
    if len({x.dtype for x in xs}) > 1:
        xs = [convert_element_type(x, new_dtype=np.dtype(np.int64), weak_type=False) for x in xs]
    return slicing.concatenate(xs, len(shape))


def unmarked(index: Value) -> Value:
    """Indices without a mark for their cotangents, which they have none: so they leave no mark on what is looked up."""
    t = typeof(index)
    gone = t.reduced.difference(t.mesh.manual_axes)
    return cast(index, t.update(reduced=t.reduced - gone)) if gone else index


def looked_up(x: Value, indices: Value, windows: Windows, sizes: Dims, *, mode: str, fill: np.generic,
              out_sharding: Sharding = None, settled: bool = True) -> Value:
    """The windows of an array at index vectors. With an `out_sharding`, or not `settled`, indices give way to what is split."""
    indices = unmarked(indices)
    t, i = typeof(x), typeof(indices)
    free = settled and out_sharding is None
    shared = dict(zip(windows.start_indices_batching_dims, windows.operand_batching_dims, strict=True))
    picked = windows.start_index_map
    claimed = {a for d, axes in enumerate(t.partitions) if d in picked or not free for a in axes}
    giving = [j for j, axes in enumerate(i.partitions[:-1])
              if claimed.difference(t.partitions[shared[j]] if j in shared else ()).intersection(axes)]
    indices = whole_along(indices, giving)
    y = kindly(ops.gather, x, indices, windows=windows, slice_sizes=sizes, mode=mode, fill=fill)
    if not settled:
        return y
    if out_sharding is not None or not giving:
        return with_sharding(settle(y, x) if out_sharding is None else y, out_sharding)
    return _given_back(y, t, i, giving, windows)


def _given_back(y: Value, x: ArrayType, indices: ArrayType, giving: list[int], windows: Windows) -> Value:
    """The result split as the indices were before they gave way: a reduce-scatter."""
    out = typeof(y)
    places = [d for d in range(out.ndim) if d not in windows.offset_dims]
    again = {places[j]: indices.partitions[j] for j in giving}
    split = {a for axes in again.values() for a in axes}
    return cast(y, out.update(partitions=tuple(again.get(d, axes) for d, axes in enumerate(out.partitions)),
                              unreduced=x.unreduced, reduced=out.reduced - split, kind=x.kind if x.unreduced else 'sum'))


def at_home(y: Value, t: ArrayType) -> Value:
    """The result of an update as the operand lay, along explicit axes: an array that is updated stays where it is."""
    out = typeof(y)
    manual = set(out.mesh.manual_axes)
    if out.mesh.empty:
        return y
    unreduced = (out.unreduced & manual) | (t.unreduced - manual)
    reduced = (out.reduced & manual) | (t.reduced - manual)
    return cast(y, out.update(partitions=t.partitions, unreduced=unreduced, reduced=reduced, kind=out.kind if unreduced else 'sum'))


def updated(primitive: Primitive, x: Value, indices: Value, updates: Value, windows: Windows, sizes: Dims, *, mode: str,
            out_sharding: Sharding = None) -> Value:
    """The array with its windows at index vectors changed by the updates."""
    t = typeof(x)
    if out_sharding is not None:
        x = _laid_as(x, wanted(t, out_sharding), typeof(updates), primitive)
    updates = _beside(primitive, typeof(x), updates, windows, sizes)
    y = scattered(primitive, x, unmarked(indices), updates, windows=windows, slice_sizes=sizes, mode=mode)
    return at_home(y, t) if out_sharding is None else with_sharding(y, out_sharding)


def scattered(primitive: Primitive, x: Value, indices: Value, updates: Value, **params: Any) -> Value:
    """A scatter; where updates of an extremum are split over places, one all-reduce takes it over the ranks.

    Its derivative looks for the winners among the updates of all ranks.
    """
    by_place = [axes for v, beside in ((indices, (indices.ndim - 1,)), (updates, params['windows'].offset_dims))
                for d, axes in enumerate(typeof(v).partitions) if d not in beside]
    if primitive not in (scattering.scatter_min, scattering.scatter_max) or not any(by_place):
        return kindly(primitive, x, indices, updates, **params)

    def rule(primals, tangents):
        x, indices, u = primals
        y = scattered(primitive, x, indices, u, **params)

        def won(t):
            return settle(kindly(scattering.add_winners, t, indices, u, y, **params), t)

        x_wins = convert_element_type(kindly(compare.eq, x, y), new_dtype=y.dtype, weak_type=False)
        count = kindly(arithmetic.add, x_wins, won(full_like(u, 1)))
        tx, tu = instantiated(tangents[0]), instantiated(tangents[2])
        t = kindly(arithmetic.div, kindly(arithmetic.add, kindly(arithmetic.mul, tx, x_wins), won(tu)), count)
        return [y], [placed(t, typeof(y))]

    return call_custom_jvp(lambda x, i, u: [settle(kindly(primitive, x, i, u, **params), x)], rule, [x, indices, updates])[0]


def _laid_as(x: Value, goal: ArrayType, updates: ArrayType, primitive: Primitive) -> Value:
    """The array laid as its update shall be, before it is updated; but a sum is made once, and what is split alike is
    gathered once, afterwards."""
    t = typeof(x)
    if t.unreduced - goal.unreduced or t.split_axes & updates.split_axes or goal.unreduced and primitive is not ops.scatter_add:
        return x
    return cast(x, goal.update(reduced=goal.reduced | (t.reduced - goal.split_axes - goal.unreduced)))


def _beside(primitive: Primitive, t: ArrayType, updates: Value, windows: Windows, sizes: Dims) -> Value:
    """Updates in states that go with the operand's, which stays as it is.

    Summands are reduced where the operand is whole; a whole update of a sum counts once; dimensions of windows are split as the
    operand's are.
    """
    u = typeof(updates)
    mesh = u.mesh if t.mesh.empty else t.mesh
    if mesh.empty or u.ndim == 0 and u.mesh.empty:
        return updates
    explicit = {a for a in mesh.axis_names if a not in mesh.manual_axes}
    lone = explicit & (u.unreduced - t.unreduced)
    owing = explicit & (t.unreduced - u.unreduced - u.split_axes) if primitive is ops.scatter_add else frozenset()
    unreduced, kind = (u.unreduced - lone) | owing, t.kind if t.unreduced else 'sum'
    partitions = list(u.partitions)
    for to, d in zip(windows.offset_dims, windows.window_dims(t.ndim), strict=True):
        partitions[to] = t.partitions[d] if sizes[d] == t.shape[d] else ()
    taken = {a for d in windows.offset_dims for a in partitions[d]}
    partitions = [axes if d in windows.offset_dims else tuple(a for a in axes if a not in taken) for d, axes in enumerate(partitions)]
    split = {a for axes in partitions for a in axes}
    if split & unreduced:
        return updates
    return cast(updates, u.update(mesh=mesh, partitions=partitions, unreduced=unreduced, kind=kind if unreduced else 'sum',
                                  reduced=u.reduced - split - unreduced))


# ---- under the names of jax.lax

def gather(operand, start_indices, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int], *,
           unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None, fill_value: Any = None) -> Value:
    """Windows of an array at index vectors.

    operand: [n, ..]; start_indices: integers [b.., k], the first corners of windows of `slice_sizes`; dimension_numbers: see
    `GatherDimensionNumbers`. The result has dimensions b.. and those of the windows, split as in indices and operand; windows beyond
    the bounds are NaN (or the least integer, or `fill_value`), or with mode 'clip' moved inside.
    Communication: an all-reduce of the result where a dimension that is picked from one by one is split. Unreduced operands stay
    so. Raises ShardingTypeError for unreduced indices and for windows that cut a split dimension.

        gather(jnp.arange(6.).reshape(3, 2), [[2], [0]], GatherDimensionNumbers((1,), (0,), (0,)), (1, 2))     # 4., 5., 0., 1.
    """
    x = as_value(operand, 'gather')
    indices = _integers('gather', start_indices)
    numbers = dimension_numbers
    windows = Windows(offset_dims=tuple(numbers.offset_dims), collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
                      start_index_map=tuple(numbers.start_index_map), operand_batching_dims=tuple(numbers.operand_batching_dims),
                      start_indices_batching_dims=tuple(numbers.start_indices_batching_dims))
    return looked_up(x, indices, windows, tuple(slice_sizes), mode=bounds(mode), fill=filling(x.dtype, fill_value))


def _integers(name: str, indices) -> Value:
    indices = as_value(np.asarray(indices) if isinstance(indices, (list, tuple)) else indices, name)
    _check_integers(name, typeof(indices))
    return indices


def _scatter(primitive: Primitive, what: str):
    def f(operand, scatter_indices, updates, dimension_numbers: ScatterDimensionNumbers, *, indices_are_sorted: bool = False,
          unique_indices: bool = False, mode: Any = None) -> Value:
        x = as_value(operand, f.__name__)
        indices = _integers(f.__name__, scatter_indices)
        u = x.dtype.type(updates) if is_scalar(updates) else updates
        u = as_value(u, f.__name__)
        windows = _windows_of(dimension_numbers)
        kept = iter(u.shape[d] for d in windows.offset_dims)
        whole = windows.window_dims(x.ndim)
        sizes = tuple(next(kept, 1) if d in whole else 1 for d in range(x.ndim))
        return updated(primitive, x, indices, u, windows, sizes, mode=bounds(mode))
    f.__name__ = f.__qualname__ = primitive.name.replace('-', '_')
    f.__doc__ = f"""{what}

    operand: [n, ..]; scatter_indices: integers [b.., k], the first corners of windows; updates: dimensions b.. and those of the
    windows, of the operand's dtype; dimension_numbers: see `ScatterDimensionNumbers`. The result lies as the operand. Windows
    beyond the bounds are dropped, or with mode 'clip' moved inside.
    Communication: none where updates are whole; updates of a sum or of an extremum that are split over the places b.. take an
    all-reduce of the result. Raises ShardingTypeError for unreduced indices, and for states of operand and updates that do not go
    together.

        {f.__name__}(jnp.ones(3), [[2]], jnp.zeros(1), ScatterDimensionNumbers((), (0,), (0,)))
    """
    return f


def _windows_of(numbers: ScatterDimensionNumbers) -> Windows:
    return Windows(offset_dims=tuple(numbers.update_window_dims), collapsed_slice_dims=tuple(numbers.inserted_window_dims),
                   start_index_map=tuple(numbers.scatter_dims_to_operand_dims),
                   operand_batching_dims=tuple(numbers.operand_batching_dims),
                   start_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims))


scatter = _scatter(ops.scatter, 'Windows of an array replaced by updates; of several for one place the last is there.')
scatter_add = _scatter(ops.scatter_add, 'Updates added to windows of an array; several for one place add up.')
scatter_mul = _scatter(scattering.scatter_mul, 'Windows of an array multiplied by updates; with several for one place by all of them.')
scatter_min = _scatter(scattering.scatter_min, 'The lesser of windows of an array and updates.')
scatter_max = _scatter(scattering.scatter_max, 'The greater of windows of an array and updates.')


def scatter_sub(operand, scatter_indices, updates, dimension_numbers: ScatterDimensionNumbers, **options) -> Value:
    """Updates subtracted from windows of an array. See `scatter_add`.

        scatter_sub(jnp.ones(3), [[2]], jnp.ones(1), ScatterDimensionNumbers((), (0,), (0,)))       # 1., 1., 0.
    """
    negative = -updates if is_scalar(updates) else arithmetic.neg(as_value(updates, 'scatter_sub'))
    return scatter_add(operand, scatter_indices, negative, dimension_numbers, **options)


def index_take(src, idxs: Sequence, axes: Sequence[int]) -> Value:
    """Parts of an array at indices of some dimensions, which become one dimension in front.

    src: [n, ..]; idxs: integers [b], one array for each of `axes`. See `gather`.

        index_take(jnp.arange(6.), (np.array([0, 2]),), (0,))      # 0., 2.
    """
    x = as_value(src, 'index_take')
    dims = dims_of('index_take', axes, x.ndim)
    indices = vectors([wrapped('index_take', i, x.shape[d]) for i, d in zip(idxs, dims, strict=True)], np.shape(idxs[0]))
    windows = Windows(offset_dims=tuple(range(1, x.ndim - len(dims) + 1)), collapsed_slice_dims=tuple(sorted(dims)),
                      start_index_map=dims)
    sizes = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    return looked_up(x, indices, windows, sizes, mode='clip', fill=filling(x.dtype))


__all__ = ['GatherDimensionNumbers', 'GatherScatterMode', 'ScatterDimensionNumbers', 'gather', 'index_take', 'scatter',
           'scatter_add', 'scatter_max', 'scatter_min', 'scatter_mul', 'scatter_sub']
