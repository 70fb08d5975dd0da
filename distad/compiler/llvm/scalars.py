"""What each elementwise primitive is on one element: the one table of this backend.

A rule takes the emitter, the operands as vectors and the parameters. A primitive that is not here, or dtypes that it does not
serve, stay with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from distad.compiler.llvm import functions as f
from distad.compiler.llvm.emit import BOOL, F32, F64, Emitter, Value
from distad.core.jaxpr import Equation

Rule = Callable[..., Value]


def _function(name: str, body: Callable) -> Rule:
    """Written once in a kernel, then inlined."""
    return lambda e, *xs: e.function(name, body, *xs)


def _comparison(how: str) -> Rule:
    return lambda e, x, y: x.compare(how, y)


def _intrinsic(name: str) -> Rule:
    return lambda e, x: e.call(f'llvm.{name}', x.dtype, x)


def _sign(e: Emitter, x: Value) -> Value:
    y = e.select(x > 0, e.splat(1, x.dtype), e.splat(0, x.dtype))
    if x.dtype.kind == 'u':
        return y
    y = e.select(x < 0, e.splat(-1, x.dtype), y)
    return e.select(x.is_nan(), x, y) if x.dtype.kind == 'f' else y


def _relu(e: Emitter, x: Value, high: float | None = None) -> Value:
    y = f.maximum(e, x, e.splat(0, x.dtype))
    return y if high is None else f.minimum(e, y, e.splat(high, x.dtype))


def _round(e: Emitter, x: Value, rounding_method: int) -> Value:
    return e.call('llvm.rint' if rounding_method == 1 else 'llvm.round', x.dtype, x)


REDUCTIONS = frozenset({'reduce_sum', 'reduce_max', 'reduce_min'})
FLOATS, NUMBERS, ALL, BITS = 'f', 'fiu', 'fiub', 'iub'

# name: the kinds of dtypes of the operands, and the rule
TABLE: dict[str, tuple[str, Rule]] = {
    'add': (NUMBERS, lambda e, x, y: x + y),
    'add_any': (NUMBERS, lambda e, x, y: x + y),
    'sub': (NUMBERS, lambda e, x, y: x - y),
    'mul': (NUMBERS, lambda e, x, y: x * y),
    'div': (FLOATS, lambda e, x, y: x / y),
    'neg': (NUMBERS, lambda e, x: -x),
    'max': (NUMBERS, f.maximum),
    'min': (NUMBERS, f.minimum),
    'clamp': (NUMBERS, lambda e, low, x, high: f.minimum(e, f.maximum(e, x, low), high)),
    'relu': (NUMBERS, _relu),
    'relu6': (NUMBERS, lambda e, x: _relu(e, x, 6)),
    'abs': (NUMBERS, lambda e, x: e.abs(x)),
    'sign': (NUMBERS, _sign),
    'square': (NUMBERS, lambda e, x: x * x),
    'integer_pow': (NUMBERS, lambda e, x, y: f.integer_power(e, x, y)),
    'sqrt': (FLOATS, lambda e, x: e.sqrt(x)),
    'rsqrt': (FLOATS, lambda e, x: 1.0 / e.sqrt(x)),
    'pow': (FLOATS, _function('pow', f.pow)),
    'floor': (FLOATS, _intrinsic('floor')),
    'ceil': (FLOATS, _intrinsic('ceil')),
    'trunc': (FLOATS, _intrinsic('trunc')),
    'round': (FLOATS, _round),
    'is_finite': (FLOATS, lambda e, x: e.abs(x) < math.inf),
    'signbit': (FLOATS, lambda e, x: e.bitcast(x, f.integer(x.dtype)) < 0),
    'copysign': (FLOATS, lambda e, x, y: e.copysign(x, y)),
    **{name: (ALL, _comparison(name)) for name in ('eq', 'ne')},
    **{name: (NUMBERS, _comparison(name)) for name in ('lt', 'le', 'gt', 'ge')},
    'and': (BITS, lambda e, x, y: x & y),
    'or': (BITS, lambda e, x, y: x | y),
    'xor': (BITS, lambda e, x, y: x ^ y),
    'not': (BITS, lambda e, x: ~x),
    'select_n': (ALL, lambda e, which, x, y: e.select(which, y, x)),
    'convert_element_type': (ALL, None),
    'stop_gradient': (ALL, lambda e, x: x),
    'relabel': (ALL, lambda e, x, to: x),
    **{name: (FLOATS, _function(name, getattr(f, name))) for name in (
        'exp', 'exp2', 'expm1', 'log', 'log2', 'log10', 'log1p', 'logistic', 'tanh', 'sin', 'cos', 'tan', 'atan', 'sinh',
        'cosh', 'asinh', 'acosh', 'atanh', 'erf', 'erfc')},
}


def serves(eqn: Equation) -> bool:
    """Whether an elementwise equation can be made here."""
    known = TABLE.get(eqn.primitive.name)
    if eqn.primitive.name in REDUCTIONS:
        return eqn.ins[0].type.dtype in (F32, F64)
    dtypes = [a.type.dtype for a in (*eqn.ins, *eqn.outs)]
    if known is None or not all(map(native, dtypes)):
        return False
    name = eqn.primitive.name
    if name == 'select_n':
        return dtypes[0] == BOOL and len(eqn.ins) == 3
    if name == 'pow' and dtypes[0] != dtypes[1]:
        return False
    return all(a.type.dtype.kind in known[0] for a in eqn.ins)


def native(dtype: np.dtype) -> bool:
    return dtype.kind in 'iub' or dtype.kind == 'f' and dtype.itemsize in (4, 8)


def apply(e: Emitter, eqn: Equation, operands: list[Value]) -> Value:
    """The result of one equation from its operands."""
    if eqn.primitive.name == 'convert_element_type':
        return e.convert(operands[0], eqn.outs[0].type.dtype)
    return TABLE[eqn.primitive.name][1](e, *operands, **eqn.params)
