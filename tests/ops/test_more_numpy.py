"""NumPy's smaller functions: its values, eager and traced, on split arrays too; what cannot be known while tracing is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import distad as jax
import distad.numpy as jnp
from distad.errors import ConcretizationTypeError, ShardingTypeError
from tests.ops.arrays import counted, get, numbers, placements, put

P = jax.P
MESHES = pytest.mark.meshes((2,), (3,), (2, 2))
X = np.arange(12).reshape(3, 4)


def same(got, want) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert_array_equal(g, w)


def close(got, want) -> None:
    assert_allclose(got, want, rtol=2e-3, atol=1e-5)


def test_grids_by_slices():
    assert_array_equal(jnp.r_[0:3, 7, jnp.arange(2)], np.r_[0:3, 7, np.arange(2)])
    assert_array_equal(jnp.c_[jnp.arange(3), jnp.ones(3)], np.c_[np.arange(3), np.ones(3)])
    for text in ('0', '0,2', '1,2,0', '-1,3,1', '0,3,0', '0,3,-1'):
        assert_array_equal(jnp.r_[text, X[0], X[1]], np.r_[text, X[0], X[1]])
    with pytest.raises(NotImplementedError, match="'axis,ndim,place'"):
        jnp.r_['r', 0:3]
    assert_array_equal(jnp.mgrid[0:2, 0:1:3j], np.mgrid[0:2, 0:1:3j])
    assert_array_equal(jnp.mgrid[1:7:2], np.mgrid[1:7:2])
    same(jnp.ogrid[0:2, 1:4], np.ogrid[0:2, 1:4])
    assert_array_equal(jnp.fromfunction(lambda i, j: 5 * i + j, (2, 3), dtype=int), np.fromfunction(lambda i, j: 5 * i + j, (2, 3)))
    assert_array_equal(jnp.asarray(X)[jnp.ix_(np.array([True, False, True]), np.array([1, 3]))], X[np.ix_([0, 2], [1, 3])])


@pytest.mark.parametrize('name', ['tril_indices', 'triu_indices'])
def test_indices_of_triangles_and_diagonals(name):
    same(getattr(jnp, name)(3, 1, 4), getattr(np, name)(3, 1, 4))
    same(getattr(jnp, name + '_from')(X, -1), getattr(np, name + '_from')(X, -1))
    same(jnp.diag_indices(3, 3), np.diag_indices(3, 3))
    same(jnp.diag_indices_from(np.ones((2, 2))), np.diag_indices(2))
    same(jnp.mask_indices(3, jnp.triu, 1), np.mask_indices(3, np.triu, 1))


def test_numbers_of_places():
    i = np.array([[0, 5], [23, 11]])
    places = np.unravel_index(i, (2, 3, 4))
    same(jnp.unravel_index(i, (2, 3, 4)), places)
    same(jnp.unravel_index(np.array([-1, 99]), (2, 3)), ([1, 1], [2, 2]))
    for order in 'CF':
        assert_array_equal(jnp.ravel_multi_index(places, (2, 3, 4), order=order), np.ravel_multi_index(places, (2, 3, 4), order=order))
    beyond = (np.array([3, -1]), np.array([1, 5]))
    for mode in ('wrap', 'clip'):
        assert_array_equal(jnp.ravel_multi_index(beyond, (2, 3), mode), np.ravel_multi_index(beyond, (2, 3), mode))
    with pytest.raises(ValueError, match='out of bounds for a dimension of size 2'):
        jnp.ravel_multi_index(beyond, (2, 3))
    with pytest.raises(ConcretizationTypeError, match="Say mode='wrap'"):
        jax.jit(lambda i: jnp.ravel_multi_index((i,), (2,)))(1)


@pytest.mark.parametrize('obj, values, axis', [
    (1, 9, None), (1, 9, 0), (1, [1, 2, 3], 1), ([1, 1, 0], 9, 1), ([0, 2], [[1], [2]], 0), (slice(0, 3, 2), 7, 1), (-1, [5, 6], None),
    ([1], [[1, 2, 3, 4], [5, 6, 7, 8]], 0)])
def test_insert(obj, values, axis):
    want = np.insert(X, obj, values, axis)
    obj, values = np.array(obj) if isinstance(obj, list) else obj, np.array(values)
    assert_array_equal(jnp.insert(X, obj, values, axis), want)
    assert_array_equal(jax.jit(lambda x, v: jnp.insert(x, obj, v, axis))(X, values), want)


def test_delete_and_trim():
    for obj, axis in ((1, None), (1, 0), (-1, 1), (np.array([1, 2, 1]), 1), (slice(0, 3, 2), 1), (np.array([True, False, True]), 0)):
        assert_array_equal(jnp.delete(X, obj, axis), np.delete(X, obj, axis))
    assert_array_equal(jax.jit(lambda x, i: jnp.delete(x, i, 1))(X, 2), np.delete(X, 2, 1))
    differ = jax.jit(lambda x, i: jnp.delete(x, i, 1, assume_unique_indices=True))
    assert_array_equal(differ(X, np.array([3, -4, 1])), np.delete(X, [3, 0, 1], 1))
    with pytest.raises(ConcretizationTypeError, match='assume_unique_indices'):
        jax.jit(lambda x, i: jnp.delete(x, i, 1))(X, np.array([1, 1]))
    for trim in ('fb', 'f', 'b'):
        for x in ([0, 0, 1, 0, 2, 0], [0, 0], [1]):
            assert_array_equal(jnp.trim_zeros(np.array(x), trim), np.trim_zeros(x, trim))


def test_bits_and_tapers():
    bits = np.random.default_rng(0).integers(0, 2, (3, 19, 5))
    for axis in (None, 0, 1, 2):
        for order in ('big', 'little'):
            packed = np.packbits(bits, axis, order)
            assert_array_equal(jnp.packbits(bits, axis, order), packed)
            for count in (None, 3, -2, 200):
                assert_array_equal(jnp.unpackbits(packed, axis, count, order), np.unpackbits(packed, axis, count, order))
    for n in (0, 1, 2, 5):
        for name in ('bartlett', 'blackman', 'hamming', 'hanning'):
            close(getattr(jnp, name)(n), getattr(np, name)(n))
        close(jnp.kaiser(n, 8.6), np.kaiser(n, 8.6))


def test_polynomials():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(12), rng.uniform(1, 2, 12)
    y = 3 * x ** 2 - x + 1 + .1 * rng.standard_normal(12)
    both = np.stack([y, -y], 1)
    close(jnp.polyfit(x, both, 2, w=w), np.polyfit(x, both, 2, w=w))
    for cov in (True, 'unscaled'):
        for points in (y, both):
            got, want = jnp.polyfit(x, points, 2, cov=cov), np.polyfit(x, points, 2, cov=cov)
            close(got[0], want[0])
            close(got[1], want[1])
            assert got[1].shape == want[1].shape
    for got, want in zip(jnp.polyfit(x, y, 2, full=True)[:4], np.polyfit(x, y, 2, full=True)[:4], strict=True):
        close(got, want)
    a, b = np.array([1., 5, 6, 2]), np.array([1., 2, -1])
    for name in ('polyadd', 'polysub', 'polymul'):
        close(getattr(jnp, name)(a, b), getattr(np, name)(a, b))
        close(getattr(jnp, name)(b, a), getattr(np, name)(b, a))
    for got, want in zip(jnp.polydiv(a, b, trim_leading_zeros=True), np.polydiv(a, b), strict=True):
        close(got, want)
    for m in range(4):
        close(jnp.polyder(a, m), np.polyder(a, m))
        close(jnp.polyint(a, m, 3), np.polyint(a, m, 3))
    close(jnp.poly(a), np.poly(a))
    for p in (a, np.array([0, 1., -3, 2, 0])):
        close(np.sort_complex(np.array(jnp.roots(p))), np.sort_complex(np.roots(p).astype(complex)))


def test_sets_of_two():
    rng = np.random.default_rng(0)
    for _ in range(3):
        a, b = rng.integers(0, 9, 12), rng.integers(0, 9, 7)
        for name in ('setdiff1d', 'setxor1d', 'intersect1d'):
            f, want = getattr(jnp, name), getattr(np, name)(a, b)
            assert_array_equal(f(a, b), want)
            filled = jax.jit(lambda a, b, f=f: f(a, b, size=12, fill_value=-1))(a, b)
            assert_array_equal(filled, np.append(want, [-1] * (12 - want.size)))
        same(jnp.intersect1d(a, b, return_indices=True), np.intersect1d(a, b, return_indices=True))
    a, b = np.array([3, 1, 2, 3]), np.array([5, 3, 2])
    same(jnp.intersect1d(a, b, return_indices=True, size=3), ([2, 3, 2], [2, 0, 4], [2, 1, 3]))         # as in JAX
    assert_array_equal(jnp.setdiff1d(a, b, size=2), [1, 0])
    assert_array_equal(jnp.setxor1d(a, b, size=3), [1, 5, 1])


def test_extrema():
    x = np.array([3, 1, 2], np.uint8)
    same(jnp.minmax(X, 1), (X.min(1), X.max(1)))
    same(jnp.minmax(X, initial=(-1, 99)), (-1, 99))
    same(jnp.top_k(x, 2), ([3, 2], [0, 2]))
    for dtype in ('uint8', 'int32', 'float32'):
        same(jnp.top_k(x.astype(dtype), 2, mode='smallest'), ([1, 2], [1, 2]))


def test_a_copy_is_the_callers_own():
    x = jnp.arange(3)
    y = np.array(x)
    y[0] = 7
    assert_array_equal(x, [0, 1, 2])
    assert not np.asarray(x).flags.writeable


@MESHES
def test_on_every_placement(mesh):
    x, mask = numbers((12, 6), 1), numbers((12, 6), 2) > 0
    phases = (3 * np.arange(72).reshape(12, 6) % 7).astype(np.float32)
    replaced, diagonal = x.copy(), x.copy()
    np.place(replaced, mask, [7, 8, 9])
    np.fill_diagonal(diagonal, [4, 5])
    cases = [
        (lambda x: jnp.insert(x, np.array([1, 4]), 0, 0), x, np.insert(x, [1, 4], 0, 0)),
        (lambda x: jnp.delete(x, 3, 1), x, np.delete(x, 3, 1)),
        (lambda x: jnp.fill_diagonal(x, np.float32([4, 5]), inplace=False), x, diagonal),
        (lambda x: jnp.packbits(x > 0, 0), x, np.packbits(x > 0, 0)),
        (lambda x: jnp.unpackbits(x.astype(jnp.uint8), 1), x ** 2, np.unpackbits((x ** 2).astype(np.uint8), 1)),
        (lambda x: jnp.unwrap(x, axis=0, period=5.), phases, np.unwrap(phases, axis=0, period=5.)),
        (lambda x: jnp.unravel_index(x.astype(int), (3, 4))[1], x ** 2, np.unravel_index((x ** 2).astype(int), (3, 4))[1]),
    ]
    for t in placements(x.shape, mesh):
        if not t.unreduced:
            for f, value, want in cases:
                close(get(f(put(value, t, mesh)), mesh), want)
    rows = jax.device_put(jnp.asarray(x), P('X'))
    close(get(jnp.place(rows, mask, np.float32([7, 8, 9]), inplace=False), mesh), replaced)


@pytest.mark.meshes((2,), (3,))
def test_what_split_arrays_cost(mesh):
    x = jax.device_put(jnp.asarray(numbers((12, 6), 3)), P('X'))
    assert not counted(lambda: jnp.delete(x, 3, 1))[0]
    assert counted(lambda: jnp.delete(x, 3, 0))[0] == {'all-gather': 1}
    assert not counted(lambda: jnp.fill_diagonal(x, 1., inplace=False))[0]
    points = jax.device_put(jnp.linspace(0, 1, 12), P('X'))
    close(get(jnp.polyfit(points, points ** 2, 2), mesh), [1, 0, 0])
    with pytest.raises(ShardingTypeError, match=r'unique needs the whole of dimension 0.*Gather it first: reshard\(x, P\(None\)\)'):
        jnp.setxor1d(points, points)
    same(jnp.setdiff1d(np.float32([0, 3]), points), [3])
