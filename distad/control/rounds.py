"""How a scan is written as Python: a loop in the frame around it, whose slices are views.

What the body makes for a slice of a result is written there, if its kernel can. Carries that a loop only stacks (the activations
that its derivative needs) are made where they are stacked: the carry of the next round is its slice. A round that is different is
the last one: where nobody reads a carry afterwards, what the body does for it alone is left out there (the cotangent of a network's
input); and it has no next slice. So it may be written by itself, behind the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from distad.compiler.codegen import Writer
from distad.compiler.dce import dce
from distad.compiler.memory import taken_over
from distad.compiler.text import count_collectives
from distad.core.jaxpr import Equation, Jaxpr, Var, chosen
from distad.core.primitive import Place
from distad.runtime import memory

PRODUCTS = frozenset({'dot_general', 'add_dot', 'conv_general_dilated'})


def emit_scan(writer: Writer, eqn: Equation, operands: list[str], place: Place) -> list[str]:
    """Write a scan; the names of its results."""
    params, body = eqn.params, eqn.params['jaxpr']
    num_consts, num_carry, length = params['num_consts'], params['num_carry'], params['length']
    consts, initial, xs = operands[:num_consts], operands[num_consts:num_consts + num_carry], operands[num_consts + num_carry:]
    last = last_round(eqn, [v not in writer.unread for v in eqn.outs[:num_carry]])
    stacks = stacked_carries(eqn) if last is not None else {}
    made = [(v, place.out(v.type)) for v in eqn.outs[num_carry:]]
    carry = [writer.fresh('v') for _ in initial]
    for name, first in zip(carry, initial, strict=True):
        writer.line(f"{name} = {first}")
    writer.release_early({*initial} - {*consts, *xs})
    ys = [writer.fresh('v') for _ in made]
    instead = taken_over(eqn, {i for i, name in enumerate(operands) if name in writer.dying and operands.count(name) == 1})
    for name, (v, _) in zip(ys, made, strict=True):
        writer.allocate(name, v, operands[instead[v]] if v in instead else None)
    i = writer.fresh('i')
    first, end, following = (length - 1, 0, f"{i} - 1") if params['reverse'] else (0, length - 1, f"{i} + 1")
    rounds = length - (last is not None)
    order = f"range({first}, {first - rounds}, -1)" if params['reverse'] else f"range({rounds})"
    for k, c in stacks.items():
        writer.line(f"{ys[k]}[{first}] = {carry[c]}")

    def write_round(program: Jaxpr, live: Sequence[bool], following: str | None) -> None:
        """`following`: the number of the next round, whose slices of stacked carries this one makes."""
        since, used = writer.count, {a for e in program.equations for a in e.ins} | set(program.outs)
        slices = [writer.fresh('v') if v in used else 'None' for v in program.ins[num_consts + num_carry:]]
        for name, x in zip(slices, xs, strict=True):
            if name != 'None':
                writer.line(f"{name} = {x}[{i}]")
        outs = program.outs[sum(live):]
        places = {a: f"{y}[{i}]" for a, y, (v, _) in zip(outs, ys, made, strict=True) if v.type.ndim > 1}
        if following is not None:
            places |= {body.outs[c]: f"{ys[k]}[{following}]" for k, c in stacks.items()}
        results = writer.body(program, [*consts, *carry, *slices], f"{place.path}while/body/", keep=consts, into=places)
        for k, (a, y, result) in enumerate(zip(outs, ys, results[sum(live):], strict=True)):
            if k not in stacks and not (a in writer.filled and places.get(a) == f"{y}[{i}]"):
                writer.line(f"{y}[{i}] = {result}")
        if following is not None:
            for k, c in stacks.items():
                if body.outs[c] not in writer.filled:
                    writer.line(f"{ys[k]}[{following}] = {results[c]}")
        carry_over(writer, chosen(carry, live), results[:sum(live)])
        for name in chosen(carry, [not on for on in live]):
            writer.line(f"{name} = None")
        writer.release_made(results, since)

    with writer.block(f"for {i} in {order}:"):
        write_round(body, [True] * num_carry, following if stacks else None)
    if last is not None:
        writer.line(f"{i} = {end}")
        write_round(*last, None)
    return [*carry, *ys]


def last_round(eqn: Equation, read: Sequence[bool]) -> tuple[Jaxpr, Sequence[bool]] | None:
    """The last round, where it is worth being written by itself: its program, and the carries that it makes, all or those that are
    `read` later. Messages stay: plans count rounds.
    """
    body = eqn.params['jaxpr']
    if eqn.params['length'] < 2 or any(e.primitive.emit is not None for e in body.equations):
        return None
    shorter = dce(body, [*read, *[True] * (len(body.outs) - len(read))])
    if _products(shorter) < _products(body) and count_collectives(shorter) == count_collectives(body):
        return shorter, read
    return (body, [True] * len(read)) if stacked_carries(eqn) else None


def _products(jaxpr: Jaxpr) -> int:
    return sum(eqn.primitive.name in PRODUCTS for eqn in jaxpr.equations)


def stacked_carries(eqn: Equation) -> dict[int, int]:
    """Stacked results, by number, that are a carry as it enters a round, and large; and the number of that carry."""
    body, consts, carries = eqn.params['jaxpr'], eqn.params['num_consts'], eqn.params['num_carry']
    entering = {v: c for c, v in enumerate(body.ins[consts:consts + carries])}
    made = {v for e in body.equations for v in e.outs}
    found: dict[int, int] = {}
    for k, a in enumerate(body.outs[carries:]):
        c = entering.get(a)
        if c is None or c in found.values() or a.type.ndim == 0:
            continue
        after = body.outs[c]
        if after.__class__ is Var and after in made and body.outs.count(after) == 1 and a.type.local_bytes >= memory.LARGE:
            found[k] = c
    return found


def carry_over(writer: Writer, carry: Sequence[str], results: Sequence[str]) -> None:
    """What a round made becomes what the next one starts from."""
    changed = [(c, r) for c, r in zip(carry, results, strict=True) if c != r]
    if changed:
        writer.line(f"{', '.join(c for c, _ in changed)} = {', '.join(r for _, r in changed)}")
