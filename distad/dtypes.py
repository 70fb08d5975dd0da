"""Dtypes under the names of jax.dtypes."""

from typing import Any

import numpy as np

from distad.numpy.dtype_info import finfo, iinfo, issubdtype, result_type
from distad.numpy.scalars import bfloat16
from distad.types.dtypes import KEY, canonical, float0

extended, prng_key = KEY, KEY                        # keys are the one kind of elements that are no numbers


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> np.dtype:
    """The dtype that an array of this dtype has: 64-bit types become 32-bit ones unless `enable_x64` is on.

        canonicalize_dtype('float64')               # float32
    """
    return canonical(dtype)


def itemsize_bits(dtype: Any) -> int:
    """How many bits an element has.

        itemsize_bits('float32')                    # 32
    """
    return 1 if np.dtype(dtype) == bool else 8 * np.dtype(dtype).itemsize


def scalar_type_of(x: Any) -> type:
    """The Python type of the numbers of an array or of a dtype's kind: bool, int, float or complex.

        scalar_type_of(jnp.ones(3))                 # float
    """
    kind = result_type(x).kind
    return {'b': bool, 'i': int, 'u': int, 'c': complex}.get(kind, float)


__all__ = ['bfloat16', 'canonicalize_dtype', 'extended', 'finfo', 'float0', 'iinfo', 'issubdtype', 'itemsize_bits', 'prng_key',
           'result_type', 'scalar_type_of']
