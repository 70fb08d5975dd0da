"""Complex numbers: their parts, and magnitude and direction (of reals too).

real, imag, conj and complex are linear over the reals, so unreduced values pass through them. Cotangents are paired without
conjugation, `Re(ct * x)`, so the transpose of imag is the product with -i.
"""

import numpy as np

from distad.core.primitive import BY_LINEARITY
from distad.core.value import Zero, typeof
from distad.ops.arithmetic import div, mul, neg
from distad.ops.broadcast import unbroadcast
from distad.ops.compare import eq, ge, select_n
from distad.ops.convert import convert_element_type
from distad.ops.makers import COMPLEX, FLOAT, NUMBER, REAL_FLOAT, elementwise, scalar, ufunc, unary
from distad.types import dtypes
from distad.types.inference import ADDITIVE


def part_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of a complex dtype's parts; a real one is its own."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == 'c' else dtype


def whole_dtype(dtype: np.dtype) -> np.dtype:
    """The complex dtype with parts of a real dtype."""
    if dtype.itemsize < 4:
        raise TypeError(f"there are no complex numbers with parts of dtype {dtypes.name(dtype)}. Convert it to float32 first.")
    return np.dtype(f"c{dtype.itemsize * 2}")


def _as_complex(ct):
    return convert_element_type(ct, new_dtype=whole_dtype(typeof(ct).dtype), weak_type=False)


real = unary('real', ufunc(np.real), COMPLEX, result=part_dtype, jvp=BY_LINEARITY, linearity=ADDITIVE,
             transpose=lambda ct, x: _as_complex(ct))
imag = unary('imag', ufunc(np.imag), COMPLEX, result=part_dtype, jvp=BY_LINEARITY, linearity=ADDITIVE,
             transpose=lambda ct, x: _times_minus_i(_as_complex(ct)))
conj = unary('conj', ufunc(np.conjugate), FLOAT, jvp=BY_LINEARITY, linearity=ADDITIVE, transpose=lambda ct, x: conj(ct))


def _times_minus_i(x):
    return mul(x, scalar(-1j, x))


def _complex_impl(x, y, *, out):
    z = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), out.dtype)
    z.real, z.imag = x, y
    return z


complex = elementwise(
    'complex', _complex_impl, accepts=REAL_FLOAT, result=whole_dtype,
    linearity=ADDITIVE,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, y: unbroadcast(real(ct), typeof(x)),
               lambda ct, x, y: unbroadcast(neg(imag(ct)), typeof(y))))


# ---- magnitude and direction

def _abs_rule(t, y, x):
    """d|x| is the tangent's part in the direction of x. At zero it is that of the side of positive numbers, as in JAX."""
    if typeof(x).dtype.kind != 'c':
        return select_n(ge(x, scalar(0, x)), neg(t), t)
    return real(mul(t, conj(sign(x))))


abs = unary('abs', ufunc(np.absolute), NUMBER, result=part_dtype, jvp=_abs_rule)


def _sign_jvp(primals, tangents):
    """A direction turns by the tangent's part across it, over the distance from zero; that of a real number does not turn."""
    (x,), (t,) = primals, tangents
    y = sign(x)
    if typeof(x).dtype.kind != 'c':
        return [y], [Zero(typeof(y).tangent())]
    r = abs(x)
    turn = div(imag(mul(t, conj(y))), select_n(eq(r, scalar(0, r)), r, scalar(1, r)))
    return [y], [mul(_as_complex(turn), mul(y, scalar(1j, y)))]


sign = elementwise('sign', ufunc(np.sign), jvp=_sign_jvp)
