"""The 16-bit floats: two bytes in memory, and in a register the float32 number that they stand for.

An op is computed in float32 and rounded, once, to what a half can hold. float32 has more than twice the digits of either half
and two more, so that sums, products, quotients and roots come out as if they had been rounded once only (Figueroa, When is double
rounding innocuous?, 1995). Rounding to bfloat16 is done on bits, for the instruction that does it drops numbers below the normal range.
"""

from __future__ import annotations

import numpy as np

from distad.compiler.llvm.emit import F32, F64, I64, LANES, Emitter, Value, vector
from distad.types import dtypes

U16, U32 = np.dtype(np.uint16), np.dtype(np.uint32)
HALF = f'<{LANES} x half>'


def opened(e: Emitter, x: Value, dtype: np.dtype) -> Value:
    """Two bytes as the float32 number that they stand for."""
    if dtype == dtypes.bfloat16:
        return e.bitcast(e.convert(x, U32) << 16, F32)
    half = e.raw(f'bitcast {x} to {HALF}')
    return e.op(f'fpext {HALF} {half} to {vector(F32)}', F32)


def closed(e: Emitter, x: Value, dtype: np.dtype) -> Value:
    """The two bytes of a number that was rounded before."""
    if dtype == dtypes.bfloat16:
        return e.convert(e.bitcast(x, U32) >> 16, U16)
    half = e.raw(f'fptrunc {x} to {HALF}')
    return e.op(f'bitcast {HALF} {half} to {vector(U16)}', U16)


def rounded(e: Emitter, x: Value, dtype: np.dtype) -> Value:
    """The number of a half nearest to a float; to even where two are."""
    if dtype == dtypes.bfloat16:
        x = e.convert(x, F32)
        bits = e.bitcast(x, U32)
        near = (bits + ((bits >> 16) & 1) + 0x7FFF) & 0xFFFF0000
        return e.select(x.is_nan(), x, e.bitcast(near, F32))
    if x.dtype == F64:
        x = e.convert(_sticky(e, x), F32)
    half = e.raw(f'fptrunc {x} to {HALF}')
    return e.op(f'fpext {HALF} {half} to {vector(F32)}', F32)


def _sticky(e: Emitter, x: Value) -> Value:
    """A float64 number cut to what float32 holds, its last bit set if something was cut: rounded again, it is rounded right."""
    bits = e.bitcast(x, I64)
    last = 1 << 30
    cut = bits & -last
    return e.bitcast(e.select((bits & (last - 1)).equals(0), cut, cut | last), F64)
