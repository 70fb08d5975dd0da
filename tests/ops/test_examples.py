"""The examples in docstrings run."""

import re

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.lax import creation as lax_creation
from distad.lax import dynamic, shape, slicing
from distad.lax import indexing as lax_indexing
from distad.numpy import creation, indexing, joining, padding, searching, shapes, taking
from tests.ops.documents import examples

MODULES = (shape, slicing, dynamic, lax_indexing, lax_creation, creation, indexing, joining, padding, searching, shapes, taking)
FUNCTIONS = [(module, name) for module in MODULES for name in module.__all__]


@pytest.mark.parametrize('module, name', FUNCTIONS, ids=[f"{m.__name__.removeprefix('distad.')}.{n}" for m, n in FUNCTIONS])
def test_example(module, name):
    f = getattr(module, name)
    lines = examples(f)
    assert lines or isinstance(f, type) or name in ('iterate', 'rng_uniform', 'zeros_like_array'), f.__doc__
    for line in lines:
        code, _, says = line.partition('#')
        scope = {**vars(lax), 'jax': jax, 'jnp': jnp, 'np': np}
        exec(code, scope)
        says = says.strip()
        if '=' not in code.split('(')[0] and re.fullmatch(r'\w+\[[\d,]*\]', says):
            assert str(eval(code, scope).type) == says
        elif '=' not in code.split('(')[0] and re.fullmatch(r'[\d., -]+', says):
            np.testing.assert_allclose(np.asarray(eval(code, scope)).reshape(-1), [float(n) for n in says.split(',')], rtol=1e-6)
