"""Elementwise functions under NumPy's names."""

from collections.abc import Callable

from distad.lax.kind import kindly
from distad.numpy.promotion import inexact, operands
from distad.ops import arithmetic, contraction, elementary
from distad.core.value import typeof
from distad.core.lift import as_value
from distad.ops.broadcast import reduce_sum
from distad.lax.kind import settle, with_sharding


def _binary(name, primitive) -> Callable:
    def f(x1, x2, /):
        return kindly(primitive, *operands(name, x1, x2))
    f.__name__ = name
    return f


def _float(name, primitive) -> Callable:
    def f(x, /):
        return kindly(primitive, inexact(x, name))
    f.__name__ = name
    return f


add = _binary('add', arithmetic.add)
subtract = _binary('subtract', arithmetic.sub)
multiply = _binary('multiply', arithmetic.mul)
exp = _float('exp', elementary.exp)
sin = _float('sin', elementary.sin)
cos = _float('cos', elementary.cos)
tanh = _float('tanh', elementary.tanh)


def sum(x, axis=None):
    x = as_value(x, 'sum')
    axes = tuple(range(x.ndim)) if axis is None else (axis,)
    return settle(kindly(reduce_sum, x, axes=axes), x)


def matmul(a, b):
    a, b = operands('matmul', a, b)
    y = kindly(contraction.dot_general, a, b, mixed='N', dimension_numbers=(((a.ndim - 1,), (0,)), ((), ())), preferred_element_type=None)
    return settle(y, a, b)
