"""Comparisons, logic, and select: what takes decisions elementwise.

select_n is linear in its cases together: unreduced cases give an unreduced result, if all of them are. The choice itself must
be the same on all ranks that hold a copy, so it can never be unreduced.
"""

from functools import partial

import numpy as np

from distad.core.batching import BROADCASTING
from distad.core.primitive import Primitive, by_labels
from distad.core.value import Linear, Zero, typeof
from distad.ops.basic import zero_scalar
from distad.ops.broadcast import spread, unbroadcast
from distad.ops.makers import ANY, INT, REAL, broadcast_shape, constant, elementwise_labels, ufunc
from distad.types.array_type import ArrayType
from distad.types.inference import Linearity, show

_boolean = partial(constant, result=lambda dtype: np.dtype(bool), operands=2)

eq = _boolean('eq', ufunc(np.equal), ANY)
ne = _boolean('ne', ufunc(np.not_equal), ANY)
lt = _boolean('lt', ufunc(np.less), REAL)
le = _boolean('le', ufunc(np.less_equal), REAL)
gt = _boolean('gt', ufunc(np.greater), REAL)
ge = _boolean('ge', ufunc(np.greater_equal), REAL)

and_ = constant('and', ufunc(np.bitwise_and), INT, operands=2)
or_ = constant('or', ufunc(np.bitwise_or), INT, operands=2)
xor = constant('xor', ufunc(np.bitwise_xor), INT, operands=2)
not_ = constant('not', ufunc(np.invert), INT)


# ---- select_n(which, *cases): case 0 where `which` is False (or 0), case 1 where it is True (or 1), ...

SELECT = Linearity(anywhere=True, skip=1, moves=True)


def _select_shape(which: ArrayType, *cases: ArrayType):
    if which.dtype != bool and which.dtype != np.int32:
        raise TypeError(f"select_n chooses by bool or int32, got {which}")
    if not cases or (which.dtype == bool and len(cases) > 2):
        raise TypeError(f"select_n: {which} cannot choose among {len(cases)} cases")
    if any(c.dtype != cases[0].dtype for c in cases):
        raise TypeError(f"select_n: cases must have the same dtypes, got {show(cases)}")
    return broadcast_shape('select_n', (which, *cases)), cases[0].dtype


_select_by_labels = by_labels(elementwise_labels('select_n', SELECT), _select_shape)


def _select_type(which: ArrayType, *cases: ArrayType) -> ArrayType:
    return _select_by_labels(which, *cases).update(weak_type=all(c.weak_type for c in cases))


def _select_impl(which, *cases, out):
    if which.dtype == bool and len(cases) == 2:
        return np.where(which, cases[1], cases[0])
    return np.choose(which, cases, mode='clip')               # what is out of range takes the first or the last case


def _select_jvp(primals, tangents):
    """The same choice among the tangents; where one is zero a number stands for it."""
    which, *cases = primals
    y = select_n(which, *cases)
    live = [zero_scalar(typeof(x)) if t.__class__ is Zero else t for x, t in zip(cases, tangents[1:], strict=True)]
    return [y], [spread(select_n(which, *live), typeof(y))]


def _select_transpose(ct, which, *cases):
    zero = zero_scalar(typeof(ct))
    by_bool = typeof(which).dtype == bool
    cts = [None]
    for i, case in enumerate(cases):
        if case.__class__ is not Linear:
            cts.append(None)
        elif by_bool and i == 0:
            cts.append(unbroadcast(select_n(which, ct, zero), case.type))
        else:
            chosen = which if by_bool else takes(which, i, len(cases))
            cts.append(unbroadcast(select_n(chosen, zero, ct), case.type))
    return cts


def takes(which, i: int, count: int):
    """Where an integer choice takes case i; what is out of range takes the first or the last."""
    if count == 1:
        return ge(which, which)
    if i == 0:
        return le(which, np.int32(0))
    return ge(which, np.int32(i)) if i == count - 1 else eq(which, np.int32(i))


select_n = Primitive(
    'select_n',
    type=_select_type,
    labels=elementwise_labels('select_n', SELECT),
    impl=_select_impl,
    jvp=_select_jvp,
    transpose=_select_transpose,
    batch=BROADCASTING,
    linearity=SELECT,
    pointwise=True)
