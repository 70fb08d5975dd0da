"""Sums whose bits do not depend on order, size or company, against rational arithmetic."""

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.config import config
from distad.debug import count_collectives
from distad.runtime import collectives, exact, mpi
from distad.types.dtypes import bfloat16

P = jax.P
FLOATS = [np.float64, np.float32, np.float16, bfloat16]
MESHES = pytest.mark.meshes((1,), (2,), (3,), (4,))
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits(x) -> np.ndarray:
    x = np.ascontiguousarray(x)
    return x.view(BITS[x.itemsize])


def check(parts: np.ndarray) -> None:
    """Of the sum and its two neighbours none is nearer to the exact sum, and at a tie the sum is even."""
    total = exact.rounded(parts)
    assert total.dtype == parts.dtype
    for one, column in zip(total, parts.T, strict=True):
        true = sum((Fraction(float(x)) for x in column), Fraction(0))
        if parts.dtype == np.float64:
            assert one == math.fsum(column)
        if np.isfinite(one):
            error = abs(Fraction(float(one)) - true)
            for side in (np.inf, -np.inf):
                with np.errstate(over='ignore'):
                    other = np.nextafter(one, parts.dtype.type(side))
                if np.isfinite(other):
                    gap = abs(Fraction(float(other)) - true)
                    assert error < gap or error == gap and not bits(one[None])[0] % 2, (column, one)


@pytest.mark.ranks(1)
@pytest.mark.parametrize('dtype', FLOATS, ids=str)
def test_a_rounded_sum_is_the_nearest_number_to_the_exact_one(dtype):
    rng = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    for p, spread in itertools.product((1, 2, 3, 8), (0, 3, 30)):
        x = rng.standard_normal((p, 60)) * 10.0 ** rng.uniform(-spread, spread, (p, 60))
        x[-1, ::3] = -x[0, ::3]                                                # what cancels
        limit = float(ml_dtypes.finfo(dtype).max) / p
        check(np.clip(x, -limit, limit).astype(dtype))
    patterns = rng.integers(0, 1 << 8 * dtype.itemsize - 2, (3, 200), dtype=np.uint64).astype(BITS[dtype.itemsize])
    check(patterns.view(dtype))                                                # numbers below 2, of every size
    eps = float(ml_dtypes.finfo(dtype).eps)
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    check(np.array([[1, 1, 1, 1 + eps, 1 + eps], [eps / 2] * 5, [0, tiny, -tiny, 0, -tiny]]).astype(dtype))


@pytest.mark.ranks(1)
@pytest.mark.parametrize('dtype', [*FLOATS, np.complex64, np.complex128], ids=str)
def test_the_order_of_the_summands_cannot_be_told_from_an_exact_sum(dtype):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((5, 500)) * 10.0 ** rng.uniform(-4, 4, (5, 500))).astype(dtype)
    want = exact.rounded(x).view(np.uint8)
    for order in itertools.islice(itertools.permutations(range(5)), 1, None, 17):
        np.testing.assert_array_equal(exact.rounded(x[list(order)]).view(np.uint8), want)


@pytest.mark.ranks(1)
def test_what_is_not_finite_and_the_sign_of_zero():
    x = np.array([[0, -0., 1, np.inf, np.inf, np.nan, 1e308, 1e308], [-0., -0., -1, 1, -np.inf, 1, 1e308, 1e308],
                  [0, -0., 0, 1, 1, 1, -1e308, 1]])
    got = exact.rounded(x)
    np.testing.assert_array_equal(got, [0, -0., 0, np.inf, np.nan, np.nan, 1e308, np.inf])
    assert np.signbit(got[:3]).tolist() == [False, True, False]


def summand(r: int, size: int = 5000) -> np.ndarray:
    rng = np.random.default_rng(r)
    return (rng.standard_normal(size) * 10.0 ** rng.integers(-6, 7, size)).astype(np.float32)


@MESHES
@pytest.mark.parametrize('size', [1, 7, 5000])
def test_exact_sums_over_ranks(mesh, size):
    n, me = mesh.size, mpi.rank()
    parts = np.stack([summand(r, size) for r in range(n)])
    want = np.array([math.fsum(c) for c in parts.T.astype(np.float64)]).astype(np.float32)
    line = mpi.group(mesh, ('X',))
    np.testing.assert_array_equal(bits(collectives.all_reduce(line, parts[me], 'exact')), bits(want))
    rows = np.stack([np.roll(parts, k, axis=1) for k in range(n)])             # [part, rank, size]
    np.testing.assert_array_equal(bits(collectives.reduce_scatter(line, rows[:, me], 'exact')), bits(np.roll(want, me)))
    np.testing.assert_array_equal(collectives.all_reduce(line, np.arange(3), 'exact'), n * np.arange(3))
    assert collectives.all_reduce(line, np.array([me == 0, False]), 'exact').tolist() == [True, False]


@MESHES
def test_a_reproducible_sum_is_the_same_tree_for_every_element_in_any_company(mesh):
    n, me = mesh.size, mpi.rank()
    parts = np.stack([summand(r) for r in range(n)])
    tree = {1: lambda p: p[0], 2: lambda p: p[0] + p[1], 3: lambda p: p[0] + p[1] + p[2],
            4: lambda p: (p[0] + p[1]) + (p[2] + p[3])}[n](parts)
    line = mpi.group(mesh, ('X',))
    with config.override(reproducible=True):
        for part in (slice(0, 1), slice(0, 100), slice(100, 5000), slice(3, 4001), slice(None)):
            np.testing.assert_array_equal(bits(collectives.all_reduce(line, parts[me, part])), bits(tree[part]))
        np.testing.assert_array_equal(collectives.all_reduce(line, parts[me], 'max'), parts.max(axis=0))
        half = collectives.all_reduce(line, parts[me].astype(bfloat16))
        x, y = (jax.device_put(np.zeros(s, np.float32), P(unreduced={'X'})) for s in (10, 4990))
        x, y = (jax.make_array_from_single_device_arrays(v.shape, v.sharding, [w]) for v, w in
                ((x, parts[me, :10]), (y, parts[me, 10:])))
        joined = jax.jit(lambda *v: jax.reshard(v, P()))(x, y)                 # one message
        alone = [jax.reshard(v, P()) for v in (x, y)]
    for got in (joined, alone):
        np.testing.assert_array_equal(bits(np.concatenate(list(map(np.asarray, got)))), bits(tree))
    assert half.dtype == bfloat16


@pytest.mark.meshes((2, 2), (1, 3), (2, 1))
def test_exact_sums_do_not_depend_on_how_axes_arrange_the_ranks_and_are_an_equation(mesh):
    n = mesh.size
    parts = np.stack([summand(r, 300) for r in range(n)]).reshape(*mesh.axis_sizes, 300)
    want = np.array([math.fsum(c) for c in parts.reshape(n, 300).T.astype(np.float64)]).astype(np.float32)
    parts = jax.device_put(parts, P('X', 'Y'))
    for order in (('X', 'Y'), ('Y', 'X')):
        f = jax.shard_map(lambda v, order=order: lax.psum(v[0, 0], order, exact=True), in_specs=P('X', 'Y', None), out_specs=P())
        np.testing.assert_array_equal(bits(np.asarray(f(parts))), bits(want))
        assert 'exact=True' in str(jax.make_jaxpr(f)(parts))
    g = jax.shard_map(lambda v: lax.psum_scatter(jnp.tile(v[0, 0], n), ('X', 'Y'), tiled=True, exact=True),
                      in_specs=P('X', 'Y', None), out_specs=P(('X', 'Y')))
    np.testing.assert_array_equal(bits(jax.process_allgather(g(parts))), bits(np.tile(want, n)))


@pytest.mark.meshes((2,), (3,))
def test_exact_and_plain_sums_never_share_a_message(mesh):
    x, y, z = (jax.device_put(np.ones(k, np.float32), P(unreduced={'X'})) for k in (3, 4, 5))

    @jax.jit
    def f(x, y, z):
        return jax.reshard(x, P()), jax.reshard(y, P(), exact=True), jax.reshard(z, P(), exact=True)

    with count_collectives() as sent:
        f(x, y, z)
    assert sent.by_op == {'all-reduce': 2}
    assert str(f.trace(x, y, z).jaxpr).count('exact=True') == 2
    u, v = jax.vjp(lambda x: jax.reshard(x, P(), exact=True), x)[1](jnp.ones(3))[0], jax.jvp(
        lambda x: jax.reshard(x, P(), exact=True), (x,), (x,))[1]
    assert str(jax.typeof(u)) == 'float32[3]{R:X}' and np.asarray(v).tolist() == [1, 1, 1]
