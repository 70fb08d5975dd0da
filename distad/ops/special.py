"""Special functions. SciPy computes the values, in float32 or float64; derivatives are again special functions."""

from math import pi, sqrt

import numpy as np

from distad.core.primitive import NoRule
from distad.late import Late
from distad.ops.arithmetic import add, div, mul, neg, sub
from distad.ops.compare import eq, select_n
from distad.ops.complex import sign
from distad.ops.elementary import exp, log, log1p
from distad.ops.incomplete_gamma import gamma_derivative, gamma_sample_derivative
from distad.ops.makers import REAL_FLOAT, elementwise, in_float32, scalar, unary
from distad.ops.powers import square

special = Late('scipy.special')

def _one(x):
    return scalar(1, x)


# ---- error functions

def _bell(x, factor: float):
    return mul(scalar(factor, x), exp(neg(square(x))))


erf = unary('erf', in_float32(special.erf), REAL_FLOAT, jvp=lambda t, y, x: mul(t, _bell(x, 2 / sqrt(pi))))
erfc = unary('erfc', in_float32(special.erfc), REAL_FLOAT, jvp=lambda t, y, x: mul(t, _bell(x, -2 / sqrt(pi))))
erf_inv = unary('erf_inv', in_float32(special.erfinv), REAL_FLOAT,
                jvp=lambda t, y, x: mul(t, mul(scalar(sqrt(pi) / 2, y), exp(square(y)))))


# ---- the normal distribution: the logarithm of its probabilities, and its quantiles

log_ndtr = unary('log_ndtr', in_float32(special.log_ndtr), REAL_FLOAT,
                 jvp=lambda t, y, x: mul(t, mul(scalar(1 / sqrt(2 * pi), x), exp(sub(neg(mul(scalar(0.5, x), square(x))), y)))))
ndtri = unary('ndtri', in_float32(special.ndtri), REAL_FLOAT,
              jvp=lambda t, y, x: mul(t, mul(scalar(sqrt(2 * pi), y), exp(mul(scalar(0.5, y), square(y))))))


# ---- x log(y), which is 0 where x is, whatever y

xlogy = elementwise('xlogy', in_float32(special.xlogy), accepts=REAL_FLOAT,
                    jvp=(lambda t, z, x, y: mul(t, log(y)), lambda t, z, x, y: mul(t, div(x, y))))
xlog1py = elementwise('xlog1py', in_float32(special.xlog1py), accepts=REAL_FLOAT,
                      jvp=(lambda t, z, x, y: mul(t, log1p(y)), lambda t, z, x, y: mul(t, div(x, add(y, _one(y))))))


# ---- gamma and its logarithmic derivatives; the zeta function that they are sums of

lgamma = unary('lgamma', in_float32(special.gammaln), REAL_FLOAT, jvp=lambda t, y, x: mul(t, digamma(x)))
digamma = unary('digamma', in_float32(special.psi), REAL_FLOAT, jvp=lambda t, y, x: mul(t, polygamma(_one(x), x)))


def _polygamma(m, x):
    """(-1) ** (m + 1) m! zeta(m + 1, x), and digamma for m = 0."""
    m = np.asarray(m, np.float64)
    sum_of_powers = special.zeta(m + 1, np.asarray(x, np.float64))
    series = np.where(m % 2, 1.0, -1.0) * special.gamma(m + 1) * sum_of_powers
    return np.where(m == 0, special.psi(x), series)


polygamma = elementwise(
    'polygamma', in_float32(_polygamma), accepts=REAL_FLOAT,
    jvp=(NoRule('the order is an integer'),
         lambda t, y, m, x: mul(t, polygamma(add(m, _one(m)), x))))

zeta = elementwise(
    'zeta', in_float32(special.zeta), accepts=REAL_FLOAT,
    jvp=(NoRule('its derivative in the exponent is no function of this library'),
         lambda t, y, s, q: mul(t, mul(neg(s), zeta(add(s, _one(s)), q)))))


# ---- incomplete gamma and beta functions

def _gamma_density(a, x):
    """x ** (a - 1) exp(-x) / gamma(a), the derivative of igamma in x; zero at zero."""
    safe = select_n(eq(x, scalar(0, x)), x, _one(x))
    density = exp(sub(sub(mul(sub(a, _one(a)), log(safe)), x), lgamma(a)))
    return select_n(eq(x, scalar(0, x)), density, scalar(0, x))


igamma = elementwise(
    'igamma', in_float32(special.gammainc), accepts=REAL_FLOAT,
    jvp=(lambda t, y, a, x: mul(t, igamma_grad_a(a, x)),
         lambda t, y, a, x: mul(t, _gamma_density(a, x))))

igammac = elementwise(
    'igammac', in_float32(special.gammaincc), accepts=REAL_FLOAT,
    jvp=(lambda t, y, a, x: neg(mul(t, igamma_grad_a(a, x))),
         lambda t, y, a, x: neg(mul(t, _gamma_density(a, x)))))

_THIRD = NoRule('derivatives of derivatives in the shape parameter are not computed')

igamma_grad_a = elementwise('igamma_grad_a', in_float32(gamma_derivative), accepts=REAL_FLOAT, jvp=(_THIRD, _THIRD))
random_gamma_grad = elementwise('random_gamma_grad', in_float32(gamma_sample_derivative), accepts=REAL_FLOAT,
                                jvp=(_THIRD, _THIRD))


def _beta_density(a, b, x):
    """x ** (a - 1) (1 - x) ** (b - 1) / beta(a, b)."""
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    powers = add(mul(sub(b, _one(b)), log1p(neg(x))), mul(sub(a, _one(a)), log(x)))
    return exp(sub(powers, log_beta))


_SHAPE = NoRule('its derivatives in the shape parameters are no functions of this library')

regularized_incomplete_beta = elementwise(
    'regularized_incomplete_beta', in_float32(special.betainc), accepts=REAL_FLOAT,
    jvp=(_SHAPE, _SHAPE, lambda t, y, a, b, x: mul(t, _beta_density(a, b, x))))


# ---- modified Bessel functions, and those scaled by exp(-|x|)

def _i1e_rule(t, y, x):
    zero = eq(x, scalar(0, x))
    safe = select_n(zero, x, _one(x))
    slope = sub(bessel_i0e(safe), mul(y, add(sign(safe), div(_one(safe), safe))))
    return mul(t, select_n(zero, slope, scalar(0.5, x)))


bessel_i0e = unary('bessel_i0e', in_float32(special.i0e), REAL_FLOAT,
                   jvp=lambda t, y, x: mul(t, sub(bessel_i1e(x), mul(sign(x), y))))
bessel_i1e = unary('bessel_i1e', in_float32(special.i1e), REAL_FLOAT, jvp=_i1e_rule)


def _i1_rule(t, y, x):
    zero = eq(x, scalar(0, x))
    slope = sub(bessel_i0(x), div(y, select_n(zero, x, _one(x))))
    return mul(t, select_n(zero, slope, scalar(0.5, x)))


bessel_i0 = unary('bessel_i0', in_float32(special.i0), REAL_FLOAT, jvp=lambda t, y, x: mul(t, bessel_i1(x)))
bessel_i1 = unary('bessel_i1', in_float32(special.i1), REAL_FLOAT, jvp=_i1_rule)
