"""Every primitive of distad.ops and distad.control keeps the laws on every placement."""

import importlib
import pkgutil

import pytest

import distad.control
import distad.ops
from distad.config import config
from distad.core.primitive import Primitive
from distad.types.mesh import AxisType, Mesh, set_mesh
from tests.laws import tables
from tests.laws.calls import Elsewhere, Table
from tests.laws.laws import visit


def all_primitives() -> list[Primitive]:
    """Each once, in the order of modules."""
    return list(dict.fromkeys(
        value for package in (distad.ops, distad.control)
        for module in pkgutil.iter_modules(package.__path__, f'{package.__name__}.')
        for value in vars(importlib.import_module(module.name)).values() if isinstance(value, Primitive)))


def all_calls() -> Table:
    found: Table = {}
    for module in pkgutil.iter_modules(tables.__path__, f'{tables.__name__}.'):
        table = importlib.import_module(module.name).TABLE
        assert not found.keys() & table.keys(), f'two tables have calls of {found.keys() & table.keys()}'
        found |= table
    return found


PRIMITIVES = {primitive.name: primitive for primitive in all_primitives()}
CALLS = all_calls()


def test_names_are_those_of_one_primitive() -> None:
    names = [primitive.name for primitive in all_primitives()]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)
    assert not CALLS.keys() - PRIMITIVES.keys()


def check(name: str, mesh: Mesh) -> None:
    calls = CALLS.get(name)
    if calls is None:
        pytest.fail(f'the primitive {name} has no example calls: add some to a table in tests/laws/tables', pytrace=False)
    if isinstance(calls, Elsewhere):
        assert CALLS[calls.by], calls.why
        return
    with config.override(enable_x64=True):
        faults = visit(PRIMITIVES[name], calls, mesh).faults
    if faults:
        pytest.fail(f'{len(faults)} faults:\n' + '\n'.join(faults[:40]), pytrace=False)


def with_axes(mesh: Mesh, kind: AxisType, *axes: str) -> Mesh:
    """The same mesh with some axes of another kind."""
    return Mesh(mesh.devices, mesh.axis_names, tuple(kind if axis in axes else AxisType.Explicit for axis in mesh.axis_names))


def names(field: str) -> list[str]:
    """The primitives whose calls are of a kind."""
    return [name for name, calls in CALLS.items() if isinstance(calls, list) and all(getattr(call, field) for call in calls)]


EXCHANGES, UNTRACKED = names('stacked'), names('untracked')


@pytest.mark.parametrize('name', [name for name in PRIMITIVES if name not in EXCHANGES])
@pytest.mark.meshes((2,), (2, 2), (4,), (3,), (1, 2))
def test_on_explicit_axes(name: str, mesh: Mesh) -> None:
    check(name, mesh)


@pytest.mark.parametrize('name', [name for name in PRIMITIVES if name not in UNTRACKED])
@pytest.mark.meshes((2,), (2, 2), (3,))
def test_beside_a_manual_axis(name: str, mesh: Mesh) -> None:
    with set_mesh(with_axes(mesh, AxisType.Manual, 'X')) as here:
        check(name, here)


@pytest.mark.parametrize('name', [name for name in EXCHANGES if name not in UNTRACKED])
@pytest.mark.meshes((2, 2))
def test_over_manual_axes(name: str, mesh: Mesh) -> None:
    with set_mesh(with_axes(mesh, AxisType.Manual, 'X', 'Y')) as here:
        check(name, here)


@pytest.mark.parametrize('name', UNTRACKED)
@pytest.mark.meshes((2,), (2, 2))
def test_over_untracked_axes(name: str, mesh: Mesh) -> None:
    with set_mesh(with_axes(mesh, AxisType.Auto, 'X')) as here:
        check(name, here)
