"""docs/adding_an_op.md: its programs run as they stand, one after the other, and print what the page is about."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.errors import ShardingTypeError

PAGE = Path(__file__).parents[2] / 'docs' / 'adding_an_op.md'
pytestmark = [pytest.mark.timeout(60), pytest.mark.meshes((1,), (2,))]


@pytest.fixture(scope='module')
def page() -> tuple[dict, list[str]]:
    """The names that the programs of the page have defined, and what each has printed."""
    names: dict = {}
    printed = []
    for i, program in enumerate(re.findall(r'```python\n(.*?)```', PAGE.read_text(), re.S)):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(program, f'{PAGE.name}, program {i + 1}', 'exec'), names)
        printed.append(out.getvalue())
    return names, printed


def test_the_elementwise_op_has_a_derivative_and_a_batch(mesh, page) -> None:
    x = np.array([[-1., 3.], [0., 1.]])
    assert page[1][0] == f"{(x / (1 + abs(x))).astype('f')}\n{(1 / (1 + abs(x)) ** 2).astype('f')}\n(2, 2)\n"


def test_the_adjoint_pair_is_one(mesh, page) -> None:
    left, right = page[1][1].split()
    assert left == right == '10.0'


def test_the_contraction_of_a_split_dimension_is_unreduced(mesh, page) -> None:
    names, n = page[0], jax.process_count()
    lines = page[1][2].splitlines()
    assert lines[0] == 'float32[2,3]{U:X}'
    x = np.arange(4. * n).reshape(2, 2 * n)
    assert np.allclose(jax.process_allgather(names['split']), 0.5 * x @ np.ones((2 * n, 3)))
    assert np.allclose(jax.process_allgather(names['g']), 0.5 * x.sum(0)[:, None] * np.ones((1, 3)))
    assert lines[-1] == '(2, 2, 3)'


def test_what_was_not_said_is_refused_by_name(mesh, page) -> None:
    softsign = page[0]['softsign']
    x = jax.reshard(jnp.ones(4), jax.P('X'))
    assert jax.typeof(softsign.bind(x)) == jax.typeof(x)
    with pytest.raises(ShardingTypeError, match='softsign is a non-linear operation'):
        softsign.bind(jax.reshard(jnp.ones(4), jax.P(unreduced={'X'})))
    with pytest.raises(ShardingTypeError, match='spread needs the whole of dimension 0, which is split over X'):
        page[0]['spread'].bind(x)
