"""convert_element_type: linear between float types, and only there.

An unreduced value cannot go from float to int or bool, for each rank would round its own summand. Integers may be cut down to
fewer bits summand by summand, for they add up modulo a power of two; signed ones may also grow or become floats. Unsigned
summands may not: they stand for numbers only modulo their own width.
"""

import numpy as np

from distad.core.batching import VECTORIZED
from distad.core.primitive import Primitive, finish, signature
from distad.core.value import Zero, typeof
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, NONLINEAR, infer


def _is_linear(x: ArrayType, new_dtype) -> bool:
    """Between float types; complex to real drops a part, which is linear over the reals."""
    return dtypes.is_float(x.dtype) and dtypes.is_float(new_dtype)


def _is_additive(old, new) -> bool:
    """Whether the summands of an unreduced value may be converted one by one."""
    if dtypes.is_integer(old) and (old.kind == 'i' or dtypes.is_integer(new) and new.itemsize <= old.itemsize):
        return new.kind != 'b'
    return dtypes.is_float(old) and dtypes.is_float(new)


def _labels(x: ArrayType, *, new_dtype, weak_type: bool):
    d = range(x.ndim)
    name = f"convert_element_type to {dtypes.name(new_dtype)}"
    return signature(name, [d], [d], linearity=ADDITIVE if _is_additive(x.dtype, new_dtype) else NONLINEAR)


def _type(x: ArrayType, *, new_dtype, weak_type: bool) -> ArrayType:
    if x.dtype == dtypes.KEY or new_dtype == dtypes.KEY:
        raise TypeError(f"keys are not numbers: cannot convert {x} to {dtypes.name(new_dtype)}")
    y = finish(infer(_labels(x, new_dtype=new_dtype, weak_type=weak_type), (x,)), x.shape, new_dtype, (x,))
    return y.update(weak_type=weak_type)


def _impl(x, *, out, new_dtype, weak_type):
    if np.iscomplexobj(x) and out.dtype.kind != 'c':
        x = x.real
    if out.dtype.kind in 'iu' and x.dtype.kind in 'fV':
        return _to_integer(x, out.dtype)
    return np.asarray(x).astype(out.dtype, copy=False)


def _to_integer(x, dtype):
    """Floats to integers: towards zero, saturating, NaN to 0, as XLA converts (NumPy leaves it to the processor)."""
    info = np.iinfo(dtype)
    wide = np.asarray(x, np.float64)
    inside = np.clip(np.nan_to_num(wide, nan=0.0, posinf=np.inf, neginf=-np.inf), float(info.min), float(info.max))
    y = np.where(wide >= float(info.max), 0, inside).astype(dtype)
    return np.where(wide >= float(info.max), info.max, y).astype(dtype)


def _jvp(primals, tangents, *, new_dtype, weak_type):
    (x,), (t,) = primals, tangents
    y = convert_element_type(x, new_dtype=new_dtype, weak_type=weak_type)
    if not _is_linear(typeof(x), new_dtype):
        return [y], [Zero(typeof(y).tangent())]
    return [y], [convert_element_type(t, new_dtype=new_dtype, weak_type=weak_type)]


convert_element_type = Primitive(
    'convert_element_type',
    type=_type,
    labels=_labels,
    impl=_impl,
    jvp=_jvp,
    transpose=(lambda ct, x, *, new_dtype, weak_type:
               convert_element_type(ct, new_dtype=x.type.dtype, weak_type=x.type.weak_type),),
    batch=VECTORIZED,
    linearity=ADDITIVE,
    pointwise=True)
