"""Polynomials by their coefficients, the highest power first.

Coefficients are few: split ones are gathered where one of them is taken out. What is computed at many places lies as these do.
"""

import operator

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.errors import ConcretizationTypeError
from distad.lax.kind import whole_along
from distad.numpy import linalg
from distad.numpy.counting import convolve
from distad.numpy.creation import asarray, zeros
from distad.numpy.diagonals import vander
from distad.numpy.dtype_info import finfo
from distad.numpy.editing import trim_zeros
from distad.numpy.elementwise import negative, sqrt, true_divide
from distad.numpy.indexing import getitem
from distad.numpy.joining import concatenate, stack
from distad.numpy.known import known
from distad.numpy.linear import matmul, outer
from distad.numpy.promotion import ArrayLike, inexact, promoted
from distad.numpy.reductions import sum
from distad.numpy.shapes import atleast_1d, broadcast_to, expand_dims, transpose


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Value:
    """The value of a polynomial at each element, by Horner's rule.

    p: [n], or [n, ...] that broadcasts to x; x: [...]; unroll: accepted for its name. The result is split as x. Nothing is
    communicated unless p is split. Raises ShardingTypeError for unreduced arrays.

        jnp.polyval(jnp.array([1., 0., 2.]), jnp.array([1., 3.]))         # 3., 11.
    """
    p, x = (as_value(v, 'polyval') for v in promoted('polyval', as_value(p, 'polyval'), as_value(x, 'polyval')))
    if not p.ndim:
        raise ValueError(f"polyval takes a vector of coefficients, got {p.type}")
    y = x * 0
    for i in range(p.shape[0]):
        y = y * x + getitem(p, i)
    return y


def polyfit(x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False, w: ArrayLike | None = None,
            cov: bool | str = False) -> Value | tuple[Value, ...]:
    """The polynomial of a degree that is nearest to points, by least squares.

    x: [m]; y: [m] or [m, k], k fits at once; w: [m], weights of the distances; rcond: as of `linalg.lstsq`, by default m times eps.
    Returns the coefficients [deg + 1] or [deg + 1, k]; if `full` also the sums of squares left, the rank, singular values and rcond;
    with `cov` also the covariance of the coefficients, scaled by the squares left unless cov='unscaled'.
    Communication: split points are gathered, by an all-gather of each array.

        jnp.polyfit(jnp.arange(4.), jnp.arange(4.) ** 2, 2)       # 1., 0., 0.
    """
    x, y, *weights = (inexact(as_value(v, 'polyfit'), 'polyfit') for v in (x, y, *([] if w is None else [w])))
    count = operator.index(deg) + 1
    if count < 1:
        raise ValueError(f"polyfit: the degree is zero or more, got {deg}")
    if x.ndim != 1 or not x.size or y.ndim not in (1, 2) or any(v.shape[:1] != x.shape for v in (y, *weights)):
        raise ValueError(f"polyfit takes vectors of one size, or y of two dimensions, got {x.type} and {y.type}")
    x, y, *weights = (whole_along(v, (0,)) for v in (x, y, *weights))
    rcond = x.size * finfo(x.dtype).eps if rcond is None else rcond
    powers = vander(x, count)
    for weight in weights:
        powers, y = powers * expand_dims(weight, 1), y * (weight if y.ndim == 1 else expand_dims(weight, 1))
    scale = sqrt(sum(powers * powers, 0))
    powers = powers / scale
    found, left, rank, singular = linalg.lstsq(powers, y, rcond)
    found = transpose(transpose(found) / scale)
    if full:
        return found, left, rank, singular, asarray(rcond)
    if not cov:
        return found
    base = linalg.inv(matmul(transpose(powers), powers)) / outer(scale, scale)
    base = base if y.ndim == 1 else expand_dims(base, 2)
    if cov == 'unscaled':
        return found, base
    if x.size <= count:
        raise ValueError(f"polyfit: a scaled covariance takes more than {count} points, got {x.size}. Say cov='unscaled'.")
    return found, base * (left / (x.size - count))


# ---- arithmetic

def _coefficients(name: str, *ps: ArrayLike) -> list[Value]:
    xs = [atleast_1d(x) for x in promoted(name, *(p if isinstance(p, Value) else asarray(p) for p in ps))]
    if any(x.ndim != 1 for x in xs):
        raise ValueError(f"{name} takes vectors of coefficients, got {', '.join(str(x.type) for x in xs)}")
    return [whole_along(x, (0,)) for x in xs]


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Value:
    """The sum of two polynomials [n] and [m], of max(n, m) coefficients.

        jnp.polyadd(jnp.array([1, 2]), jnp.array([1, 0, 0]))      # 1, 1, 2
    """
    x, y = _coefficients('polyadd', a1, a2)
    size = max(x.size, y.size)
    x, y = (v if v.size == size else concatenate([zeros(size - v.size, v.dtype), v]) for v in (x, y))
    return x + y


def polysub(a1: ArrayLike, a2: ArrayLike) -> Value:
    """The difference of two polynomials. See `polyadd`.

        jnp.polysub(jnp.array([1, 2]), jnp.array([1, 0, 0]))      # -1, 1, 2
    """
    x, y = _coefficients('polysub', a1, a2)
    return polyadd(x, negative(y))


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Value:
    """The product of two polynomials [n] and [m]: [n + m - 1], floats. With `trim_leading_zeros` zeros in front are cut off first.

        jnp.polymul(jnp.array([1, 2]), jnp.array([1, 3]))         # 1., 5., 6.
    """
    x, y = _coefficients('polymul', a1, a2)
    if trim_leading_zeros:
        x, y = (v if v.size < 2 else trim_zeros(v, 'f') for v in (x, y))
    return convolve(*(v if v.size else zeros(1, v.dtype) for v in (x, y)))


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Value, Value]:
    """Quotient and rest of the division of two polynomials, floats.

    u: [n]; v: [m], v[0] not zero. Returns [n - m + 1] (at least one) and [n], or without the rest's zeros in front if
    `trim_leading_zeros`.

        jnp.polydiv(jnp.array([1., 5., 6.]), jnp.array([1., 2.]))         # (1., 3.), (0., 0., 0.)
    """
    u, v = (inexact(x, 'polydiv') for x in _coefficients('polydiv', u, v))
    steps = u.size - v.size + 1
    quotient = []
    for k in range(steps):
        q = getitem(u, k) / getitem(v, 0)
        quotient.append(q)
        part = q * v
        u = u - concatenate([zeros(k, v.dtype), part, zeros(steps - 1 - k, v.dtype)])
    q = stack(quotient) if quotient else zeros(1, u.dtype)
    return q, trim_zeros(u, 'f') if trim_leading_zeros else u


def polyder(p: ArrayLike, m: int = 1) -> Value:
    """The m-th derivative of a polynomial [n]: [n - m].

        jnp.polyder(jnp.array([1., 2., 3.]))      # 2., 2.
    """
    x, m = *_coefficients('polyder', p), operator.index(m)
    if m < 0:
        raise ValueError(f"polyder: the order of a derivative is zero or more, got {m}")
    if not m:
        return x
    exponents = np.arange(x.size)[::-1]
    factors = np.prod([exponents - i for i in range(m)], axis=0)[:max(x.size - m, 0)]
    return getitem(x, slice(0, max(x.size - m, 0))) * asarray(factors, x.dtype)


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Value:
    """A polynomial [n + m] whose m-th derivative is the polynomial [n]; k: [m] constants of integration, or one for all, else zero.

        jnp.polyint(jnp.array([2., 2.]))          # 1., 2., 0.
    """
    x, m = *_coefficients('polyint', p), operator.index(m)
    if m < 0:
        raise ValueError(f"polyint: the order of an integral is zero or more, got {m}")
    constants = np.zeros(m, np.int32) if k is None else k if isinstance(k, Value) else np.asarray(k)
    x, constants = (inexact(v, 'polyint') for v in promoted('polyint', x, asarray(constants)))
    constants = broadcast_to(constants, (m,))
    if not m:
        return x
    # A coefficient of x^e was divided once for each integration that it has seen.
    exponents = np.arange(x.size + m)[::-1]
    factors = np.prod([np.maximum(exponents - i, 1) for i in range(m)], axis=0)
    return true_divide(concatenate([x, constants]), asarray(factors, x.dtype))


def poly(seq_of_zeros: ArrayLike) -> Value:
    """The polynomial with these roots, or with the eigenvalues of a square matrix as roots; 1 is its first coefficient.

    seq_of_zeros: [n] or [n, n]. Returns floats [n + 1].

        jnp.poly(jnp.array([1., 2.]))             # 1., -3., 2.
    """
    x = inexact(seq_of_zeros if isinstance(seq_of_zeros, Value) else asarray(seq_of_zeros), 'poly')
    x = atleast_1d(x)
    if x.ndim == 2:
        x = linalg.eigvals(x)
    if x.ndim != 1:
        raise ValueError(f"poly takes a vector of roots or a square matrix, got {x.type}")
    x = whole_along(x, (0,))
    y = asarray(np.ones(1), x.dtype)
    for i in range(x.size):
        y = concatenate([y, zeros(1, x.dtype)]) - concatenate([zeros(1, x.dtype), y * getitem(x, i)])
    return y


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Value:
    """The roots of a polynomial, complex: the eigenvalues of its companion matrix.

    p: [n]; strip_zeros: zeros in front are cut off, for which p has to be known; else p[0] must not be zero. Returns [n - 1], fewer
    without the zeros. Raises ConcretizationTypeError for a traced p with `strip_zeros`.

        jnp.roots(jnp.array([1., -3., 2.]))       # 2., 1.
    """
    x, = _coefficients('roots', p)
    x = inexact(x, 'roots')
    if strip_zeros:
        if known(x) is None:
            raise ConcretizationTypeError(f"roots of a traced value of type {x.type}: how many zeros stand in front is not known while "
                                          'the program is traced. Say strip_zeros=False, if there are none.')
        x = trim_zeros(x, 'f')
    n = x.size - 1
    if n < 1:
        return zeros(0, np.result_type(typeof(x).dtype, np.complex64))
    first = expand_dims(negative(getitem(x, slice(1, None))) / getitem(x, 0), 0)
    return linalg.eigvals(concatenate([first, asarray(np.eye(n - 1, n), x.dtype)]))


__all__ = ['poly', 'polyadd', 'polyder', 'polydiv', 'polyfit', 'polyint', 'polymul', 'polysub', 'polyval', 'roots']
