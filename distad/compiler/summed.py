"""Sums over the ranks in the memory of what is summed: nothing is packed, nothing is copied.

What goes out in one message is made side by side in one flat array, where the kernels of its makers can write. A single value that
dies with its sum is written over. Both only where nobody else looks at the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from distad.core.jaxpr import Atom, Equation, Jaxpr, Var
from distad.runtime import memory

if TYPE_CHECKING:
    from distad.compiler.codegen import Writer


def side_by_side(writer: Writer, jaxpr: Jaxpr, dies: dict[int, list[Var]], path: str, into: dict[Var, str]) -> dict[int, list[str]]:
    """Places in one flat array for what is made here and summed over the ranks together, added to `into`: then nothing is copied
    to bring it there. Returns the lines that make these arrays, by the equation before which they stand.
    """
    makers = {v: i for i, eqn in enumerate(jaxpr.equations) for v in eqn.outs}
    starts: dict[int, list[str]] = {}
    for i, eqn in enumerate(jaxpr.equations):
        sizes = [a.type.local_bytes for a in eqn.ins]
        if (not eqn.primitive.messages or len(eqn.ins) < 2 or sum(sizes) < memory.LARGE or len({a.type.dtype for a in eqn.ins}) > 1
                or len(set(eqn.ins)) < len(eqn.ins) or not makers.keys() & dies.get(i, ()) >= set(eqn.ins)):
            continue
        kernel = writer.ready[eqn] = writer.kernel(eqn, path)
        if hasattr(kernel, 'flat'):
            dtype = eqn.ins[0].type.dtype
            flat = writer.sides[eqn] = writer.fresh('f')
            first = min(makers[a] for a in eqn.ins)
            starts.setdefault(first, []).append(f"{flat} = empty({sum(sizes) // dtype.itemsize}, {writer.bind('t', dtype)})")
            into.update(zip(eqn.ins, _parts(flat, eqn.ins), strict=True))
            writer.beside.update(eqn.ins)
    return starts


def summed_in_place(writer: Writer, eqn: Equation, kernel: Callable, operands: list[str], names: dict[Var, str],
                    dying: set[str]) -> bool:
    """Write a sum over the ranks that takes the place of its operands; False where somebody may be looking at them."""
    flat = writer.sides.pop(eqn, None)
    if flat is None:
        if len(operands) > 1 or operands[0] not in dying:
            return False
        if operands[0] not in writer.owned:
            return _summed_where_free(writer, eqn, kernel, operands[0], names)
        flat = writer.fresh('f')
        writer.line(f"{flat} = {operands[0]}.reshape(-1)")
    else:
        if any(a in writer.filled and names[a] not in writer.owned for a in eqn.ins):
            writer.release([flat])
            return False
        for a, part in zip(eqn.ins, _parts(flat, eqn.ins), strict=True):
            if a not in writer.filled:
                writer.line(f"{part}[...] = {names[a]}")
    writer.line(f"{flat} = {writer.named(eqn, kernel.flat)}({flat})")
    for v, part in zip(eqn.outs, _parts(flat, eqn.outs), strict=True):
        names[v] = writer.fresh('v')
        writer.line(f"{names[v]} = {part}")
        writer.owned.add(names[v])
    writer.release([flat])
    return True


def _summed_where_free(writer: Writer, eqn: Equation, kernel: Callable, x: str, names: dict[Var, str]) -> bool:
    """Write a sum that takes the place of its operand if that turns out to be nobody else's."""
    t = eqn.ins[0].type
    if t.local_bytes < memory.LARGE:
        return False
    v, = eqn.outs
    names[v] = writer.fresh('v')
    shape, copying = writer.bind('s', t.local_shape), writer.named(eqn, kernel)
    writer.line(f"{names[v]} = {writer.named(eqn, kernel.flat)}({x}.reshape(-1)).reshape({shape}) "
              f"if spare({x}, {shape}, {writer.bind('t', t.dtype)}) is {x} else {copying}({x})[0]")
    return True


def _parts(flat: str, atoms: Sequence[Atom]) -> Iterator[str]:
    """Where values lie in a flat array, one after the other."""
    start = 0
    for a in atoms:
        end = start + math.prod(a.type.local_shape)
        yield f"{flat}[{start}:{end}].reshape({a.type.local_shape})"
        start = end
