"""Long computations in stages: each stage runs over a strip of elements that stays in the nearest cache.

A function like tanh is a chain of some thirty instructions that wait for one another. A processor hides that by working on several
vectors at a time, as far as its window reaches; a pass through three such functions reaches beyond it and runs at half the speed of
the three alone. So a pass is cut behind its functions, and what later stages read is left in a buffer of one strip.
"""

from __future__ import annotations

from distad.compiler.access import JOINS, MOVES, Index, identity
from distad.compiler.llvm.layout import Layout, operands
from distad.compiler.llvm.scalars import REDUCTIONS
from distad.compiler.llvm.schedule import CHEAP_COST, Pass, Schedule
from distad.core.jaxpr import Atom, Var

STRIP = 512                    # elements of a strip
LEAST = 128                    # a shorter row is not worth it
LONG = frozenset({'exp', 'exp2', 'expm1', 'log', 'log2', 'log10', 'log1p', 'logistic', 'tanh', 'sin', 'cos', 'tan', 'atan', 'sinh',
                  'cosh', 'asinh', 'acosh', 'atanh', 'erf', 'erfc', 'pow', 'asin', 'acos', 'atan2', 'cbrt', 'logaddexp', 'xlogy',
                  'xlog1py', 'erf_inv'})

Node = tuple[Atom, Index]


def stages(schedule: Schedule, layout: Layout, now: int, p: Pass) -> list[list[Var]]:
    """The values that each stage of a pass but the last leaves for later ones; of a pass in one stage, none."""
    if any(eqn.primitive.name in JOINS for eqn in schedule.jaxpr.equations):
        return []
    whole = identity(schedule.space)
    first: dict[Node, int] = {}

    def leaf(node: Node) -> bool:
        a, index = node
        if a.__class__ is not Var or a in schedule.inputs or schedule.maker[a].primitive.name in REDUCTIONS:
            return True
        if all(place.loop is None or layout.loop_of[place.loop] < layout.first_inner for place in index):
            return True
        return a in schedule.kept and schedule.ready[a] < now and index == whole

    def is_long(node: Node) -> bool:
        return not leaf(node) and schedule.maker[node[0]].primitive.name in LONG

    def stage(node: Node) -> int:
        """The first stage in which a value can be computed."""
        if leaf(node):
            return 0
        if node not in first:
            first[node] = max((stage(x) + is_long(x) for x in operands(schedule.maker[node[0]], node[1])), default=0)
        return first[node]

    roots = [(v, whole) for v in (*(v for v, _ in p.stores), *(eqn.ins[0] for eqn in p.reductions))]
    for root in roots:
        stage(root)
    last = max((at for node, at in first.items() if is_long(node)), default=0)
    held: list[list[Var]] = [[] for _ in range(last)]
    todo, seen = [(root, last) for root in roots], set()
    while todo:
        node, reader = todo.pop()
        if leaf(node) or (node, reader) in seen:
            continue
        seen.add((node, reader))
        (a, index), mine = node, min(first[node], last)
        moved = schedule.maker[a].primitive.name in MOVES
        if mine < reader and not moved and index == whole and schedule.cost_of(a) > CHEAP_COST:
            if a not in held[mine]:
                held[mine].append(a)
            reader = mine
        todo += [(x, reader) for x in operands(schedule.maker[a], index)]
    return held
