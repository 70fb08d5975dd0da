"""Complex numbers, in registers two vectors each, by the formulas that NumPy uses.

Division is Smith's (Algorithm 116: complex division, 1962), which squares nothing and so does not overflow halfway.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from distad.compiler.llvm import functions as f
from distad.compiler.llvm.emit import Emitter, Pair, Value, part
from distad.compiler.llvm.inverses import hypot


def _divided(e: Emitter, x: Pair, y: Pair) -> Pair:
    """By the ratio of the divisor's smaller part to its larger one."""
    a, b = e.abs(y.re), e.abs(y.im)
    flat = a >= b
    small, large = e.select(flat, y.im, y.re), e.select(flat, y.re, y.im)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    re = e.select(flat, x.re + x.im * ratio, x.re * ratio + x.im) * scale
    im = e.select(flat, x.im - x.re * ratio, x.im * ratio - x.re) * scale
    zero = a.equals(0.0) & b.equals(0.0)
    return Pair(e.select(zero, x.re / a, re), e.select(zero, x.im / a, im))


def _exp(e: Emitter, x: Pair) -> Pair:
    """exp(re) in two factors, so that a product is in range where the result is."""
    half = e.function('exp', f.exp, x.re * 0.5)
    nothing = x.re.equals(-math.inf)

    def turned(direction: Value) -> Value:
        return e.select(nothing, e.copysign(e.splat(0.0, x.re.dtype), direction), half * direction * half)
    im = e.select(x.im.equals(0.0), x.im, turned(e.function('sin', f.sin, x.im)))
    return Pair(turned(e.function('cos', f.cos, x.im)), im)


def _chosen(e: Emitter, which: Value, x: Pair, y: Pair) -> Pair:
    return Pair(e.select(which, y.re, x.re), e.select(which, y.im, x.im))


TABLE: dict[str, Callable[..., Value | Pair]] = {
    'add': lambda e, x, y: x + y,
    'add_any': lambda e, x, y: x + y,
    'sub': lambda e, x, y: x - y,
    'mul': lambda e, x, y: x * y,
    'div': _divided,
    'neg': lambda e, x: -x,
    'square': lambda e, x: x * x,
    'conj': lambda e, x: Pair(x.re, -x.im),
    'real': lambda e, x: x.re,
    'imag': lambda e, x: x.im,
    'complex': lambda e, x, y: Pair(x, y),
    'abs': lambda e, x: e.function('hypot', hypot, x.re, x.im),
    'exp': _exp,
    'eq': lambda e, x, y: x.re.equals(y.re) & x.im.equals(y.im),
    'ne': lambda e, x, y: x.re.differs(y.re) | x.im.differs(y.im),
    'select_n': _chosen,
    'stop_gradient': lambda e, x: x,
    'relabel': lambda e, x, to: x,
}


def converted(e: Emitter, x: Value | Pair, dtype: np.dtype) -> Pair:
    """A number as a complex one."""
    if x.__class__ is Pair:
        return Pair(e.convert(x.re, part(dtype)), e.convert(x.im, part(dtype)))
    return Pair(e.convert(x, part(dtype)), e.splat(0.0, part(dtype)))
