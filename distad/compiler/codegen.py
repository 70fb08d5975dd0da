"""Writes a per-rank program as Python source: a line an equation, kernels bound, dead blocks dropped as they die."""

from collections.abc import Callable
from dataclasses import dataclass

from distad.compiler.passes import optimized
from distad.config import config
from distad.core.eager import literal_block
from distad.core.jaxpr import Jaxpr, Literal, Var, check
from distad.core.primitive import Place
from distad.runtime import values
from distad.types.mesh import Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A compiled jaxpr: `run(*blocks) -> list of blocks`, the jaxpr after its passes, and the source."""

    jaxpr: Jaxpr
    run: Callable
    source: str


def compile_jaxpr(jaxpr: Jaxpr, mesh: Mesh | None, path: str = '') -> Program:
    """A function on this rank's blocks that runs `jaxpr`, which closes over nothing."""
    jaxpr = optimized(jaxpr)
    if config.check_types:
        check(jaxpr)
    names: dict[Var, str] = {}
    bound: dict[str, object] = {}
    lines: list[str] = []

    def use(atom) -> str:
        if atom.__class__ is Literal:
            name = f"c{len(bound)}"
            bound[name] = literal_block(atom.value, atom.type)
            return name
        return names[atom]

    def make(var: Var) -> str:
        return names.setdefault(var, f"v{len(names)}")

    arguments = [make(v) for v in jaxpr.ins]
    dies = _last_uses(jaxpr)
    for i, eqn in enumerate(jaxpr.equations):
        place = Place(mesh=mesh, path=path + eqn.path, source=eqn.source)
        kernel = eqn.primitive.kernel(place, tuple(a.type for a in eqn.ins), tuple(v.type for v in eqn.outs), eqn.params)
        if config.check_values:
            kernel = values.watched(kernel, eqn.primitive.name, eqn.source, eqn.primitive.multiple)
        name = f"k{i}_{eqn.primitive.name.replace('-', '_')}"
        bound[name] = kernel
        operands = ', '.join(map(use, eqn.ins))
        results = ', '.join(map(make, eqn.outs))
        if eqn.primitive.multiple:
            results = f"[{results}]" if eqn.outs else '_'
        lines.append(f"{results} = {name}({operands})")
        gone = sorted({names[v] for v in dies.get(i, ()) if v in names})
        if gone:
            lines.append(f"del {', '.join(gone)}")
    lines.append(f"return [{', '.join(map(use, jaxpr.outs))}]")
    source = f"def program({', '.join(arguments)}):\n" + ''.join(f"    {line}\n" for line in lines)
    scope = dict(bound)
    exec(compile(source, f"<distad {jaxpr.name or 'program'}>", 'exec'), scope)
    return Program(jaxpr=jaxpr, run=scope['program'], source=source)


def _last_uses(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """After which equation a block is not needed any more."""
    last: dict[Var, int] = {}
    for i, eqn in enumerate(jaxpr.equations):
        for a in (*eqn.ins, *eqn.outs):
            if a.__class__ is Var:
                last[a] = i
    for a in jaxpr.outs:
        last.pop(a, None)
    dies: dict[int, list[Var]] = {}
    for var, i in last.items():
        dies.setdefault(i, []).append(var)
    return dies

