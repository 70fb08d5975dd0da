"""Every primitive under vmap."""

import pytest

from distad.config import config
from distad.types.mesh import AxisType, Mesh, set_mesh
from tests.laws.batches import on_mesh, on_one_rank
from tests.laws.test_primitives import CALLS, EXCHANGES, PRIMITIVES, UNTRACKED, with_axes

HERE = [name for name, calls in CALLS.items() if isinstance(calls, list)]
PLACED = [name for name in HERE if name not in EXCHANGES]


def report(faults: list[str]) -> None:
    faults = list(dict.fromkeys(faults))
    if faults:
        pytest.fail(f'{len(faults)} faults:\n' + '\n'.join(faults[:30]), pytrace=False)


@pytest.mark.parametrize('name', PLACED)
@pytest.mark.ranks(1)
def test_a_map_is_the_stack_of_calls(name: str) -> None:
    with config.override(enable_x64=True):
        report(on_one_rank(PRIMITIVES[name], CALLS[name]))


@pytest.mark.parametrize('name', PLACED)
@pytest.mark.meshes((2,), (2, 2))
def test_on_explicit_axes(name: str, mesh: Mesh) -> None:
    with config.override(enable_x64=True):
        report(on_mesh(PRIMITIVES[name], CALLS[name], mesh))


@pytest.mark.parametrize('name', [name for name in HERE if name not in UNTRACKED])
@pytest.mark.meshes((2,), (2, 2))
def test_over_manual_axes(name: str, mesh: Mesh) -> None:
    manual = ('X', 'Y') if name in EXCHANGES else ('X',)
    with set_mesh(with_axes(mesh, AxisType.Manual, *manual[:len(mesh.axis_names)])) as here, config.override(enable_x64=True):
        report(on_mesh(PRIMITIVES[name], CALLS[name], here))
