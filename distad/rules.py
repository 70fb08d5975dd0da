"""Every primitive and its rules, as a table: `python -m distad.rules`, or `make rules`.

A row is a primitive, a column a kind of rule. No cell is empty: a rule that cannot be given says why.
"""

import sys
from collections.abc import Iterator
from textwrap import wrap

import distad  # noqa: F401  all primitives are there then
from distad.core.primitive import BY_LINEARITY, NoRule, Primitive

HEADS = ('primitive', 'type', 'linear in', 'jvp', 'transpose', 'batch', 'sends')
WIDTHS = (24, 10, 18, 26, 30, 22, 20)


def primitives() -> list[Primitive]:
    """All primitives of the library, by name."""
    found = {id(x): x for name, module in list(sys.modules.items()) if name.partition('.')[0] == 'distad'
             for x in vars(module).values() if type(x) is Primitive}
    return sorted(found.values(), key=lambda p: p.name)


def needing_axis() -> list[str]:
    """The primitives for which it matters which axis is mapped: collectives over a mapped axis, and ops that run programs.

    Their batching rule is asked even where no operand has a batch, if they name the axis.
    """
    return [p.name for p in primitives() if p.name.startswith('mapped_') or p.split is not None]


def cells(p: Primitive) -> tuple[str, ...]:
    """One row: what is known of each kind of rule."""
    return (p.name, 'by labels' if p.labels is not None else 'own', _linear(p), _jvp(p), _transpose(p), _batch(p), _sends(p))


def _linear(p: Primitive) -> str:
    if p.linearity.anywhere:
        return 'all together' if not p.linearity.skip else f"all from number {p.linearity.skip}"
    return ', each of '.join(' and '.join(map(str, group)) for group in p.linearity.groups) or 'nothing'


def _refusal(rule: NoRule) -> str:
    return f"none: {rule.why}"


def _jvp(p: Primitive) -> str:
    if isinstance(p.jvp, NoRule):
        return _refusal(p.jvp)
    if p.jvp == BY_LINEARITY:
        return 'by linearity'
    if callable(p.jvp):
        return 'rule'
    return ', '.join(_of_operand(rule) for rule in p.jvp) or 'zero: it has no operands'


def _of_operand(rule) -> str:
    return _refusal(rule) if isinstance(rule, NoRule) else 'zero' if rule is None else 'rule'


def _transpose(p: Primitive) -> str:
    if isinstance(p.transpose, NoRule):
        return _refusal(p.transpose)
    if callable(p.transpose):
        return 'rule'
    return ', '.join('none: not linear there' if rule is None else _of_operand(rule) for rule in p.transpose)


def _batch(p: Primitive) -> str:
    """The maker of the rule, or that it is written by hand."""
    if isinstance(p.batch, NoRule):
        return _refusal(p.batch)
    maker = p.batch.__qualname__.partition('.<locals>')[0].strip('_')
    return maker if p.batch.__module__ == 'distad.core.batching' else 'rule'


def _sends(p: Primitive) -> str:
    return 'nothing' if p.messages is None else 'as its types say'


def table() -> Iterator[str]:
    """The lines of the table."""
    yield from _row(HEADS)
    yield '-' * (sum(WIDTHS) + 2 * len(WIDTHS) - 2)
    for p in primitives():
        yield from _row(cells(p))
    names = needing_axis()
    yield ''
    yield from wrap(f"{len(primitives())} primitives; it matters to {len(names)} which axis is mapped: {', '.join(names)}.", 120)


def _row(words: tuple[str, ...]) -> Iterator[str]:
    columns = [wrap(word, width) or [''] for word, width in zip(words, WIDTHS, strict=True)]
    for i in range(max(map(len, columns))):
        yield '  '.join((c[i] if i < len(c) else '').ljust(width) for c, width in zip(columns, WIDTHS, strict=True)).rstrip()


if __name__ == '__main__':
    print('\n'.join(table()))
