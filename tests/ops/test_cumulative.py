"""Accumulation: NumPy's values and known gradients on every placement, split dimensions included, and what is sent."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.errors import ShardingTypeError
from tests.ops.arrays import counted, get, gradients, numbers, placements, put, some

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
M, N = 12, 24


def cumlogsumexp(x, axis):
    return np.stack([scipy.special.logsumexp(np.take(x, range(i + 1), axis), axis) for i in range(x.shape[axis])], axis)


# name: (function, NumPy's, whether it is linear)
FUNCTIONS = {
    'cumsum': (lax.cumsum, np.cumsum, True), 'cumprod': (lax.cumprod, np.cumprod, False),
    'cummax': (lax.cummax, np.maximum.accumulate, False), 'cummin': (lax.cummin, np.minimum.accumulate, False),
    'cumlogsumexp': (lax.cumlogsumexp, cumlogsumexp, False)}


def backwards(f, x, axis):
    return np.flip(f(np.flip(x, axis), axis=axis), axis)


@pytest.mark.parametrize('name', FUNCTIONS)
@MESHES
def test_accumulations_on_every_placement(mesh, name):
    f, reference, linear = FUNCTIONS[name]
    value = numbers((M, N), 1)
    if name == 'cumprod':
        value = np.where(value == 0, 1, np.sign(value)).astype('f4')
    for t, axis, reverse in some([placements((M, N), mesh), [0, 1, -1], [False, True]], 40):
        x = put(value, t, mesh)
        if t.unreduced and not linear:
            with pytest.raises(ShardingTypeError, match='unreduced'):
                f(x, axis=axis, reverse=reverse)
            continue
        sent, _ = counted(lambda: f(x, axis=axis, reverse=reverse))          # noqa: B023
        assert sent == ({'all-gather': 1} if t.partitions[axis] else {}), f'{t} along {axis} sends {sent}'
        y = f(x, axis=axis, reverse=reverse)
        assert y.type == t
        want = backwards(reference, value, axis) if reverse else reference(value, axis=axis)
        np.testing.assert_allclose(get(y, mesh), want, rtol=1e-5, atol=1e-5, err_msg=f'{t} along {axis}, {reverse}')


def derivative(name: str, x: np.ndarray, ct: np.ndarray) -> np.ndarray:
    """The cotangent of a vector, from the full matrix of derivatives, in float64."""
    n = len(x)
    y, low = FUNCTIONS[name][1](x, axis=0), np.tri(n)
    if name == 'cumprod':
        jacobian = np.array([[np.prod(np.delete(x[:i + 1], j)) if j <= i else 0 for j in range(n)] for i in range(n)])
    elif name == 'cumlogsumexp':
        jacobian = low * np.exp(x - y[:, None])
    else:
        wins = low if name == 'cumsum' else low * (x == y[:, None])
        jacobian = wins if name == 'cumsum' else wins / wins.sum(1, keepdims=True)
    return ct @ jacobian


@pytest.mark.parametrize('name', FUNCTIONS)
@MESHES
def test_gradients_on_every_placement(mesh, name):
    f, _, linear = FUNCTIONS[name]
    rng = np.random.default_rng(3)
    value, ct = rng.uniform(-1, 1, (2, N)).astype('f4')
    if name == 'cumprod':
        value[5] = 0                                                         # no division by what was there before
    for t in placements((N,), mesh):
        if t.unreduced and not linear:
            continue
        for reverse in (False, True):
            got, = gradients(lambda x: f(x, reverse=reverse), [put(value, t, mesh)], ct, mesh)       # noqa: B023
            turn = slice(None, None, -1 if reverse else 1)
            want = derivative(name, value[turn].astype('f8'), ct[turn])[turn]
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=f'{t} {reverse}')


@pytest.mark.meshes((1,))
def test_equal_extremes_share_the_derivative(mesh):
    x, ct = np.float32([1, 2, 2, 1, 2]), np.float32([1, 2, 4, 8, 16])
    for name in ('cummax', 'cummin'):
        got, = gradients(FUNCTIONS[name][0], [jnp.asarray(x)], ct, mesh)
        np.testing.assert_allclose(got, derivative(name, x, ct), rtol=1e-6)


@pytest.mark.meshes((1,))
def test_infinities_and_nan(mesh):
    x = jnp.array([-np.inf, -np.inf, 1.0, np.inf, 2.0])
    np.testing.assert_array_equal(lax.cumlogsumexp(x), np.float32([-np.inf, -np.inf, 1, np.inf, np.inf]))
    got, = gradients(lax.cumlogsumexp, [jnp.array([-np.inf, -np.inf, 1.0, 2.0])], np.float32([1, 1, 1, 1]), mesh)
    assert np.isfinite(got).all()
    np.testing.assert_array_equal(lax.cummax(jnp.array([1.0, np.nan, 2.0])), np.float32([1, np.nan, np.nan]))
    np.testing.assert_array_equal(lax.cummin(jnp.array([1.0, np.nan, 0.0]), reverse=True), np.float32([np.nan, np.nan, 0]))


@pytest.mark.meshes((2,))
def test_dtypes(mesh):
    x = put(np.ones(4), placements((4,), mesh)[0].update(partitions=(('X',),)), mesh)
    for dtype, want in (('bool', 'int32'), ('int8', 'int8'), ('uint16', 'uint16'), ('float16', 'float16'), ('complex64', 'complex64')):
        assert jnp.cumsum(x.astype(dtype)).dtype == want
    assert jnp.cumulative_sum(jnp.ones(3, 'int8')).dtype == 'int32'
    half = jnp.full(4000, 0.001, ml_dtypes.bfloat16)
    np.testing.assert_allclose(np.asarray(jnp.cumsum(half)[-1], 'f4'), 4.0, rtol=1e-2)             # added up in float32


@MESHES
def test_under_numpys_names(mesh):
    value = numbers((M, N), 4)
    value[::3] = np.nan
    for t, axis in some([[t for t in placements((M, N), mesh) if not t.unreduced], [0, 1]], 12):
        clean = np.nan_to_num(value)
        x, y = put(value, t, mesh), put(clean, t, mesh)
        np.testing.assert_allclose(get(jnp.nancumsum(x, axis), mesh), np.nancumsum(value, axis))
        np.testing.assert_allclose(get(jnp.nancumprod(x, axis), mesh), np.nancumprod(value, axis))
        np.testing.assert_allclose(get(jnp.trapezoid(y, dx=2.0, axis=axis), mesh), np.trapezoid(clean, dx=2.0, axis=axis))
        np.testing.assert_allclose(get(jnp.gradient(y, 2.0, axis=axis), mesh), np.gradient(clean, 2.0, axis=axis))
        for ends in ({'prepend': 1.0}, {'append': np.ones((M, 1) if axis else (1, N), 'f4')}):
            z = jnp.diff(y, axis=axis, **ends)
            assert z.type.partitions == t.partitions
            np.testing.assert_array_equal(get(z, mesh), np.diff(clean, axis=axis, **ends))


@pytest.mark.meshes((1,))
def test_differences_and_integrals(mesh):
    v = np.float32([0, 1, 3, 4, 7])
    x = jnp.asarray(v)
    np.testing.assert_array_equal(jnp.diff(x, 2), np.diff(v, 2))
    np.testing.assert_array_equal(jnp.diff(x, 2, prepend=1, append=jnp.ones(2)), np.diff(v, 2, prepend=1, append=np.ones(2)))
    np.testing.assert_array_equal(jnp.diff(x > 2), np.diff(v > 2))
    assert jnp.diff(x, 9).shape == (0,)
    np.testing.assert_array_equal(jnp.ediff1d(x, to_end=9, to_begin=jnp.array([1, 2])), np.ediff1d(v, to_end=9, to_begin=[1, 2]))
    np.testing.assert_allclose(jnp.gradient(x ** 2, x), np.gradient(v ** 2, v), rtol=1e-6)
    both = jnp.gradient(jnp.ones((3, 4)) * jnp.arange(4.0), 2, 0.5)
    np.testing.assert_allclose(both[1], np.full((3, 4), 2.0))
    np.testing.assert_allclose(jnp.trapezoid(x ** 2, x), np.trapezoid(v ** 2, v))
    np.testing.assert_array_equal(jnp.cumulative_sum(x, include_initial=True), [0, 0, 1, 4, 8, 15])
    np.testing.assert_array_equal(jnp.cumulative_prod(x[1:], include_initial=True), [1, 1, 3, 12, 84])
    for call in (lambda: jnp.diff(x, -1), lambda: jnp.cumulative_sum(jnp.ones((2, 2))), lambda: jnp.gradient(x[:1])):
        with pytest.raises(ValueError):
            call()


# ---- associative_scan

@pytest.mark.parametrize('n', [1, 2, 3, 5, 8])
@MESHES
def test_associative_scan_of_a_pytree_that_does_not_commute(mesh, n):
    """Affine maps: (a, b) then (c, d) is (c a, c b + d)."""
    size = n * mesh.shape['X']
    a, b = np.random.default_rng(n).uniform(-1, 1, (2, size, 3)).astype('f4')

    def after(p, q):
        return {'a': q['a'] * p['a'], 'b': q['a'] * p['b'] + q['b']}

    for t in placements((size, 3), mesh):
        if t.unreduced:
            continue
        elems = {'a': put(a, t, mesh), 'b': put(b, t, mesh)}
        for reverse in (False, True):
            got = lax.associative_scan(after, elems, reverse=reverse)
            turn = slice(None, None, -1 if reverse else 1)
            want, y = np.empty_like(b), np.zeros(3)
            for i in range(size):
                y = a[turn][i] * y + b[turn][i]
                want[turn][i] = y
            np.testing.assert_allclose(get(got['b'], mesh), want, rtol=1e-4, atol=1e-5, err_msg=str(t))
            assert got['b'].type == t


@MESHES
def test_associative_scan_of_matrices_and_its_gradient(mesh):
    m = np.random.default_rng(0).normal(size=(6, 2, 2)).astype('f4')
    want = [m[0]]
    for factor in m[1:]:
        want.append(want[-1] @ factor)

    def last(x):
        return lax.associative_scan(lambda p, q: p @ q, x)[-1].sum() if not any(jax.typeof(x).partitions) else (
            lax.associative_scan(lambda p, q: p @ q, x) * weight).sum()

    weight = np.zeros((6, 1, 1), 'f4')
    weight[-1] = 1
    whole = jax.grad(last)(jnp.asarray(m))
    for t in [t for t in placements((6, 2, 2), mesh) if not t.unreduced and not any(t.partitions[1:])]:
        x = put(m, t, mesh)
        np.testing.assert_allclose(get(lax.associative_scan(lambda p, q: p @ q, x), mesh), want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(get(jax.grad(last)(x), mesh), np.asarray(whole), rtol=1e-3, atol=1e-4)


@pytest.mark.meshes((2,))
def test_associative_scan_refuses(mesh):
    with pytest.raises(ValueError, match='same size'):
        lax.associative_scan(lambda p, q: p, (jnp.ones(3), jnp.ones(4)))
    with pytest.raises(TypeError, match='function'):
        lax.associative_scan(3, jnp.ones(3))


@MESHES
def test_interp_where_points_are_split(mesh):
    rng = np.random.default_rng(0)
    v = rng.uniform(-1, 5, (M, 2)).astype('f4')
    xp, fp = np.sort(rng.uniform(0, 4, N)).astype('f4'), rng.normal(size=N).astype('f4')
    xs = [t for t in placements((M, 2), mesh) if not t.unreduced]
    points = [t for t in placements((N,), mesh) if not t.unreduced]
    for t, p, options in some([xs, points, [{}, {'left': 7.0}, {'right': 'extrapolate'}]], 12):
        y = jnp.interp(put(v, t, mesh), put(xp, p, mesh), put(fp, p, mesh), **options)
        want = np.interp(v, xp, fp, left=options.get('left'))
        if 'right' in options:
            slope = (fp[-1] - fp[-2]) / (xp[-1] - xp[-2])
            want = np.where(v > xp[-1], fp[-1] + (v - xp[-1]) * slope, want)
        np.testing.assert_allclose(get(y, mesh), want, rtol=1e-3, atol=1e-4, err_msg=f'{t} {p} {options}')
        assert y.type.partitions == t.partitions
    np.testing.assert_allclose(jnp.interp(v, xp, fp, period=3), np.interp(v, xp, fp, period=3), rtol=1e-3, atol=1e-4)
