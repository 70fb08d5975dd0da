"""Polynomials: NumPy's values on every placement."""

import numpy as np
import pytest

import distad.numpy as jnp
from distad.errors import ShardingTypeError
from tests.ops.arrays import counted, get, numbers, placements, put


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_values(mesh):
    p, x = numbers((4,), 1), numbers((12, 6), 2)
    for t in placements(x.shape, mesh):
        value = put(x, t, mesh)
        if t.unreduced:
            with pytest.raises(ShardingTypeError):
                jnp.polyval(p, value)
            continue
        y = jnp.polyval(p, value)
        assert y.type.partitions == t.partitions
        np.testing.assert_array_equal(get(y, mesh), np.polyval(p, x))
        assert not sum(counted(lambda v=value: jnp.polyval(p, v))[0].values())
    assert jnp.polyval(np.zeros(0, 'f4'), x).tolist() == np.zeros_like(x).tolist()
