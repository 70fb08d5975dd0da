"""Rectifiers: their own primitives, for their derivative at the corners is zero, while max and min share it."""

import numpy as np

from distad.ops.compare import and_, gt, lt, select_n
from distad.ops.makers import NUMBER, scalar, unary


def _clipped(low, high):
    def impl(x, *, out):
        y = np.maximum(x, out.dtype.type(low))
        return y if high is None else np.minimum(y, out.dtype.type(high))
    return impl


relu = unary('relu', _clipped(0, None), NUMBER, jvp=lambda t, y, x: select_n(gt(x, scalar(0, x)), scalar(0, x), t))
relu6 = unary('relu6', _clipped(0, 6), NUMBER,
              jvp=lambda t, y, x: select_n(and_(gt(x, scalar(0, x)), lt(x, scalar(6, x))), scalar(0, x), t))
