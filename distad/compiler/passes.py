"""All passes, in order, over a program and the programs inside it.

`DISTAD_DUMP=directory` writes the program after each pass that changed it; `DISTAD_CHECK=types` infers it anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

from distad.compiler.accumulate import accumulated
from distad.compiler.blocked import BLOCK
from distad.compiler.buckets import bucketed
from distad.compiler.cse import cse
from distad.compiler.dce import dce
from distad.compiler.ends import ended
from distad.compiler.fused import fused
from distad.compiler.fusion import fuse
from distad.compiler.hoist import hoisted
from distad.compiler.inline import inlined
from distad.compiler.invariant import invariant
from distad.compiler.llvm import engine, scalars
from distad.compiler.products import added_in_place
from distad.compiler.simplify import simplified
from distad.compiler.slices import sliced_first
from distad.config import config
from distad.core.jaxpr import Equation, Jaxpr, check
from distad.runtime import mpi

Pass = Callable[[Jaxpr], Jaxpr]


def optimized(jaxpr: Jaxpr) -> Jaxpr:
    """What a rank runs in place of a program: calls and maps in line, nothing computed in vain, twice or in each round of a loop,
    alike collectives in one message, passes over memory joined.
    """
    return _joined(_arranged(jaxpr, jaxpr.hoist_reductions), 1)


def _arranged(jaxpr: Jaxpr, hoist: bool) -> Jaxpr:
    """The equations that are needed, one by one."""
    known: dict = {}
    first = _through([('inline', inlined), ('dce', dce), ('simplify', simplified), ('cse', cse), ('slices', sliced_first),
                      ('simplify', simplified)], jaxpr)
    moved = _through([('inside', lambda j: _inside(j, known, lambda body, eqn: (hoist,), _arranged)), ('invariant', invariant),
                      *([('hoist', hoisted)] if hoist else []), ('accumulate', accumulated)], first)
    return moved if moved is first else _through([('cse', cse)], moved)


def _joined(jaxpr: Jaxpr, times: int) -> Jaxpr:
    """Equations that go together as one. `times`: how often the program is known to run in one call."""
    known: dict = {}

    def rounds(body: Jaxpr, eqn: Equation) -> tuple[int]:
        return (times * (eqn.params['length'] if eqn.primitive.name == 'scan' else 1),)
    passes: list[tuple[str, Pass]] = [('inside', lambda j: _inside(j, known, rounds, _joined)), ('buckets', bucketed)]
    if not config.check_values:                          # where each operation is looked at, each is one
        passes = [('products', added_in_place), *passes, ('fuse', partial(_fused, times=times))]
        passes += [('ends', ended)] if engine.available() else []
    return _through(passes, jaxpr)


def _through(passes: list[tuple[str, Pass]], jaxpr: Jaxpr) -> Jaxpr:
    dump = _Dump(jaxpr) if config.dump else None
    for name, f in passes:
        before, jaxpr = jaxpr, f(jaxpr)
        if jaxpr is before:
            continue
        if config.check_types:
            check(jaxpr)
        if dump:
            dump.write(name, jaxpr)
    return jaxpr


_programs = itertools.count()


class _Dump:
    """Files of one program, in the order of its passes."""

    def __init__(self, jaxpr: Jaxpr):
        self.folder = Path(config.dump) / f"rank{mpi.rank()}" / f"{next(_programs):04d}_{jaxpr.name or 'program'}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.count = 0
        self.write('traced', jaxpr)

    def write(self, name: str, jaxpr: Jaxpr) -> None:
        (self.folder / f"{self.count:02d}_{name}.txt").write_text(f"{jaxpr}\n")
        self.count += 1


def _fused(jaxpr: Jaxpr, times: int) -> Jaxpr:
    if engine.available():
        return fuse(jaxpr, scalars.serves, max(2, config.fuse_from // times))
    return fuse(jaxpr, _numpy, max(config.fuse_from, 2 * BLOCK) if config.fuse_from > 2 else 2)


def _numpy(eqn: Equation) -> bool:
    """NumPy makes every elementwise op; sums of truth values and the like stay alone."""
    return eqn.primitive.pointwise or eqn.ins[0].type.dtype.kind == 'f'


def _inside(jaxpr: Jaxpr, known: dict, options: Callable, apply: Callable) -> Jaxpr:
    """A program with `apply` done to those in its equations. One that stands in several of them stays one."""
    def one(value, eqn: Equation):
        if isinstance(value, Jaxpr):
            key = (id(value), *options(value, eqn))
            if key not in known:
                known[key] = apply(value, *key[1:])
            return known[key]
        if isinstance(value, tuple) and value and all(isinstance(v, Jaxpr) for v in value):
            return tuple(one(v, eqn) for v in value)
        return value
    equations = []
    for eqn in jaxpr.equations:
        params = {} if eqn.primitive is fused else {k: one(v, eqn) for k, v in eqn.params.items()}
        changed = any(params[k] is not eqn.params[k] for k in params)
        equations.append(eqn.changed(params=params) if changed else eqn)
    return jaxpr if all(a is b for a, b in zip(equations, jaxpr.equations, strict=True)) else jaxpr.changed(equations=tuple(equations))
