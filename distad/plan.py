"""The communication of a program, known before it runs: a function of the types of its arguments.

    >>> print(plan(step)(params, batch))
    collective   axes   bytes  times  where
    all-reduce   X     38 856      1  train.py:61 (step)
    1 collective, 38.9 kB from a rank

It is read off the program that a rank runs, after the compiler has joined and dropped what it can; the counters of a run
(`debug.count_collectives`) say the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps

from distad.compiler.text import messages
from distad.control.jit import Jitted, jit
from distad.core.jaxpr import Equation, Jaxpr, sub_jaxprs
from distad.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One collective of a program.

    It is made `times` times in a run, and a rank hands `nbytes` to MPI each time; None where the data decide. `choice` is true in a
    branch of a `cond`, which may not be taken.
    """

    op: str
    axes: tuple[str, ...]
    nbytes: int | None
    times: int | None
    choice: bool
    path: str
    source: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The collectives of a program, in its order. Printed it is a table."""

    collectives: tuple[Planned, ...]

    @property
    def exact(self) -> bool:
        """Whether no data decide about number and size: then `total`, `by_op` and `bytes` are those of every run."""
        return all(c.times is not None and c.nbytes is not None and not c.choice for c in self.collectives)

    @property
    def by_op(self) -> dict[str, int]:
        """How many collectives of each kind a run makes. A loop whose rounds the data decide counts as one round, a branch as taken."""
        found: dict[str, int] = {}
        for c in self.collectives:
            found[c.op] = found.get(c.op, 0) + _once(c.times)
        return found

    @property
    def total(self) -> int:
        return sum(self.by_op.values())

    @property
    def bytes(self) -> int:
        """The bytes that a rank hands to MPI in a run, as far as types tell."""
        return sum((c.nbytes or 0) * _once(c.times) for c in self.collectives)

    def __str__(self) -> str:
        rows = [('collective', 'axes', 'bytes', 'times', 'where'), *map(_cells, self.collectives)]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [f"{op:{widths[0]}}  {axes:{widths[1]}}  {nbytes:>{widths[2]}}  {times:>{widths[3]}}  {where}"
                 for op, axes, nbytes, times, where in rows] if self.collectives else []
        least = '' if self.exact else 'at least ' if all(c.times is not None for c in self.collectives) else 'about '
        n = self.total
        return '\n'.join([*lines, f"{n or 'no'} collective{'' if n == 1 else 's'}"
                          + (f", {least}{_size(self.bytes)} from a rank" if n else '')])


def _size(nbytes: int) -> str:
    return f"{nbytes} B" if nbytes < 1000 else f"{nbytes / 1e3:,.1f} kB"


def _once(times: int | None) -> int:
    return 1 if times is None else times


def _cells(c: Planned) -> tuple[str, ...]:
    times = ('each round' if c.times is None else str(c.times)) + (', if taken' if c.choice else '')
    return (c.op, ','.join(c.axes), '?' if c.nbytes is None else f"{c.nbytes:,}".replace(',', ' '), times,
            f"{c.source or ''} {c.path}".strip())


def plan(fun: Callable) -> Callable[..., Plan]:
    """A function of the arguments of `fun`, arrays or `ShapeDtypeStruct`s, that gives the plan of its communication.

    fun: a function, jitted or not; it is traced and compiled, not run. Communication: none.

        assert plan(step)(params, batch).by_op == {'all-reduce': 1}
    """
    jitted = fun if isinstance(fun, Jitted) else jit(fun)

    @wraps(fun)
    def planned(*args, **kwargs) -> Plan:
        compiled = jitted.lower(*args, **kwargs).compile()
        return Plan(collectives=tuple(_walk(compiled.program.jaxpr, f"jit({jitted.name})/", 1, False)))

    return planned


def _walk(jaxpr: Jaxpr, path: str, times: int | None, choice: bool) -> Iterator[Planned]:
    for eqn in jaxpr.equations:
        here = f"{path}{eqn.path}{eqn.primitive.name}"
        for op, axes, nbytes in messages(eqn):
            if eqn.outs[0].type.mesh.axis_size(axes) > 1:                    # among one rank nothing is sent
                yield Planned(op=op, axes=axes, nbytes=nbytes, times=times, choice=choice, path=here, source=eqn.source)
        for inner in sub_jaxprs(eqn.params):
            yield from _walk(inner, f"{here}/", _rounds(eqn, times), choice or eqn.primitive.name == 'cond')


def _rounds(eqn: Equation, times: int | None) -> int | None:
    if eqn.primitive.name == 'while' or times is None:
        return None
    return times * eqn.params['length'] if eqn.primitive.name == 'scan' else times


__all__ = ['Plan', 'Planned', 'plan']
