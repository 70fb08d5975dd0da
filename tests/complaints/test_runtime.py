"""A value that should be the same on all ranks and is not."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
from distad.config import config
from tests.complaints.preamble import fails, full, mesh, put


@pytest.mark.ranks(2)
def test_a_replicated_value_that_differs_is_refused_on_all_ranks() -> None:
    mesh(2)
    v = np.full(3, 1. + jax.process_index(), np.float32)
    with config.override(check='comm'):
        fails('DisagreementError', r'should be the same on all ranks along X.*1.0 on rank 0; 2.0 on rank 1', put, v)


@pytest.mark.ranks(4)
def test_more_ranks_than_cores_and_root_are_no_trouble() -> None:
    """The suite runs so in CI: as root, four ranks on two cores, started by the documented command."""
    assert jax.device_count() == 4
    mesh(4)
    assert full(put(np.arange(8.), 'X') + 1).tolist() == [1., 2., 3., 4., 5., 6., 7., 8.]
