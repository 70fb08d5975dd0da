"""What users of transformations report: vmap of control flow, custom rules under it, assignment, and NaN from branches not taken."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from tests.complaints.preamble import fails


def test_assignment_in_a_differentiated_function() -> None:
    def assigning(x):
        a = jnp.zeros(3)
        a[0] = x
        return a.sum()

    def into_numpy(x):
        a = np.zeros(3)
        a[0] = x
        return jnp.sum(a)

    fails('TypeError', r'\.at\[', jax.grad(assigning), 1.)
    fails('TracerArrayConversionError|TypeError', 'array|numpy', jax.grad(lambda x: np.sin(np.asarray(x))), 1.)
    fails('TracerArrayConversionError|ConcretizationTypeError|TypeError|ValueError', '', jax.grad(into_numpy), 1.)
    assert jax.grad(lambda x: jnp.zeros(3).at[0].set(x).sum())(1.) == 1.


def test_nan_from_the_branch_not_taken() -> None:
    """As everywhere the bare where has it and the double where has not; vmap of cond does not bring it back."""
    bare = jax.grad(lambda x: jnp.where(x < 1., x, jnp.sqrt(x)))
    double = jax.grad(lambda x: jnp.where(x < 1., x, jnp.sqrt(jnp.where(x < 1., 1., x))))
    assert np.isnan(bare(0.)) and double(0.) == 1.

    def c(x):
        return lax.cond(x > 0., jnp.log, lambda x: 0. * x, x)
    assert jax.vmap(jax.grad(c))(jnp.array([1., 0.])).tolist() == [1., 0.]
    assert jax.grad(lambda x: jax.vmap(c)(x).sum())(jnp.array([1., 0.])).tolist() == [1., 0.]


def test_vmap_of_loops_and_of_named_collectives() -> None:
    def w(x):
        return lax.while_loop(lambda v: v < 8., lambda v: v * 2, x)
    assert jax.vmap(w)(jnp.array([1., 3., 9.])).tolist() == [8., 12., 9.]
    fails('ValueError|NotImplementedError', 'scan', jax.grad(w), 1.)
    assert jax.jvp(w, (1.,), (1.,))[1] == 8. and jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, v: v * 2, x))(1.) == 8.
    assert jax.vmap(lambda x: x / lax.psum(x, 'i'), axis_name='i')(jnp.array([1., 3.])).tolist() == [.25, .75]
    assert jax.vmap(lambda x: lax.psum(1, 'i'), axis_name='i')(jnp.arange(3)).tolist() == [3, 3, 3]
    fails('ValueError', 'inconsistent|size', jax.vmap(lambda a, b: a + b), jnp.ones(2), jnp.ones(3))


@pytest.mark.ranks(1, 2)
def test_custom_rules_in_a_scan_under_vmap() -> None:
    """The cotangent of an argument that is not mapped is the sum over the batch."""
    mul = jax.custom_vjp(lambda x, c: x * c)
    mul.defvjp(lambda x, c: (x * c, (x, c)), lambda r, g: (g * r[1], (r[0] * g).sum()))

    def run(m):
        return lambda x, c: lax.scan(lambda x, t: (m(x, c), None), x, jnp.arange(3))[0]

    x, ct = jnp.arange(6.).reshape(3, 2), jnp.ones((3, 2))
    for m in (mul, lambda x, c: x * c):
        _, pull = jax.vjp(jax.vmap(run(m), in_axes=(0, None)), x, jnp.float32(2.))
        dx, dc = pull(ct)
        assert (dx == 8.).all() and dc == 180.
