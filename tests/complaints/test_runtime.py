"""A value that should be the same on all ranks and is not."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
from distad.config import config
from tests.complaints.preamble import fails, mesh, put


@pytest.mark.ranks(2)
def test_a_replicated_value_that_differs_is_refused_on_all_ranks() -> None:
    mesh(2)
    v = np.full(3, 1. + jax.process_index(), np.float32)
    with config.override(check='comm'):
        fails('DisagreementError', r'should be the same on all ranks along X.*1.0 on rank 0; 2.0 on rank 1', put, v)
