"""Inlining: a call and a map over ranks become part of the program around them.

On a rank there is nothing at the boundary of a map: blocks stay where they are. So its body can stand in line, with a `relabel`
where a type changes, and the passes after this one see collectives of several maps and calls together.
"""

from collections.abc import Iterator

from distad.core.jaxpr import Atom, Equation, Jaxpr, Var
from distad.core.primitive import NoRule, Primitive

NEVER = NoRule('it is made by the compiler only')

relabel = Primitive('relabel', type=lambda x, *, to: to, impl=lambda x, *, out, to: x, jvp=NEVER, transpose=NEVER, batch=NEVER,
                    show=lambda params: {}, pointwise=True)

# Which equations are inlined, and the scope that names their bodies.
SCOPES = {'jit': lambda params: f"jit({params['name']})/", 'shard_map': lambda params: 'shard_map/',
          **dict.fromkeys(('custom_jvp_call', 'custom_vjp_call', 'custom_vmap_call'), lambda params: '')}


def inlined(jaxpr: Jaxpr) -> Jaxpr:
    """The same per-rank program without calls and maps. Loops and branches stay."""
    known: dict[Var, Atom] = {}
    equations = tuple(_flat(jaxpr, known, ''))
    return jaxpr.changed(equations=equations, outs=tuple(_read(a, known) for a in jaxpr.outs))


def _read(a: Atom, known: dict[Var, Atom]) -> Atom:
    return known.get(a, a) if a.__class__ is Var else a


def _flat(jaxpr: Jaxpr, known: dict[Var, Atom], path: str) -> Iterator[Equation]:
    """The equations of a program in terms of `known`, the values its variables stand for."""
    for eqn in jaxpr.equations:
        ins = tuple(_read(a, known) for a in eqn.ins)
        here = path + eqn.path
        scope = SCOPES.get(eqn.primitive.name)
        if scope is None:
            outs = tuple(Var(v.type) for v in eqn.outs)
            known.update(zip(eqn.outs, outs, strict=True))
            yield Equation(primitive=eqn.primitive, ins=ins, outs=outs, params=eqn.params, path=here, source=eqn.source)
            continue
        body: Jaxpr = eqn.params['jaxpr']
        inside: dict[Var, Atom] = {}
        for var, a in zip(body.ins, ins, strict=True):
            yield from _bind(var, a, inside, eqn, here)
        yield from _flat(body, inside, here + scope(eqn.params))
        for var, a in zip(eqn.outs, body.outs, strict=True):
            yield from _bind(var, _read(a, inside), known, eqn, here)


def _bind(var: Var, value: Atom, known: dict[Var, Atom], eqn: Equation, path: str) -> Iterator[Equation]:
    """Let a variable stand for a value; where their types differ, by an equation that changes nothing else."""
    if value.type == var.type:
        known[var] = value
        return
    known[var] = Var(var.type)
    yield Equation(primitive=relabel, ins=(value,), outs=(known[var],), params={'to': var.type}, path=path, source=eqn.source)
