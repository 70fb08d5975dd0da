"""Products that are added where the total lies: which ones are, that they are right however the operands lie, and in place."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.compiler.passes import optimized
from distad.core.jaxpr import check, sub_jaxprs
from distad.ops import blas
from tests.compiler.test_memory import peak

pytestmark = pytest.mark.ranks(1)
P = jax.P
R = np.random.default_rng(0)
A, B, C = (R.normal(size=s).astype(np.float32) for s in ((3, 7, 260), (3, 7, 270), (260, 270)))


def joined(f, *args) -> int:
    """How many sums of products are one equation."""
    def count(jaxpr):
        return sum((eqn.primitive.name == 'add_dot') + sum(map(count, sub_jaxprs(eqn.params))) for eqn in jaxpr.equations)
    program = optimized(jax.jit(lambda *xs: f(*xs)).trace(*args).closed)
    check(program)
    return count(program)


def carried(a, b, c):
    return lax.scan(lambda t, ab: (t + ab[0].T @ ab[1], None), c, (a, b))[0]


def replaced(a, b, c):
    """Slices of a stack are replaced, in a loop around."""
    def around(total, _):
        return total + lax.scan(lambda x, ab: (x * 0.5, (ab[0] * x).T @ ab[1]), jnp.float32(1), (a, b))[1], None
    return lax.scan(around, jnp.stack([c, c, c]), None, length=2)[0]


def twice(a, b, c):
    return a[0].T @ b[0] + a[1].T @ b[1] + a[2].T @ b[2]


@pytest.mark.parametrize('f, want, count', [
    (carried, C + np.einsum('kim,kin->mn', A, B), 1),
    (replaced, C + 2 * np.einsum('kim,kin->kmn', A * np.array([1, 0.5, 0.25], 'f')[:, None, None], B), 1),
    (twice, np.einsum('kim,kin->mn', A, B), 2)])
def test_sums_of_products_are_one_equation(f, want, count) -> None:
    assert joined(f, A, B, C) == count
    np.testing.assert_allclose(jax.jit(f)(A, B, C), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('f', [
    lambda a, b, c: c + a[0].T @ b[0],                                                       # the caller's total
    lambda a, b, c: jnp.tanh(a[0].T @ b[0] + c[0]),                                          # a bias
    lambda a, b, c: lax.scan(lambda t, v: (t + v.T @ v, t[0]), c[:260, :260], a),            # read by others
    lambda a, b, c: lax.scan(lambda t, v: (t + t @ t, None), c[:260, :260], a)[0],           # a factor too
    lambda a, b, c: lax.scan(lambda t, v: (t + v[:, :9].T @ v[:, :9], None), c[:9, :9], a)[0],   # small
])
def test_others_are_not(f) -> None:
    assert joined(f, A, B, C) == 0


@pytest.mark.parametrize('dtype', [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize('x', [(slice(None), slice(None)), (slice(None, None, -1), slice(None)), (slice(None), slice(None, None, 2))])
def test_operands_lie_as_they_like(dtype, x) -> None:
    a, b = (R.normal(size=(600, 600)) + 1j * R.normal(size=(600, 600)) for _ in range(2))
    a, b = (v.astype(dtype) if dtype().dtype.kind == 'c' else v.real.astype(dtype) for v in (a, b))
    assert blas.pays(270, 260, 5, np.dtype(dtype))
    for a_, b_ in ((a, b), (a.T, b), (a, b.T), (a.T, b.T)):
        a_, b_ = a_[x][:270, :5], b_[x][:5, :260]
        c = np.ones((270, 260), dtype)
        blas.adder(270, 260, 5, np.dtype(dtype))(a_, b_, c)
        np.testing.assert_allclose(c, 1 + a_ @ b_, rtol=1e-3, atol=1e-5)


def test_scipy_has_the_routine_where_numpy_does_not(monkeypatch) -> None:
    monkeypatch.setattr(blas, '_of_numpy', lambda name: None)
    blas._routine.cache_clear()
    try:
        c = C.copy()
        blas.adder(260, 270, 7, C.dtype)(A[0].T, B[0], c)
    finally:
        blas._routine.cache_clear()
    np.testing.assert_allclose(c, C + A[0].T @ B[0], rtol=1e-5, atol=1e-5)


def test_the_array_that_is_written_has_no_say_in_the_bits() -> None:
    a, b = (R.normal(size=(2, 900, 256)).astype(np.float32) for _ in range(2))
    kept = jnp.asarray(C[:256, :256])
    f = jax.jit(lambda a, b, c: lax.scan(lambda t, ab: (t + ab[0].T @ ab[1], None), c, (a, b))[0])
    inside = jax.jit(lambda a, b, c: lax.scan(lambda t, ab: (t + ab[0].T @ ab[1], None), c * 1.5, (a, b))[0])
    assert joined(f, a, b, kept) == 1
    np.testing.assert_array_equal(inside(a, b, kept), f(a, b, kept * 1.5))
    np.testing.assert_array_equal(kept, C[:256, :256])                        # the caller's array is the caller's


def test_a_sum_of_gradients_takes_no_other_array() -> None:
    x = jnp.asarray(np.ones((4, 8, 512), np.float32))
    f = jax.jit(lambda x: lax.scan(lambda t, v: (t + v.T @ v, None), jnp.zeros((512, 512), np.float32), x)[0])
    f(x)
    assert peak(f, x) < 1.5 * (512 * 512 * 4)
