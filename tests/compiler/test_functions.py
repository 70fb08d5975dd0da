"""The functions of compiled loops against higher precision, and their special values against NumPy's."""

import math

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import distad.numpy as jnp
from distad import lax, rules
from tests.compiler.programs import COMPILED, both

pytestmark = [pytest.mark.ranks(1), COMPILED]
LONG = np.longdouble

# name: the function in higher precision, and bounds between which it is tried; None for all floats
UNARY = {
    'exp': (np.exp, None), 'exp2': (np.exp2, None), 'expm1': (np.expm1, None), 'log': (np.log, None), 'log2': (np.log2, None),
    'log10': (np.log10, None), 'log1p': (np.log1p, None), 'tanh': (np.tanh, None), 'sin': (np.sin, None), 'cos': (np.cos, None),
    'tan': (np.tan, (-1e4, 1e4)), 'atan': (np.arctan, None), 'sinh': (np.sinh, None), 'cosh': (np.cosh, None),
    'asin': (np.arcsin, (-1, 1)), 'acos': (np.arccos, (-1, 1)), 'cbrt': (np.cbrt, None),
    'erf_inv': (lambda x: special.erfinv(np.asarray(x, float)).astype(LONG), (-1, 1)),
    'asinh': (np.arcsinh, None), 'acosh': (np.arccosh, None), 'atanh': (np.arctanh, (-1, 1)),
    'logistic': (lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-abs(x))), None),
    'rsqrt': (lambda x: 1 / np.sqrt(x), None),
    'erf': (lambda x: np.vectorize(math.erf, otypes=[float])(np.asarray(x, float)).astype(LONG), (-7, 7)),
    'erfc': (lambda x: np.vectorize(math.erfc, otypes=[float])(np.asarray(x, float)).astype(LONG), (-6, 26)),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e30, -1e30, 1e-30, 2.0, 0.5]


def function(name: str):
    return getattr(lax, name, None) or getattr(jnp, name, None) or next(p for p in rules.primitives() if p.name == name)


def samples(dtype, bounds) -> np.ndarray:
    r = np.random.default_rng(0)
    if bounds:
        return np.concatenate([r.uniform(*bounds, 3000), np.linspace(*bounds, 1001), r.uniform(-1, 1, 1000)]).astype(dtype)
    info = np.finfo(dtype)
    sizes = 10.0 ** r.uniform(math.log10(info.tiny) - 4, math.log10(info.max), 2000)
    usual = np.concatenate([r.uniform(-1, 1, 2000), r.uniform(-20, 20, 2000), r.uniform(-110, 110, 1000), r.uniform(0, 4, 2000)])
    return np.concatenate([sizes, -sizes, usual, r.uniform(-750, 750, 500)]).astype(dtype)


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The distance to the exact value in units of the last place of the result."""
    dtype = got.dtype
    with np.errstate(over='ignore'):
        near = want.astype(dtype)
    same = (got == near) | (np.isnan(got) & np.isnan(near))
    with np.errstate(all='ignore'):
        unit = np.maximum(np.spacing(np.abs(near)), ml_dtypes.finfo(dtype).smallest_subnormal).astype(LONG)
        return np.where(same, 0, np.abs(got.astype(LONG) - want) / unit).astype(float)


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
@pytest.mark.parametrize('name', UNARY)
def test_functions_are_close_to_the_last_place(name, dtype) -> None:
    f, bounds = UNARY[name]
    x = samples(dtype, bounds)
    compiled, plain = both(lambda x: function(name)(x) + 0, x)
    with np.errstate(all='ignore'):
        want = f(x.astype(LONG))
        nan = np.isnan(want.astype(dtype))
    error = ulps(compiled, want)
    worst = np.nanargmax(np.where(np.isnan(error), np.inf, error))
    bound = 2 if dtype == np.float32 else 4.5 if name in ('erf', 'erfc', 'erf_inv') else 4          # math.erf errs itself
    assert error[worst] <= bound, (x[worst], compiled[worst], want[worst])
    np.testing.assert_array_equal(np.isnan(compiled), nan)


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
@pytest.mark.parametrize('name', UNARY)
def test_special_values_are_those_of_numpy(name, dtype) -> None:
    compiled, plain = both(lambda x: (function(name)(x), x == x), np.resize(np.array(SPECIAL, dtype), 40))
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)
    zero = (plain == 0) & (name != 'erf_inv')                       # SciPy's inverse of erf forgets the sign
    np.testing.assert_array_equal(np.signbit(compiled[zero]), np.signbit(plain[zero]))


# name: the function, and whether its error is counted in units of the larger operand, which its terms are as large as
BINARY = {
    'atan2': (np.arctan2, False), 'hypot': (np.hypot, False), 'logaddexp': (np.logaddexp, True),
    'xlogy': (lambda x, y: np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)), False),
    'xlog1py': (lambda x, y: np.where((x == 0) & ~np.isnan(y), 0, x * np.log1p(y)), False),
}


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
@pytest.mark.parametrize('name', BINARY)
def test_functions_of_two_numbers(name, dtype) -> None:
    f, of_terms = BINARY[name]
    r = np.random.default_rng(1)
    x, y = np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype))
    scales = 10.0 ** r.uniform(-300 if dtype == np.float64 else -36, 300 if dtype == np.float64 else 36, 1000)
    x = np.concatenate([x.ravel(), r.normal(size=2000), scales, scales]).astype(dtype)
    y = np.concatenate([y.ravel(), r.normal(size=2000), r.permutation(scales), scales * r.normal(size=1000)]).astype(dtype)
    compiled, plain = both(lambda x, y: (function(name)(x, y), x == y), x, y)
    with np.errstate(all='ignore'):
        want = f(x.astype(LONG), y.astype(LONG))
        error = ulps(compiled, want)
        if of_terms:
            unit = np.spacing(np.maximum(np.maximum(abs(x), abs(y)), dtype(0.5)))
            error = np.where(error > 0, np.abs(compiled - want.astype(dtype)) / unit, 0)
    worst = np.nanargmax(np.where(np.isnan(error), np.inf, error))
    assert error[worst] <= (2 if dtype == np.float32 else 4), (x[worst], y[worst], compiled[worst], want[worst])
    np.testing.assert_array_equal(np.isnan(compiled), np.isnan(plain))
    zero = plain == 0
    np.testing.assert_array_equal(np.signbit(compiled[zero]), np.signbit(plain[zero]))


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_pow(dtype) -> None:
    r = np.random.default_rng(1)
    odd = np.array([*SPECIAL, 3.0, -3.0, 2.5, -2.5, 1e9, 1.0000001], dtype)
    x, y = (np.concatenate([a.ravel(), b]) for a, b in zip(
        np.meshgrid(odd, odd), (10.0 ** r.uniform(-30, 30, 3000), r.uniform(-20, 20, 3000)), strict=True))
    x, y = x.astype(dtype), y.astype(dtype)
    compiled, _ = both(lambda x, y: lax.pow(x, y) + 0, x, y)
    with np.errstate(all='ignore'):
        want = np.power(x.astype(LONG), y.astype(LONG))
        near = want.astype(dtype)
    error = ulps(compiled, want)
    worst = np.nanargmax(error)
    assert error[worst] <= (2 if dtype == np.float32 else 4), (x[worst], y[worst], compiled[worst], near[worst])
    np.testing.assert_array_equal(np.isnan(compiled), np.isnan(near))
