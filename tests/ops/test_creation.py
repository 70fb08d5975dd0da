"""Arrays from nothing and from NumPy: on every placement the same value, made without a message."""

import ml_dtypes
import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.config import config
from distad.errors import DuplicateSpecError, ShardingTypeError
from distad.ops.shape import iota
from distad.types.array_type import ArrayType
from distad.types.mesh import Device
from tests.ops.arrays import counted, get, numbers, placements, put, some
from tests.ops.moving import check_move

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,), (4,), (1, 3))
M, N = 12, 24

# name: (function of a sharding, the value)
MADE = {
    'zeros': (lambda s: jnp.zeros((M, N), out_sharding=s), np.zeros((M, N))),
    'ones': (lambda s: jnp.ones((M, N), jnp.int32, out_sharding=s), np.ones((M, N), int)),
    'empty': (lambda s: jnp.empty((M, N), out_sharding=s), np.zeros((M, N))),
    'full': (lambda s: jnp.full((M, N), 2.5, out_sharding=s), np.full((M, N), 2.5)),
    'full of a row': (lambda s: jnp.full((M, N), jnp.arange(N), out_sharding=s), np.broadcast_to(np.arange(N), (M, N))),
    'full of a value': (lambda s: jnp.full((M, N), jnp.float32(3), out_sharding=s), np.full((M, N), 3)),
    'full lax': (lambda s: lax.full((M, N), 7, jnp.float16, sharding=s), np.full((M, N), 7)),
    'full True': (lambda s: jnp.full((M, N), True, jnp.float32, out_sharding=s), np.ones((M, N))),
    'array': (lambda s: jnp.array(numbers((M, N), 1), out_sharding=s), numbers((M, N), 1)),
    'asarray of an array': (lambda s: jnp.asarray(jnp.array(numbers((M, N), 1)), device=s), numbers((M, N), 1)),
    'eye': (lambda s: jnp.eye(M, N, 3, device=s), np.eye(M, N, 3)),
    'eye below': (lambda s: jnp.eye(M, N, -2, jnp.int32, device=s), np.eye(M, N, -2)),
    'broadcasted_iota': (lambda s: lax.broadcasted_iota(jnp.int32, (M, N), 1, out_sharding=s), np.indices((M, N))[1]),
    'broadcasted_iota float': (lambda s: lax.broadcasted_iota(jnp.float32, (M, N), 0, out_sharding=s), np.indices((M, N))[0])}
ROWS = {
    'arange': (lambda s: jnp.arange(M, out_sharding=s), np.arange(M)),
    'arange from': (lambda s: jnp.arange(3, M + 3, out_sharding=s), np.arange(3, M + 3)),
    'arange down': (lambda s: jnp.arange(2 * M, 0, -2, out_sharding=s), np.arange(2 * M, 0, -2)),
    'arange float': (lambda s: jnp.arange(float(M), out_sharding=s), np.arange(M, dtype='f4')),
    'arange parts': (lambda s: jnp.arange(0.5, 3.5, 0.25, out_sharding=s), np.arange(0.5, 3.5, 0.25)),
    'arange uint8': (lambda s: jnp.arange(1, M + 1, dtype=jnp.uint8, device=s), np.arange(1, M + 1)),
    'linspace': (lambda s: jnp.linspace(0, 11, M, device=s), np.linspace(0, 11, M))}


@pytest.mark.parametrize('name', [*MADE, *ROWS])
@MESHES
def test_on_every_placement(mesh, name):
    made, value = (MADE | ROWS)[name]
    for t, in some([placements(value.shape, mesh)], 25):
        for f in (lambda t=t: made(t.sharding), jax.jit(lambda t=t: made(t.sharding))):
            sent, _ = counted(f)
            y = f()
            assert not sent and y.type == t.update(dtype=y.dtype, weak_type=y.weak_type), f'{t}: {y.type}, sent {sent}'
            np.testing.assert_array_equal(get(y, mesh), value.astype(y.dtype), err_msg=str(t))


@MESHES
def test_like_another_array(mesh):
    for t in placements((M, N), mesh):
        x = put(numbers((M, N), 1), t, mesh)
        for f, n in ((jnp.zeros_like, 0), (jnp.ones_like, 1), (jnp.empty_like, 0), (lambda x: jnp.full_like(x, 3), 3),
                     (lambda x: lax.full_like(x, 2.), 2), (lambda x: jnp.full_like(x, jnp.float32(4)), 4),
                     (lambda x: jnp.full_like(x, 7, out_sharding=x.type.sharding), 7), (lax.zeros_like_array, 0)):
            sent, _ = counted(lambda f=f, x=x: f(x))
            assert f(x).type == t and not sent
            np.testing.assert_array_equal(get(f(x), mesh), np.full((M, N), n), err_msg=str(t))
        assert str(jnp.zeros_like(x, shape=(2, 3)).type) == 'float32[2,3]'
        assert jnp.ones_like(x, jnp.int32).type == t.update(dtype=np.int32)
        assert str(jnp.zeros_like(x, out_sharding=P('X')).type).startswith('float32[12@X,24]')


@MESHES
def test_triangles_on_every_placement(mesh):
    for f, reference in ((jnp.tril, np.tril), (jnp.triu, np.triu)):
        for t, k in some([[*placements((M, N), mesh), *placements((2, 3, N, M), mesh)[::9]], [0, 2, -3]], 24):
            check_move(lambda x, f=f, k=k: f(x, k), lambda x, f=reference, k=k: f(x, k), (t,), mesh, most=0)
            assert f(put(numbers(t.shape, 1), t, mesh), k).type == t


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_linspace_of_arrays_on_every_placement(mesh):
    start, stop = numbers((M,), 1), numbers((M,), 2)
    for t in placements((M,), mesh):
        x, z = put(start, t, mesh), put(stop, t, mesh)
        y, back = jax.vjp(lambda x, z: jnp.linspace(x, z, 5, axis=-1), x, z)
        assert y.type.partitions == (*t.partitions, ()) and y.type.unreduced == t.unreduced
        np.testing.assert_allclose(get(y, mesh), np.linspace(start, stop, 5, axis=-1), atol=1e-6)
        gx, gz = back(put(np.ones((M, 5)), y.type.dual(), mesh))
        np.testing.assert_allclose(get(gx, mesh), 2.5)
        np.testing.assert_allclose(get(gz, mesh), 2.5)


@pytest.mark.meshes((2, 2))
def test_without_a_sharding_arrays_are_replicated_on_the_current_mesh(mesh):
    for x in (jnp.zeros(3), jnp.full((2, 2), 1), jnp.arange(3), jnp.eye(2), jnp.array([1.]), jnp.tri(3), jnp.indices((2, 3)),
              jnp.linspace(0, 1, 3), lax.iota(jnp.int32, 3), jnp.float32(1), jnp.logspace(0, 1, 3),
              *jnp.meshgrid(jnp.arange(2), jnp.ones(2))):
        assert x.mesh == mesh and x.type == ArrayType(x.shape, x.dtype, weak_type=x.weak_type).update(mesh=mesh)


@pytest.mark.meshes((2,))
def test_a_sharding_that_brings_its_mesh_along(mesh):
    other = jax.Mesh(np.array([Device(1, 1), Device(0, 0)], dtype=object), ('X',))
    rank = jax.process_index()
    for where in (jax.NamedSharding(other, P('X')), P('X')):
        x = jnp.arange(4, out_sharding=where)
        assert x.mesh == (mesh if where == P('X') else other)
        assert x.addressable_shards[0].data.tolist() == ([0, 1] if (rank == 0) == (x.mesh == mesh) else [2, 3])
    with jax.set_mesh(other):
        assert jnp.zeros(4, out_sharding=P('X')).mesh == other


# dtypes and weak types as JAX has them
TYPES = [
    (lambda: jnp.zeros(2), 'float32[2]'), (lambda: jnp.ones((), int), 'int32[]'), (lambda: jnp.full(2, 3), '~int32[2]'),
    (lambda: jnp.full((2,), 2.5), '~float32[2]'), (lambda: jnp.full(2, True), 'bool[2]'),
    (lambda: jnp.full(2, np.float32(2)), 'float32[2]'), (lambda: jnp.full(2, 1, jnp.bfloat16), 'bfloat16[2]'),
    (lambda: lax.full((), 1), '~int32[]'), (lambda: lax.full((2,), 1, jnp.float32), 'float32[2]'),
    (lambda: jnp.full_like(jnp.ones(2), 2), 'float32[2]'), (lambda: jnp.full_like(jnp.full(2, 2.5), 3), '~float32[2]'),
    (lambda: jnp.zeros_like(1.), '~float32[]'), (lambda: jnp.arange(3), 'int32[3]'), (lambda: jnp.arange(3.5), 'float32[4]'),
    (lambda: jnp.arange(0, 1, .25), 'float32[4]'), (lambda: jnp.arange(5, 1, -1), 'int32[4]'),
    (lambda: jnp.arange(3, dtype=float), 'float32[3]'), (lambda: jnp.arange(5, 1), 'int32[0]'),
    (lambda: jnp.linspace(0, 1, 3), 'float32[3]'), (lambda: jnp.linspace(0, 9, 4, dtype=int), 'int32[4]'),
    (lambda: jnp.asarray(3), '~int32[]'), (lambda: jnp.array(2.), '~float32[]'), (lambda: jnp.asarray([1]), 'int32[1]'),
    (lambda: jnp.array(True), 'bool[]'), (lambda: jnp.array(np.float64(2)), 'float32[]'),
    (lambda: jnp.array([]), 'float32[0]'), (lambda: jnp.array([2., np.float32(1)]), 'float32[2]'),
    (lambda: jnp.array([jnp.float32(1), 1.]), 'float32[2]'), (lambda: jnp.array(1., float), 'float32[]'),
    (lambda: jnp.array([[1, 2], [3, 4]], ndmin=3), 'int32[1,2,2]'), (lambda: jnp.array([1j]), 'complex64[1]'),
    (lambda: jnp.array(ml_dtypes.bfloat16(1)), 'bfloat16[]'), (lambda: jnp.array(range(3)), 'int32[3]'),
    (lambda: jnp.array([jnp.arange(2), [3, 4]]), 'int32[2,2]'), (lambda: jnp.tri(2), 'float32[2,2]'),
    (lambda: jnp.tri(2, 3, 1, jnp.int32), 'int32[2,3]'), (lambda: jnp.eye(2, dtype=bool), 'bool[2,2]'),
    (lambda: jnp.identity(2, jnp.int32), 'int32[2,2]'), (lambda: jnp.indices((2, 3)), 'int32[2,2,3]'),
    (lambda: jnp.geomspace(1, 8, 4), 'float32[4]'), (lambda: lax.iota(jnp.uint8, 3), 'uint8[3]'),
    (lambda: jnp.copy(1.), '~float32[]')]


@pytest.mark.parametrize('case', range(len(TYPES)))
def test_dtypes(case):
    f, text = TYPES[case]
    assert str(f().type) == text


def test_values_are_numpys():
    for f, reference in (
            (lambda: jnp.tri(3, 4, 1), np.tri(3, 4, 1)),
            (lambda: jnp.identity(3), np.identity(3)), (lambda: jnp.tri(2, 3, -1), np.tri(2, 3, -1)),
            (lambda: jnp.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False)),
            (lambda: jnp.linspace(2, 3, 1), [2]),
            (lambda: jnp.linspace(np.zeros(2), np.ones(2), 3, axis=1), np.linspace(np.zeros(2), np.ones(2), 3, axis=1)),
            (lambda: jnp.linspace(5, -7, 10, dtype=int), np.linspace(5, -7, 10, dtype=int)),
            (lambda: jnp.logspace(0, 3, 4, base=2.), [1, 2, 4, 8]),
            (lambda: jnp.geomspace(1, 1000, 4), [1, 10, 100, 1000]), (lambda: jnp.indices((2, 3)), np.indices((2, 3))),
            (lambda: jnp.indices((2, 3), sparse=True)[1], [[0, 1, 2]]),
            (lambda: jnp.meshgrid(jnp.arange(2), jnp.arange(3), sparse=True)[1], [[0], [1], [2]]),
            (lambda: jnp.array([[1, 2], (3, 4)]), [[1, 2], [3, 4]]), (lambda: jnp.array([[jnp.int32(1), 2]]), [[1, 2]]),
            (lambda: jnp.linspace(0., 1., 5, retstep=True)[1], .25), (lambda: jnp.arange(jnp.int32(3)), [0, 1, 2])):
        np.testing.assert_allclose(np.asarray(f()), reference, rtol=1e-6)


def test_data_is_copied():
    a = np.ones(2, np.float32)
    x, y = jnp.array(a), jnp.asarray(a)
    a[0] = 5
    assert x.tolist() == y.tolist() == [1., 1.]


def test_double_precision():
    with config.override(enable_x64=True):
        floats = (jnp.zeros(1), jnp.linspace(0, 1, 2), jnp.eye(1), jnp.array([1.]), jnp.logspace(0, 1, 2), jnp.tri(2))
        assert {str(x.dtype) for x in floats} == {'float64'}
        assert jnp.arange(2).dtype == jnp.indices((1,)).dtype == 'int64'


@pytest.mark.meshes((2,))
def test_refusals(mesh):
    for error, match, f in (
            (ValueError, 'divisible', lambda: jnp.arange(3, out_sharding=P('X'))),
            (ValueError, 'Z', lambda: jnp.zeros(2, out_sharding=P('Z'))),
            (DuplicateSpecError, 'X', lambda: jnp.ones((2, 2), out_sharding=P('X', 'X'))),
            (ValueError, 'P', lambda: jnp.zeros((2,), out_sharding=P('X', None))),
            (TypeError, 'sharding', lambda: jnp.zeros(2, out_sharding='X')),
            (ValueError, 'device or out_sharding', lambda: jnp.zeros(2, device=P(), out_sharding=P())),
            (TypeError, 'numbers', lambda: jnp.array('x')), (TypeError, 'numbers', lambda: jnp.array([None])),
            (ValueError, 'zero or more', lambda: jnp.zeros(-1)), (ValueError, 'step', lambda: jnp.arange(0, 3, 0)),
            (TypeError, 'integers', lambda: jnp.zeros(2.5)),
            (ValueError, 'number of samples', lambda: jnp.linspace(0, 1, -1)),
            (ValueError, 'two dimensions', lambda: jnp.tril(jnp.ones(2))),
            (ValueError, 'one dimension', lambda: jnp.meshgrid(jnp.ones((2, 2)))),
            (TypeError, 'rank 0', lambda: lax.full((2,), jnp.ones(2))),
            (ValueError, 'known|value', lambda: jax.jit(jnp.arange)(3))):
        with pytest.raises((error, TypeError) if 'known' in match else error, match=match):
            f()
    t = ArrayType((4,), np.int32).update(mesh=mesh.abstract_mesh, unreduced={'X'})
    with pytest.raises(ShardingTypeError, match='sum would be too large'):
        iota(dtype=np.dtype(np.int32), shape=(4,), dimension=0, sharding=t.sharding)


@pytest.mark.meshes((2,))
def test_a_value_as_number_has_a_gradient(mesh):
    for where, sent in ((None, 0), (P('X'), 1), (P(reduced={'X'}), 1)):
        y, back = jax.vjp(lambda v, where=where: jnp.full((4, 6), v, out_sharding=where), jnp.float32(2))
        ct = put(np.ones((4, 6)), y.type.dual(), mesh)
        assert sum(counted(lambda back=back, ct=ct: back(ct))[0].values()) == sent
        assert float(back(ct)[0]) == 24
