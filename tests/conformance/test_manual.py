"""Manual mode against the record: every case of the groups that are built, as in `test_explicit`."""

from __future__ import annotations

import pytest

from tests.conformance import manual
from tests.conformance.cases import mesh_size
from tests.conformance.report import fail_unless_all_pass
from tests.conformance.selection import chunks

CHUNKS = chunks(filter(manual.selected, manual.cases()), 60)


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=pytest.mark.ranks(mesh_size(cases[0]))) for name, cases in CHUNKS.items()])
@pytest.mark.timeout(180)
def test_answers_are_as_recorded(name: str) -> None:
    fail_unless_all_pass([(case, manual.check(case)) for case in CHUNKS[name]])


def test_every_case_answered_otherwise_is_there() -> None:
    assert set(manual.OTHERWISE) <= {case['id'] for case in manual.cases() if manual.selected(case)}
