"""What dtypes are: promotion, kinds, limits, conversion."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.exceptions import ComplexWarning

from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax.kind import kindly
from distad.numpy.promotion import ArrayLike
from distad.ops.complex import real
from distad.ops.convert import convert_element_type
from distad.types import dtypes

generic, number, inexact, floating, complexfloating = np.generic, np.number, np.inexact, np.floating, np.complexfloating
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
character, flexible, object_, dtype = np.character, np.flexible, np.object_, np.dtype


def promote_types(a: Any, b: Any) -> np.dtype:
    """The dtype that arrays of dtypes a and b meet in. Python's int, float and complex are weak.

        jnp.promote_types('int32', 'float16')       # float16
    """
    return result_type(a, b)


def result_type(*args: Any) -> np.dtype:
    """The dtype of an operation on these arrays, numbers and dtypes.

        jnp.result_type(jnp.ones(3), 1.0)
    """
    return dtypes.promote(*map(_dtype_and_weakness, args))[0]


def _dtype_and_weakness(x: Any) -> tuple[np.dtype, bool]:
    if x in (int, float, complex) if isinstance(x, type) else False:
        return dtypes.of_scalar(x(0))
    if isinstance(x, (Value, np.ndarray)) or is_scalar(x):
        t = typeof(x)
        return t.dtype, t.weak_type
    return dtypes.canonical(x), False


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is of a kind, such as `jnp.floating`; bfloat16 is floating.

        jnp.issubdtype(jnp.bfloat16, jnp.floating)  # True
    """
    if isinstance(arg2, np.dtype) and arg2 == dtypes.KEY:
        return isinstance(arg1, np.dtype) and arg1 == arg2
    kinds = [x if isinstance(x, type) and issubclass(x, np.generic) else np.dtype(x).type for x in (arg1, arg2)]
    one, other = kinds
    if one is dtypes.bfloat16.type:
        return other is one or (other in (np.generic, np.number, np.inexact, np.floating))
    return np.issubdtype(one, other)


def isdtype(dtype: Any, kind: str | Any | tuple) -> bool:
    """Whether a dtype is of a kind of the array standard ('bool', 'integral', 'real floating', 'numeric', ...), or a dtype.

        jnp.isdtype(jnp.float32, 'real floating')   # True
    """
    return any(_is_kind(np.dtype(dtype), k) for k in (kind if isinstance(kind, tuple) else (kind,)))


_KINDS = {'bool': 'b', 'signed integer': 'i', 'unsigned integer': 'u', 'integral': 'iu', 'real floating': 'fV',
          'complex floating': 'c', 'numeric': 'iufVc'}


def _is_kind(dtype: np.dtype, kind: Any) -> bool:
    if isinstance(kind, str) and kind in _KINDS:
        return dtype.kind in _KINDS[kind] and dtype not in (dtypes.KEY, dtypes.float0)
    return dtype == np.dtype(kind)


def can_cast(from_: Any, to: Any, casting: str = 'safe') -> bool:
    """Whether NumPy's rules allow a cast between dtypes.

        jnp.can_cast('int32', 'float64')            # True
    """
    return np.can_cast(from_.dtype if isinstance(from_, Value) else from_, to, casting)


def finfo(dtype: Any) -> np.finfo:
    """The limits of a floating dtype, or of an array's: `max`, `min`, `eps`, `tiny`, `bits`, ...

        jnp.finfo(jnp.bfloat16).max
    """
    dtype = _of(dtype)
    return ml_dtypes.finfo(dtype) if dtype == dtypes.bfloat16 else np.finfo(dtype)


def iinfo(int_type: Any) -> np.iinfo:
    """The limits of an integer dtype: `max`, `min`, `bits`.

        jnp.iinfo(jnp.int8).max
    """
    return np.iinfo(_of(int_type))


def _of(x: Any) -> np.dtype:
    return x.dtype if isinstance(x, (Value, np.ndarray, np.generic)) else np.dtype(x)


def iscomplexobj(x: Any) -> bool:
    """Whether a value has a complex dtype.

        jnp.iscomplexobj(1j)
    """
    return typeof(x).dtype.kind == 'c' if isinstance(x, Value) else np.iscomplexobj(x)


def isrealobj(x: Any) -> bool:
    """Whether a value has no complex dtype.

        jnp.isrealobj(1.0)
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether a value is a number or an array without dimensions.

        jnp.isscalar(1.0)
    """
    return is_scalar(element) or (isinstance(element, (Value, np.ndarray)) and element.ndim == 0)


def astype(x: ArrayLike, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Value:
    """x in another dtype (32-bit ones for 64-bit ones, unless x64 is enabled).

    x: [...]. The result has x's shape and placement; that of an unreduced x must be a float dtype, for summands cannot be
    rounded one by one. Floats become integers towards zero, at most the largest; NaN becomes 0. `copy` says nothing, for
    arrays never change. Nothing is communicated.

        jnp.astype(1.5, jnp.int32)
    """
    x = as_value(x, 'astype')
    new = dtypes.canonical(np.float64 if dtype is None else dtype)
    t = typeof(x)
    if t.dtype == new and not t.weak_type:
        return x
    if t.dtype.kind == 'c' and new.kind not in 'bc':
        x = real(x)
    return kindly(convert_element_type, x, new_dtype=new, weak_type=False)


__all__ = ['ComplexWarning', 'astype', 'can_cast', 'character', 'complexfloating', 'dtype', 'finfo', 'flexible', 'floating', 'generic',
           'iinfo', 'inexact', 'integer', 'iscomplexobj', 'isdtype', 'isrealobj', 'isscalar', 'issubdtype', 'number', 'object_',
           'promote_types', 'result_type', 'signedinteger', 'unsignedinteger']
