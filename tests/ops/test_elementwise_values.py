"""Elementwise functions: NumPy's values in every dtype, integers as C and XLA have them, dtypes as JAX has them."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import distad as jax
import distad.numpy as jnp
from distad import lax, nn
from distad.config import config
from distad.core.lift import host

BF16 = ml_dtypes.bfloat16
HALF, WHOLE = [np.float16, BF16], [np.int8, np.int32, np.uint8, np.uint32]
TOLERANCE = {np.dtype(np.float16): 2e-3, np.dtype(BF16): 2e-2, np.dtype(np.float32): 2e-6, np.dtype(np.complex64): 5e-6}

# name: bounds within which NumPy's function of that name is smooth and finite
REAL = {
    'exp': (-3, 3), 'exp2': (-3, 3), 'expm1': (-2, 3), 'log': (0.1, 9), 'log2': (0.1, 9), 'log10': (0.1, 9),
    'log1p': (-0.9, 9),
    'sqrt': (0, 9), 'cbrt': (-9, 9), 'sin': (-4, 4), 'cos': (-4, 4), 'tan': (-1, 1), 'arcsin': (-1, 1), 'arccos': (-1, 1),
    'arctan': (-4, 4), 'sinh': (-3, 3), 'cosh': (-3, 3), 'tanh': (-3, 3), 'arcsinh': (-4, 4), 'arccosh': (1, 9),
    'arctanh': (-0.9, 0.9), 'sinc': (-3, 3), 'i0': (-3, 3), 'deg2rad': (-400, 400), 'rad2deg': (-7, 7), 'fabs': (-3, 3),
    'floor': (-9, 9), 'ceil': (-9, 9), 'trunc': (-9, 9), 'rint': (-9, 9), 'round': (-9, 9), 'abs': (-3, 3), 'sign': (-3, 3),
    'square': (-3, 3), 'reciprocal': (0.5, 3), 'negative': (-3, 3), 'positive': (-3, 3), 'spacing': (0.5, 3),
    'signbit': (-3, 3), 'isnan': (-3, 3), 'isinf': (-3, 3), 'isfinite': (-3, 3), 'nan_to_num': (-3, 3), 'frexp': (-9, 9),
    'modf': (-9, 9), 'real': (-3, 3), 'imag': (-3, 3), 'conj': (-3, 3), 'angle': (-3, 3), 'iscomplex': (-3, 3),
    'isreal': (-3, 3), 'isposinf': (-3, 3), 'isneginf': (-3, 3), 'logical_not': (-1, 1)}
TWO = {
    'add': (-3, 3), 'subtract': (-3, 3), 'multiply': (-3, 3), 'divide': (0.5, 3), 'floor_divide': (0.5, 9), 'remainder': (0.5, 9),
    'fmod': (0.5, 9), 'power': (0.5, 3), 'float_power': (0.5, 3), 'maximum': (-3, 3), 'minimum': (-3, 3), 'fmax': (-3, 3),
    'fmin': (-3, 3), 'hypot': (-3, 3), 'arctan2': (-3, 3), 'logaddexp': (-3, 3), 'logaddexp2': (-3, 3), 'copysign': (-3, 3),
    'nextafter': (-3, 3), 'heaviside': (-3, 3), 'equal': (-3, 3), 'not_equal': (-3, 3), 'less': (-3, 3), 'less_equal': (-3, 3),
    'greater': (-3, 3), 'greater_equal': (-3, 3), 'logical_and': (-1, 1), 'logical_or': (-1, 1), 'logical_xor': (-1, 1),
    'isclose': (-3, 3), 'divmod': (0.5, 9)}
INTEGERS = {
    'bitwise_and': (-9, 9), 'bitwise_or': (-9, 9), 'bitwise_xor': (-9, 9), 'left_shift': (0, 5), 'right_shift': (0, 5),
    'gcd': (-9, 9), 'lcm': (-9, 9), 'floor_divide': (1, 9), 'remainder': (1, 9), 'fmod': (1, 9), 'power': (0, 3),
    'add': (-9, 9), 'subtract': (-9, 9), 'multiply': (-9, 9), 'maximum': (-9, 9), 'minimum': (-9, 9)}


def sample(low, high, dtype, seed=0, shape=(5, 7)):
    x = np.random.default_rng(seed).uniform(low, high, shape)
    return np.maximum(np.rint(x), 0 if np.dtype(dtype).kind == 'u' else low).astype(dtype) \
        if np.dtype(dtype).kind in 'iu' else x.astype(dtype)


def agree(got, want, dtype):
    """`want` was computed in a wider dtype, and is as wide as the result is rounded."""
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        g = host(g)
        if g.dtype.kind in 'fcV':
            assert g.dtype == dtype
            w = np.asarray(w)
            np.testing.assert_allclose(np.asarray(g, w.dtype), w, rtol=TOLERANCE[np.dtype(dtype)], atol=TOLERANCE[np.dtype(dtype)])
        else:
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize('dtype', [np.float32, *HALF])
@pytest.mark.parametrize('name', REAL)
def test_functions_of_one_float(name, dtype):
    x = sample(*REAL[name], dtype)
    wide = np.float64 if name not in ('spacing', 'frexp', 'nextafter') else dtype
    want = getattr(np, name)(x.astype(wide))
    if name == 'spacing':
        want = np.asarray(want, np.float64)
    with warnings.catch_warnings(action='error'):
        agree(getattr(jnp, name)(x), want, dtype)


@pytest.mark.parametrize('dtype', [np.float32, *HALF])
@pytest.mark.parametrize('name', TWO)
def test_functions_of_two_floats(name, dtype):
    x, y = sample(*TWO[name], dtype, 1), sample(*TWO[name], dtype, 2, (7,))
    wide = dtype if name == 'nextafter' else np.float64
    want = getattr(np, name)(x.astype(wide), y.astype(wide))
    if name == 'nextafter':
        want = want.astype(np.float64)
    with warnings.catch_warnings(action='error'):
        agree(getattr(jnp, name)(x, y), want, dtype)


@pytest.mark.parametrize('dtype', WHOLE)
@pytest.mark.parametrize('name', INTEGERS)
def test_functions_of_two_integers(name, dtype):
    x, y = sample(*INTEGERS[name], dtype, 1), sample(*INTEGERS[name], dtype, 2, (7,))
    got = host(getattr(jnp, name)(x, y))
    want = getattr(np, name)(x, y)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize('name', ['exp', 'exp2', 'log', 'log2', 'sqrt', 'sin', 'cos', 'tan', 'arcsin', 'arccos', 'arctan', 'sinh',
                                  'cosh', 'tanh', 'arcsinh', 'arccosh', 'arctanh', 'expm1', 'log1p', 'abs', 'sign', 'square',
                                  'reciprocal', 'negative', 'conj', 'sinc'])
def test_functions_of_a_complex_number(name):
    x = (sample(0.3, 1.5, np.float32, 3) + 1j * sample(0.2, 1.5, np.float32, 4)).astype(np.complex64)
    wide = x.astype(np.complex128)
    want = 2**wide if name == 'exp2' else getattr(np, name)(wide)
    got = host(getattr(jnp, name)(x))
    assert got.dtype == (np.float32 if name == 'abs' else np.complex64)
    np.testing.assert_allclose(got, want, rtol=5e-6, atol=5e-6)


SPECIAL = {
    'erf': (special.erf, -3, 3), 'erfc': (special.erfc, -3, 3), 'erf_inv': (special.erfinv, -0.9, 0.9),
    'lgamma': (special.gammaln, 0.3, 5), 'digamma': (special.psi, 0.3, 5), 'logistic': (special.expit, -5, 5),
    'bessel_i0e': (special.i0e, -5, 5), 'bessel_i1e': (special.i1e, -5, 5), 'rsqrt': (lambda x: x**-0.5, 0.2, 5)}


@pytest.mark.parametrize('dtype', [np.float32, *HALF])
@pytest.mark.parametrize('name', SPECIAL)
def test_special_functions(name, dtype):
    f, low, high = SPECIAL[name]
    x = sample(low, high, dtype)
    agree(getattr(lax, name)(x), f(x.astype(np.float64)), dtype)


def test_special_functions_of_more_operands():
    a, x = sample(0.5, 3, np.float32, 1), sample(0.1, 4, np.float32, 2)
    u = sample(0.1, 0.9, np.float32, 3)
    for got, want in [(lax.igamma(a, x), special.gammainc(a, x)), (lax.igammac(a, x), special.gammaincc(a, x)),
                      (lax.betainc(a, x, u), special.betainc(a, x, u)), (lax.zeta(a + 1, x), special.zeta(a + 1, x)),
                      (lax.polygamma(np.float32(2), x), special.polygamma(2, x))]:
        np.testing.assert_allclose(host(got), want, rtol=3e-5)


# ---- integers as XLA has them

def arrays(*lists, dtype=np.int32):
    return [np.array(v, dtype) for v in lists]


def test_integer_division_towards_zero():
    x, y = arrays([-7, 7, 5, -2**31, 0], [2, -2, 0, -1, 0])
    np.testing.assert_array_equal(host(lax.div(x, y)), [-3, -3, -1, -2**31, -1])
    np.testing.assert_array_equal(host(lax.rem(x, y)), [-1, 1, 5, 0, 0])
    u = np.array([7, 0], np.uint8)
    np.testing.assert_array_equal(host(lax.div(u, np.zeros(2, np.uint8))), [255, 255])
    np.testing.assert_array_equal(host(lax.rem(u, np.zeros(2, np.uint8))), u)


def test_shifts_beyond_the_width():
    x, n = arrays([1, -1, 3], [32, 31, -1])
    np.testing.assert_array_equal(host(lax.shift_left(x, n)), [0, -2**31, 0])
    np.testing.assert_array_equal(host(lax.shift_right_arithmetic(x, n)), [0, -1, 0])
    np.testing.assert_array_equal(host(lax.shift_right_logical(x, n)), [0, 1, 0])
    np.testing.assert_array_equal(host(lax.shift_right_logical(*arrays([-1, -1], [1, 9], dtype=np.int8))), [127, 0])


def test_powers_of_integers():
    x, y = arrays([2, 3, -2, 0, 1, -1, 0], [-1, 3, 2, 0, -5, -3, -2])
    np.testing.assert_array_equal(host(jnp.power(x, y)), [0, 27, 4, 1, 1, -1, 0])
    np.testing.assert_array_equal(host(jnp.power(np.array([2, 3], np.int32), 40)), [0, 689956897])
    np.testing.assert_array_equal(host(lax.integer_pow(np.array([2, 3], np.int8), 7)), [-128, -117])
    with pytest.raises(TypeError, match='negative powers'):
        jnp.power(x, -2)


def test_powers_take_a_python_integer_as_multiplication():
    x = jnp.asarray(np.array([0.0, -2.0, 3.0], np.float32))
    assert 'integer_pow[y=3]' in str(jax.make_jaxpr(lambda x: x**3)(x))
    assert 'pow' in str(jax.make_jaxpr(lambda x: x**2.5)(x))
    np.testing.assert_allclose(host(x**3), [0, -8, 27])
    np.testing.assert_allclose(host(x**-1), [np.inf, -0.5, 1 / 3], rtol=1e-6)
    np.testing.assert_array_equal(host(x**0), [1, 1, 1])
    np.testing.assert_allclose(host(x ** np.array([2, 3, -1], np.int32)), [0, -8, 1 / 3], rtol=1e-6)


def test_bits():
    x = np.array([-1, 7, 0], np.int8)
    np.testing.assert_array_equal(host(lax.clz(x)), [0, 5, 8])
    np.testing.assert_array_equal(host(lax.population_count(x)), [8, 3, 0])
    np.testing.assert_array_equal(host(jnp.bitwise_count(x)), [1, 3, 0])
    assert host(jnp.bitwise_count(x)).dtype == np.uint8
    np.testing.assert_array_equal(host(lax.mulhi(np.uint32(2**31), np.uint32(6))), 3)
    with config.override(enable_x64=True):
        for dtype in (np.int64, np.uint64):
            a, b = (np.array([-5, 7, 2**62 + 3, -2**62], np.int64).view(dtype) * dtype(k) for k in (1, 3))
            want = [(int(p) * int(q)) >> 64 for p, q in zip(a, b, strict=True)]
            np.testing.assert_array_equal(host(lax.mulhi(a, b)), np.array(want, dtype))
    np.testing.assert_array_equal(host(lax.bitcast_convert_type(np.float32(1), np.int8)), [0, 0, -128, 63])
    np.testing.assert_array_equal(host(lax.bitcast_convert_type(np.array([[1, 2]], np.int16), np.int32)), [131073])
    with pytest.raises(TypeError, match='bitcast_convert_type'):
        lax.bitcast_convert_type(np.complex64(1), np.float32)


def test_choices_out_of_range_take_the_first_or_last_case():
    cases = [np.full(3, k, np.float32) for k in (1, 2, 3)]
    np.testing.assert_array_equal(host(lax.select_n(np.array([0, 5, -2], np.int32), *cases)), [1, 3, 1])


# ---- rounding and conversion

def test_rounding():
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.5, np.inf, np.nan, 8388609.0], np.float32)
    np.testing.assert_array_equal(host(lax.round(x)), [-3, -1, 1, 2, 3, np.inf, np.nan, 8388609])
    np.testing.assert_array_equal(host(lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)), [-2, 0, 0, 2, 2, np.inf, np.nan, 8388609])
    np.testing.assert_allclose(host(jnp.round(np.float32(1.2345), 2)), 1.23, rtol=1e-6)
    np.testing.assert_allclose(host(jnp.round(np.float32(1234.5), -2)), 1200)
    with pytest.raises(NotImplementedError, match='decimals'):
        jnp.round(np.array([15]), -1)


def test_reduce_precision():
    x = np.array([1.2345678, 1e38, 1e-40, np.nan, 65520.0, 70000.0, -np.inf], np.float32)
    with np.errstate(over='ignore'):
        half = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(host(lax.reduce_precision(x, 5, 10)), half)
    np.testing.assert_array_equal(host(lax.reduce_precision(x, 8, 7)), x.astype(BF16).astype(np.float32))
    np.testing.assert_array_equal(host(lax.reduce_precision(x, 8, 23)), x)


def test_floats_become_integers_towards_zero_and_at_most_the_largest():
    x = jnp.asarray(np.array([np.nan, -np.inf, 300.7, -5.5, 3e9, np.inf], np.float32))
    np.testing.assert_array_equal(host(x.astype(jnp.int8)), [0, -128, 127, -5, 127, 127])
    np.testing.assert_array_equal(host(x.astype(jnp.uint8)), [0, 0, 255, 0, 255, 255])
    np.testing.assert_array_equal(host(x.astype(jnp.int32)), [0, -2**31, 300, -5, 2**31 - 1, 2**31 - 1])
    np.testing.assert_array_equal(host(x.astype(bool)), [True] * 6)
    np.testing.assert_array_equal(host(jnp.asarray(np.array([300, -5])).astype(jnp.int8)), [44, -5])
    assert jnp.asarray(1 + 2j).astype(jnp.float32) == 1


def test_parts_of_floats():
    x = np.array([0.0, 6.0, -0.375, np.inf, 1e-45, np.nan], np.float32)
    mantissa, exponent = map(host, jnp.frexp(x))
    np.testing.assert_array_equal(np.ldexp(mantissa, exponent), x)
    assert exponent.dtype == np.int32 and np.all((np.abs(mantissa[1:3]) >= 0.5) & (np.abs(mantissa[1:3]) < 1))
    y, n = np.float32([0.75, 1.0]), np.array([3, -150])
    np.testing.assert_array_equal(host(jnp.ldexp(y, n)), np.ldexp(y, n))
    behind, before = map(host, jnp.modf(np.float32([-2.5, np.inf, -0.0])))
    np.testing.assert_array_equal(behind, [-0.5, 0, 0])
    np.testing.assert_array_equal(before, [-2, np.inf, 0])


# ---- NaN and infinity

def test_not_a_number():
    x, y = np.array([1, np.nan, -0.0], np.float32), np.array([np.nan, 2, 0.0], np.float32)
    np.testing.assert_array_equal(host(jnp.maximum(x, y)), [np.nan, np.nan, 0])
    np.testing.assert_array_equal(host(jnp.fmax(x, y)), [1, 2, 0])
    np.testing.assert_array_equal(host(jnp.fmin(x, y)), [1, 2, 0])
    np.testing.assert_array_equal(host(nn.relu(x)), [1, np.nan, 0])
    np.testing.assert_array_equal(host(jnp.isclose(x, x, equal_nan=True)), [True, True, True])
    np.testing.assert_array_equal(host(jnp.isclose(x, x)), [True, False, True])
    big = np.finfo(np.float32).max
    z = np.array([np.nan, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(host(jnp.nan_to_num(z)), [0, big, -big])
    np.testing.assert_array_equal(host(jnp.nan_to_num(z, nan=1, posinf=2, neginf=3)), [1, 2, 3])


def test_no_warnings_reach_the_user_and_numpy_keeps_its_own():
    with warnings.catch_warnings(action='error'):
        host(jnp.log(np.float32([0, -1])) / np.float32(0))
        host(jax.jit(lambda x: jnp.exp(x) * jnp.log(x))(np.float32([1000, 0])))
        with pytest.raises(RuntimeWarning):
            np.log(np.float32(0))


def test_equality_of_whole_arrays():
    x = jnp.asarray(np.array([1.0, np.nan], np.float32))
    assert not jnp.array_equal(x, x) and jnp.array_equal(x, x, equal_nan=True) and not jnp.array_equal(x, x[:1])
    assert jnp.array_equiv(1.0, jnp.ones(3)) and not jnp.array_equiv(jnp.ones(2), jnp.ones(3))
    assert jnp.allclose(1.0, 1.0 + 1e-7) and not jnp.allclose(x, x)


# ---- dtypes as JAX has them

def kind(x):
    return str(jax.typeof(x))


def test_dtypes_of_results():
    i, f, h, b = (jnp.ones(3, d) for d in ('int32', 'float32', 'float16', 'bfloat16'))
    truth = i > 0
    for got, want in [
            (i / i, 'float32[3]'), (i + 1.5, '~float32[3]'), (h + 1.5, 'float16[3]'), (h + b, 'float32[3]'), (i + h, 'float16[3]'),
            (f + 1j, 'complex64[3]'), (jnp.sin(1), '~float32[]'), (jnp.sin(i), 'float32[3]'), (jnp.floor(i), 'int32[3]'),
            (jnp.rint(i), 'float32[3]'), (truth + truth, 'bool[3]'), (truth * truth, 'bool[3]'), (truth // truth, 'int32[3]'),
            (truth**2, '~int32[3]'), (jnp.square(truth), 'int32[3]'), (truth << truth, 'int32[3]'), (jnp.abs(f + 1j), 'float32[3]'),
            (2 ** jnp.arange(3), 'int32[3]'), (2.0**i, 'float32[3]'), (h**i, 'float16[3]'), (i ** np.float32(2), 'float32[3]'),
            (jnp.asarray(1.0) * 2.0, '~float32[]'), (jnp.where(truth, 1, 2.0), '~float32[3]'), (jnp.clip(i, 0.5, 2), '~float32[3]'),
            (jnp.frexp(h)[1], 'int32[3]'), (jnp.equal(f, i), 'bool[3]'), (jnp.angle(i), 'float32[3]')]:
        assert kind(got) == want
    with pytest.raises(TypeError, match='sub does not accept dtype bool'):
        truth - truth
    with pytest.raises(TypeError, match='does not accept dtype float32'):
        f & f


def test_dtypes_with_64_bits():
    with config.override(enable_x64=True):
        i = jnp.ones(3, 'int32')
        for got, want in [(i / i, 'float32[3]'), (jnp.sin(i), 'float32[3]'), (jnp.sin(3), '~float64[]'), (i + 1.5, '~float64[3]'),
                          (jnp.sin(jnp.ones(3, 'int64')), 'float64[3]'), (jnp.exp(2.0) + np.float32(1), 'float32[]')]:
            assert kind(got) == want


def test_lax_is_strict():
    f, i = jnp.ones(3), jnp.ones(3, 'int32')
    assert kind(lax.add(f, 2.0)) == 'float32[3]'
    for call, text in [(lambda: lax.add(i, 2.0), 'same dtypes'), (lambda: lax.sin(i), 'does not accept dtype int32'),
                       (lambda: lax.add(jnp.ones((2, 3)), f), 'shapes'), (lambda: lax.lt(f + 1j, f + 1j), 'complex64'),
                       (lambda: lax.real(f), 'does not accept dtype float32'),
                       (lambda: lax.complex(f.astype('float16'), 0), 'dtype'),
                       (lambda: lax.select(np.ones(2, bool), 1.0, 0.0), 'one shape'),
                       (lambda: lax.clamp(jnp.ones((3, 1)), jnp.ones((3, 3)), 1.0), 'shape of x')]:
        with pytest.raises(TypeError, match=text):
            call()


def test_shapes_that_do_not_broadcast():
    for error in (ValueError, TypeError):
        with pytest.raises(error, match=r'add: shapes do not broadcast, got float32\[3,2\], float32\[3\]'):
            jnp.add(jnp.ones((3, 2)), jnp.ones(3))


def test_what_dtypes_are():
    assert jnp.result_type(jnp.ones(3), 1.0) == np.float32 and jnp.result_type(int, np.float16) == np.float16
    assert jnp.promote_types('int8', 'uint8') == np.int16 and jnp.promote_types(jnp.bfloat16, jnp.float16) == np.float32
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating) and not jnp.issubdtype(jnp.bfloat16, jnp.integer)
    assert jnp.issubdtype(jnp.int8, jnp.integer) and jnp.isdtype(jnp.float32, 'real floating')
    assert jnp.isdtype(jnp.bool, ('integral', 'bool')) and jnp.can_cast('int32', 'float64')
    assert float(jnp.finfo(jnp.bfloat16).max) > 3e38 and jnp.iinfo(jnp.int8).max == 127
    assert jnp.iscomplexobj(1j) and jnp.isrealobj(jnp.ones(2)) and jnp.isscalar(jnp.asarray(1)) and not jnp.isscalar(jnp.ones(1))


# ---- choices and complex numbers

def test_choices():
    x = np.linspace(-2, 2, 9).astype(np.float32)
    conditions, choices = [x < -1, x < 1], [x - 1, x * 2]
    np.testing.assert_array_equal(host(jnp.select(conditions, choices, 9.0)), np.select(conditions, choices, 9.0))
    functions = [lambda x: x * x, lambda x: x + 1, 5.0]
    np.testing.assert_array_equal(host(jnp.piecewise(x, conditions, functions)), np.piecewise(x, conditions, functions))
    np.testing.assert_array_equal(host(jnp.where(x > 0, x, 0)), np.where(x > 0, x, 0))
    np.testing.assert_array_equal(host(jnp.clip(x, -1, 0.5)), np.clip(x, -1, 0.5))
    np.testing.assert_array_equal(host(jnp.where(x[:, None] > 0, x, np.float32(1))), np.where(x[:, None] > 0, x, 1))
    with pytest.raises(ValueError, match='a choice for each condition'):
        jnp.select(conditions, choices[:1])


def test_complex_numbers():
    z = np.array([1 + 2j, 1 + 3j, 2 - 1j], np.complex64)
    w = np.array([1 + 3j, 1 + 2j, 1 + 9j], np.complex64)
    for name in ('less', 'less_equal', 'greater', 'greater_equal', 'maximum', 'minimum', 'equal'):
        np.testing.assert_array_equal(host(getattr(jnp, name)(z, w)), getattr(np, name)(z, w))
    np.testing.assert_array_equal(host(lax.complex(z.real, z.imag)), z)
    np.testing.assert_allclose(host(jnp.angle(z, deg=True)), np.angle(z, deg=True), rtol=1e-6)
    assert not jnp.isreal(z).any() and jnp.iscomplex(z).all() and jnp.isfinite(z).all() and jnp.isinf(z * np.inf).all()


# ---- activations

ACTIVATIONS = {
    'relu': lambda x: np.maximum(x, 0), 'relu6': lambda x: np.clip(x, 0, 6), 'sigmoid': special.expit,
    'softplus': lambda x: np.log1p(np.exp(x)), 'silu': lambda x: x * special.expit(x), 'soft_sign': lambda x: x / (1 + np.abs(x)),
    'log_sigmoid': special.log_expit, 'elu': lambda x: np.where(x > 0, x, np.expm1(x)),
    'celu': lambda x: np.where(x > 0, x, np.expm1(x)), 'leaky_relu': lambda x: np.where(x > 0, x, 0.01 * x),
    'selu': lambda x: 1.05070098735548 * np.where(x > 0, x, 1.67326324235438 * np.expm1(x)),
    'hard_tanh': lambda x: np.clip(x, -1, 1), 'hard_sigmoid': lambda x: np.clip(x + 3, 0, 6) / 6,
    'hard_silu': lambda x: x * np.clip(x + 3, 0, 6) / 6, 'mish': lambda x: x * np.tanh(np.log1p(np.exp(x))),
    'squareplus': lambda x: (x + np.sqrt(x * x + 4)) / 2, 'sparse_sigmoid': lambda x: np.clip((x + 1) / 2, 0, 1),
    'sparse_plus': lambda x: np.where(x < -1, 0, np.where(x > 1, x, (x + 1) ** 2 / 4)), 'identity': lambda x: x, 'tanh': np.tanh,
    'gelu': lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))}


@pytest.mark.parametrize('dtype', [np.float32, *HALF])
@pytest.mark.parametrize('name', ACTIVATIONS)
def test_activations(name, dtype):
    x = sample(-7, 7, dtype)
    agree(getattr(nn, name)(x), ACTIVATIONS[name](x.astype(np.float64)), dtype)


def test_other_activations():
    x = sample(0.1, 5, np.float32)
    np.testing.assert_allclose(host(nn.log1mexp(x)), np.log(-np.expm1(-x)), rtol=1e-5)
    np.testing.assert_allclose(host(nn.gelu(x, approximate=False)), x * special.ndtr(x), rtol=1e-5)
    pair = np.concatenate([x, x + 1], 1)
    np.testing.assert_allclose(host(nn.glu(pair)), x * special.expit(x + 1), rtol=1e-5)
    with pytest.raises(ValueError, match='even'):
        nn.glu(jnp.ones(3))
