"""How verdicts are shown: a failed case on one line, and what fails most often."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable

import pytest

from tests.conformance.cases import Case, Placed
from tests.conformance.judge import Verdict


def describe(case: Case, verdict: Verdict, every_problem: bool = False) -> str:
    """Id, expression, types of the arguments and what is wrong: on one line, or on one line for each problem."""
    args = ', '.join(Placed.of_arg(arg).show(case['mesh']) for arg in case['args'])
    head = f"  {case['id']}  {case.get('expr', '(program)')}  ({args})"
    if every_problem:
        return '\n'.join([head, *(f'      {problem}' for problem in verdict.problems)])
    more = f'  (+{len(verdict.problems) - 1} more)' if len(verdict.problems) > 1 else ''
    return f'{head}  {verdict.problems[0]}{more}'


def fail_unless_all_pass(verdicts: Iterable[tuple[Case, Verdict]]) -> None:
    """Fail the test that judged these cases, with a line for each case that is not as recorded."""
    verdicts = list(verdicts)
    failed = [describe(case, verdict) for case, verdict in verdicts if verdict.status == 'failed']
    if failed:
        pytest.fail('\n'.join([f'{len(failed)} of {len(verdicts)} cases differ from the record:', *failed]), pytrace=False)


def causes(verdicts: Iterable[Verdict], most: int) -> list[str]:
    """The problems met most often, without what is particular to a case."""
    count = collections.Counter(_general(verdict.problems[0]) for verdict in verdicts if verdict.problems)
    return [f'  {n:5}  {cause}' for cause, n in count.most_common(most)]


def _general(problem: str) -> str:
    text = re.sub(r'~?\w+\[[^\]]*\](\{[^}]*\})?', 'T', problem)
    return re.sub(r'-?\d+(\.\d+)?', '#', re.sub(r'T(, T)+', 'T', text))[:160]


def by_reason(verdicts: Iterable[Verdict]) -> list[str]:
    """Every reason in use, with the ids it stands for."""
    ids: dict[str, list[str]] = collections.defaultdict(list)
    for verdict in verdicts:
        for reason in verdict.reasons:
            ids[reason].append(verdict.id)
    return [f"\nby reason, {len(found)}: {reason}\n  {' '.join(found)}" for reason, found in ids.items()]
