"""A fused group in NumPy: its equations on blocks of rows that stay in the cache, so values between them never reach memory.

The first dimension of the space is cut. A value goes along if it has that dimension, whole, in one place; what has not is computed
once; sums over it are put together from those of the blocks. Where some operand is read at shifted rows, nothing is cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from distad.compiler.access import JOINS, MOVES, Index, Place, elementwise_index, identity, local, through
from distad.core.eager import literal_block
from distad.core.jaxpr import Equation, Jaxpr, Literal, Var
from distad.core.primitive import Out
from distad.core.primitive import Place as Rank

BLOCK = 1 << 16                # elements of a block
COMBINE = {'reduce_sum': np.add, 'reduce_max': np.maximum, 'reduce_min': np.minimum}


def blocked(jaxpr: Jaxpr, space: tuple[int, ...], rows: int | None, place: Rank) -> Callable:
    """`run(*blocks) -> results` for a group."""
    along = _along(jaxpr, space)
    step = max(1, BLOCK // max(1, math.prod(space[1:]))) if space else 1
    if along is None or step >= space[0]:
        along, step = {}, space[0] if space else 1
    once = [eqn for eqn in jaxpr.equations if not any(v in along for v in (*eqn.outs, *eqn.ins))]
    each = [eqn for eqn in jaxpr.equations if any(v in along for v in (*eqn.outs, *eqn.ins))]
    late = {eqn.outs[0]: COMBINE[eqn.primitive.name] for eqn in each if eqn.outs[0] not in along}
    before = [_step(eqn, along, None, place) for eqn in once]
    sizes = {step, space[0] % step if space and space[0] % step else step}
    inside = {n: [_step(eqn, along, n, place) for eqn in each] for n in sizes}
    slots, shapes = _slots(each, along, jaxpr, step)
    whole = [(v, local(v), v.type.dtype) for v in jaxpr.outs if v in along]

    def run(*blocks) -> list[np.ndarray]:
        fixed = dict(zip(jaxpr.ins, blocks, strict=True))
        for eqn, f in before:
            fixed[eqn.outs[0]] = f(fixed)
        results = {v: np.empty(shape, dtype) for v, shape, dtype in whole}
        if each:
            buffers = [np.empty(shape, dtype) for shape, dtype in shapes]
            sums: dict[Var, np.ndarray] = {}
            for a in range(0, space[0], step):
                b = min(a + step, space[0])
                here = {v: x[_cut(along[v], a, b)] if v in along else x for v, x in fixed.items()}
                into = {v: y[_cut(along[v], a, b)] for v, y in results.items()}
                for eqn, f in inside[b - a]:
                    v = eqn.outs[0]
                    if v in slots:
                        here[v] = f(here, into[v] if v in into else buffers[slots[v]][_cut(along[v], 0, b - a)])
                    else:
                        here[v] = f(here)
                for v, y in into.items():
                    if v not in slots:
                        y[...] = here[v]
                for v, combine in late.items():
                    sums[v] = combine(sums[v], here[v]) if v in sums else here[v]
            fixed |= sums
        return [results[v] if v in results else np.asarray(fixed[v]) for v in jaxpr.outs]

    return run


def _cut(d: int, a: int, b: int) -> tuple:
    return (slice(None),) * d + (slice(a, b),)


def _step(eqn: Equation, along: dict[Var, int], n: int | None, place: Rank) -> tuple[Equation, Callable]:
    """An equation on the values of a block of n rows."""
    v = eqn.outs[0]
    shape = tuple(n if n is not None and along.get(v) == d else size for d, size in enumerate(local(v)))
    impl, params = eqn.primitive.impl, eqn.params
    out = Out(type=v.type, shape=shape, dtype=v.type.dtype, starts=(0,) * len(shape))
    literals = {i: np.asarray(literal_block(a.value, a.type)) for i, a in enumerate(eqn.ins) if a.__class__ is Literal}
    ins = eqn.ins

    def run(known, into=None):
        operands = [literals[i] if i in literals else known[a] for i, a in enumerate(ins)]
        return impl(*operands, out=out, **params) if into is None else impl.ufunc(*operands, out=into)
    return eqn, run


def _slots(equations: list[Equation], along: dict[Var, int], jaxpr: Jaxpr, step: int) -> tuple[dict[Var, int], list[tuple]]:
    """Values that ufuncs write into an array: the number of the array, shared by those that are not there at one time; and the
    arrays' shapes and dtypes. Results are written in place.
    """
    last = {a: i for i, eqn in enumerate(equations) for a in eqn.ins if a.__class__ is Var}
    outs, slots, shapes = set(jaxpr.outs), {}, []
    free: dict[tuple, list[int]] = {}
    held: dict[Var, list[Var]] = {}                                  # what a view keeps from being written over
    for i, eqn in enumerate(equations):
        v = eqn.outs[0]
        below = [b for a in eqn.ins if a.__class__ is Var for b in held.get(a, [])]
        if v in along and hasattr(eqn.primitive.impl, 'ufunc') and all(a.type.dtype == v.type.dtype for a in eqn.ins):
            kind = (tuple(step if d == along[v] else n for d, n in enumerate(local(v))), v.type.dtype)
            held[v] = [v]
            if v in outs:
                slots[v] = -1
            elif free.get(kind):
                slots[v] = free[kind].pop()
            else:
                slots[v] = len(shapes)
                shapes.append(kind)
        else:
            held[v] = below
        for b in below:
            last[b] = max(last[b], last.get(v, i))
        for b in {b for a in eqn.ins if a.__class__ is Var for b in held.get(a, []) if last[b] == i and slots.get(b, -1) >= 0}:
            free.setdefault(shapes[slots[b]], []).append(slots[b])
    return slots, shapes


def _along(jaxpr: Jaxpr, space: tuple[int, ...]) -> dict[Var, int] | None:
    """For each value that has the space's first dimension, where it has it; None where rows are read at other places."""
    if not space or space[0] < 2:
        return None
    maker = {v: eqn for eqn in jaxpr.equations for v in eqn.outs}
    place_of: dict[Var, int | None] = {}
    stack: list[tuple[Var, Index]] = [(eqn.ins[0], identity(local(eqn.ins[0]))) for eqn in jaxpr.equations
                                      if eqn.primitive.name in COMBINE]
    stack += [(v, identity(local(v))) for v in jaxpr.outs]
    while stack:
        v, index = stack.pop()
        if v.__class__ is not Var:
            continue
        mine = [d for d, p in enumerate(index) if p.loop == 0]
        if any(index[d] != Place(0, 1, 0) for d in mine) or len(mine) > 1:
            return None
        at = mine[0] if mine else None
        if v in place_of:
            if place_of[v] != at:
                return None
            continue
        place_of[v] = at
        eqn = maker.get(v)
        if eqn is None:
            continue
        name = eqn.primitive.name
        if name in COMBINE:
            if 0 in eqn.params['axes']:
                place_of[v] = None
            continue
        if name in JOINS:
            d = eqn.params.get('dimension')
            grown = {d} if d is not None else {i for i, c in enumerate(eqn.params['padding_config']) if c != (0, 0, 0)}
            if at in grown:
                return None
            stack += [(x, index if x.type.ndim else ()) for x in eqn.ins if x.__class__ is Var]
        elif name in MOVES:
            stack.append((eqn.ins[0], through(eqn, index)))
        else:
            stack += [(x, elementwise_index(local(x), local(v), index)) for x in eqn.ins if x.__class__ is Var]
    return {v: d for v, d in place_of.items() if d is not None}
