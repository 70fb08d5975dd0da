"""Arrays from nothing and from NumPy."""

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax.kind import named, with_sharding
from distad.ops.broadcast import broadcast_in_dim
from distad.ops.convert import convert_element_type
from distad.types import dtypes


def asarray(a, dtype=None, out_sharding=None):
    x = as_value(a if isinstance(a, Value) or is_scalar(a) else np.asarray(a), 'asarray')
    if dtype is not None:
        x = convert_element_type(x, new_dtype=dtypes.canonical(dtype), weak_type=False)
    return with_sharding(x, out_sharding)
