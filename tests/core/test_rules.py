"""The table of rules: a primitive is complete, or says why not."""

from __future__ import annotations

import pytest

from distad import rules
from distad.core.primitive import NoRule

pytestmark = pytest.mark.ranks(1)


def test_no_cell_is_empty():
    for p in rules.primitives():
        assert all(rules.cells(p)), p


def test_every_primitive_with_operands_has_a_batching_rule():
    without = {p.name for p in rules.primitives() if isinstance(p.batch, NoRule) and p.jvp != ()}
    assert without <= {'add_dot', 'custom_lin', 'fused', 'relabel'}


def test_a_refusal_gives_a_reason():
    for p in rules.primitives():
        for rule in (p.jvp, p.transpose, p.batch):
            assert not isinstance(rule, NoRule) or len(rule.why) > 10, p


def test_those_that_need_the_axis_run_programs_or_are_collectives():
    names = rules.needing_axis()
    assert {'scan', 'while', 'cond', 'jit', 'mapped_sum', 'mapped_index'} <= set(names)
    assert not {'sin', 'dot_general', 'reduce_sum', 'psum'} & set(names)
