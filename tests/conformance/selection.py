"""Which recorded cases the tests run: the groups that are built.

The command line runs every group; the tests run these.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from tests.conformance.cases import Case, explicit, mesh_size

GROUPS = ('pspec', 'typeof', 'pieces', 'creation', 'unary', 'binary', 'binary_pairs2', 'binary_scalar', 'broadcasting',
          'dtype', 'dtype_x64', 'reshard', 'device_put', 'reshape', 'transpose', 'broadcast', 'concat', 'split',
          'slice', 'dus', 'gather', 'scatter', 'select', 'sort', 'cumsum', 'reduce', 'reduce_out', 'dot', 'einsum',
          'control_flow', 'random', 'grad', 'mesh_shapes', 'programs', 'shape_ops', 'misc', 'jit', 'no_collectives')


def selected(case: Case) -> bool:
    """Whether the tests run this case."""
    return case['group'] in GROUPS


def chunks(cases: Iterable[Case], size: int) -> dict[str, list[Case]]:
    """Cases in chunks of one group and one size of mesh: 'unary on 2 devices, 0', ..."""
    by_group: dict[tuple[str, int], list[Case]] = {}
    for case in cases:
        by_group.setdefault((case['group'], mesh_size(case)), []).append(case)
    return {f'{group} on {devices}, {start // size}': here[start : start + size]
            for (group, devices), here in by_group.items() for start in range(0, len(here), size)}


def sample(one_in: int) -> list[Case]:
    """One selected case in so many, the same ones always."""
    return [case for case in explicit() if selected(case) and zlib.crc32(case['id'].encode()) % one_in == 1]
