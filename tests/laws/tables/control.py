"""Ops that run programs. The programs are made of strict ops, so they are typed on whatever types the operands have."""

from collections.abc import Callable

import numpy as np

from distad.control.loop import unstacked
from distad.core.value import Zero
from distad.ops.arithmetic import add, mul, neg
from distad.ops.broadcast import reduce_sum
from distad.ops.elementary import cos, exp, sin
from distad.transforms.stage import stage
from distad.types.mesh import AbstractMesh
from tests.laws.calls import Call, Elsewhere, M, N, Operand, Table, Types, call_on, f, i32


def program(body: Callable[..., list], reference: Callable, *operands: Operand, **more) -> Call:
    """A call of a staged body."""
    return call_on(lambda types, mesh: [{'jaxpr': stage(body, types), **more}], reference, *operands)


def product_and_sine(x, y) -> list:
    z = mul(sin(x), y)
    return [z, reduce_sum(z, axes=(0,)), neg(y)]


def linear(x, y) -> list:
    return [add(x, mul(y, x.dtype.type(2)))]


# ---- custom rules: sin and its derivative, by hand

def sine_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return [sin(x)], [t if t.__class__ is Zero else mul(t, cos(x))]


def sine_forward(x):
    return [sin(x)], [cos(x)]


def sine_backward(residuals, cts):
    return [mul(cts[0], residuals[0])]


# ---- scan: (*constants, *carry, *slices) -> (*carry, *slices)

def scanned(body: Callable[..., list], reference: Callable, consts: int, carry: int, *operands: Operand, reverse: bool = False) -> Call:
    def params(types: Types, mesh: AbstractMesh):
        before = consts + carry
        inside = (*types[:before], *map(unstacked, types[before:]))
        return [{'jaxpr': stage(body, inside), 'length': 3, 'reverse': reverse, 'num_consts': consts, 'num_carry': carry}]
    return call_on(params, reference, *operands)


def horner(a, c, x) -> list:
    """One step of a polynomial in a, with the values on the way."""
    c = add(mul(c, a), x)
    return [c, sin(c)]


def horner_reference(a, c, xs, reverse=False):
    ys = []
    for x in xs[::-1] if reverse else xs:
        c = c * a + x
        ys.append(np.sin(c))
    return [c, np.stack(ys[::-1] if reverse else ys)]


TABLE: Table = {
    'jit': [program(product_and_sine, lambda x, y: [np.sin(x) * y, (np.sin(x) * y).sum(0), -y], f(M, N), f(M, N), name='f'),
            program(linear, lambda x, y: [x + 2 * y], f(N), f(N), name='g'),
            program(lambda x, n: [exp(x), neg(n)], lambda x, n: [np.exp(x), -n], f(N), i32(M), name='h')],
    'custom_jvp_call': [program(lambda x: [sin(x)], lambda x: [np.sin(x)], f(M, N), rule=sine_rule, num_consts=0)],
    'custom_vjp_call': [program(lambda x: [sin(x)], lambda x: [np.sin(x)], f(M, N), fwd=sine_forward, bwd=sine_backward,
                                num_consts=0).but(forward=False)],
    'custom_lin': Elsewhere(by='custom_vjp_call', why='it is the derivative of a custom_vjp_call'),
    'scan': [scanned(horner, horner_reference, 1, 1, f(N), f(N), f(3, N)).but(places=12),
             scanned(horner, lambda *xs: horner_reference(*xs, reverse=True), 1, 1, f(N), f(N), f(3, N), reverse=True),
             scanned(lambda c, x: [add(c, x), neg(x)], lambda c, xs: [c + xs.sum(0), -xs], 0, 1, f(M, N), f(3, M, N)),
             scanned(lambda n, x: [add(n, np.int32(2)), mul(x, x)], lambda n, xs: [n + 6, xs * xs], 0, 1, i32(), f(3, N)),
             scanned(lambda x: [reduce_sum(x, axes=(0,))], lambda xs: [xs.sum(1)], 0, 0, f(3, M, N))],
}
