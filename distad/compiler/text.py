"""The final program of a rank as text: a line an equation, collectives under the names that other systems print."""

from collections.abc import Iterator

from distad.core.jaxpr import Equation, Jaxpr, Literal, Var, sub_jaxprs
from distad.core.pretty import letters

_SCOPES = {'scan': 'while/body/', 'while': 'while/body/', 'cond': 'cond/branch/', 'shard_map': 'shard_map/'}


def as_text(jaxpr: Jaxpr, path: str, name: str) -> str:
    """Lines `result = type op(operands), metadata={op_name="jit(f)/..." source="file:line"}`; bodies indented."""
    head = f"program {name} ({', '.join(map(str, jaxpr.in_types))}) -> ({', '.join(map(str, jaxpr.out_types))})"
    return '\n'.join([head, *_lines(jaxpr, path, '  ', {})]) + '\n'


def _lines(jaxpr: Jaxpr, path: str, indent: str, names: dict[Var, str]) -> Iterator[str]:
    def name(atom) -> str:
        return str(atom.value) if atom.__class__ is Literal else names.setdefault(atom, f"%{letters(len(names))}")

    for v in jaxpr.ins:
        name(v)
    for eqn in jaxpr.equations:
        op_name = f"{path}{eqn.path}{eqn.primitive.name}"
        where = f' source="{eqn.source.file}:{eqn.source.line}"' if eqn.source else ''
        outs = ', '.join(f"{name(v)}: {v.type.short()}" for v in eqn.outs)
        for op in operations(eqn):
            yield f'{indent}{outs} = {op}({", ".join(map(name, eqn.ins))}), metadata={{op_name="{op_name}"{where}}}'
        for inner in sub_jaxprs(eqn.params):
            below = _SCOPES.get(eqn.primitive.name, f"jit({eqn.params.get('name', '')})/")
            yield from _lines(inner, f"{path}{eqn.path}{below}", indent + '  ', names)
    yield f"{indent}return {', '.join(map(name, jaxpr.outs))}"


def operations(eqn: Equation) -> list[str]:
    """What an equation does on this rank: the messages it sends, or its own name."""
    sent = messages(eqn)
    return [kind for kind, _ in sent] or ['cast' if eqn.primitive.name == 'reshard' else eqn.primitive.name]


def messages(eqn: Equation) -> list[tuple[str, tuple[str, ...]]]:
    """The collectives of one equation, not of programs inside it: kinds and mesh axes."""
    if eqn.primitive.messages is None:
        return []
    return eqn.primitive.messages(tuple(a.type for a in eqn.ins), tuple(v.type for v in eqn.outs), eqn.params)


def count_collectives(jaxpr: Jaxpr) -> dict[str, int]:
    """How many collectives one run of a program makes, by kind. Loops count their rounds."""
    total: dict[str, int] = {}
    for eqn in jaxpr.equations:
        times = eqn.params.get('length', 1) if eqn.primitive.name == 'scan' else 1
        for op, _ in messages(eqn):
            total[op] = total.get(op, 0) + 1
        for inner in sub_jaxprs(eqn.params):
            for op, n in count_collectives(inner).items():
                total[op] = total.get(op, 0) + n * times
    return total
