"""Printed programs against the record: both texts are read, and what they say is compared.

Names of variables, line breaks and parameters say little. What is compared: the types that go in and come out, and which equations
there are with results of which types, in the program and in the loops and branches in it, once the calls that only give a name to
a part (`jit[name=...]`) are opened. Closed-over numbers are left out: JAX writes them as literals.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext

import numpy as np

import distad as jax
import distad.numpy as jnp
from distad import lax
from tests.conformance.cases import Case, Placed, index
from tests.conformance.harness import mesh_key, on_mesh
from tests.conformance.manual import formula, place

OPENED = ('jit', 'closed_call', 'custom_jvp_call', 'custom_vjp_call', 'remat2', 'checkpoint')
TYPE = r'~?[a-z]+\d*(?:<\w+>)?\[[^\]\s]*\](?:\{[^}]*\})?'
NAME = r'(?<![\w.-])(?!nan|inf)(?:[a-z]{1,3}|_)'
EQUATION = re.compile(rf'((?:{NAME}:{TYPE} )*{NAME}:{TYPE}) = ([\w-]+)')
BINDER = re.compile(rf'({NAME}):({TYPE})')


def plain(text: str) -> str:
    """In one line, with programs that stand in front (`let f = {...} in`) put where they are called."""
    text = re.sub(r'np\.int64\((\d+)\)', r'\1', ' '.join(text.split()))
    text = re.sub(r'\{([UR]:[^}]*), ([UR]:)', r'{\1,\2', text)
    while found := re.match(r'let (\w+) = (\{.*?\}) in (?=let|\{ lambda)', text):
        text = re.sub(rf'jaxpr={found[1]}(?=[\] ])', lambda _, body=found[2]: f'jaxpr={body}', text[found.end():])
    return text


def interface(text: str) -> tuple[list[str], list[str]]:
    """The types of the arguments and of the results."""
    header = text[:text.index('let')]
    types = {**dict(BINDER.findall(text)), **dict(BINDER.findall(header))}
    outs = re.findall(rf'([\w.+-]+)(?::({TYPE}))?', text[text.rindex('in (') + 4:])
    return [t for _, t in BINDER.findall(header[header.index(';'):])], [t or types[name] for name, t in outs]


def equations(text: str) -> Counter:
    """How often there is which equation with results of which types."""
    return Counter((primitive, tuple(t for _, t in BINDER.findall(made))) for made, primitive in EQUATION.findall(text)
                   if primitive not in OPENED)


def differences(ours: str, theirs: str) -> str:
    """What two printed programs say differently; '' if nothing. What is a sum or a cast on the way in one may be hidden in the other's
    types: then states do not count, and casts in excess neither."""
    ours, theirs = plain(ours), plain(theirs)
    if ours == theirs:
        return ''
    if not theirs.startswith('{'):
        return f'{ours}; expected {theirs}'
    if interface(ours) != interface(theirs):
        return f'types {interface(ours)}; expected {interface(theirs)}'
    if equations(ours) == equations(theirs):
        return ''
    mine, others = (equations(re.sub(r'\{[UR]\w*:[^}]*\}', '', text)) for text in (ours, theirs))
    excess = Counter({key: n for key, n in (mine - others).items() if key[0] != 'reshard'})
    lack = others - mine
    return f'has {_shown(excess)}; expected {_shown(lack)}' if excess or lack else ''


def _shown(found: Counter) -> str:
    return ', '.join(f"{n} {primitive} -> {' '.join(types)}" for (primitive, types), n in sorted(found.items())) or 'nothing else'


def printed(case: Case) -> str:
    """What the library prints for a recorded program or expression."""
    mesh = on_mesh(mesh_key(case['mesh'])) if case['mesh'] else None
    names = {'jax': jax, 'jnp': jnp, 'lax': lax, 'P': jax.P, 'np': np, 'mesh': mesh}
    with nullcontext() if mesh is None else jax.set_mesh(mesh):
        if 'expr' in case:
            names |= {name: place(Placed.of_arg(arg), i, case['mesh']) for i, (name, arg) in enumerate(zip('ab', case['args']))}
            return eval(case['expr'], names)
        exec(compile(case['program'], case['id'], 'exec'), names)
        f = names['f']
        placed = [Placed.of_arg(arg) for arg in case['args']]
        args = [place(p, i, case['mesh']) if case['mesh'] else jnp.asarray(formula(p.dtype, index(p.shape), i))
                for i, p in enumerate(placed)]
        if case['how'] == 'typeof':
            y = f(*args)
            return y if isinstance(y, str) else str(jax.typeof(y))
        return str(jax.make_jaxpr(f)(*args) if case['how'] == 'make_jaxpr' else jax.jit(f).trace(*args).jaxpr)
