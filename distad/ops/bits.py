"""Integers as bits, and bits as other dtypes.

A shift by the width or more, or by a negative amount, shifts everything out, as in XLA; so does NumPy's.
"""

from functools import partial

import numpy as np

from distad.core.batching import BEFORE_LAST
from distad.core.primitive import NoRule, Primitive, finish, signature
from distad.ops.makers import INTEGER, constant, ufunc
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import infer

_binary = partial(constant, accepts=INTEGER, operands=2)


def _unsigned(x) -> np.ndarray:
    x = np.asarray(x)
    return x.view(f"u{x.dtype.itemsize}")


shift_left = _binary('shift_left', ufunc(np.left_shift))
shift_right_arithmetic = _binary('shift_right_arithmetic', lambda x, n, *, out: _shift_right(_signed(x), n, out))
shift_right_logical = _binary('shift_right_logical', lambda x, n, *, out: _shift_right(_unsigned(x), n, out))
gcd = _binary('gcd', ufunc(np.gcd))
lcm = _binary('lcm', ufunc(np.lcm))


def _signed(x) -> np.ndarray:
    x = np.asarray(x)
    return x.view(f"i{x.dtype.itemsize}")


def _shift_right(x, n, out):
    return np.right_shift(x, np.asarray(n).view(x.dtype)).view(out.dtype)


def _clz_impl(x, *, out):
    """Leading zeros are the width less the place of the highest set bit, which is smeared over all bits below it."""
    width = out.dtype.itemsize * 8
    x = _unsigned(x)
    for k in (1, 2, 4, 8, 16, 32):
        if k < width:
            x = x | (x >> x.dtype.type(k))
    return (width - np.bitwise_count(x).astype(np.int64)).astype(out.dtype)


population_count = constant('population_count', lambda x, *, out: np.bitwise_count(_unsigned(x)).astype(out.dtype), INTEGER)
clz = constant('clz', _clz_impl, INTEGER)


def _mulhi_impl(x, y, *, out):
    """The high half of the product of two integers of one width."""
    bits = out.dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{out.dtype.kind}8")
        return (np.asarray(x, wide) * np.asarray(y, wide) >> wide.type(bits)).astype(out.dtype)
    u, v = _unsigned(x), _unsigned(y)
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    a, b, c, d = u >> half, u & low, v >> half, v & low
    middle = a * d + (b * d >> half)
    high = a * c + (middle >> half) + ((b * c + (middle & low)) >> half)
    if out.dtype.kind == 'i':                                # a negative factor counted 2**64 times the other too much
        high = high - np.where(x < 0, v, 0).astype(np.uint64) - np.where(y < 0, u, 0).astype(np.uint64)
    return np.asarray(high).view(out.dtype)


mulhi = _binary('mulhi', _mulhi_impl)


# ---- bitcast_convert_type: a narrower dtype adds a last dimension, a wider one takes it away

def _bitcast_labels(x: ArrayType, *, new_dtype):
    ins, outs = list(range(x.ndim)), list(range(x.ndim))
    if new_dtype.itemsize < x.dtype.itemsize:
        outs.append(None)
    elif new_dtype.itemsize > x.dtype.itemsize and outs:
        ins[-1:], outs[-1:] = [None], []
    return signature('bitcast_convert_type', [ins], [outs])


def _bitcast_type(x: ArrayType, *, new_dtype) -> ArrayType:
    old, new = x.dtype, new_dtype
    if {old, new} & {dtypes.KEY, dtypes.float0} or (old != new and (old.kind in 'bc' or new.kind in 'bc')):
        raise TypeError(f"bitcast_convert_type does not take bool, complex or keys, got {x} and {dtypes.name(new)}.")
    shape = x.shape
    if new.itemsize < old.itemsize:
        shape = (*shape, old.itemsize // new.itemsize)
    elif new.itemsize > old.itemsize:
        if shape[-1:] != (new.itemsize // old.itemsize,):
            raise ValueError(f"bitcast_convert_type to {dtypes.name(new)} joins the last dimension, which must have size "
                             f"{new.itemsize // old.itemsize}, got {x}")
        shape = shape[:-1]
    return finish(infer(_bitcast_labels(x, new_dtype=new_dtype), (x,)), shape, new, (x,)).update(weak_type=False)


def _bitcast_impl(x, *, out, new_dtype):
    x = np.array(x, order='C')
    if x.dtype.itemsize == new_dtype.itemsize:
        return x.view(new_dtype)
    return np.frombuffer(x.tobytes(), new_dtype).reshape(out.shape)


bitcast_convert_type = Primitive(
    'bitcast_convert_type',
    type=_bitcast_type,
    labels=_bitcast_labels,
    impl=_bitcast_impl,
    jvp=(None,),
    transpose=NoRule('it is not linear'),
    batch=BEFORE_LAST)
