"""Slices first: the slice of an elementwise result is the result of slices.

Where all that is ever read of a result are slices of it, which together are no larger, the operands are cut instead: what falls
between the slices is not computed, and the loops of the readers can take the op in. Cutting an array in parts (`split`) is slicing.
"""

from __future__ import annotations

import math

from distad.core.jaxpr import Atom, Equation, Jaxpr, Var, has_effect
from distad.ops.slicing import slice_p
from distad.types.array_type import ArrayType

Bounds = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]


def sliced_first(jaxpr: Jaxpr) -> Jaxpr:
    """The same program, elementwise ops after slices."""
    readers: dict[Var, list] = {}                                    # None for the program's own results
    for a in jaxpr.outs:
        readers.setdefault(a, []).append(None)
    kept: list[Equation] = []
    gone: set[int] = set()
    for eqn in reversed(jaxpr.equations):
        todo = [eqn]
        while todo:
            part = todo.pop()
            parts = _parts(part, readers) if part.primitive.pointwise and not has_effect(part) else None
            if parts is not None:
                gone.update(id(reader) for reader in readers[part.outs[0]])
            elif part.primitive.name == 'split':
                parts = _slices(part, readers)
                gone.add(id(part))
            if parts is not None:
                todo += parts
                continue
            kept.append(part)
            for a in part.ins:
                if a.__class__ is Var:
                    readers.setdefault(a, []).append(part)
    return jaxpr.changed(equations=tuple(e for e in reversed(kept) if id(e) not in gone)) if gone else jaxpr


def _parts(eqn: Equation, readers: dict[Var, list]) -> list[Equation] | None:
    """An elementwise equation and the slices of its result, as slices of its operands and the op of each."""
    out = eqn.outs[0]
    found = readers.get(out, [])
    if not found or any(r is None or r.primitive.name not in ('slice', 'split') for r in found):
        return None
    cut = [(v, bounds) for r in found for v, bounds in _bounds(r) if v in readers]
    if sum(math.prod(v.type.local_shape) for v, _ in cut) > math.prod(out.type.local_shape):
        return None
    made: list[Equation] = []
    for v, bounds in cut:
        ins: list[Atom] = []
        for a in eqn.ins:
            if a.__class__ is not Var or not a.type.ndim:
                ins.append(a)
                continue
            params = _of_operand(a.type, out.type, bounds)
            kind = _inferred(slice_p, (a.type,), params)
            if kind is None:
                return None
            if kind == a.type:
                ins.append(a)
                continue
            ins.append(Var(kind))
            made.append(Equation(primitive=slice_p, ins=(a,), outs=(ins[-1],), params=params, path=eqn.path, source=eqn.source))
        if _inferred(eqn.primitive, tuple(a.type for a in ins), eqn.params) != v.type:
            return None
        made.append(eqn.changed(ins=tuple(ins), outs=(v,)))
    return made


def _slices(eqn: Equation, readers: dict[Var, list]) -> list[Equation]:
    """The parts of an array as slices, which loops read in place."""
    found = []
    for v, (starts, limits, strides) in _bounds(eqn):
        if v in readers:
            params = {'start_indices': starts, 'limit_indices': limits, 'strides': strides}
            found.append(Equation(primitive=slice_p, ins=eqn.ins, outs=(v,), params=params, path=eqn.path, source=eqn.source))
    return found


def _bounds(reader: Equation) -> list[tuple[Var, Bounds]]:
    """The slices that an equation takes: where they start, end, and by which steps."""
    if reader.primitive.name == 'slice':
        p = reader.params
        return [(reader.outs[0], (tuple(p['start_indices']), tuple(p['limit_indices']), p['strides']))]
    axis, at, shape, found = reader.params['axis'], 0, reader.ins[0].type.shape, []
    for v, size in zip(reader.outs, reader.params['sizes'], strict=True):
        starts = tuple(at if d == axis else 0 for d in range(len(shape)))
        limits = tuple(at + size if d == axis else n for d, n in enumerate(shape))
        found.append((v, (starts, limits, None)))
        at += size
    return found


def _of_operand(t: ArrayType, like: ArrayType, bounds: Bounds) -> dict:
    """The slice of an operand that the slice of a result needs; a dimension of size 1 is taken whole."""
    starts, limits, strides = bounds
    whole = [m != n for m, n in zip(t.shape, like.shape, strict=True)]
    return {'start_indices': tuple(0 if w else a for w, a in zip(whole, starts, strict=True)),
            'limit_indices': tuple(n if w else b for w, b, n in zip(whole, limits, t.shape, strict=True)),
            'strides': None if strides is None else tuple(1 if w else s for w, s in zip(whole, strides, strict=True))}


def _inferred(primitive, types: tuple[ArrayType, ...], params: dict) -> ArrayType | None:
    try:
        return primitive.infer(types, params)[0]
    except (TypeError, ValueError):
        return None
