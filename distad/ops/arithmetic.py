"""The four operations, neg, remainders, max and min: the ops that all other derivatives are written with."""

from functools import partial

import numpy as np

from distad.core.primitive import BY_LINEARITY, Primitive
from distad.core.value import Zero, typeof
from distad.ops.broadcast import spread, unbroadcast
from distad.ops.compare import eq, select_n
from distad.ops.makers import ANY, NUMBER, REAL, constant, elementwise, scalar, ufunc, unary
from distad.types.inference import ADDITIVE, BILINEAR, LINEAR_IN_FIRST

neg = unary('neg', ufunc(np.negative), NUMBER, jvp=BY_LINEARITY, linearity=ADDITIVE, transpose=lambda ct, x: neg(ct))


# ---- add and sub: linear in both operands together, so a tangent that is alone is the result's, but for its shape

def _sum_jvp(op: str, primals, tangents):
    z = (add if op == 'add' else sub)(*primals)
    t, u = tangents
    if u.__class__ is Zero:
        return [z], [spread(t, typeof(z))]
    if op == 'sub':
        return [z], [spread(neg(u), typeof(z)) if t.__class__ is Zero else sub(t, u)]
    return [z], [spread(u, typeof(z)) if t.__class__ is Zero else add(t, u)]


add = elementwise(
    'add', ufunc(np.add),
    linearity=ADDITIVE,
    jvp=partial(_sum_jvp, 'add'),
    transpose=(lambda ct, x, y: unbroadcast(ct, typeof(x)), lambda ct, x, y: unbroadcast(ct, typeof(y))))

sub = elementwise(
    'sub', ufunc(np.subtract),
    linearity=ADDITIVE,
    jvp=partial(_sum_jvp, 'sub'),
    transpose=(lambda ct, x, y: unbroadcast(ct, typeof(x)), lambda ct, x, y: unbroadcast(neg(ct), typeof(y))))

mul = elementwise(
    'mul', ufunc(np.multiply),
    linearity=BILINEAR,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, y: unbroadcast(mul(ct, y), typeof(x)), lambda ct, x, y: unbroadcast(mul(x, ct), typeof(y))))


# ---- division. Integers divide towards zero, as in C and XLA; by zero they give -1 (all bits set), and the remainder x.

def _divide(x, y, *, out):
    if out.dtype.kind not in 'iu':
        return np.divide(x, y)
    quotient = np.floor_divide(x, y)
    quotient = quotient + ((quotient < 0) & (quotient * y != x)).astype(out.dtype)
    return np.where(np.equal(y, 0), np.array(-1).astype(out.dtype), quotient)


def _remainder_like_c(x, y, *, out):
    z = np.fmod(x, y)
    return np.where(np.equal(y, 0), x, z) if out.dtype.kind in 'iu' else z


div = elementwise(
    'div', _divide,
    linearity=LINEAR_IN_FIRST, rounds='iu',
    jvp=(lambda t, z, x, y: div(t, y),
         lambda t, z, x, y: mul(neg(t), div(z, y))),
    transpose=(lambda ct, x, y: unbroadcast(div(ct, y), typeof(x)), None))


def _remainder_rules(quotient):
    """Where the quotient is constant, x - quotient * y is what a remainder is."""
    return (lambda t, z, x, y: spread(t, typeof(z)),
            lambda t, z, x, y: mul(neg(t), quotient(x, y)))


floor_divide = constant('floor_divide', ufunc(np.floor_divide), REAL, operands=2)
remainder = elementwise('remainder', ufunc(np.remainder), accepts=REAL, jvp=_remainder_rules(lambda x, y: floor_divide(x, y)))
rem = elementwise('rem', _remainder_like_c, accepts=REAL, jvp=_remainder_rules(lambda x, y: trunc(div(x, y))))
trunc = constant('trunc', ufunc(np.trunc), REAL)


# ---- max and min

def _share(x, y, t, z):
    """The part of a tangent of max(x, y) or min(x, y) that is due to x: all where x alone wins, half where both do."""
    half = select_n(eq(y, z), scalar(1, x), scalar(0.5, x))
    return mul(t, select_n(eq(x, z), scalar(0, x), half))


def _extremum(name: str, f: np.ufunc) -> Primitive:
    return elementwise(name, ufunc(f), accepts=ANY,
                       jvp=(lambda t, z, x, y: _share(x, y, t, z), lambda t, z, x, y: _share(y, x, t, z)))


max = _extremum('max', np.maximum)
min = _extremum('min', np.minimum)
