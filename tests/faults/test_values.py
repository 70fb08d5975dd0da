"""debug_nans, which is DISTAD_CHECK=values."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.config import config
from distad.runtime import mpi

P = jax.P


@pytest.mark.meshes((1,), (2,))
@pytest.mark.parametrize('wrap', [lambda f: f, jax.jit], ids=['eager', 'jit'])
def test_the_operation_its_line_and_the_rank(mesh, wrap):
    def f(x):
        y = jnp.sqrt(x)  # here
        return jnp.where(y > 0, y, 1.)
    last = mesh.size - 1
    x = jax.device_put(np.array([4.] * last + [-1.]), P('X'))
    f = wrap(f)
    f(x)  # as if nothing were to be seen; and programs made now are not used again
    with config.override(jax_debug_nans=True):
        if mpi.rank() == last:
            line = test_the_operation_its_line_and_the_rank.__code__.co_firstlineno + 4
            with pytest.raises(FloatingPointError) as caught:
                f(x)
            assert f'sqrt gave NaN on rank {last}, at ' in str(caught.value)
            assert f'test_values.py:{line} (f): 1 of 1 elements' in str(caught.value)
        else:
            f(x)
    f(x)


def test_inside_a_loop():
    """Every step of a loop is looked at, not only what comes out of it."""
    def f(x):
        return jax.lax.scan(lambda c, _: (c - 1, jnp.isnan(jnp.log(c))), x, None, length=3)[1]
    assert f(1.).tolist() == [False, False, True]
    with config.override(check='values'), pytest.raises(FloatingPointError, match=r'^log gave NaN on rank'):
        f(1.)


def test_infinities_pass():
    with config.override(check='values'):
        assert jnp.log(jnp.zeros(2)).tolist() == [-np.inf] * 2
