"""Calls of Python functions out of programs: pure_callback, io_callback, and the one that debug.print makes.

Each rank calls with what it holds. A `pure_callback` and an `io_callback` take whole values, so that every rank calls with the same
and has the same result; a split operand is gathered first, which is an equation. One for looking takes values as they lie, and is
called where there is something to see: on one rank of those that hold the same.

Under vmap a callback is called for each element, one after the other, or once on all, as `vmap_method` says. It then has levels, a
batch dimension each, the outermost first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from distad.core.primitive import NoRule, Place, Primitive, signature
from distad.runtime import mpi
from distad.transforms.batch import AxisData
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import infer

METHODS = ('sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all')


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A batch dimension: its size, and which operands have it."""

    size: int
    mapped: tuple[bool, ...]


Levels = tuple[Level, ...]
Struct = tuple[tuple[int, ...], np.dtype]


# ---- on blocks

def _one_by_one(function: Callable, blocks: Sequence[np.ndarray], levels: Levels) -> list:
    """Results of the function on each element, stacked."""
    if not levels:
        return function(*blocks)
    mapped = levels[0].mapped
    count = next(len(b) for b, on in zip(blocks, mapped, strict=True) if on)
    made = [_one_by_one(function, [b[i] if on else b for b, on in zip(blocks, mapped, strict=True)], levels[1:]) for i in range(count)]
    return [np.stack(some) for some in zip(*made, strict=True)]


def _all_at_once(function: Callable, blocks: Sequence[np.ndarray], levels: Levels, spread: bool) -> list:
    """The function on operands that have all batch dimensions, of size 1 (or, `spread`, of full size) where they are not mapped."""
    sizes = []
    whole = list(blocks)
    for i, level in enumerate(levels):
        sizes.append(next(b.shape[i] for b, on in zip(whole, level.mapped, strict=True) if on))
        whole = [b if on else np.expand_dims(b, i) for b, on in zip(whole, level.mapped, strict=True)]
    return function(*(np.broadcast_to(b, (*sizes, *b.shape[len(levels):])) if spread else b for b in whole))


def _kernel(name: str) -> Callable:
    def kernel(place: Place, ins, outs, params) -> Callable:
        function, levels, method = params['function'], params['levels'], params['vmap_method']
        made = [place.out(t) for t in outs]

        def run(*blocks):
            blocks = [_readable(b) for b in blocks]
            if levels and any(0 in out.shape for out in made):
                return [np.zeros(out.shape, out.dtype) for out in made]
            results = (_all_at_once(function, blocks, levels, method == 'broadcast_all') if method in METHODS[2:]
                       else _one_by_one(function, blocks, levels))
            return [_checked(name, y, out) for y, out in zip(results, made, strict=True)]

        return run
    return kernel


def _readable(block) -> np.ndarray:
    view = np.asarray(block).view()
    view.flags.writeable = False
    return view


def _checked(name: str, y, out) -> np.ndarray:
    y = np.asarray(y)
    if y.shape != out.shape or y.dtype != out.dtype:
        raise ValueError(f"{name}: the callback returned {dtypes.name(y.dtype)}{list(y.shape)}, and result_shape_dtypes asks for "
                         f"{dtypes.name(out.dtype)}{list(out.shape)} of it here. Return what was announced.")
    return y


# ---- types and batches

def _labels(name: str) -> Callable:
    def labels(*types: ArrayType, function, structs: tuple[Struct, ...], levels: Levels, vmap_method: str | None):
        ins = []
        for i, t in enumerate(types):
            batch = [('level', k) for k, level in enumerate(levels) if level.mapped[i]]
            ins.append([*batch, *([None] * (t.ndim - len(batch)))])
        outs = [[*(('level', k) for k in range(len(levels))), *([None] * len(shape))] for shape, _ in structs]
        return signature(name, ins, outs)
    return labels


def _type(name: str) -> Callable:
    labels = _labels(name)

    def rule(*types: ArrayType, structs: tuple[Struct, ...], levels: Levels, **params):
        agreement = infer(labels(*types, structs=structs, levels=levels, **params), types)
        batch = tuple(level.size for level in levels)
        return [agreement.out(i, (*batch, *shape), dtype) for i, (shape, dtype) in enumerate(structs)]
    return rule


def _level(axis: AxisData, values: Sequence, dims: Sequence[int | None]) -> tuple[list, Level]:
    """Operands with the batch in front, and the level that it is."""
    moved = [x if d is None else axis.move(x, d, 0) for x, d in zip(values, dims, strict=True)]
    return moved, Level(size=axis.size, mapped=tuple(d is not None for d in dims))


def _batch(name: str, primitive: Callable[[], Primitive]) -> Callable:
    def rule(axis: AxisData, values, dims, *, levels: Levels, vmap_method: str | None, **params):
        if vmap_method is None:
            raise NotImplementedError(f"{name} under vmap needs to be told what to call: give vmap_method='sequential' (once for each "
                                      "element), 'expand_dims' or 'broadcast_all' (once, on arrays with the batch in front).")
        moved, level = _level(axis, values, dims)
        outs = axis.bind(primitive(), *moved, levels=(level, *levels), vmap_method=vmap_method, **params)
        return outs, [0] * len(outs)
    return rule


def _shown(params: dict) -> dict:
    return {k: v for k, v in params.items() if k == 'vmap_method'}


def _calling(name: str, effect: bool) -> Primitive:
    made: list[Primitive] = []
    made.append(Primitive(
        name, type=_type(name), labels=_labels(name), kernel=_kernel(name),
        jvp=NoRule('nobody knows the derivative of a Python function. Give one with custom_jvp or custom_vjp'),
        transpose=NoRule('it is not linear'), batch=_batch(name, lambda: made[0]), multiple=True, effect=effect, fleeting=True,
        show=_shown))
    return made[0]


pure_call = _calling('pure_callback', False)
io_call = _calling('io_callback', True)


# ---- for looking: `function(rank, *blocks)`, the rank being None where only one looks

def _seen_axes(types: Sequence[ArrayType]) -> frozenset[str]:
    """The mesh axes along which ranks hold different things."""
    axes: frozenset[str] = frozenset()
    for t in types:
        axes |= t.split_axes | t.unreduced | t.varying | frozenset(t.mesh.auto_axes)
    return axes


def _watch_kernel(place: Place, ins, outs, params) -> Callable:
    function, levels, ranks = params['function'], params['levels'], params['ranks']
    axes = _seen_axes(ins)
    me = mpi.rank()
    if ranks is not None:
        here = ranks == 'all' or me in ranks
    elif place.mesh is None:
        here = me == 0
    else:
        here = all(i == 0 for axis, i in place.mesh.coords(me).items() if axis not in axes)
    if not here:
        return lambda *blocks: []
    alone = not axes if ranks is None else ranks != 'all' and len(ranks) == 1
    rank = None if alone else me

    def run(*blocks):
        _one_by_one(lambda *xs: function(rank, *map(np.array, xs)) or [], list(map(np.asarray, blocks)), levels)
        return []

    return run


def _watch_jvp(primals, tangents, **params):
    return watch(*primals, **params), []


def _watch_batch(axis: AxisData, values, dims, *, levels: Levels, **params):
    moved, level = _level(axis, values, dims)
    return watch(*moved, levels=(level, *levels), **params), []


watch = Primitive('debug_callback', type=lambda *types, **params: (), kernel=_watch_kernel, jvp=_watch_jvp,
                  transpose=NoRule('it has no results'), batch=_watch_batch, multiple=True, effect=True, fleeting=True,
                  show=lambda params: {})
