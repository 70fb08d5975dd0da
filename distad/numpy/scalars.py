"""The names of dtypes: `jnp.float32` is a dtype where NumPy asks for one, and called it makes an array of that dtype."""

from typing import Any

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Array, Value, typeof
from distad.ops.convert import convert_element_type
from distad.types import dtypes


class ScalarType:
    """A dtype by name; calling it converts a value. 64-bit ones are 32-bit unless x64 is enabled."""

    def __init__(self, dtype: Any):
        self.dtype = np.dtype(dtype)
        self.__name__ = dtypes.name(self.dtype)

    def __call__(self, x: Any = 0) -> Value:
        value = as_value(x if isinstance(x, Value) else np.asarray(x), self.__name__)
        dtype = dtypes.canonical(self.dtype)
        if typeof(value).dtype == dtype and not typeof(value).weak_type:
            return value
        return convert_element_type(value, new_dtype=dtype, weak_type=False)

    def __eq__(self, other: object) -> bool:
        try:
            return self.dtype == np.dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"<dtype {self.__name__}>"


DTypeLike = str | type | np.dtype | ScalarType

bool_ = ScalarType(bool)
int8, int16, int32, int64 = map(ScalarType, ('int8', 'int16', 'int32', 'int64'))
uint8, uint16, uint32, uint64 = map(ScalarType, ('uint8', 'uint16', 'uint32', 'uint64'))
float16, float32, float64 = map(ScalarType, ('float16', 'float32', 'float64'))
complex64, complex128 = map(ScalarType, ('complex64', 'complex128'))
bfloat16 = ScalarType(dtypes.bfloat16)
float_, int_, uint, complex_ = float64, int64, uint64, complex128
single, double, csingle, cdouble, bool = float32, float64, complex64, complex128, bool_
ndarray = Array
pi, e, inf, nan, newaxis, euler_gamma = np.pi, np.e, np.inf, np.nan, None, np.euler_gamma

__all__ = ['bfloat16', 'bool', 'bool_', 'cdouble', 'complex128', 'complex64', 'complex_', 'csingle', 'double', 'e',
           'euler_gamma', 'float16', 'float32', 'float64', 'float_', 'inf', 'int16', 'int32', 'int64', 'int8', 'int_',
           'nan', 'ndarray', 'newaxis', 'pi', 'single', 'uint', 'uint16', 'uint32', 'uint64', 'uint8']
