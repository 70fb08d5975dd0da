"""Explicit mode against the record: every case of the groups that are built.

One test runs many cases and reports all that fail, each on a line.  `python -m tests.conformance` runs the same cases
with more to look at.
"""

from __future__ import annotations

import pytest

from tests.conformance.harness import here
from tests.conformance.judge import check
from tests.conformance.report import describe
from tests.conformance.selection import chunks

CHUNKS = chunks(60)


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.timeout(180)
@pytest.mark.parametrize('name', CHUNKS)
def test_answers_are_as_recorded(name: str) -> None:
    cases = [case for case in CHUNKS[name] if here(case)]
    if not cases:
        pytest.skip('all of these need a larger mesh')
    verdicts = [(case, check(case)) for case in cases]
    failed = [describe(case, verdict) for case, verdict in verdicts if verdict.status == 'failed']
    assert not failed, f'{len(failed)} of {len(cases)} cases differ from the record:\n' + '\n'.join(failed)
