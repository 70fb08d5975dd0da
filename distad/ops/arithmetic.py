"""The four operations, neg, max and min: the ops that all other derivatives are written with."""

import numpy as np

from distad.core.primitive import BY_LINEARITY
from distad.core.value import typeof
from distad.ops.broadcast import unbroadcast
from distad.ops.compare import eq, select_n
from distad.ops.makers import ANY, NUMBER, elementwise, scalar, ufunc, unary
from distad.types.inference import ADDITIVE, BILINEAR, LINEAR_IN_FIRST

neg = unary('neg', ufunc(np.negative), NUMBER, jvp=BY_LINEARITY, linearity=ADDITIVE, transpose=lambda ct, x: neg(ct))

add = elementwise(
    'add', ufunc(np.add),
    linearity=ADDITIVE,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, y: unbroadcast(ct, typeof(x)), lambda ct, x, y: unbroadcast(ct, typeof(y))))

sub = elementwise(
    'sub', ufunc(np.subtract),
    linearity=ADDITIVE,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, y: unbroadcast(ct, typeof(x)), lambda ct, x, y: unbroadcast(neg(ct), typeof(y))))

mul = elementwise(
    'mul', ufunc(np.multiply),
    linearity=BILINEAR,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, y: unbroadcast(mul(ct, y), typeof(x)), lambda ct, x, y: unbroadcast(mul(x, ct), typeof(y))))


def _divide(x, y, *, out):
    if out.dtype.kind in 'iu':                     # integers divide towards zero, as C and XLA do
        with np.errstate(divide='ignore', over='ignore'):
            quotient = np.floor_divide(x, y)
            return quotient + ((quotient < 0) & (quotient * y != x)).astype(out.dtype)
    return np.divide(x, y)


div = elementwise(
    'div', _divide,
    linearity=LINEAR_IN_FIRST,
    jvp=(lambda t, z, x, y: div(t, y) if typeof(t).shape == typeof(z).shape else mul(t, div(_one(y), y)),
         lambda t, z, x, y: mul(neg(t), div(z, y))),
    transpose=(lambda ct, x, y: unbroadcast(div(ct, y), typeof(x)), None))


def _one(like):
    return scalar(1, like)


def _share(x, y, t, z):
    """The part of a tangent of max(x, y) or min(x, y) that is due to x: all where x alone wins, half where both do."""
    half = select_n(eq(y, z), scalar(1, x), scalar(0.5, x))
    return mul(t, select_n(eq(x, z), scalar(0, x), half))


max = elementwise('max', ufunc(np.maximum), accepts=ANY,
                  jvp=(lambda t, z, x, y: _share(x, y, t, z), lambda t, z, x, y: _share(y, x, t, z)))
min = elementwise('min', ufunc(np.minimum), accepts=ANY,
                  jvp=(lambda t, z, x, y: _share(x, y, t, z), lambda t, z, x, y: _share(y, x, t, z)))
