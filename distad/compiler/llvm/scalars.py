"""What each elementwise primitive is on one element: the one table of this backend.

A rule takes the emitter, the operands as vectors and the parameters. A primitive that is not here, or dtypes that it does not
serve, stay with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from distad.compiler.access import rows_of
from distad.compiler.llvm import complexes, digits, halves, integers, inverses, powers
from distad.compiler.llvm import functions as f
from distad.compiler.llvm.emit import BOOL, F32, F64, Emitter, Pair, Value
from distad.core.jaxpr import Equation
from distad.types import dtypes

Rule = Callable[..., Value]


def _function(name: str, body: Callable) -> Rule:
    """Written once in a kernel, then inlined."""
    return lambda e, *xs: e.function(name, body, *xs)


def _by_kind(name: str, whole: Callable, real: Callable) -> Rule:
    """One rule for integers and one for floats."""
    return lambda e, *xs: e.function(name, real if xs[0].dtype.kind == 'f' else whole, *xs)


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


def _pow(e: Emitter, x: Value, y: Value) -> Value:
    if x.dtype != y.dtype:                                           # an integer exponent
        return e.convert(_pow(e, e.convert(x, F64), e.convert(y, F64)), x.dtype)
    return e.function('pow', powers.pow, x, y)


REDUCTIONS = frozenset({'reduce_sum', 'reduce_max', 'reduce_min'})
FLOATS, HALVES, INTEGERS, BITS = 'f', 'h', 'iu', 'iub'
REALS, NUMBERS, ALL = FLOATS + HALVES, FLOATS + HALVES + INTEGERS, FLOATS + HALVES + BITS

# name: the kinds of dtypes of the operands, and the rule
TABLE: dict[str, tuple[str, Rule]] = {
    'add': (NUMBERS, lambda e, x, y: x + y),
    'add_any': (NUMBERS, lambda e, x, y: x + y),
    'sub': (NUMBERS, lambda e, x, y: x - y),
    'mul': (NUMBERS, lambda e, x, y: x * y),
    'div': (NUMBERS, lambda e, x, y: x / y if x.dtype.kind == 'f' else integers.divide(e, x, y)),
    'rem': (NUMBERS, _by_kind('rem', integers.rem, digits.rem)),
    'remainder': (NUMBERS, _by_kind('remainder', integers.remainder, digits.remainder)),
    'floor_divide': (NUMBERS, _by_kind('floor_divide', integers.floor_divide, digits.floor_divide)),
    'neg': (NUMBERS, lambda e, x: -x),
    'max': (ALL, f.maximum),
    'min': (ALL, f.minimum),
    'clamp': (ALL, lambda e, low, x, high: f.minimum(e, f.maximum(e, x, low), high)),
    'relu': (NUMBERS, _relu),
    'relu6': (NUMBERS, lambda e, x: _relu(e, x, 6)),
    'abs': (NUMBERS, lambda e, x: e.abs(x)),
    'sign': (NUMBERS, _sign),
    'square': (NUMBERS, lambda e, x: x * x),
    'integer_pow': (NUMBERS, lambda e, x, y: powers.integer_power(e, x, y)),
    'sqrt': (REALS, lambda e, x: e.sqrt(x)),
    'rsqrt': (REALS, lambda e, x: 1.0 / e.sqrt(x)),
    'pow': (NUMBERS, _pow),
    'floor': (REALS, _intrinsic('floor')),
    'ceil': (REALS, _intrinsic('ceil')),
    'trunc': (ALL, lambda e, x: e.call('llvm.trunc', x.dtype, x) if x.dtype.kind == 'f' else x),
    'round': (REALS, _round),
    'is_finite': (REALS, lambda e, x: e.abs(x) < math.inf),
    'signbit': (REALS, lambda e, x: e.bitcast(x, f.integer(x.dtype)) < 0),
    'copysign': (REALS, lambda e, x, y: e.copysign(x, y)),
    **{name: (ALL, _comparison(name)) for name in ('eq', 'ne', 'lt', 'le', 'gt', 'ge')},
    'and': (BITS, lambda e, x, y: x & y),
    'or': (BITS, lambda e, x, y: x | y),
    'xor': (BITS, lambda e, x, y: x ^ y),
    'not': (BITS, lambda e, x: ~x),
    'int_pow': (INTEGERS, _function('int_pow', integers.power)),
    'shift_left': (INTEGERS, integers.shift_left),
    'shift_right_logical': (INTEGERS, integers.shift_right_logical),
    'shift_right_arithmetic': (INTEGERS, integers.shift_right_arithmetic),
    'population_count': (INTEGERS, integers.population_count),
    'clz': (INTEGERS, integers.leading_zeros),
    'mulhi': (INTEGERS, integers.high_product),
    'gcd': (INTEGERS, _function('gcd', integers.greatest_divisor)),
    'lcm': (INTEGERS, _function('lcm', integers.least_multiple)),
    'ldexp': (NUMBERS, _function('ldexp', digits.ldexp)),
    'exponent': (REALS, digits.exponent),
    'nextafter': (FLOATS, digits.next_after),
    'spacing': (FLOATS, digits.spacing),
    'reduce_precision': (FLOATS, digits.reduce_precision),
    'select_n': (ALL, lambda e, which, x, y: e.select(which, y, x)),
    'convert_element_type': (ALL, None),
    'conj': (REALS, lambda e, x: x),
    'stop_gradient': (ALL, lambda e, x: x),
    'relabel': (ALL, lambda e, x, to: x),
    **{name: (REALS, _function(name, getattr(f, name))) for name in (
        'exp', 'exp2', 'expm1', 'log', 'log2', 'log10', 'log1p', 'logistic', 'tanh', 'sin', 'cos', 'tan', 'atan', 'sinh',
        'cosh', 'asinh', 'acosh', 'atanh', 'erf', 'erfc')},
    **{name: (REALS, _function(name, getattr(inverses, name))) for name in (
        'asin', 'acos', 'atan2', 'cbrt', 'hypot', 'logaddexp', 'xlogy', 'xlog1py', 'erf_inv')},
}


# What gives a half for halves: nothing is to be rounded.
EXACT = frozenset({'neg', 'max', 'min', 'clamp', 'relu', 'relu6', 'abs', 'sign', 'floor', 'ceil', 'trunc', 'round', 'copysign',
                   'conj', 'select_n', 'stop_gradient', 'relabel'})


def serves(eqn: Equation) -> bool:
    """Whether an elementwise equation, or a reduction, can be made here."""
    name = eqn.primitive.name
    dtypes_ = [a.type.dtype for a in (*eqn.ins, *eqn.outs)]
    if name in REDUCTIONS:
        return _summed(eqn)
    known = TABLE.get(name)
    if not all(map(native, dtypes_)):
        return False
    if name == 'select_n' and (dtypes_[0] != BOOL or len(eqn.ins) != 3):
        return False
    if any(dtype.kind == 'c' for dtype in dtypes_):
        return name in complexes.TABLE or name == 'convert_element_type'
    if known is None:
        return False
    return all(kind(a.type.dtype) in known[0] for a in eqn.ins)


def _summed(eqn: Equation) -> bool:
    """Reductions of numbers; of halves those that have their sums in registers, where they are float32."""
    x, out = eqn.ins[0].type, eqn.outs[0].type
    if dtypes.is_half(x.dtype):
        return math.prod(out.local_shape) == 1 or rows_of(eqn.params['axes'], x.local_shape) is not None
    return x.dtype.kind in 'iu' or x.dtype in (F32, F64)


def kind(dtype: np.dtype) -> str:
    """A letter of the table."""
    return HALVES if dtypes.is_half(dtype) else dtype.kind


def native(dtype: np.dtype) -> bool:
    return dtype.kind in 'iubc' and dtype.itemsize <= 16 or dtype in (F32, F64) or dtypes.is_half(dtype)


def apply(e: Emitter, eqn: Equation, operands: list[Value | Pair]) -> Value | Pair:
    """The result of one equation from its operands."""
    name, dtype = eqn.primitive.name, eqn.outs[0].type.dtype
    if name == 'convert_element_type':
        return converted(e, operands[0], dtype)
    if dtype.kind == 'c' or any(x.__class__ is Pair for x in operands):
        return complexes.TABLE[name](e, *operands, **eqn.params)
    y = TABLE[name][1](e, *operands, **eqn.params)
    return halves.rounded(e, y, dtype) if dtypes.is_half(dtype) and name not in EXACT else y


def converted(e: Emitter, x: Value | Pair, dtype: np.dtype) -> Value | Pair:
    """A value as the number of another dtype; of complex numbers the real part."""
    if dtype.kind == 'c':
        return complexes.converted(e, x, dtype)
    if x.__class__ is Pair:
        x = x.re
    if not dtypes.is_half(dtype):
        return e.convert(x, dtype)
    return halves.rounded(e, x if x.dtype.kind == 'f' else e.convert(x, F32), dtype)
