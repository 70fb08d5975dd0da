"""Every primitive under vmap."""

from collections import Counter

import pytest

from distad.config import config
from distad.core.primitive import NoRule
from distad.types.mesh import AxisType, Mesh, set_mesh
from tests.laws.batches import on_mesh, on_one_rank
from tests.laws.calls import Call
from tests.laws.test_primitives import CALLS, EXCHANGES, PRIMITIVES, UNTRACKED, with_axes

HERE = {name: calls for name, calls in CALLS.items() if isinstance(calls, list) and name not in UNTRACKED}
PLACED = [name for name in HERE if name not in EXCHANGES]


def of_each_rule(names: list[str], most: int = 6) -> list[str]:
    """A few primitives for each maker of rules: what it makes for others is the same function."""
    seen: Counter = Counter()
    chosen = []
    for name in names:
        code = getattr(PRIMITIVES[name].batch, '__code__', name)
        seen[code] += 1
        chosen += [name] if seen[code] <= most else []
    return chosen


def report(faults: list[str]) -> None:
    if faults:
        pytest.fail(f'{len(faults)} faults:\n' + '\n'.join(dict.fromkeys(faults)), pytrace=False)


def some(name: str, most: int, places: int) -> list[Call]:
    """The first calls of a primitive, to be put on a mesh in a few ways."""
    return [call.but(places=places) for call in HERE[name][:most]]


@pytest.mark.ranks(1)
def test_only_what_has_no_operands_has_no_rule() -> None:
    without = {p.name: p.batch.why for p in PRIMITIVES.values() if isinstance(p.batch, NoRule)}
    assert set(without) == {'zeros', 'iota', 'axis_index'}, without


@pytest.mark.parametrize('name', PLACED)
@pytest.mark.ranks(1)
def test_a_map_is_the_stack_of_calls(name: str) -> None:
    with config.override(enable_x64=True):
        report(on_one_rank(PRIMITIVES[name], HERE[name]))


@pytest.mark.parametrize('name', PLACED)
@pytest.mark.meshes((2,))
def test_on_an_explicit_axis(name: str, mesh: Mesh) -> None:
    with config.override(enable_x64=True):
        report(on_mesh(PRIMITIVES[name], some(name, 1, 2), mesh))


@pytest.mark.parametrize('name', of_each_rule(PLACED))
@pytest.mark.meshes((2, 2))
def test_on_two_explicit_axes(name: str, mesh: Mesh) -> None:
    with config.override(enable_x64=True):
        report(on_mesh(PRIMITIVES[name], some(name, 1, 2), mesh))


@pytest.mark.parametrize('name', of_each_rule([*HERE]))
@pytest.mark.meshes((3,))
def test_on_a_manual_axis(name: str, mesh: Mesh) -> None:
    with set_mesh(with_axes(mesh, AxisType.Manual, 'X')) as here, config.override(enable_x64=True):
        report(on_mesh(PRIMITIVES[name], some(name, 1, 4 if name in EXCHANGES else 2), here))


@pytest.mark.parametrize('name', [name for name in EXCHANGES if name not in UNTRACKED])
@pytest.mark.meshes((2, 2))
def test_on_two_manual_axes(name: str, mesh: Mesh) -> None:
    with set_mesh(with_axes(mesh, AxisType.Manual, 'X', 'Y')) as here, config.override(enable_x64=True):
        report(on_mesh(PRIMITIVES[name], some(name, 1, 4), here))
