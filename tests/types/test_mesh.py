"""Meshes: equality by content, printing, where ranks stand, which one is in use."""

import copy
import pickle
import threading

import numpy as np
import pytest

from distad.types.mesh import (
    EMPTY_MESH,
    AbstractMesh,
    AxisType,
    Device,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)


def mesh_of(sizes, names, axis_types=None, first=0):
    count = int(np.prod(sizes))
    devices = np.array([Device(first + i, first + i) for i in range(count)], dtype=object)
    return Mesh(devices.reshape(sizes), names, axis_types)


def test_prints():
    mesh = mesh_of((2, 3), ('X', 'Y'))
    assert str(mesh) == "Mesh('X': 2, 'Y': 3, axis_types=(Explicit, Explicit))"
    assert repr(mesh) == "Mesh(axis_sizes=(2, 3), axis_names=('X', 'Y'), axis_types=(Explicit, Explicit))"
    assert str(mesh.abstract_mesh) == repr(mesh.abstract_mesh) == (
        "AbstractMesh('X': 2, 'Y': 3, axis_types=(Explicit, Explicit), device_kind=cpu, num_cores=None, platform=cpu)")
    assert str(EMPTY_MESH) == 'AbstractMesh((), axis_types=())'
    assert str(get_mesh()) == 'Mesh()'
    assert repr(mesh.devices[0, 1]) == 'CpuDevice(id=1)' and str(mesh.devices[0, 1]) == 'cpu:1'


def test_equal_by_content():
    one, same = mesh_of((2, 3), ('X', 'Y')), mesh_of((2, 3), ('X', 'Y'))
    assert one == same and hash(one) == hash(same)
    assert one.abstract_mesh == AbstractMesh((2, 3), ('X', 'Y'))
    for other in (mesh_of((3, 2), ('X', 'Y')), mesh_of((2, 3), ('Y', 'X')), mesh_of((2, 3), ('X', 'Y'), first=1),
                  mesh_of((2, 3), ('X', 'Y'), (AxisType.Auto, AxisType.Explicit))):
        assert one != other
    assert mesh_of((2, 3), ('X', 'Y'), first=1).abstract_mesh == one.abstract_mesh
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)


def test_axes():
    mesh = mesh_of((2, 3), ('X', 'Y'))
    assert dict(mesh.shape) == {'X': 2, 'Y': 3} and mesh.shape_tuple == (('X', 2), ('Y', 3))
    assert (mesh.size, mesh.empty, mesh.axis_size('Y'), mesh.axis_size(('X', 'Y'))) == (6, False, 3, 6)
    assert (EMPTY_MESH.size, EMPTY_MESH.empty, EMPTY_MESH.axis_size(())) == (0, True, 1)
    assert mesh.abstract_mesh.in_order({'Y', 'X'}) == ('X', 'Y')


def test_ranks_stand_row_major():
    mesh = mesh_of((2, 3), ('X', 'Y'), first=1)
    assert mesh.ranks == (1, 2, 3, 4, 5, 6)
    assert mesh.coords(1) == {'X': 0, 'Y': 0} and mesh.coords(5) == {'X': 1, 'Y': 1}
    assert mesh.coords(0) is None
    assert get_mesh().ranks == ()


def test_axis_types():
    mesh = AbstractMesh((2, 3), ('X', 'Y')).with_types({'Y': AxisType.Manual})
    assert (mesh.manual_axes, mesh.explicit_axes, mesh.auto_axes) == (('Y',), ('X',), ())
    assert mesh == AbstractMesh((2, 3), ('X', 'Y'), (AxisType.Explicit, AxisType.Manual))
    assert mesh != AbstractMesh((2, 3), ('X', 'Y'))


@pytest.mark.parametrize('make, words', [
    (lambda: mesh_of((2,), ('X', 'Y')), 'one name per axis'),
    (lambda: AbstractMesh((2,), ('X', 'Y')), 'one name per axis'),
    (lambda: mesh_of((2, 2), ('X', 'X')), 'distinct'),
    (lambda: mesh_of((2, 2), ('X', 'Y'), (AxisType.Explicit,)), 'one axis type per axis'),
    (lambda: Mesh([Device(0, 0), Device(0, 0)], ('X',)), 'each device once'),
    (lambda: set_mesh(AbstractMesh((2,), ('X',))), 'takes a Mesh'),
])
def test_refuses(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_mesh_in_use():
    outer, inner = mesh_of((2,), ('X',)), mesh_of((3,), ('Y',))
    with set_mesh(outer) as got:
        assert got is outer is get_mesh() and get_abstract_mesh() == outer.abstract_mesh
        with set_mesh(inner):
            assert get_mesh() is inner
        manual = outer.abstract_mesh.with_types({'X': AxisType.Manual})
        with pytest.raises(KeyError), use_abstract_mesh(manual):
            assert get_mesh() is outer and get_abstract_mesh() is manual
            raise KeyError
        assert get_mesh() is outer and get_abstract_mesh() == outer.abstract_mesh
    assert get_mesh().empty and get_abstract_mesh() is EMPTY_MESH


def test_mesh_set_by_call_stays():
    before = get_mesh()
    mesh = mesh_of((2,), ('X',))

    def program():
        set_mesh(mesh)
        assert get_mesh() is mesh

    thread = threading.Thread(target=program)  # a thread has a context of its own
    thread.start()
    thread.join()
    assert get_mesh() is before
