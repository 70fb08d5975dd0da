"""Comparisons, logic, and select: what takes decisions elementwise.

select_n is linear in its cases together: unreduced cases give an unreduced result, if all of them are. The choice itself must
be the same on all ranks that hold a copy, so it can never be unreduced.
"""

from functools import partial

import numpy as np

from distad.core.primitive import BY_LINEARITY, Primitive, by_labels
from distad.core.value import Linear, typeof
from distad.ops.basic import zero_scalar
from distad.ops.broadcast import LATER, unbroadcast
from distad.ops.makers import ANY, INT, broadcast_shape, constant, elementwise_labels, ufunc
from distad.types.array_type import ArrayType
from distad.types.inference import Linearity, show

_boolean = partial(constant, accepts=ANY, result=lambda dtype: np.dtype(bool), operands=2)

eq = _boolean('eq', ufunc(np.equal))
ne = _boolean('ne', ufunc(np.not_equal))
lt = _boolean('lt', ufunc(np.less))
le = _boolean('le', ufunc(np.less_equal))
gt = _boolean('gt', ufunc(np.greater))
ge = _boolean('ge', ufunc(np.greater_equal))

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


def _select_impl(which, *cases, out):
    if len(cases) == 1:
        return np.broadcast_to(cases[0], out.shape)
    if which.dtype == bool:
        return np.where(which, cases[1], cases[0])
    return np.select([which == i for i in range(len(cases))], cases)


def _select_transpose(ct, which, *cases):
    zero = zero_scalar(typeof(ct))
    chosen = [which if typeof(which).dtype == bool else eq(which, np.int32(i)) for i in range(len(cases))]
    cts = [None]
    for i, case in enumerate(cases):
        if case.__class__ is not Linear:
            cts.append(None)
        elif i == 0 and typeof(which).dtype == bool:
            cts.append(unbroadcast(select_n(which, ct, zero), case.type))
        else:
            cts.append(unbroadcast(select_n(chosen[i], zero, ct), case.type))
    return cts


select_n = Primitive(
    'select_n',
    type=by_labels(elementwise_labels('select_n', SELECT), _select_shape),
    labels=elementwise_labels('select_n', SELECT),
    impl=_select_impl,
    jvp=BY_LINEARITY,
    transpose=_select_transpose,
    batch=LATER,
    linearity=SELECT)
