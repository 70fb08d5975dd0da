"""Collectives and casts of manual mode, and over axes that vmap maps, under the names of jax.lax.

Values that are the same on all ranks along an axis (I) are cast to varying ones (V) where a collective needs that; the cast is
free and an equation. Every function takes a pytree, whose leaves travel in one message for each dtype; several axes are one
collective over all their ranks, the first axis the major one. Names of mapped axes may stand among those of mesh axes: over a
mapped axis the elements of the batch take the place of the ranks, and nothing is sent but where the batch is split.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distad import tree
from distad.core.lift import as_value
from distad.core.value import Value, is_scalar
from distad.lax import mapped_axes
from distad.lax.axis_names import Axes, Names, split
from distad.lax.kind import kindly, settle
from distad.lax.mapped_axes import dimension as _dimension
from distad.ops import casts, collectives, mapped_axis
from distad.ops.arithmetic import add, div, mul
from distad.ops.broadcast import reduce_sum
from distad.ops.cast import cast
from distad.ops.compare import eq, select_n
from distad.ops.convert import convert_element_type
from distad.ops.shape import squeeze, transpose
from distad.types import dtypes
from distad.types.array_type import axis_state
from distad.types.mesh import get_abstract_mesh


def _no_groups(name: str, groups: None) -> None:
    if groups is not None:
        raise NotImplementedError(f"{name}: groups of ranks of one axis are not supported. Make the mesh with two axes in place of "
                                  "the one, and communicate over one of them.")


def _values(name: str, x: Any) -> tuple[list, Any]:
    flat, structure = tree.flatten(x)
    return [_here(as_value(v, name)) for v in flat], structure


def _here(x: Value) -> Value:
    """A value that was never placed is the same on all ranks of the mesh around."""
    return x if not x.type.mesh.empty else cast(x, x.type.update(mesh=get_abstract_mesh()))


def _varying(name: str, x: Value, axes: tuple[str, ...]) -> Value:
    """A value that varies over all the axes: copies are cast, others refused."""
    t = x.type
    for axis in axes:
        state = axis_state(t, axis)
        if state in 'UR':
            raise ValueError(f"{name} takes a varying value, got {t}, which is {casts.NAMES[state]} over {axis}. "
                             + ('Sum it with psum or psum_scatter.' if state == 'U' else
                                f"Cast it: pcast(x, {axis!r}, to='varying')."))
    plain = tuple(a for a in axes if axis_state(t, a) == 'N' and a in t.mesh.manual_axes)
    return casts.pvary(x, axes=plain) if plain else x


def psum(x: Any, axis_name: Axes, *, axis_index_groups: None = None, exact: bool = False) -> Any:
    """The sum over the ranks along mesh axes, the same on all of them.

    x: a pytree of arrays, varying or unreduced over the axes (a value that is the same on all ranks is multiplied by their
    number). axis_name: may name mapped axes too, and hold ints, dimensions that are summed as well. exact: each element is the
    exact sum of the ranks' values, rounded once to its dtype, so its bits depend neither on the order of the ranks nor on how the
    axes arrange them (`distad.runtime.exact` has method and source).
    Communication: one all-reduce for each dtype; none for Python numbers, which are multiplied by the axis size; an exact one
    is an all-to-all of the summands and an all-gather of the sums (6 times slower for 4 MB on 4 ranks, as fast for small arrays).
    Raises ValueError for reduced values and for values in unlike states over the axes.

        total = lax.psum(x.sum(), 'X')
        total = lax.psum(x.sum(), 'X', exact=True)
    """
    names = split('psum', axis_name, positional=True)
    _no_groups('psum', axis_index_groups)
    flat, structure = tree.flatten(x)
    if not names.runs and not names.dims:
        return x
    if not names.dims and all(is_scalar(v) or isinstance(v, np.ndarray) for v in flat):
        return tree.unflatten(structure, [v * names.size for v in flat])
    values = [_summed_here(as_value(v, 'psum'), names) for v in flat]
    if not (axes := names.axes):
        return tree.unflatten(structure, values)
    values = list(map(_here, values))
    states = [casts.manual_state('psum', v.type, axes) for v in values]
    if 'R' in states:
        bad = values[states.index('R')]
        raise ValueError(f"psum of a reduced value, got {bad.type}: it is the sum already. Cast it with pcast(x, axis, "
                         "to='varying') to sum its copies.")
    values = [casts.pvary(v, axes=axes) if s == 'N' else v for v, s in zip(values, states, strict=True)]
    out: list = [None] * len(values)
    kinds = [{'U': casts.unreduced_psum, casts.UNTRACKED: casts.psum}.get(s, casts.psum_invariant) for s in states]
    for primitive in dict.fromkeys(kinds):
        at = [i for i, kind in enumerate(kinds) if kind is primitive]
        for i, y in zip(at, primitive(*(values[i] for i in at), axes=axes, **_exact(exact)), strict=True):
            out[i] = y
    return tree.unflatten(structure, out)


def _summed_here(v: Value, names: Names) -> Value:
    """The sum over dimensions and mapped axes: what is left is to be summed over ranks."""
    if v.dtype == bool:
        v = convert_element_type(v, new_dtype=np.dtype(np.int32), weak_type=False)
    if names.dims:
        v = settle(reduce_sum(v, axes=tuple(_dimension(v, d) for d in names.dims)), v)
    return mapped_axes.summed(v, names.mapped)


def _exact(exact: bool) -> dict:
    """The parameter of a sum, which is there where it says something."""
    return {'exact': True} if exact else {}


def pmean(x: Any, axis_name: Axes, *, axis_index_groups: None = None) -> Any:
    """The mean over the ranks along mesh axes: psum divided by their number. One all-reduce for each dtype."""
    _no_groups('pmean', axis_index_groups)
    n = axis_size(axis_name)
    x = tree.map(lambda v: as_value(v, 'pmean'), x)
    return tree.map(lambda v: _divided(v, n), psum(x, axis_name))


def _divided(v: Value, n: int) -> Value:
    if not dtypes.is_float(v.dtype):
        v = convert_element_type(v, new_dtype=dtypes.canonical(np.float64), weak_type=False)
    return div(v, v.dtype.type(n))


def _extremum(name: str) -> Callable:
    plain, pending = getattr(collectives, name), getattr(collectives, f"unreduced_{name}")

    def f(x: Any, axis_name: Axes) -> Any:
        names = split(name, axis_name)
        if names.mapped:
            x = tree.map(lambda v: mapped_axes.extremum(as_value(v, name), names.mapped, name[1:]), x)
        if not (axes := names.axes):
            return x
        values, structure = _values(name, x)
        if values and all(v.type.unreduced >= set(axes) and v.type.kind == name[1:] for v in values):
            return tree.unflatten(structure, pending(*values, axes=axes))
        return tree.unflatten(structure, plain(*(_varying(name, v, axes) for v in values), axes=axes))

    f.__name__ = name
    f.__doc__ = f"""The {name[1:]}imum over the ranks along mesh axes, the same on all of them; NaN where one is.

    x: a pytree of arrays. Communication: one all-reduce for each dtype. Its tangent is the winner's, the mean of the winners'
    where there are several.
    """
    return f


pmax, pmin = _extremum('pmax'), _extremum('pmin')


def all_gather(x: Any, axis_name: Axes, *, axis: int = 0, tiled: bool = False, to: str = 'varying',
               axis_index_groups: None = None) -> Any:
    """Every rank's block, on all ranks along mesh axes.

    x: a pytree of arrays [..., k, ...], varying over the axes. The blocks stand along a new dimension `axis`, or, `tiled`, one
    after the other along the existing one. `to`: the state of the result, 'varying', 'invarying' (its cotangent is cut) or
    'reduced' (its cotangent is reduce-scattered, with the sum made only there). Communication: one all-gather for each dtype.

        w = lax.all_gather(w_block, 'X', tiled=True, to='reduced')
    """
    names = split('all_gather', axis_name)
    _no_groups('all_gather', axis_index_groups)
    kinds = {'varying': collectives.all_gather, 'invarying': collectives.all_gather_invariant,
             'reduced': collectives.all_gather_reduced}
    if to not in kinds:
        raise ValueError(f"all_gather: to is one of {', '.join(kinds)}, got {to!r}")
    if names.mapped:
        for runs, flat in ((names.runs[-1:], tiled), (names.runs[-2::-1], True)):
            x = mapped_axes.in_turn('all_gather', x, runs, lambda v, run: mapped_axes.gathered(v, run, axis, flat),  # noqa: B023
                                    lambda x, axes: all_gather(x, axes, axis=axis, tiled=flat, to=to))               # noqa: B023
        return x
    axes = names.axes
    if set(axes) <= set(get_abstract_mesh().auto_axes):
        to = 'varying'
    values, structure = _values('all_gather', x)
    if to == 'reduced':
        for v in values:
            if casts.manual_state('all_gather', v.type, axes) != 'V':
                raise ValueError(f"all_gather(to='reduced') takes a varying value, got {v.type}")
    values = [_varying('all_gather', v, axes) for v in values]
    return tree.unflatten(structure, _by_place(values, [_dimension(v, axis, 0 if tiled else 1) for v in values],
                                               lambda vs, d: kinds[to](*vs, axes=axes, dimension=d, tiled=tiled)))


def _by_place(values: list, places: list, move: Callable[[list, Any], list]) -> list:
    """Values moved along dimensions: those of equal place together, in one message for each dtype."""
    out: list = [None] * len(values)
    for place in dict.fromkeys(places):
        at = [i for i, p in enumerate(places) if p == place]
        for i, y in zip(at, move([values[i] for i in at], place), strict=True):
            out[i] = y
    return out


def psum_scatter(x: Any, axis_name: Axes, *, scatter_dimension: int = 0, tiled: bool = False,
                 axis_index_groups: None = None, exact: bool = False) -> Any:
    """The sum over the ranks along mesh axes, each rank keeping its part along a dimension.

    x: a pytree of arrays, varying or unreduced. With `tiled` the dimension is cut into equal parts, otherwise it has the size
    of the axes and goes. exact: as for psum. Communication: one reduce-scatter for each dtype (exact: an all-to-all).
    """
    names = split('psum_scatter', axis_name)
    _no_groups('psum_scatter', axis_index_groups)
    if names.mapped:
        if not tiled:
            for v in tree.leaves(x):
                _check_size('psum_scatter', as_value(v, 'psum_scatter'), scatter_dimension, names)
        x = mapped_axes.in_turn(
            'psum_scatter', x, names.runs, lambda v, run: mapped_axes.scattered(v, run, scatter_dimension),
            lambda x, axes: psum_scatter(x, axes, scatter_dimension=scatter_dimension, tiled=True, exact=exact))
        return x if tiled else tree.map(lambda v: squeeze(v, dimensions=(_dimension(v, scatter_dimension),)), x)
    axes = names.axes
    values, structure = _values('psum_scatter', x)
    states = {casts.manual_state('psum_scatter', v.type, axes) for v in values}
    if states == {'U'}:
        primitive = collectives.unreduced_reduce_scatter
    else:
        primitive, values = collectives.reduce_scatter, [_varying('psum_scatter', v, axes) for v in values]
    return tree.unflatten(structure, _by_place(values, [_dimension(v, scatter_dimension) for v in values],
                                               lambda vs, d: primitive(*vs, axes=axes, dimension=d, tiled=tiled,
                                                                       **_exact(exact))))


def _check_size(name: str, v: Value, axis: int, names: Names) -> None:
    if v.shape[_dimension(v, axis)] != names.size:
        raise ValueError(f"{name} without tiled=True takes a dimension of the size {names.size} of "
                         f"{', '.join(run.label for run in names.runs)}, dimension {axis} of {v.type} has another")


def all_to_all(x: Any, axis_name: Axes, split_axis: int, concat_axis: int, *, tiled: bool = False,
               axis_index_groups: None = None) -> Any:
    """Cut each rank's block along one dimension, send part k to rank k, join what comes along another.

    x: a pytree of arrays, varying. Without `tiled` the split dimension has the size of the axes and goes, and a new one
    arises at `concat_axis`. Communication: one all-to-all for each dtype.
    """
    names = split('all_to_all', axis_name)
    _no_groups('all_to_all', axis_index_groups)
    if names.mapped:
        return tree.map(lambda v: _exchanged(as_value(v, 'all_to_all'), names, split_axis, concat_axis, tiled), x)
    values, structure, axes = *_values('all_to_all', x), names.axes
    values = [_varying('all_to_all', v, axes) for v in values]
    places = [(_dimension(v, split_axis), _dimension(v, concat_axis)) for v in values]
    if tiled:
        return tree.unflatten(structure, _by_place(values, places, lambda vs, place: collectives.all_to_all(
            *vs, axes=axes, split_axis=place[0], concat_axis=place[1])))
    for v in values:
        _check_size('all_to_all', v, split_axis, names)
    moved = _by_place(values, [source for source, _ in places],
                      lambda vs, d: collectives.all_to_all(*vs, axes=axes, split_axis=d, concat_axis=d))
    return tree.unflatten(structure, [_moved(y, *place) for y, place in zip(moved, places, strict=True)])


def _exchanged(v: Value, names: Names, split_axis: int, concat_axis: int, tiled: bool) -> Value:
    """One value, exchanged over mapped axes too."""
    source, target = _dimension(v, split_axis), _dimension(v, concat_axis)
    if not tiled:
        _check_size('all_to_all', v, split_axis, names)
    y = mapped_axes.exchanged(v, names.runs, source, target if tiled else source,
                              lambda v, axes, d: all_to_all(v, axes, d, d, tiled=True))
    return y if tiled else _moved(y, source, target)


def _moved(v: Value, source: int, target: int) -> Value:
    """A value with one dimension at another place."""
    order = [d for d in range(v.ndim) if d != source]
    order.insert(target, source)
    return transpose(v, permutation=tuple(order))


def ppermute(x: Any, axis_name: Axes, perm: Sequence[tuple[int, int]]) -> Any:
    """Send each rank's block along pairs `(source, destination)`; zeros where nothing comes.

    x: a pytree of arrays, varying. perm: pairs of ranks along the axes, each at most once as source and once as destination.
    Communication: at most one message out and one in for each dtype, by non-blocking send and receive.
    """
    names = split('ppermute', axis_name)
    pairs = tuple((int(s), int(d)) for s, d in perm)
    if names.mapped:
        if len(names.runs) > 1:
            raise NotImplementedError(f"ppermute over {', '.join(run.label for run in names.runs)}: over a mapped axis it goes over no "
                                      "other at the same time. Permute over one after the other.")
        return tree.map(lambda v: mapped_axes.permuted(as_value(v, 'ppermute'), names.runs[0], pairs), x)
    values, structure, axes = *_values('ppermute', x), names.axes
    values = [_varying('ppermute', v, axes) for v in values]
    return tree.unflatten(structure, collectives.ppermute(*values, axes=axes, perm=pairs) if values else [])


def pshuffle(x: Any, axis_name: Axes, perm: Sequence[int]) -> Any:
    """Rank i gets the block of rank `perm[i]`; `perm` is a permutation of all ranks along the axes."""
    n = axis_size(axis_name)
    if sorted(perm) != list(range(n)):
        raise ValueError(f"pshuffle: {list(perm)} is not a permutation of the {n} ranks")
    return ppermute(x, axis_name, [(s, i) for i, s in enumerate(perm)])


def pswapaxes(x: Any, axis_name: Axes, axis: int) -> Any:
    """Exchange a mesh axis with a dimension of its size: `all_to_all(x, axis_name, axis, axis)`."""
    return all_to_all(x, axis_name, axis, axis)


def pbroadcast(x: Any, axis_name: Axes, source: int) -> Any:
    """The block of one rank on all ranks along mesh axes, as varying value. x: varying. Communication: one all-reduce."""
    names = split('pbroadcast', axis_name)
    mine = eq(axis_index(axis_name), np.int32(source))
    values, structure = tree.flatten(x)
    values = [as_value(v, 'pbroadcast') for v in values]
    for v in map(_here, values) if names.axes else ():
        if casts.manual_state('pbroadcast', v.type, names.axes) != 'V':
            raise ValueError(f"pbroadcast takes a varying value, got {v.type}")
    # A sum would make numbers of truth values: they go as bytes.
    sent = [convert_element_type(v, new_dtype=np.dtype(np.uint8), weak_type=False) if v.dtype == bool else v for v in values]
    own = psum([kindly(select_n, mine, v.dtype.type(0), v) for v in sent], axis_name)
    own = [y if y.dtype == v.dtype else convert_element_type(y, new_dtype=v.dtype, weak_type=False)
           for y, v in zip(own, values, strict=True)]
    return tree.unflatten(structure, [casts.pvary(y, axes=names.axes) if names.axes else y for y in own])


def axis_index(axis_name: Axes) -> Value:
    """This rank's place along mesh axes (this element's along mapped ones), row-major: `int32[]{V:X}`. Nothing is communicated."""
    total, mesh = None, get_abstract_mesh()
    for run in split('axis_index', axis_name).runs:
        here = (mapped_axis.mapped_index(names=run.mapped, mesh=mesh) if run.mapped else
                collectives.axis_index(axes=run.axes, mesh=mesh))
        total = here if total is None else kindly(add, kindly(mul, total, np.int32(run.size)), here)
    return total


def axis_size(axis_name: Axes) -> int:
    """The number of ranks along mesh axes, and of elements along mapped ones, a Python int."""
    return split('axis_size', axis_name).size


def pcast(x: Any, axis_name: Axes, *, to: str) -> Any:
    """Change the state of a value along mesh axes, for free.

    to='varying': from the same on all ranks (its transpose is a psum) or reduced; to='unreduced': from varying (each rank's
    value becomes a summand); to='reduced': from the same on all ranks (its transpose is the psum of an unreduced value).
    Along a mapped axis types tell no state, so a name of one changes nothing.
    Raises ValueError where only communication could do it. Nothing is communicated.

        g = jax.grad(loss)(lax.pcast(w, 'X', to='varying'))        # each rank's own gradient
    """
    targets = {'varying': {'N': casts.pvary, 'R': casts.reduced_vary_cast}, 'unreduced': {'V': casts.vary_unreduced_cast},
               'reduced': {'N': casts.preduced}}
    axes = split('pcast', axis_name).axes
    if to not in targets:
        raise ValueError(f"pcast: to is one of {', '.join(targets)}, got {to!r}")
    if not axes:
        return x

    def one(v):
        v = _here(as_value(v, 'pcast'))
        state = casts.manual_state('pcast', v.type, axes)
        if state == casts.UNTRACKED:
            return v
        step = targets[to].get(state)
        if step is None:
            have = casts.NAMES[state]
            why = {'U': 'Sum it with psum or psum_scatter.', have: ''}.get(
                state, 'It is so already.' if have == to else "Cast it to 'varying' first." if to == 'unreduced' else '')
            raise ValueError(f"pcast cannot bring a value {have} over {', '.join(axes)} to {to}, got {v.type}. {why}".rstrip())
        return step(v, axes=axes)

    return tree.map(one, x)


__all__ = ['all_gather', 'all_to_all', 'axis_index', 'axis_size', 'pbroadcast', 'pcast', 'pmax', 'pmean', 'pmin', 'ppermute',
           'pshuffle', 'psum', 'psum_scatter', 'pswapaxes']
