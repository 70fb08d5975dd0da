"""Every elementwise primitive in every dtype: compiled loops give what NumPy gives. Integers to the bit, halves to one unit of the
last place in functions and to the bit in arithmetic.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import rules
from distad.compiler.llvm import complexes, engine, scalars
from distad.config import config
from tests.compiler.programs import COMPILED, fused
from tests.compiler.test_functions import UNARY, ulps

pytestmark = [pytest.mark.ranks(1), COMPILED]
PRIMITIVES = {p.name: p for p in rules.primitives() if p.pointwise}
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
BOOL = np.dtype(bool)
INTEGERS = [np.dtype(d) for d in ('i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8')]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]
ONE = {'abs', 'ceil', 'clz', 'conj', 'exponent', 'floor', 'integer_pow', 'is_finite', 'neg', 'not', 'population_count',
       'reduce_precision', 'relu', 'relu6', 'round', 'rsqrt', 'sign', 'signbit', 'spacing', 'sqrt', 'square', 'stop_gradient', 'trunc',
       *UNARY}
PARAMS = {'integer_pow': {'y': 3}, 'round': {'rounding_method': 1}, 'reduce_precision': {'exponent_bits': 5, 'mantissa_bits': 4}}
# Primitives that the table serves with operands of several dtypes or states; they have tests of their own.
OTHERS = {'select_n', 'convert_element_type', 'relabel', 'pow', 'clamp', 'ldexp'}
ARITHMETIC = scalars.EXACT | {'add', 'add_any', 'sub', 'mul', 'div', 'sqrt', 'square', 'integer_pow', 'rem', 'remainder',
                              'floor_divide', 'nextafter', 'spacing', 'exponent', 'reduce_precision', 'ldexp'}


# Of two zeros NumPy takes the first in some dtypes and the second in others; the sign of -0 is 0 in some and -0 in others.
ANY_ZERO = {'max', 'min', 'relu', 'relu6', 'sign', 'clamp'}


def pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values at which something may go wrong, and random ones."""
    r = np.random.default_rng(0)
    if dtype.kind == 'b':
        return np.resize([False, True], 40), np.resize([False, False, True, True], 40)
    if dtype.kind in 'iu':
        info = np.iinfo(dtype)
        odd = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 0, 1, 2, 3, 7, 8 * dtype.itemsize - 1,
               8 * dtype.itemsize, *([-1, -2, -7] if dtype.kind == 'i' else [])]
        random = r.integers(info.min, info.max, 300, dtype, endpoint=True)
        random[::2] //= dtype.type(info.max // 9)
    else:
        info = ml_dtypes.finfo(dtype)
        odd = [0.0, -0.0, 1, -1, 0.5, -2.5, 1.5, 3, np.inf, -np.inf, np.nan, float(info.max), float(info.tiny), 100, -7,
               float(info.smallest_subnormal), float(info.eps)]
        random = np.concatenate([r.normal(size=200), r.normal(size=100) * 2.0 ** r.integers(-30, 16, 100)])
    x, y = np.array(list(itertools.product(odd, odd)), dtype).T
    random = random.astype(dtype)
    return np.concatenate([x, random]), np.concatenate([y, r.permutation(random)])


def table(dtype: np.dtype) -> list[str]:
    """What the compiler serves in one dtype."""
    return sorted(n for n, (kinds, _) in scalars.TABLE.items() if scalars.kind(dtype) in kinds and n not in OTHERS)


def applied(name: str, params: dict | None = None) -> tuple:
    """A primitive as a function of two operands, of which it may take one."""
    params = PARAMS.get(name, {}) if params is None else params
    return name, lambda x, y: PRIMITIVES[name](*((x,) if name in ONE else (x, y)), **params)


def differing(x: np.ndarray, y: np.ndarray, functions: list[tuple]) -> list[str]:
    f = lambda x, y: [function(x, y) for _, function in functions]
    got, operations = fused(f, x, y)
    assert set(operations) == {'fused'}, operations
    want, _ = fused(f, x, y, llvm=False, least=1 << 40)
    found = []
    for (name, _), g, w in zip(functions, got, want, strict=True):
        assert g.dtype == w.dtype, name
        bad = off(g, w, name)
        if bad.any():
            i = np.flatnonzero(bad)
            found.append(f'{name} of {x.dtype} {x[i[:4]]} {y[i[:4]]}: {g[i[:4]]}, not {w[i[:4]]} ({i.size})')
    return found


def off(got: np.ndarray, want: np.ndarray, name: str) -> np.ndarray:
    if got.dtype.kind in 'iub':
        return got != want
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all='ignore'):
        same = (a == b) & ((b != 0) | (np.signbit(a) == np.signbit(b)) | (name in ANY_ZERO)) | (np.isnan(a) & np.isnan(b))
        if name not in ARITHMETIC and ' ' not in name:
            same |= np.abs(a - b) <= np.abs(np.spacing(want).astype(np.float64)) * 1.01
    return ~same


@pytest.mark.parametrize('dtype', [*HALVES, *INTEGERS, BOOL], ids=str)
def test_halves_integers_and_truth(dtype) -> None:
    assert not differing(*pairs(dtype), [applied(name) for name in table(dtype)])


@pytest.mark.parametrize('dtype', FLOATS, ids=str)
def test_arithmetic_of_floats(dtype) -> None:
    precisions = [{'exponent_bits': k, 'mantissa_bits': m} for k in (4, 8) for m in (0, 7, 30)]
    functions = [applied(name) for name in table(dtype) if name in ARITHMETIC]
    assert not differing(*pairs(dtype), functions + [applied('reduce_precision', p) for p in precisions])


@pytest.mark.parametrize('dtype', [*HALVES, *FLOATS], ids=str)
def test_floats_beside_integers(dtype) -> None:
    n = np.array([0, 1, -1, 2, 3, -7, 14, 127, -120, 1000, -149, -1070, 2**31 - 1, -2**31], np.int32)
    x, n = np.repeat(pairs(dtype)[0], n.size), np.tile(n, pairs(dtype)[0].size)
    for exponents in (n, n.astype(np.int8)):
        assert not differing(x, exponents, [applied('ldexp'), ('square', lambda x, n: x * x)])
    (got, _), operations = fused(lambda x, n: (PRIMITIVES['pow'](x, n), x + x), x, n)
    assert 'pow' not in operations
    with np.errstate(all='ignore'):
        want = np.power(x.astype(np.longdouble), n.astype(np.longdouble))
        assert ulps(got, want).max() <= 2


@pytest.mark.parametrize('dtype', [*HALVES, *FLOATS, *INTEGERS, BOOL], ids=str)
def test_casts_selects_and_bounds(dtype) -> None:
    functions = [(f'to {new}', lambda x, y, new=new: x.astype(new)) for new in (*HALVES, *FLOATS, *INTEGERS, BOOL) if new != dtype]
    functions += [('select_n', lambda x, y: PRIMITIVES['select_n'](x == y, x, y)),
                  ('clamp', lambda x, y: PRIMITIVES['clamp'](x, y, x)), ('select_n', lambda x, y: jnp.where(x != 0, y, dtype.type(1)))]
    assert not differing(*pairs(dtype), functions)


@pytest.mark.parametrize('dtype', [np.complex64, np.complex128])
def test_complex_numbers(dtype) -> None:
    r = np.random.default_rng(0)
    part = dtype(0).real.dtype.type
    odd = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2.5, 1e9], part)
    x, y = np.empty((2, 300 + odd.size ** 2), dtype)
    for z, re in (x, odd), (y, odd[::-1]):
        z.real, z.imag = (np.concatenate([r.normal(size=300), a.ravel()]) for a in np.meshgrid(re, odd))
    one = {'neg', 'square', 'conj', 'real', 'imag', 'abs', 'exp', 'stop_gradient'}
    functions = [(name, lambda x, y, p=PRIMITIVES[name]: p(*((x,) if p.name in one else (x, y))))
                 for name in sorted(set(complexes.TABLE) - {'relabel', 'select_n', 'complex'})]
    functions += [('complex', lambda x, y: PRIMITIVES['complex'](x.real, y.imag)), ('select_n', lambda x, y: jnp.where(x == y, x, y)),
                  ('to real', lambda x, y: PRIMITIVES['real'](x).astype(np.float16)), ('to complex', lambda x, y: x.real.astype(dtype))]
    f = lambda x, y: [function(x, y) for _, function in functions]
    for shape in ((-1,), (3, -1), (-1, 3)):                         # whole vectors, and what is left of rows
        got, operations = fused(f, x.reshape(shape), y.reshape(shape))
        assert set(operations) == {'fused'}, operations
        want, _ = fused(f, x.reshape(shape), y.reshape(shape), llvm=False, least=1 << 40)
        for (name, _), g, w in zip(functions, got, want, strict=True):
            assert g.dtype == w.dtype, name
            with np.errstate(all='ignore'):
                near = np.abs(g - w) <= 8 * np.finfo(part).eps * np.abs(w) if g.dtype.kind in 'cf' else g == w
            near |= (g == w) | np.isnan(g.real) & np.isnan(w.real) | np.isnan(g.imag) & np.isnan(w.imag)
            assert near.all(), (name, x.reshape(shape)[~near], y.reshape(shape)[~near], g[~near], w[~near])


SPECIAL = 'a series whose length hangs on its operand, or many pieces: SciPy spends its time in it, not in memory'
ALONE = {
    **dict.fromkeys(('bessel_i0', 'bessel_i0e', 'bessel_i1', 'bessel_i1e', 'digamma', 'igamma', 'igamma_grad_a', 'igammac', 'lgamma',
                     'log_ndtr', 'ndtri', 'polygamma', 'random_gamma_grad', 'regularized_incomplete_beta', 'zeta'), SPECIAL),
}


def test_what_numpy_alone_runs_is_known() -> None:
    assert set(PRIMITIVES) - set(scalars.TABLE) - set(complexes.TABLE) == set(ALONE)


@pytest.mark.parametrize('dtype', [*HALVES, np.dtype(np.int8), np.dtype(np.uint16), BOOL], ids=str)
@pytest.mark.parametrize('size', [17, 18, 31])
def test_nothing_is_written_beyond_a_result(dtype, size) -> None:
    with config.override(fuse_from=2):
        program = jax.jit(lambda x: jnp.square(x + 1).astype(dtype)).lower(jnp.zeros(size, np.float32)).compile().program
        (eqn,) = program.jaxpr.equations
        kernel = engine.kernel(*(eqn.params[name] for name in ('jaxpr', 'space', 'rows')))
    memory = np.full(size + 8, 1, dtype)
    kernel(np.full(size, -1, np.float32), memory[4:-4])
    np.testing.assert_array_equal(memory.astype(int), [1] * 4 + [0] * size + [1] * 4)
