"""Elementwise ops: arithmetic, comparison, logic, choice, elementary functions, rounding, bits, parts of complex numbers."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
from scipy import special

from tests.laws.calls import Call, M, N, Operand, Table, bf16, boolean, c, call, f, f32, i32, number, u32


def unary(reference: Callable, low: float = -2.0, high: float = 2.0, *more: Operand, **params) -> list[Call]:
    """A smooth function of floats between two bounds; of more operands too."""
    return [call(reference, f(M, N, low=low, high=high), **params),
            call(reference, f32(N, low=low, high=high), **params).but(orders=0),
            call(lambda x: reference(x.astype(np.float32)), bf16(N, low=low, high=high), **params).but(orders=0),
            *(call(reference, operand, **params) for operand in more)]


def binary(reference: Callable, low: float = -2.0, high: float = 2.0) -> list[Call]:
    """A smooth function of two floats: of equal shapes, of shapes that broadcast, beside a number."""
    return [call(reference, f(M, N, low=low, high=high), f(M, N, low=low, high=high)).but(places=8),
            call(reference, f(M, 1, low=low, high=high), f(M, N, low=low, high=high)),
            call(reference, f(1, N, low=low, high=high), f(M, 1, low=low, high=high)),
            call(reference, f(low=low, high=high), f(N, low=low, high=high)),
            call(reference, f(N, low=low, high=high), number(np.float64(high - 0.75)))]


def rough(reference: Callable, low: float = 0.5, high: float = 2.0) -> list[Call]:
    """A function of two floats, in fewer ways."""
    return [call(reference, f(M, N, low=low, high=high), f(M, N, low=low, high=high)),
            call(reference, f(M, 1, low=low, high=high), f(1, N, low=low, high=high)),
            call(reference, f(N, low=low, high=high), number(np.float64(high - 0.75)))]


def compared(reference: Callable) -> list[Call]:
    return [call(reference, i32(M, N, low=0, high=3), i32(M, N, low=0, high=3)), call(reference, f(N), f(1)),
            call(reference, f(N), number(np.float64(0.25))), call(reference, boolean(N), boolean(N))]


def logical(reference: Callable) -> list[Call]:
    return [call(reference, i32(M, N), i32(M, N)), call(reference, boolean(M, 1), boolean(M, N))]


def integers(reference: Callable, low: int = -99, high: int = 99, least: int = -99, most: int = 99) -> list[Call]:
    return [call(reference, i32(M, N, low=low, high=high), i32(M, N, low=least, high=most)),
            call(reference, i32(M, 1, low=low, high=high), i32(1, N, low=least, high=most))]


def flat(reference: Callable, **params) -> list[Call]:
    return [call(reference, f(M, N), **params), call(reference, f32(N), **params)]


def select(which, *cases):
    return np.choose(np.broadcast_to(which, np.broadcast_shapes(which.shape, *(x.shape for x in cases))).astype(int), cases)


def bits_of(dtype: type, operand: Operand) -> Call:
    """A float's bits as another float have no derivative, though they are a float."""
    new, old = np.dtype(dtype), operand.dtype
    shape = operand.shape[:-1] if new.itemsize > old.itemsize else operand.shape
    shape = (*shape, old.itemsize // new.itemsize) if new.itemsize < old.itemsize else shape
    return call(lambda x: np.frombuffer(x.tobytes(), new).reshape(shape), operand, new_dtype=new).but(orders=0)


ARITHMETIC: Table = {
    'neg': unary(np.negative, -2.0, 2.0, i32(M, N)),
    'add': [*binary(np.add), call(np.add, i32(N), i32(N))],
    'sub': [*binary(np.subtract), call(np.subtract, i32(N), i32(1))],
    'mul': [*binary(np.multiply), call(np.multiply, i32(N), i32(N)), call(np.multiply, c(N), c(N))],
    'div': [*binary(np.divide, 0.5), call(lambda x, y: np.trunc(x / y).astype(np.int32), i32(N), i32(N, low=1)),
            call(np.divide, c(N), c(N, low=1.0))],
    'floor_divide': [call(np.floor_divide, i32(N), i32(N, low=1)), call(np.floor_divide, f(M, N), f(M, N, low=0.5))],
    'remainder': [*rough(np.remainder), call(np.remainder, i32(N), i32(N, low=1))],
    'rem': [*rough(np.fmod), call(np.fmod, i32(N), i32(N, low=1))],
    'max': [*binary(np.maximum), call(np.maximum, i32(N), i32(N))],
    'min': [*binary(np.minimum), call(np.minimum, i32(N), i32(N))],
    'add_any': [call(np.add, f(M, N), f(M, N)), call(np.add, c(N), c(N))],
    'clamp': [call(lambda a, x, b: np.clip(x, a, b), f(low=-1.0, high=-0.5), f(M, N), f(low=0.5, high=1.0)),
              call(lambda a, x, b: np.clip(x, a, b), f(N, low=-1.0, high=-0.5), f(N), f(N, low=0.5, high=1.0)),
              call(lambda a, x, b: np.clip(x, a, b), number(np.float64(-0.5)), f(N), number(np.float64(0.5))),
              call(lambda a, x, b: np.clip(x, a, b), i32(low=-5, high=-3), i32(N), i32(low=3, high=5))],
}

DECISIONS: Table = {
    'eq': compared(np.equal), 'ne': compared(np.not_equal), 'lt': compared(np.less), 'le': compared(np.less_equal),
    'gt': compared(np.greater), 'ge': compared(np.greater_equal),
    'and': logical(np.bitwise_and), 'or': logical(np.bitwise_or), 'xor': logical(np.bitwise_xor),
    'not': [call(np.invert, i32(M, N)), call(np.invert, boolean(N))],
    'select_n': [call(select, boolean(M, N), f(M, N), f(M, N)).but(places=8),
                 call(select, i32(N, low=0, high=2), f(N), f(N), f(N)), call(select, boolean(M, 1), f(1, N), f(M, N)),
                 call(select, boolean(), f(N), f(N)), call(select, boolean(N), f(N), number(np.float64(0.5)))],
    'stop_gradient': [call(lambda x: x, f(M, N)).but(orders=0), call(lambda x: x, i32(N))],
    'optimization_barrier': [call(lambda x, y: [x, y], f(M, N), f(N)), call(lambda x, y: [x, y], f(N), i32(M))],
}

FUNCTIONS: Table = {
    'exp': unary(np.exp, -2.0, 2.0, c(N)), 'exp2': unary(np.exp2), 'expm1': unary(np.expm1, -2.0, 2.0, c(N)),
    'log': unary(np.log, 0.3, 3.0, c(N, low=0.5)), 'log2': unary(np.log2, 0.3, 3.0), 'log10': unary(np.log10, 0.3, 3.0),
    'log1p': unary(np.log1p, -0.6, 3.0, c(N, low=0.5)),
    'logistic': unary(special.expit, -2.0, 2.0), 'logaddexp': rough(np.logaddexp, -2.0),
    'sin': unary(np.sin, -2.0, 2.0, c(N)), 'cos': unary(np.cos, -2.0, 2.0, c(N)), 'tan': unary(np.tan, -1.0, 1.0, c(N, high=1.0)),
    'asin': unary(np.arcsin, -0.9, 0.9), 'acos': unary(np.arccos, -0.9, 0.9), 'atan': unary(np.arctan),
    'atan2': rough(np.arctan2),
    'sinh': unary(np.sinh, -2.0, 2.0, c(N)), 'cosh': unary(np.cosh, -2.0, 2.0, c(N)),
    'tanh': unary(np.tanh, -2.0, 2.0, c(N, high=1.0)),
    'asinh': unary(np.arcsinh), 'acosh': unary(np.arccosh, 1.2, 3.0), 'atanh': unary(np.arctanh, -0.8, 0.8),
    'square': unary(np.square, -2.0, 2.0, c(N), i32(N)), 'sqrt': unary(np.sqrt, 0.3, 3.0, c(N, low=0.5)),
    'rsqrt': unary(lambda x: 1 / np.sqrt(x), 0.3, 3.0, c(N, low=0.5)), 'cbrt': unary(np.cbrt, 0.3, 3.0),
    'integer_pow': [*unary(lambda x: x**3, -2.0, 2.0, c(N), i32(N), y=3), *unary(lambda x: x**-2.0, 0.5, 2.0, y=-2),
                    call(lambda x: x, f(N), y=1), call(np.ones_like, f(N), y=0)],
    'pow': [*rough(np.power), call(np.power, f(N, low=0.5), i32(N, low=0, high=4)), call(np.power, c(N, low=0.5), c(N))],
    'int_pow': [call(np.power, i32(M, N), i32(M, N, low=0, high=4)), call(np.power, i32(N), i32(1, low=2, high=3))],
    'hypot': rough(np.hypot), 'relu': unary(lambda x: np.maximum(x, 0)), 'relu6': unary(lambda x: np.clip(x, 0, 6), -9.0, 9.0),
}

ROUNDING: Table = {
    'floor': flat(np.floor), 'ceil': flat(np.ceil), 'trunc': flat(np.trunc),
    'round': [*flat(lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), rounding_method=0), *flat(np.rint, rounding_method=1)],
    'sign': [*flat(np.sign), call(np.sign, i32(N)), call(np.sign, c(N, low=0.5))],
    'is_finite': flat(np.isfinite), 'signbit': flat(np.signbit), 'spacing': flat(np.spacing),
    'exponent': flat(lambda x: np.frexp(x)[1]),
    'nextafter': rough(np.nextafter, -2.0), 'copysign': rough(np.copysign, -2.0),
    'ldexp': [call(np.ldexp, f(M, N), i32(M, N)), call(np.ldexp, f(N), i32(1)), call(np.ldexp, f(1, N), i32(M, 1))],
    'reduce_precision': [call(lambda x: x, f(M, N), exponent_bits=11, mantissa_bits=52),
                         call(lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float64), f(N), exponent_bits=8,
                              mantissa_bits=7).but(orders=0, tolerance=5e-2)],
}

PARTS: Table = {
    'real': [call(np.real, c(M, N))], 'imag': [call(np.imag, c(M, N))], 'conj': [call(np.conjugate, c(M, N))],
    'complex': [call(lambda x, y: x + 1j * y, f(M, N), f(M, N)), call(lambda x, y: x + 1j * y, f(M, 1), f(1, N))],
    'abs': unary(np.abs, -2.0, 2.0, c(N, low=0.5), i32(N)),
}

BITS: Table = {
    'shift_left': integers(np.left_shift, least=0, most=5), 'shift_right_arithmetic': integers(np.right_shift, least=0, most=5),
    'shift_right_logical': [call(np.right_shift, u32(M, N, high=99), u32(M, N)),
                            call(lambda x, n: (x.view(np.uint32) >> n.view(np.uint32)).view(np.int32), i32(N), i32(N, low=0))],
    'gcd': integers(np.gcd), 'lcm': integers(np.lcm),
    'population_count': [call(lambda x: np.bitwise_count(x).astype(np.uint32), u32(M, N, high=99))],
    'clz': [call(lambda x: 32 - np.ceil(np.log2(x + 1.0)).astype(np.uint32), u32(M, N, high=99))],
    'mulhi': integers(lambda x, y: (x.astype(np.int64) * y >> 32).astype(np.int32), -2**30, 2**30, -2**30, 2**30),
    'bitcast_convert_type': [bits_of(np.int32, f32(M, N)), bits_of(np.float32, i32(N)), bits_of(np.uint8, i32(N)),
                             bits_of(np.int32, f(N)), bits_of(np.float64, i32(N, 2)), bits_of(np.int64, f(N))],
}

TABLE: Table = ARITHMETIC | DECISIONS | FUNCTIONS | ROUNDING | PARTS | BITS
