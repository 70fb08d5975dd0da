"""Names that JAX's users expect in lax, nn, tree_util, dtypes and among the switches: what they do, by NumPy and by derivatives."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import distad as jax
import distad.numpy as jnp
from distad import lax, random
from tests.ops.arrays import counted, get, numbers

P = jax.P
A = np.float32([[4, 1, 0], [-1, 5, 2], [1, 0, 3]])
B = np.float32([1, -2, 3])


def test_fft_of_lax():
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    z = (x + 1j * x[::-1]).astype(np.complex64)
    for kind, lengths, value, want in (
            ('FFT', (4,), z, np.fft.fft(z)), (lax.FftType.IFFT, (3, 4), z, np.fft.ifft2(z)), ('RFFT', (3, 4), x, np.fft.rfft2(x)),
            ('IRFFT', (3, 4), np.fft.rfft2(x).astype(np.complex64), x), ('IRFFT', (5,), z[:, :3], np.fft.irfft(z[:, :3], 5))):
        assert_allclose(lax.fft(value, kind, lengths), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r'IRFFT and lengths \(4,\) takes an array whose last dimensions are \(3,\)'):
        lax.fft(z, 'IRFFT', (4,))
    with pytest.raises(TypeError, match='RFFT takes real floats'):
        lax.fft(z, 'RFFT', (4,))


def test_smaller_names_of_lax():
    x = np.float32([3, 1, 2])
    for got, want in ((lax.approx_max_k(x, 2), ([3, 2], [0, 2])), (lax.approx_min_k(x, 2), ([1, 2], [1, 2])),
                      (lax.sort_key_val(x, np.arange(3)), ([1, 2, 3], [1, 2, 0]))):
        assert_array_equal(got[0], want[0])
        assert_array_equal(got[1], want[1])
    assert lax.broadcast_to_rank(x, 3).shape == (1, 1, 3)
    assert lax.empty((2,), jnp.int32).dtype == np.int32
    assert_array_equal(lax.stack([x, x], 1), np.stack([x, x], 1))
    assert_array_equal(lax.unstack(lax.stack([x, -x], 1), 1)[1], -x)
    assert_array_equal(lax.dot(A, B, precision=lax.Precision.HIGHEST), A @ B)
    with pytest.raises(TypeError, match='approx_min_k takes floats'):
        lax.approx_min_k(np.arange(3), 1)
    with pytest.raises(NotImplementedError, match='random.uniform'):
        lax.rng_uniform(0, 1, (2,))


# ---- derivatives of solutions

def solved(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, lambda _, b: jnp.linalg.solve(a, b), lambda _, b: jnp.linalg.solve(a.T, b))


def iterated(a, b):
    def steps(f, b):
        return lax.fori_loop(0, 150, lambda _, x: x + 0.1 * (b - f(x)), b * 0)
    return lax.custom_linear_solve(lambda x: a @ x, b, steps, steps)


@pytest.mark.parametrize('solve', [solved, iterated])
def test_custom_linear_solve(solve):
    def loss(solve):
        return lambda a, b: (solve(a, b) ** 3).sum()
    wanted = loss(jnp.linalg.solve)
    assert_allclose(jax.jit(solve)(A, B), np.linalg.solve(A, B), rtol=1e-4)
    for k in (0, 1):
        assert_allclose(jax.grad(loss(solve), k)(A, B), jax.grad(wanted, k)(A, B), rtol=1e-3, atol=1e-5)
    second = jax.jacrev(jax.grad(loss(solve)))(A, B)
    assert_allclose(second, jax.jacrev(jax.grad(wanted))(A, B), rtol=1e-3, atol=1e-5)


def test_custom_linear_solve_with_options():
    a = A + A.T

    def f(b, **options):
        x, steps = lax.custom_linear_solve(lambda x: a @ x, b, lambda _, b: (jnp.linalg.solve(a, b), 7), has_aux=True, **options)
        return x.sum(), steps
    g, steps = jax.grad(lambda b: f(b, symmetric=True), has_aux=True)(B)
    assert_allclose(g, np.linalg.solve(a, np.ones(3)), rtol=1e-4)
    assert steps == 7
    with pytest.raises(TypeError, match='transpose_solve='):
        jax.grad(lambda b: f(b)[0])(B)


def test_custom_root():
    def cube_root(a):
        newton = lambda f, x: lax.fori_loop(0, 30, lambda _, x: x - f(x) / (3 * x * x), x)     # noqa: E731
        return lax.custom_root(lambda x: x ** 3 - a, 1., newton, lambda g, y: y / g(1.))
    assert_allclose(cube_root(8.), 2, rtol=1e-6)
    assert_allclose(jax.jit(jax.grad(cube_root))(8.), 1 / 12, rtol=1e-5)
    assert_allclose(jax.grad(jax.grad(cube_root))(8.), -2 / 9 * 8 ** (-5 / 3), rtol=1e-4)
    with pytest.raises(TypeError, match='no forward-mode derivative'):
        jax.jvp(cube_root, (8.,), (1.,))


@pytest.mark.meshes((2,), (3,))
def test_on_split_arrays(mesh):
    b = numbers((3, 6), 1)
    split = jax.device_put(jnp.asarray(b), P(None, 'X'))
    assert_allclose(get(solved(A, split), mesh), np.linalg.solve(A, b), rtol=1e-4)
    g = jax.grad(lambda b: (solved(A, b) ** 2).sum())(split)
    assert g.type == split.type
    assert_allclose(get(g, mesh), 2 * np.linalg.solve(A.T, np.linalg.solve(A, b)), rtol=1e-3, atol=1e-5)
    assert_allclose(get(lax.fft(split, 'RFFT', (6,)), mesh), np.fft.rfft(b), rtol=1e-4, atol=1e-5)
    assert counted(lambda: lax.fft(split, 'RFFT', (6,)))[0] == {'all-gather': 1}
    key = random.key(0)
    for draw in (lambda s: random.maxwell(key, (6, 4), out_sharding=s), lambda s: random.geometric(key, .3, (6, 4), out_sharding=s),
                 lambda s: random.double_sided_maxwell(key, 1., 2., (6, 4), out_sharding=s)):
        drawn = draw(P('X'))
        assert drawn.type.partitions == (('X',), ())
        assert_array_equal(get(drawn, mesh), get(draw(None), mesh))


# ---- nn, trees, dtypes, switches

def test_logmeanexp():
    x = np.float32([[1, 2, 3], [1000, 1001, 1002]])
    assert_allclose(jax.nn.logmeanexp(x, 1), special.logsumexp(x, 1) - np.log(3), rtol=1e-6)
    assert_allclose(jax.nn.logmeanexp(x, where=np.array([True, False, True])),
                    special.logsumexp(x[:, [0, 2]]) - np.log(4), rtol=1e-6)


def test_trees():
    t = {'a': [1, 2], 'b': (3,)}
    assert jax.tree_util.tree_map(lambda x: -x, t) == {'a': [-1, -2], 'b': (-3,)}
    leaves, treedef = jax.tree_util.tree_flatten(t)
    assert jax.tree_util.tree_unflatten(treedef, leaves) == t
    assert [c.num_leaves for c in jax.tree_util.treedef_children(treedef)] == [2, 1]
    assert jax.tree_util.treedef_tuple([treedef, treedef]) == jax.tree.structure((t, t))
    assert jax.tree_util.treedef_is_leaf(jax.tree.structure(1)) and not jax.tree_util.treedef_is_leaf(treedef)
    assert jax.tree_util.all_leaves([1, 2]) and not jax.tree_util.all_leaves([1, t])


def test_dtypes():
    assert jax.dtypes.canonicalize_dtype('float64') == np.float32
    assert jax.dtypes.issubdtype(random.key(0).dtype, jax.dtypes.prng_key)
    assert not jax.dtypes.issubdtype(np.dtype('f4'), jax.dtypes.prng_key) and not jax.dtypes.issubdtype(jax.float0, jax.dtypes.prng_key)
    assert (jax.dtypes.scalar_type_of(jnp.ones(2)), jax.dtypes.itemsize_bits('int16'), jax.dtypes.itemsize_bits(bool)) == (float, 16, 1)
    assert jax.default_backend() == 'cpu' and issubclass(jax.errors.CollectiveTimeoutError, jax.errors.JaxRuntimeError)


def test_switches_for_a_while():
    seen = []

    @jax.jit
    def f(x):
        seen.append(type(x).__name__)
        return 2 * x
    f(1.), f(2.)
    assert seen == ['StageTracer']
    with jax.disable_jit():
        assert f(jnp.ones(2))[0] == 2
    assert seen == ['StageTracer', 'Array']
    with jax.default_matmul_precision('float32'):
        assert_array_equal(jax.jit(jnp.dot)(A, B), A @ B)

    @jax.jit
    def doubled(x):
        with jax.ensure_compile_time_eval():
            n = int(jnp.sum(jnp.arange(3)))
        return x[:n] * 2
    assert doubled(jnp.ones(4)).shape == (3,)
    with jax.enable_x64():
        assert jnp.ones(2).dtype == np.float64
    assert jnp.ones(2).dtype == np.float32
    with warnings.catch_warnings(), jax.debug_nans(), pytest.raises(FloatingPointError, match='log gave NaN'):
        warnings.simplefilter('ignore')
        jnp.log(-jnp.ones(2))


def test_bytes_and_text(tmp_path):
    assert_array_equal(jnp.frombuffer(b'abc', jnp.uint8), [97, 98, 99])
    assert_array_equal(jnp.fromstring('1 2', sep=' '), [1, 2])
    assert_array_equal(jnp.from_dlpack(np.arange(3)), [0, 1, 2])
    jnp.save(tmp_path / 'x.npy', jnp.arange(3.))
    assert jnp.load(tmp_path / 'x.npy').type == jnp.arange(3.).type
    assert jnp.array_repr(jnp.arange(2)) == 'Array([0, 1], dtype=int32)'
