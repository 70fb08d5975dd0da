"""Manual mode: the collectives besides the sums, each with its adjoint beside it.

    all_gather            V -> V   <->   V -> V   reduce_scatter
    all_gather_reduced    V -> R   <->   U -> V   unreduced_reduce_scatter
    all_gather_invariant  V -> I   <->   I -> V   own_part (local)
    all_to_all            V -> V   <->   all_to_all with its dimensions exchanged
    ppermute              V -> V   <->   ppermute with its pairs turned round
    pmax, pmin            V -> I         the tangent of the winner, shared by ties

All take any number of values, which travel in one message for each dtype.
"""

from collections.abc import Callable

import numpy as np

from distad.core.batching import EACH, alike
from distad.core.primitive import Message, NoRule, Place, Primitive
from distad.core.value import Zero, typeof
from distad.ops.arithmetic import div, mul
from distad.ops.casts import (
    NAMES,
    UNTRACKED,
    Axes,
    changed,
    check_sum,
    manual_state,
    n_ary,
    n_ary_jvp,
    psum_invariant,
    pvary,
    reduction,
    sends,
)
from distad.ops.compare import eq
from distad.ops.convert import convert_element_type
from distad.runtime import collectives, mpi
from distad.runtime.packing import rows_together, together
from distad.runtime.permute import permute
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE


def _sent(name: str, x: ArrayType, axes: Axes, source: str, dims: tuple[int, ...]) -> int:
    """Check one operand; the number of ranks over the axes. `dims` must not be split over other axes."""
    state = manual_state(name, x, axes)
    if state not in (source, UNTRACKED):
        raise ValueError(f"{name} takes a value {NAMES[source]} over {', '.join(axes)}, got {x}, which is {NAMES[state]}.")
    for d in dims:
        if not 0 <= d < x.ndim:
            raise ValueError(f"{name}: {x} has no dimension {d}")
        if x.partitions[d]:
            raise ValueError(f"{name} works along dimension {d} of {x}, which is split over {x.partitions[d]}. Gather it with "
                             "reshard first.")
    return x.mesh.axis_size(axes)


def _group(place: Place, axes: Axes):
    return mpi.group(place.mesh, axes)


# ---- all_gather and reduce_scatter

def _gathered(name: str, target: str) -> Callable:
    def rule(*types: ArrayType, axes: Axes, dimension: int, tiled: bool):
        out = []
        for x in types:
            n = _sent(name, x, axes, 'V', (dimension,) if tiled else ())
            y = changed(x, axes, target)
            if tiled:
                out.append(y.update(shape=_resized(x.shape, dimension, x.shape[dimension] * n)))
            else:
                shape = (*x.shape[:dimension], n, *x.shape[dimension:])
                out.append(y.update(shape=shape, partitions=(*x.partitions[:dimension], (), *x.partitions[dimension:])))
        return tuple(out)
    return rule


def _resized(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1:])


def _scattered(name: str, source: str) -> Callable:
    def rule(*types: ArrayType, axes: Axes, dimension: int, tiled: bool, exact: bool = False):
        out = []
        for x in types:
            n = _sent(name, x, axes, source, (dimension,))
            if source != 'N':
                check_sum(name, x)
            y = changed(x, axes, 'V')
            if tiled:
                if x.shape[dimension] % n:
                    raise ValueError(f"{name}: dimension {dimension} of {x} is not divisible by the {n} ranks over "
                                     f"{', '.join(axes)}")
                out.append(y.update(shape=_resized(x.shape, dimension, x.shape[dimension] // n)))
            else:
                if x.shape[dimension] != n:
                    raise ValueError(f"{name} without tiled=True takes a dimension of the size {n} of {', '.join(axes)}, "
                                     f"dimension {dimension} of {x} has {x.shape[dimension]}")
                out.append(y.update(shape=(*x.shape[:dimension], *x.shape[dimension + 1:]),
                                    partitions=(*x.partitions[:dimension], *x.partitions[dimension + 1:])))
        return tuple(out)
    return rule


def _gather_kernel(place: Place, ins, outs, params) -> Callable:
    d = params['dimension']
    made = [place.out(t) for t in outs]
    shapes = [place.out(t).shape for t in ins]

    if len(ins) == 1:
        return lambda block: [collectives.all_gather_along(_group(place, params['axes']), block, d, made[0].shape, where=place)]

    def after(rows, i):
        y = np.moveaxis(rows.reshape(-1, *shapes[i]), 0, d)
        return y.reshape(made[i].shape)

    return rows_together(lambda rows: collectives.all_gather(_group(place, params['axes']), rows[0], where=place),
                         lambda block: np.ascontiguousarray(block).reshape(1, -1), after)


def _scatter_kernel(place: Place, ins, outs, params) -> Callable:
    made = [place.out(t) for t in outs]
    group = _group(place, params['axes'])

    def before(block):
        return _cut(block, group.size, params['dimension']).reshape(group.size, -1)

    def add(rows):
        return collectives.reduce_scatter(group, np.ascontiguousarray(rows), reduction(params), where=place)

    return rows_together(add, before, lambda part, i: part.reshape(made[i].shape))


def _cut(block: np.ndarray, n: int, dim: int) -> np.ndarray:
    """The n parts of a block along a dimension, in front: [n, ...]."""
    shape = block.shape
    parts = block.reshape(*shape[:dim], n, shape[dim] // n, *shape[dim + 1:])
    return np.moveaxis(parts, dim, 0)


def _pair(name: str, kind: str | None, type_rule: Callable, kernel: Callable, adjoint: Callable[[], Primitive]) -> Primitive:
    made: list[Primitive] = []
    made.append(Primitive(name, type=type_rule, kernel=kernel, jvp=n_ary_jvp(lambda: made[0]),
                          transpose=n_ary(lambda cts, xs, *, exact=False, **params: adjoint()(*cts, **params)),
                          batch=alike('dimension'), linearity=ADDITIVE, multiple=True, messages=None if kind is None else sends(kind)))
    return made[0]


all_gather = _pair('all_gather', 'all-gather', _gathered('all_gather', 'V'), _gather_kernel, lambda: reduce_scatter)
reduce_scatter = _pair('reduce_scatter', 'reduce-scatter', _scattered('psum_scatter', 'V'), _scatter_kernel, lambda: all_gather)

all_gather_reduced = _pair('all_gather_reduced', 'all-gather', _gathered('all_gather', 'R'), _gather_kernel,
                           lambda: unreduced_reduce_scatter)
unreduced_reduce_scatter = _pair('unreduced_reduce_scatter', 'reduce-scatter', _scattered('psum_scatter', 'U'), _scatter_kernel,
                                 lambda: all_gather_reduced)


def _own_kernel(place: Place, ins, outs, params) -> Callable:
    made = [place.out(t) for t in outs]
    group = _group(place, params['axes'])
    return lambda *blocks: [_cut(np.asarray(b), group.size, params['dimension'])[group.index].reshape(out.shape)
                            for b, out in zip(blocks, made, strict=True)]


all_gather_invariant = _pair('all_gather_invariant', 'all-gather', _gathered('all_gather', 'N'), _gather_kernel, lambda: own_part)
own_part = _pair('own_part', None, _scattered('own_part', 'N'), _own_kernel, lambda: all_gather_invariant)


# ---- all_to_all

def _exchange_type(*types: ArrayType, axes: Axes, split_axis: int, concat_axis: int):
    out = []
    for x in types:
        n = _sent('all_to_all', x, axes, 'V', (split_axis, concat_axis))
        if x.shape[split_axis] % n:
            raise ValueError(f"all_to_all: dimension {split_axis} of {x} is not divisible by the {n} ranks over {', '.join(axes)}")
        shape = _resized(x.shape, split_axis, x.shape[split_axis] // n)
        out.append(x.update(shape=_resized(shape, concat_axis, shape[concat_axis] * n)))
    return tuple(out)


def _exchange_kernel(place: Place, ins, outs, params) -> Callable:
    split_axis, concat_axis = params['split_axis'], params['concat_axis']
    made = [place.out(t) for t in outs]
    shapes = [place.out(t).shape for t in ins]
    group = _group(place, params['axes'])

    def after(rows, i):
        part = _resized(shapes[i], split_axis, shapes[i][split_axis] // group.size)
        return np.moveaxis(rows.reshape(group.size, *part), 0, concat_axis).reshape(made[i].shape)

    return rows_together(lambda rows: collectives.all_to_all(group, np.ascontiguousarray(rows), where=place),
                         lambda block: _cut(block, group.size, split_axis).reshape(group.size, -1), after)


all_to_all = Primitive(
    'all_to_all', type=_exchange_type, kernel=_exchange_kernel, jvp=n_ary_jvp(lambda: all_to_all),
    transpose=n_ary(lambda cts, xs, *, axes, split_axis, concat_axis:
                    all_to_all(*cts, axes=axes, split_axis=concat_axis, concat_axis=split_axis)),
    batch=alike('split_axis', 'concat_axis'), linearity=ADDITIVE, multiple=True, messages=sends('all-to-all'))


# ---- ppermute

def _permute_type(*types: ArrayType, axes: Axes, perm: tuple[tuple[int, int], ...]):
    for x in types:
        n = _sent('ppermute', x, axes, 'V', ())
        sources, targets = [s for s, _ in perm], [d for _, d in perm]
        if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
            raise ValueError(f"ppermute: sources and destinations must be unique, got {list(perm)}")
        if any(not 0 <= i < n for i in (*sources, *targets)):
            raise ValueError(f"ppermute: {list(perm)} names ranks outside 0 to {n - 1} over {', '.join(axes)}")
    return types


def _permute_kernel(place: Place, ins, outs, params) -> Callable:
    group = _group(place, params['axes'])
    return together(lambda flat, given: permute(group, flat, params['perm'], where=place))


def _permuted(ins, outs, params) -> list[Message]:
    """Where every block stays or goes nowhere, nobody sends."""
    return [] if all(s == d for s, d in params['perm']) else sends('collective-permute')(ins, outs, params)


ppermute = Primitive(
    'ppermute', type=_permute_type, kernel=_permute_kernel, jvp=n_ary_jvp(lambda: ppermute),
    transpose=n_ary(lambda cts, xs, *, axes, perm: ppermute(*cts, axes=axes, perm=tuple((d, s) for s, d in perm))),
    batch=EACH, linearity=ADDITIVE, multiple=True, messages=_permuted)


# ---- pmax and pmin

def _extremum(kind: str, source: str, name: str) -> Primitive:
    def rule(*types: ArrayType, axes: Axes):
        for x in types:
            _sent(f"p{kind}", x, axes, source, ())
            if x.unreduced and x.kind != kind:
                raise ValueError(f"p{kind} of a value whose {x.kind} is still to come, got {x}. Reduce that first.")
        return tuple(changed(x, axes, 'N') for x in types)

    def kernel(place: Place, ins, outs, params) -> Callable:
        return together(collectives.reducer(place.mesh, params['axes'], kind, place))

    def jvp(primals, tangents, *, axes: Axes):
        outs = made[0](*primals, axes=axes)
        return outs, [Zero(typeof(y).tangent()) if t.__class__ is Zero else _share(t, y, x, axes)
                      for t, y, x in zip(tangents, outs, primals, strict=True)]

    made = [Primitive(name, type=rule, kernel=kernel, transpose=NoRule('it is not linear'), batch=EACH, multiple=True,
                      messages=sends('all-reduce'),
                      jvp=jvp if source == 'V' else NoRule(f"the {kind} is still to come; reduce before differentiating"))]
    return made[0]


def _share(t, y, x, axes: Axes):
    """The mean of the winners' tangents."""
    wins = convert_element_type(eq(x, pvary(y, axes=axes)), new_dtype=typeof(x).dtype, weak_type=False)
    total, = psum_invariant(mul(t, wins), axes=axes)         # not in one message with the count: that is no linear function
    count, = psum_invariant(wins, axes=axes)                 # of the tangent
    return div(total, count)


pmax = _extremum('max', 'V', 'pmax')
pmin = _extremum('min', 'V', 'pmin')
unreduced_pmax = _extremum('max', 'U', 'unreduced_pmax')
unreduced_pmin = _extremum('min', 'U', 'unreduced_pmin')


# ---- axis_index

def _index_kernel(place: Place, ins, outs, params) -> Callable:
    coords, index = place.mesh.coords(mpi.rank()), 0
    for axis in params['axes']:
        index = index * place.mesh.shape[axis] + coords[axis]
    value = np.int32(index)
    return lambda: value


axis_index = Primitive(
    'axis_index',
    type=lambda *, axes, mesh: ArrayType((), np.int32).update(mesh=mesh, varying=frozenset(axes) & frozenset(mesh.manual_axes)),
    kernel=_index_kernel,
    jvp=(),
    transpose=NoRule('it has no operands'),
    batch=NoRule('it has no operands'))
