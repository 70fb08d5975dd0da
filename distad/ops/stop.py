"""stop_gradient: the identity whose tangent is zero."""

from distad import tree
from distad.core.batching import VECTORIZED
from distad.core.lift import as_value
from distad.core.primitive import NoRule, Primitive, by_labels, signature
from distad.core.value import typeof
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import STRUCTURAL


def _labels(x: ArrayType):
    return signature('stop_gradient', [range(x.ndim)], [range(x.ndim)], linearity=STRUCTURAL)


stopped = Primitive(
    'stop_gradient',
    type=by_labels(_labels, lambda x: (x.shape, x.dtype)),
    labels=_labels,
    impl=lambda x, *, out: x,
    jvp=(None,),
    transpose=NoRule('its tangent is zero'),
    batch=VECTORIZED,
    linearity=STRUCTURAL,
    pointwise=True)


def stop_gradient(x):
    """The same values, taken as constants by every derivative. `x`: a pytree; types stay; nothing is communicated.

        grad(lambda x: x * lax.stop_gradient(x))(3.0)        # 3.0
    """
    return tree.map(lambda v: stopped(v) if dtypes.is_float(typeof(as_value(v, 'stop_gradient')).dtype) else v, x)
