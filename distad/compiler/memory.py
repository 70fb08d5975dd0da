"""How much memory a program takes, from its types: the life of every block, without running anything.

A block lives from the equation that makes it to the last that reads it or a view of it, as in the source that `codegen` writes. A loop
needs what one round needs, and its stacked results. What a kernel takes for itself while it runs is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from distad.compiler.codegen import alike, reused
from distad.compiler.text import messages
from distad.core.jaxpr import Atom, Equation, Jaxpr, Var

VIEWS = frozenset({'transpose', 'squeeze', 'reshape', 'slice', 'split', 'rev', 'broadcast_in_dim', 'relabel', 'stop_gradient',
                   'dynamic_slice', 'optimization_barrier', 'pcast', 'real', 'imag'})
WRITES_INTO = frozenset({'fused', 'dot_general', 'add_dot'})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnalysis:
    """Bytes on one rank: of arguments, of results, of results that lie in donated arguments, and of everything else that is there at
    the fullest moment.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int

    @property
    def peak_memory_in_bytes(self) -> int:
        """Arguments and all that the program holds at its fullest moment."""
        return self.argument_size_in_bytes + self.output_size_in_bytes - self.alias_size_in_bytes + self.temp_size_in_bytes


def analysis(jaxpr: Jaxpr) -> MemoryAnalysis:
    """The memory of a program after its passes."""
    heap = _Heap()
    owners = {v: heap.given() if i in jaxpr.donated else heap.outside() for i, v in enumerate(jaxpr.ins)}
    boxed = frozenset().union(*owners.values())
    made = _run(jaxpr, owners, heap, frozenset())
    arguments, results = (sum(a.type.local_bytes for a in atoms) for atoms in (jaxpr.ins, jaxpr.outs))
    aliased = sum(a.type.local_bytes for a, blocks in zip(jaxpr.outs, made, strict=True) if blocks & boxed)
    return MemoryAnalysis(argument_size_in_bytes=arguments, output_size_in_bytes=results, alias_size_in_bytes=aliased,
                          temp_size_in_bytes=max(0, heap.peak - results + aliased))


class _Heap:
    """Blocks that are there, by number, and the most that there was."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.used: dict[int, int] = {}                # by how many values
        self.now = self.peak = self.count = 0

    def outside(self) -> frozenset[int]:
        """A block that is somebody else's."""
        return frozenset()

    def given(self) -> frozenset[int]:
        """A block of an argument that the program may write over; it was counted by others."""
        self.count += 1
        return frozenset({self.count})

    def new(self, size: int) -> frozenset[int]:
        self.count += 1
        self.sizes[self.count] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        return frozenset({self.count})

    def hold(self, blocks: frozenset[int]) -> None:
        for b in blocks:
            self.used[b] = self.used.get(b, 0) + 1

    def drop(self, blocks: frozenset[int]) -> None:
        for b in blocks:
            self.used[b] -= 1
            if not self.used[b]:
                self.now -= self.sizes.pop(b, 0)



def _run(jaxpr: Jaxpr, owners: dict[Var, frozenset[int]], heap: _Heap, given: frozenset[Var]) -> list[frozenset[int]]:
    """One run; the blocks of the results. `given`: values whose place is there already."""
    last: dict[Var, int] = {}
    for i, eqn in enumerate(jaxpr.equations):
        last.update((a, i) for a in (*eqn.ins, *eqn.outs) if a.__class__ is Var)
    kept = {a for a in jaxpr.outs if a.__class__ is Var}
    for blocks in owners.values():
        heap.hold(blocks)
    for i, eqn in enumerate(jaxpr.equations):
        ins = [owners.get(a, frozenset()) for a in eqn.ins]
        for v, blocks in zip(eqn.outs, _made(eqn, ins, heap, given, {a for a in eqn.ins if last.get(a) == i and a not in kept}),
                             strict=True):
            owners[v] = blocks
            heap.hold(blocks)
        for a in {a for a in (*eqn.ins, *eqn.outs) if a.__class__ is Var and last[a] == i and a not in kept}:
            heap.drop(owners[a])
    return [owners.get(a, frozenset()) for a in jaxpr.outs]


def _made(eqn: Equation, ins: list[frozenset[int]], heap: _Heap, given: frozenset[Var], dying: set) -> list[frozenset[int]]:
    name, params = eqn.primitive.name, eqn.params
    if name == 'scan':
        return _scanned(eqn, ins, heap, {i for i, a in enumerate(eqn.ins) if a in dying and eqn.ins.count(a) == 1 and ins[i]})
    if name == 'while':
        return _inside(params['body_jaxpr'], ins[params['cond_consts']:], heap)
    if name == 'cond':
        return [_inside(branch, ins[1:], heap) for branch in params['branches']][-1]
    if name == 'checkpoint':
        return _inside(params['jaxpr'], ins, heap)
    if name in VIEWS or name == 'reshard' and not messages(eqn):
        return [frozenset().union(*ins)] * len(eqn.outs)
    free = [a for a in _taken(eqn) if a in dying and eqn.ins.count(a) == 1 and ins[eqn.ins.index(a)]]
    found = []
    for v in eqn.outs:
        old = next((a for a in free if a.type.local_shape == v.type.local_shape and a.type.dtype == v.type.dtype), None)
        if v in given and name in WRITES_INTO:
            found.append(frozenset())
        elif old is not None:
            free.remove(old)
            found.append(ins[eqn.ins.index(old)])
        else:
            found.append(heap.new(v.type.local_bytes))
    return found


def _taken(eqn: Equation) -> list[Atom]:
    """The operands whose places results take if they die there, in the source that is written."""
    if eqn.primitive.pointwise:
        return list(eqn.ins) if hasattr(eqn.primitive.impl, 'ufunc') else []
    return list(eqn.ins) if [m.kind for m in messages(eqn)] == ['all-reduce'] else reused(eqn)


def _inside(jaxpr: Jaxpr, ins: list[frozenset[int]], heap: _Heap, given: frozenset[Var] = frozenset()) -> list[frozenset[int]]:
    return _run(jaxpr, dict(zip(jaxpr.ins, ins, strict=True)), heap, given)


def _scanned(eqn: Equation, ins: list[frozenset[int]], heap: _Heap, dying: set[int]) -> list[frozenset[int]]:
    """Stacked results, then two rounds: in the second the carry is what the first one made."""
    body, consts, carries = eqn.params['jaxpr'], eqn.params['num_consts'], eqn.params['num_carry']
    instead = taken_over(eqn, dying)
    stacks = [ins[instead[v]] if v in instead else heap.new(v.type.local_bytes) for v in eqn.outs[carries:]]
    given = frozenset(a for a in body.outs[carries:] if a.__class__ is Var)
    carry = ins[consts:consts + carries]
    for _ in range(min(2, eqn.params['length'])):
        made = _inside(body, [*ins[:consts], *carry, *ins[consts + carries:]], heap, given)
        for blocks in made[carries:]:
            heap.drop(blocks)
        carry = made[:carries]
    return [*carry, *stacks]


def taken_over(eqn: Equation, dying: set[int]) -> dict[Var, int]:
    """Stacked results of a scan that may be written over an operand, one of those that die with it: each slice is made from the
    operand's slice, by the one equation that reads it.
    """
    body, carries = eqn.params['jaxpr'], eqn.params['num_carry']
    before = eqn.params['num_consts'] + carries
    maker = {v: e for e in body.equations for v in e.outs}
    reads = [a for e in body.equations for a in e.ins] + list(body.outs)
    found: dict[Var, int] = {}
    for a, v in zip(body.outs[carries:], eqn.outs[carries:], strict=True):
        mine = reused(maker[a]) if a in maker else []
        for i in range(before, len(eqn.ins)):
            x = body.ins[i]
            if x in mine and i in dying and i not in found.values() and reads.count(x) == 1 and alike(eqn.ins[i], v):
                found[v] = i
                break
    return found
