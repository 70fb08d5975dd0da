"""Reductions other than the sum.

max and min of a split dimension leave a value whose max or min over the ranks is still to come ({U_max:X}); such a value
cannot be differentiated, so the differentiable reduction over a split dimension is a function (`lax.reduction`).
"""

import numpy as np

from distad.core.primitive import NoRule, Primitive, by_labels
from distad.core.value import typeof
from distad.ops.arithmetic import div, mul
from distad.ops.broadcast import LATER, broadcast_in_dim, reduce_sum, reduction_labels, reduction_shape
from distad.ops.compare import eq
from distad.ops.convert import convert_element_type
from distad.ops.makers import ANY, INT, NUMBER, check_dtype
from distad.types.inference import NONLINEAR


def _reduction(name: str, f, reducer: str | None, accepts: str, jvp) -> Primitive:
    labels = reduction_labels(name, reducer, NONLINEAR)
    shape = reduction_shape(name)

    def checked(x, *, axes):
        check_dtype(name, accepts, x)
        return shape(x, axes=axes)

    return Primitive(name, type=by_labels(labels, checked), labels=labels, jvp=jvp, transpose=NoRule('it is not linear'), batch=LATER,
                     impl=lambda x, *, out, axes: np.asarray(f(x, axis=axes)).astype(out.dtype, copy=False))


def share_of_ties(t, y, x, axes):
    """The tangent of a max or min: that of the winner, the mean of the winners' where there are several."""
    if typeof(y).unreduced:
        kind = typeof(y).kind
        raise NotImplementedError(f"reduce_{kind} to {typeof(y)} cannot be differentiated before it is reduced. Reduce it "
                                  f"by reshard inside a function with a rule, or use jnp.{kind}.")
    kept = tuple(d for d in range(typeof(x).ndim) if d not in axes)
    wins = eq(x, broadcast_in_dim(y, shape=typeof(x).shape, broadcast_dimensions=kept, sharding=None))
    wins = convert_element_type(wins, new_dtype=typeof(x).dtype, weak_type=False)
    return div(reduce_sum(mul(t, wins), axes=axes), reduce_sum(wins, axes=axes))


reduce_max = _reduction('reduce_max', np.max, 'max', ANY, (lambda t, y, x, *, axes: share_of_ties(t, y, x, axes),))
reduce_min = _reduction('reduce_min', np.min, 'min', ANY, (lambda t, y, x, *, axes: share_of_ties(t, y, x, axes),))
reduce_or = _reduction('reduce_or', np.bitwise_or.reduce, 'max', INT, (None,))
reduce_and = _reduction('reduce_and', np.bitwise_and.reduce, 'min', INT, (None,))
