"""Remembered functions: the second call runs kernels alone, and gives what the first one would have given."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.config import config
from distad.core.eager import EAGER
from distad.core.forbid import no_collectives
from distad.core.remember import remembered
from distad.errors import ForbiddenCollectiveError
from distad.runtime import recorder


def same(x, want):
    assert x.dtype == want.dtype and x.shape == want.shape
    np.testing.assert_array_equal(np.asarray(x), want)


def test_a_second_call_looks_up_no_primitive(monkeypatch):
    x = jnp.array([1., 2.])
    jnp.add(x, 1), jnp.sum(x * x, axis=0)
    monkeypatch.setattr(type(EAGER), 'find', None)
    same(jnp.add(x, 5), np.array([6, 7], 'f'))
    same(jnp.sum(x * x, axis=0), np.float32(5))


def test_numbers_are_operands_and_their_kind_is_part_of_the_type():
    x = jnp.array([1, 2])
    for _ in range(2):
        same(x + 1, np.array([2, 3], 'i4'))
        same(x + 1.5, np.array([2.5, 3.5], 'f4'))
        same(x + True, np.array([2, 3], 'i4'))
        same(3 - x, np.array([2, 1], 'i4'))
        same(x / 2, np.array([.5, 1], 'f4'))


def test_arguments_that_compare_equal_are_not_the_same():
    x = jnp.array([[1., 2.], [3., 4.]])
    for _ in range(2):
        assert x[1].shape == (2,) and x[True].shape == (1, 2, 2)
        assert x[(1,)].shape == (2,) and x[(True,)].shape == (1, 2, 2)
        assert not np.signbit(np.asarray(jnp.where(x > 5, x, 0.0))).any()
        assert np.signbit(np.asarray(jnp.where(x > 5, x, -0.0))).all()


def test_the_width_of_dtypes_is_asked_at_each_call():
    x = jnp.array([1, 2], 'int32')
    assert (x / 2).dtype == np.float32 and jnp.sum(x).dtype == np.int32
    with config.override(enable_x64=True):
        assert jnp.sum(x).dtype == np.int64
    assert jnp.sum(x).dtype == np.int32


def test_values_that_are_read_are_not_remembered():
    x = jnp.array([1., 2., 3.])
    same(x[jnp.array([True, False, True])], np.array([1, 3], 'f'))
    same(x[jnp.array([False, False, True])], np.array([3], 'f'))


def test_what_takes_an_array_from_elsewhere_is_done_anew():
    other = jnp.array([1., 1.])
    f = remembered(lambda x: x + other)
    x = jnp.array([1., 2.])
    same(f(x), np.array([2, 3], 'f'))
    other = jnp.array([2., 2.])
    same(f(x), np.array([3, 4], 'f'))


def test_derivatives_see_the_function_as_it_is_written():
    x = jnp.array([1., 2.])
    for _ in range(2):
        same(jnp.tanh(x) * 0 + x, np.array([1, 2], 'f'))
        same(jax.grad(lambda x: jnp.sum(x * x * 3))(x), np.array([6, 12], 'f'))
        assert 'mul' in str(jax.make_jaxpr(lambda x: x * 3)(x))


@pytest.mark.meshes((2,))
def test_what_is_inserted_is_inserted_again(mesh):
    x = jax.device_put(np.arange(4, dtype='f'), jax.P('X'))
    w = jax.device_put(np.ones(4, 'f'), jax.P())
    for _ in range(2):
        with recorder.count() as c:
            y = x * w
            total = jnp.sum(y)
        assert str(y.aval) == 'float32[4@X]' and str(total.aval) == 'float32[]' and c.by_op == {'all-reduce': 1}
        assert float(total) == 6
        with no_collectives({'X'}), pytest.raises(ForbiddenCollectiveError):
            jnp.sum(y)


@pytest.mark.meshes((2,))
def test_operands_of_two_meshes_are_refused_also_after_calls_that_were_not(mesh):
    a = jax.device_put(np.ones(4, 'f'), jax.P('X'))
    backwards = jax.Mesh(mesh.devices[::-1], ('X',))
    b = jax.device_put(np.ones(4, 'f'), jax.NamedSharding(backwards, jax.P('X')))
    a + a, b + b
    with pytest.raises(ValueError, match='mesh'):
        a + b


def test_one_array_given_twice_is_two_operands():
    x, y = jnp.asarray(np.float32([1, 2, 3, 4, 5])), jnp.asarray(np.float32([5, 7, 9, 11, 13]))
    np.testing.assert_array_equal(x * x, [1, 4, 9, 16, 25])
    np.testing.assert_array_equal(x * y, [5, 14, 27, 44, 65])
    np.testing.assert_array_equal(jnp.add(y, y), 2 * np.asarray(y))
    np.testing.assert_array_equal(jnp.add(y, x), [6, 9, 12, 15, 18])
