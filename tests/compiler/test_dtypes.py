"""Every elementwise primitive in every dtype: compiled loops give what NumPy gives. Integers to the bit, halves to one unit of the
last place in functions and to the bit in arithmetic.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from distad import rules
from distad.compiler.llvm import engine, scalars
from tests.compiler.programs import fused

pytestmark = [pytest.mark.ranks(1), pytest.mark.skipif(not engine.available(), reason='llvmlite is not installed')]
PRIMITIVES = {p.name: p for p in rules.primitives() if p.pointwise}
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
INTEGERS = [np.dtype(d) for d in ('i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8')]
TWO = {'add', 'add_any', 'sub', 'mul', 'div', 'max', 'min', 'pow', 'copysign', 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'and', 'or', 'xor'}
PARAMS = {'integer_pow': {'y': 3}, 'round': {'rounding_method': 1}}
# Primitives that the table serves with operands of several dtypes or states; they have tests of their own.
OTHERS = {'select_n', 'convert_element_type', 'relabel', 'pow', 'clamp'}
ARITHMETIC = scalars.EXACT | {'add', 'add_any', 'sub', 'mul', 'div', 'sqrt', 'square', 'integer_pow'}


# Of two zeros NumPy takes the first in some dtypes and the second in others; the sign of -0 is 0 in some and -0 in others.
ANY_ZERO = {'max', 'min', 'relu', 'relu6', 'sign'}


def pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values at which something may go wrong, and random ones."""
    r = np.random.default_rng(0)
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


def apply(name: str, x, y):
    return PRIMITIVES[name](*((x, y) if name in TWO else (x,)), **PARAMS.get(name, {}))


def differing(dtype: np.dtype, names: list[str]) -> list[str]:
    x, y = pairs(dtype)
    f = lambda x, y: [apply(name, x, y) for name in names]
    got, operations = fused(f, x, y)
    assert 'fused' in operations and not set(operations) & set(names), operations
    want, _ = fused(f, x, y, llvm=False, least=1 << 40)
    found = []
    for name, g, w in zip(names, got, want, strict=True):
        assert g.dtype == w.dtype, name
        bad = off(g, w, name)
        if bad.any():
            i = np.flatnonzero(bad)
            found.append(f'{name} of {dtype} {x[i[:4]]} {y[i[:4]]}: {g[i[:4]]}, not {w[i[:4]]} ({i.size})')
    return found


def off(got: np.ndarray, want: np.ndarray, name: str) -> np.ndarray:
    if got.dtype.kind in 'iub':
        return got != want
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all='ignore'):
        same = (a == b) & ((b != 0) | (np.signbit(a) == np.signbit(b)) | (name in ANY_ZERO)) | (np.isnan(a) & np.isnan(b))
        if name not in ARITHMETIC:
            same |= np.abs(a - b) <= np.abs(np.spacing(want).astype(np.float64)) * 1.01
    return ~same


@pytest.mark.parametrize('dtype', HALVES, ids=str)
def test_halves(dtype) -> None:
    assert not differing(dtype, table(dtype))


@pytest.mark.parametrize('dtype', INTEGERS, ids=str)
def test_integers(dtype) -> None:
    assert not differing(dtype, table(dtype))
