"""The final program of a rank as text: a line an equation, collectives under the names that other systems print."""

from collections.abc import Iterator

from distad.core.jaxpr import Equation, Jaxpr, Literal, Var, sub_jaxprs
from distad.core.pretty import letters
from distad.core.primitive import Message

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


def fingerprint(jaxpr: Jaxpr) -> list[str]:
    """A program as lines that are equal on ranks that run the same one: every equation with its parameters and its source."""
    lines = [f"inputs {', '.join(map(str, jaxpr.in_types))}"]
    names: dict[Var, str] = {}

    def name(atom) -> str:
        return f"{atom.value}:{atom.type}" if atom.__class__ is Literal else names.setdefault(atom, f"%{letters(len(names))}")

    def walk(program: Jaxpr, indent: str) -> None:
        for v in (*(v for v, _ in program.consts), *program.ins):
            name(v)
        for eqn in program.equations:
            params = ' '.join(f"{k}={_told(v)}" for k, v in eqn.params.items())
            outs = ', '.join(f"{name(v)}: {v.type}" for v in eqn.outs)
            lines.append(f"{indent}{outs} = {eqn.primitive.name}[{params}]({', '.join(map(name, eqn.ins))}) at {eqn.source}")
            for inner in sub_jaxprs(eqn.params):
                walk(inner, indent + '  ')
        lines.append(f"{indent}return {', '.join(map(name, program.outs))}")

    walk(jaxpr, '')
    return lines


def _told(value) -> str:
    """A parameter without what is one process's own: addresses of functions, and programs, which are told by themselves."""
    if isinstance(value, Jaxpr) or callable(value):
        return '...'
    if isinstance(value, tuple):
        return f"({', '.join(map(_told, value))})"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(str, value)))}}}"
    return str(value)


def operations(eqn: Equation) -> list[str]:
    """What an equation does on this rank: the messages it sends, or its own name."""
    sent = messages(eqn)
    return [message.kind for message in sent] or ['cast' if eqn.primitive.name == 'reshard' else eqn.primitive.name]


def messages(eqn: Equation) -> list[Message]:
    """The collectives of one equation, not of programs inside it."""
    if eqn.primitive.messages is None:
        return []
    return eqn.primitive.messages(tuple(a.type for a in eqn.ins), tuple(v.type for v in eqn.outs), eqn.params)


def count_collectives(jaxpr: Jaxpr) -> dict[str, int]:
    """How many collectives one run of a program makes, by kind. Loops count their rounds."""
    total: dict[str, int] = {}
    for eqn in jaxpr.equations:
        times = eqn.params.get('length', 1) if eqn.primitive.name == 'scan' else 1
        for op, *_ in messages(eqn):
            total[op] = total.get(op, 0) + 1
        for inner in sub_jaxprs(eqn.params):
            for op, n in count_collectives(inner).items():
                total[op] = total.get(op, 0) + n * times
    return total
