"""Dtypes: names, short names, and which dtype two operands meet in.

Promotion is the join of a lattice, drawn below as chains. Python numbers enter it not as dtypes but as the kinds `i*`,
`f*` and `c*`, which lie *below* the dtypes of their kind: that is why `x + 1.5` keeps the dtype of a float32 or
bfloat16 `x` and yet turns an integer `x` into a float. A join that ends on a kind takes the default dtype of that kind
and stays weak.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from distad.config import config

DType = np.dtype

bfloat16 = np.dtype(ml_dtypes.bfloat16)
bool_ = np.dtype(np.bool_)
# A random key is two 32-bit words that belong together.
KEY = np.dtype([('hi', '<u4'), ('lo', '<u4')])
# The dtype of tangents of values that have none, such as integers: it holds nothing.
float0 = np.dtype([('float0', np.void, 0)])

_NARROW = {np.dtype(wide): np.dtype(narrow) for wide, narrow in
           (('int64', 'int32'), ('uint64', 'uint32'), ('float64', 'float32'), ('complex128', 'complex64'))}

_SHORT = {'float': 'f', 'bfloat': 'bf', 'int': 'i', 'uint': 'u', 'complex': 'c'}


@lru_cache(maxsize=256)
def name(dtype: Any) -> str:
    """The name in printed types: 'float32', 'bfloat16', 'key<fry>'."""
    dtype = np.dtype(dtype)
    return 'key<fry>' if dtype == KEY else 'float0' if dtype == float0 else dtype.name


@lru_cache(maxsize=256)
def short_name(dtype: Any) -> str:
    """The name in jaxprs: 'f32', 'bf16', 'i32', 'c64', 'bool', 'key<fry>'."""
    full = name(dtype)
    stem = full.rstrip('0123456789')
    return full if full == 'float0' or stem not in _SHORT else _SHORT[stem] + full[len(stem):]


def canonical(dtype: Any) -> DType:
    """The dtype that an array of this dtype has: 64-bit types become 32-bit ones unless `enable_x64` is on."""
    return _canonical(np.dtype(dtype), config.enable_x64)


@lru_cache(maxsize=256)
def _canonical(dtype: DType, x64: bool) -> DType:
    native = dtype.newbyteorder('=') if dtype.kind in 'iufc' else dtype
    if native not in (KEY, float0) and native.name not in _ABOVE:
        raise TypeError(f'arrays hold booleans, integers, floats, complex numbers or keys, not dtype {native}')
    return native if x64 else _NARROW.get(native, native)


def is_float(dtype: Any) -> bool:
    """Whether values of this dtype have derivatives: floating point, real or complex."""
    dtype = np.dtype(dtype)
    return dtype.kind in 'fc' or dtype == bfloat16


def is_complex(dtype: Any) -> bool:
    return np.dtype(dtype).kind == 'c'


def is_integer(dtype: Any) -> bool:
    """Signed or unsigned integers; bool is none."""
    return np.dtype(dtype).kind in 'iu'


def is_half(dtype: Any) -> bool:
    """The 16-bit floats: NumPy and BLAS compute them in float32, or not at all."""
    dtype = np.dtype(dtype)
    return dtype.itemsize == 2 and dtype.kind in 'fV'


def inexact(dtype: Any) -> DType:
    """The float dtype that values of a dtype become where only floats will do: as wide as 64-bit integers, else float32."""
    dtype = np.dtype(dtype)
    return dtype if is_float(dtype) else canonical(np.float64 if dtype.itemsize == 8 else np.float32)


def tangent_dtype(dtype: Any) -> DType:
    """The dtype of a tangent: the same for floats, float0 for all others."""
    dtype = np.dtype(dtype)
    return dtype if is_float(dtype) else float0


def of_scalar(x: Any) -> tuple[DType, bool]:
    """Dtype and weakness of a number: a Python int, float or complex is weak, a NumPy scalar or a bool is not."""
    if isinstance(x, np.generic):  # before float: np.float64 is a Python float too
        return canonical(x.dtype), False
    if isinstance(x, bool):
        return bool_, False
    for python_type, kind in ((int, 'i*'), (float, 'f*'), (complex, 'c*')):
        if isinstance(x, python_type):
            return _default(kind), True
    raise TypeError(f'{x!r} of type {type(x).__name__} is not a number')


# Each name lies below the next one in its chain.
_CHAINS = (
    'bool i* uint8 uint16 uint32 uint64 f*',
    'i* int8 int16 int32 int64 f*',
    'uint8 int16', 'uint16 int32', 'uint32 int64',
    'f* bfloat16 float32 float64 complex128',
    'f* float16 float32 complex64 complex128',
    'f* c* complex64',
)
_KINDS = {'i': 'i*', 'u': 'i*', 'f': 'f*', 'V': 'f*', 'c': 'c*', 'b': 'bool'}


def _above() -> dict[str, frozenset[str]]:
    """For every node, itself and all that lies above it."""
    covers: dict[str, set[str]] = {}
    for chain in _CHAINS:
        nodes = chain.split()
        for node in nodes:
            covers.setdefault(node, set())
        for low, high in pairwise(nodes):
            covers[low].add(high)

    def reach(node: str) -> frozenset[str]:
        return frozenset({node}).union(*(reach(high) for high in covers[node]))

    return {node: reach(node) for node in covers}


_ABOVE = _above()
# In a lattice, what lies above two nodes is what lies above their join: so the join is found by what lies above it.
_BY_ABOVE = {above: node for node, above in _ABOVE.items()}


def _default(kind: str) -> DType:
    return canonical({'i*': np.int64, 'f*': np.float64, 'c*': np.complex128}[kind])


def promote(*operands: tuple[DType, bool]) -> tuple[DType, bool]:
    """Dtype and weakness of the result of an operation on operands of these dtypes and weaknesses."""
    return _promote(frozenset(operands), config.enable_x64)


@lru_cache(maxsize=4096)
def _promote(operands: frozenset[tuple[DType, bool]], x64: bool) -> tuple[DType, bool]:
    dtypes = {canonical(dtype) for dtype, _ in operands}
    weak = all(weak for _, weak in operands)
    if not dtypes:
        raise ValueError('promotion needs at least one operand')
    if len(dtypes) == 1:
        dtype = dtypes.pop()
        return dtype, weak and dtype != bool_
    # Among weak operands alone the dtypes decide: there is no other one to give way to.
    nodes = {_node(canonical(dtype), weak_one and not weak) for dtype, weak_one in operands}
    joined = _BY_ABOVE[frozenset.intersection(*(_ABOVE[node] for node in nodes))]
    is_kind = joined.endswith('*')
    dtype = _default(joined) if is_kind else canonical(_by_name(joined))
    return dtype, (weak or is_kind) and dtype != bool_


def _by_name(node: str) -> DType:
    return bfloat16 if node == 'bfloat16' else np.dtype(node)


def _node(dtype: DType, weak: bool) -> str:
    node = name(dtype)
    if node not in _ABOVE:
        raise TypeError(f'{node} takes no part in promotion; convert it by name, or give both operands the same dtype')
    return _KINDS['f' if dtype == bfloat16 else dtype.kind] if weak else node
