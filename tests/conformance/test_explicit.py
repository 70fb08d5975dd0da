"""Explicit mode against the record: every case of the groups that are built.

One test runs many cases and reports all that fail, each on a line.  `python -m tests.conformance` runs the same cases
with more to look at.
"""

from __future__ import annotations

import pytest

from tests.conformance.cases import Case, explicit, mesh_size
from tests.conformance.harness import fits
from tests.conformance.judge import check
from tests.conformance.reasons import REASONS
from tests.conformance.report import fail_unless_all_pass
from tests.conformance.selection import chunks, sample, selected

CHUNKS = chunks(filter(selected, explicit()), 60)


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=pytest.mark.ranks(mesh_size(cases[0]))) for name, cases in CHUNKS.items()])
@pytest.mark.timeout(180)
def test_answers_are_as_recorded(name: str) -> None:
    _check(CHUNKS[name])


@pytest.mark.ranks(3, 4)
@pytest.mark.timeout(180)
def test_ranks_beyond_the_mesh_run_along() -> None:
    """They hold nothing, and decide as the others do."""
    _check([case for case in sample(12) if mesh_size(case) < 3 and fits(case)])


def test_every_reason_is_needed() -> None:
    for reason in REASONS:
        assert any(reason.applies(case) for case in explicit()), reason.text


def _check(cases: list[Case]) -> None:
    fail_unless_all_pass([(case, check(case)) for case in cases])
