"""Elementwise ops."""

from collections.abc import Callable

import numpy as np
from scipy import special

from tests.laws.calls import Call, M, N, Table, bf16, boolean, c, call, f, f32, i32, number


def unary(reference: Callable, low: float = -2.0, high: float = 2.0, *, narrow: bool = True) -> list[Call]:
    """A smooth function of floats between two bounds."""
    more = [call(lambda x: reference(x.astype(np.float32)), bf16(N, low=low, high=high))] if narrow else []
    return [call(reference, f(M, N, low=low, high=high)), call(reference, f32(N, low=low, high=high)).but(orders=0),
            *(one.but(orders=0) for one in more)]


def binary(reference: Callable, low: float = -2.0, high: float = 2.0) -> list[Call]:
    """A smooth function of two floats: of equal shapes, of shapes that broadcast, beside a number."""
    return [call(reference, f(M, N, low=low, high=high), f(M, N, low=low, high=high)).but(places=12),
            call(reference, f(M, 1, low=low, high=high), f(M, N, low=low, high=high)),
            call(reference, f(1, N, low=low, high=high), f(M, 1, low=low, high=high)),
            call(reference, f(low=low, high=high), f(N, low=low, high=high)),
            call(reference, f(N, low=low, high=high), number(np.float64(1.25)))]


def compared(reference: Callable) -> list[Call]:
    return [call(reference, i32(M, N, low=0, high=3), i32(M, N, low=0, high=3)), call(reference, f(N), f(1)),
            call(reference, f(N), number(np.float64(0.25))), call(reference, boolean(N), boolean(N))]


def logical(reference: Callable) -> list[Call]:
    return [call(reference, i32(M, N), i32(M, N)), call(reference, boolean(M, 1), boolean(M, N))]


def select(which, *cases):
    return np.choose(np.broadcast_to(which, np.broadcast_shapes(which.shape, *(x.shape for x in cases))).astype(int), cases)


TABLE: Table = {
    'neg': [*unary(np.negative), call(np.negative, i32(M, N))],
    'add': [*binary(np.add), call(np.add, i32(N), i32(N))],
    'sub': [*binary(np.subtract), call(np.subtract, i32(N), i32(1))],
    'mul': [*binary(np.multiply), call(np.multiply, i32(N), i32(N)), call(np.multiply, c(N), c(N))],
    'div': [*binary(np.divide, 0.5), call(lambda x, y: np.trunc(x / y).astype(np.int32), i32(N), i32(N, low=1)),
            call(np.divide, c(N), c(N, low=1.0))],
    'max': [*binary(np.maximum), call(np.maximum, i32(N), i32(N))],
    'min': [*binary(np.minimum), call(np.minimum, i32(N), i32(N))],
    'add_any': [call(np.add, f(M, N), f(M, N)), call(np.add, c(N), c(N))],
    'eq': compared(np.equal),
    'ne': compared(np.not_equal),
    'lt': compared(np.less),
    'le': compared(np.less_equal),
    'gt': compared(np.greater),
    'ge': compared(np.greater_equal),
    'and': logical(np.bitwise_and),
    'or': logical(np.bitwise_or),
    'xor': logical(np.bitwise_xor),
    'not': [call(np.invert, i32(M, N)), call(np.invert, boolean(N))],
    'select_n': [call(select, boolean(M, N), f(M, N), f(M, N)).but(places=12), call(select, i32(N, low=0, high=2), f(N), f(N), f(N)),
                 call(select, boolean(M, 1), f(1, N), f(M, N)), call(select, boolean(), f(N), f(N)),
                 call(select, boolean(N), f(N), number(np.float64(0.5)))],
    'stop_gradient': [call(lambda x: x, f(M, N)).but(orders=0), call(lambda x: x, i32(N))],
    'exp': [*unary(np.exp), call(np.exp, c(N))],
    'log': [*unary(np.log, 0.3, 3.0), call(np.log, c(N, low=0.5))],
    'sin': [*unary(np.sin), call(np.sin, c(N))],
    'cos': [*unary(np.cos), call(np.cos, c(N))],
    'tanh': [*unary(np.tanh), call(np.tanh, c(N, low=-1.0, high=1.0))],
    'sqrt': [*unary(np.sqrt, 0.3, 3.0), call(np.sqrt, c(N, low=0.5))],
    'logistic': unary(special.expit),
    'sign': [*unary(np.sign), call(np.sign, i32(N))],
}
