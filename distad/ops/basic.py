"""The two ops that autodiff itself makes: zeros of a type, and the sum of cotangents of one value."""

import numpy as np

from distad.core.batching import VECTORIZED
from distad.core.primitive import BY_LINEARITY, NoRule, Primitive, by_labels
from distad.core.value import Zero
from distad.ops.makers import NUMBER, broadcast_shape, check_dtype, elementwise_labels
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE


def _zeros_impl(*, out, type):
    return np.zeros(out.shape, out.dtype)


zeros = Primitive(
    'zeros',
    type=lambda *, type: type,                        # zero is the same in every state, so any type may be asked for
    impl=_zeros_impl,
    jvp=(),
    transpose=NoRule('it has no operands'),
    batch=NoRule('it has no operands'),
    show=lambda params: {})                           # the type is that of the result


def zeros_of(t: ArrayType):
    """A zero of a given type; a number where the type is that of a literal."""
    if t.ndim == 0 and t.mesh.empty:
        return t.dtype.type(0)
    return zeros(type=t)


def zero_scalar(t: ArrayType):
    """A zero to pad or select beside a value of type `t`: a number, or unreduced where the value is."""
    if not t.unreduced:
        return t.dtype.type(0)
    return zeros(type=t.update(shape=(), partitions=(), reduced=t.reduced | t.split_axes, weak_type=False))


def instantiated(t):
    """A tangent or cotangent as an array, also where it is known to be zero."""
    return zeros_of(t.type) if t.__class__ is Zero else t


def _add_any_shape(x: ArrayType, y: ArrayType):
    check_dtype('add_any', NUMBER, x, y)
    if x.shape != y.shape:
        raise TypeError(f"add_any takes operands of one type, got {x} and {y}")
    return broadcast_shape('add_any', (x, y)), x.dtype


add_any = Primitive(
    'add_any',
    type=by_labels(elementwise_labels('add_any', ADDITIVE), _add_any_shape),
    labels=elementwise_labels('add_any', ADDITIVE),
    impl=lambda x, y, *, out: np.add(x, y),
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, y: ct, lambda ct, x, y: ct),
    batch=VECTORIZED,
    linearity=ADDITIVE,
    pointwise=True)
