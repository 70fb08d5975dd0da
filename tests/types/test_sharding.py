"""NamedSharding, and the checks that mesh, spec and shape fit: errors by text, repairs applied."""

import pickle

import pytest

from distad.errors import DuplicateSpecError, IndivisibleError
from distad.types.mesh import EMPTY_MESH, AbstractMesh
from distad.types.sharding import NamedSharding, array_sharding
from distad.types.spec import P
from tests.types.test_mesh import mesh_of

MESH = mesh_of((2, 3), ('X', 'Y'))


def test_prints():
    assert str(NamedSharding(MESH, P('X'))) == (
        "NamedSharding(mesh=Mesh('X': 2, 'Y': 3, axis_types=(Explicit, Explicit)), spec=P('X',), memory_kind=device)")
    abstract = AbstractMesh((2,), ('X',))
    assert str(NamedSharding(abstract, P(None, reduced={'X'}))) == (
        f"NamedSharding(mesh={abstract}, spec=P(None, reduced={{'X'}}))")


def test_equality():
    sharding = NamedSharding(MESH, P('X'))
    assert sharding == NamedSharding(mesh_of((2, 3), ('X', 'Y')), P('X')) == pickle.loads(pickle.dumps(sharding))
    assert sharding != NamedSharding(MESH, P('X', None)) and sharding != NamedSharding(MESH.abstract_mesh, P('X'))
    assert sharding.is_equivalent_to(NamedSharding(MESH, P('X', None)), 2)
    assert not sharding.is_equivalent_to(NamedSharding(MESH, P(None, 'X')), 2)
    assert sharding.update(spec=P('Y')) == NamedSharding(MESH, P('Y'))


@pytest.mark.parametrize('spec, shape, block', [
    (P('X'), (4, 5), (2, 5)),
    (P('X', 'Y'), (4, 9), (2, 3)),
    (P(('X', 'Y')), (12, 5), (2, 5)),
    (P(None, ('Y', 'X')), (5, 6), (5, 1)),
    (P('X', unreduced={'Y'}), (4,), (2,)),
    (P('X'), (0,), (0,)),
    (P(), (), ()),
])
def test_shard_shape(spec, shape, block):
    assert NamedSharding(MESH, spec).shard_shape(shape) == block


@pytest.mark.parametrize('spec, replicated', [
    (P(), True), (P(None), True), (P(reduced={'X'}), True), (P('X'), False), (P(unreduced={'X'}), False)])
def test_is_fully_replicated(spec, replicated):
    assert NamedSharding(MESH, spec).is_fully_replicated is replicated


def test_an_axis_of_one_rank_splits_nothing():
    assert NamedSharding(mesh_of((1, 2), ('X', 'Y')), P('X')).is_fully_replicated


def test_devices():
    sharding = NamedSharding(MESH, P('X'))
    assert sharding.num_devices == 6 and {d.id for d in sharding.device_set} == set(range(6))


def test_array_sharding_is_abstract_and_padded():
    sharding = array_sharding(MESH, P('X'), (4, 5, 7))
    assert sharding.spec == P('X', None, None) and sharding.mesh == MESH.abstract_mesh


@pytest.mark.parametrize('spec, shape, error, words', [
    (P('Z'), (4,), ValueError, r"P\('Z',\) names mesh axis 'Z', .*not found.*'X' \(size 2\), 'Y' \(size 3\)"),
    (P(unreduced={'Z'}), (4,), ValueError, "mesh axis 'Z'"),
    (P('X', reduced={'Z'}), (4,), ValueError, "mesh axis 'Z'"),
    (P('X', 'X'), (4, 4), DuplicateSpecError, "'X' stands twice"),
    (P(('X', 'Y'), 'X'), (6, 4), DuplicateSpecError, "'X' stands twice"),
    (P(None, None), (4,), ValueError, '2 entries, but the shape .* has 1'),
    (P(None), (), ValueError, '1 entries, but the shape .* has 0'),
    (P('X'), (7, 3), IndivisibleError, r'dimension 0 of shape \(7, 3\) has size 7.*divisible.*2.*axis X \(size 2\).*8'),
    (P(None, ('X', 'Y')), (5, 9), IndivisibleError, r'dimension 1 .*into 6 parts along mesh axis X \(size 2\) \* Y '),
    (P(P.UNCONSTRAINED), (4,), ValueError, 'unconstrained'),
])
def test_refuses(spec, shape, error, words):
    with pytest.raises(error, match=words):
        array_sharding(MESH, spec, shape)


def test_the_size_proposed_by_the_message_fits():
    with pytest.raises(IndivisibleError) as caught:
        array_sharding(MESH, P(('X', 'Y')), (8,))
    proposed = int(str(caught.value).split('pad it to ')[1].split()[0])
    assert array_sharding(MESH, P(('X', 'Y')), (proposed,)).shard_shape((proposed,)) == (2,)


def test_without_a_mesh():
    with pytest.raises(ValueError, match='no mesh is in use'):
        array_sharding(EMPTY_MESH, P('X'), (4,))
    with pytest.raises(TypeError, match='takes a mesh'):
        NamedSharding('X', P())
    with pytest.raises(TypeError, match=r"such as P\('X'\)"):
        NamedSharding(MESH, 'X')


def test_an_indivisible_size_is_a_value_error():
    assert issubclass(IndivisibleError, ValueError) and not issubclass(DuplicateSpecError, ValueError)
