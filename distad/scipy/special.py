"""Special functions under the names of scipy.special, element by element: integers become floats, operands broadcast.

Those that reduce (logsumexp, softmax) are the ones of `distad.nn`.
"""

from collections.abc import Callable
from math import log as ln
from math import pi, sqrt

import numpy as np

from distad import numpy as jnp
from distad.core.primitive import Primitive
from distad.core.value import Value
from distad.lax.documentation import documented
from distad.lax.kind import kindly
from distad.nn.normalization import log_softmax as log_softmax
from distad.nn.normalization import logsumexp as logsumexp
from distad.nn.normalization import softmax as softmax
from distad.numpy.promotion import ArrayLike, inexact, inexact_operands
from distad.ops import elementary
from distad.ops import special as ops
from distad.source import bounded


def _described(f: Callable, name: str, what: str, operands: str, example: str) -> Callable:
    return documented(f, name, what, operands=operands, takes='real numbers', gives='a float dtype', module='scipy.special',
                      example=example)


def _function(name: str, primitive: Primitive, what: str, operands: str = 'x', example: str = '0.5') -> Callable[..., Value]:
    """A function that is one primitive."""
    count = operands.count(',') + 1

    def f(*xs: ArrayLike) -> Value:
        if len(xs) != count:
            raise TypeError(f"{name} takes {count} operands ({operands}), got {len(xs)}")
        return kindly(primitive, *inexact_operands(name, *xs))
    return _described(f, name, what, operands, example)


# ---- error functions and the normal distribution

erf = _function('erf', ops.erf, 'The error function.')
erfc = _function('erfc', ops.erfc, '1 - erf(x), exact for large x.')
erfinv = _function('erfinv', ops.erf_inv, 'The number whose error function is x.')
log_ndtr = _function('log_ndtr', ops.log_ndtr, 'The logarithm of ndtr(x), exact for x far below zero.')
ndtri = _function('ndtri', ops.ndtri, 'The number up to which the standard normal distribution has the probability x.')


def _ndtr(x: ArrayLike) -> Value:
    return 0.5 * kindly(ops.erfc, inexact(x, 'ndtr') * -sqrt(0.5))


ndtr = _described(_ndtr, 'ndtr', 'The probability of values up to x under the standard normal distribution.', 'x', '0.5')

# ---- gamma and beta

gammaln = _function('gammaln', ops.lgamma, 'The logarithm of abs(gamma(x)).')
digamma = _function('digamma', ops.digamma, 'The derivative of log(gamma(x)).')
polygamma = _function('polygamma', ops.polygamma, 'The n-th derivative of digamma(x).', 'n, x', '1, 2.0')
zeta = _function('zeta', ops.zeta, 'The sum of (q + k) ** -x over k = 0, 1, ....', 'x, q', '2.0, 1.0')
gammainc = _function('gammainc', ops.igamma, 'The lower incomplete gamma function of a at x over gamma(a).', 'a, x', '2.0, 1.0')
gammaincc = _function('gammaincc', ops.igammac, '1 - gammainc(a, x), exact for large x.', 'a, x', '2.0, 1.0')
betainc = _function('betainc', ops.regularized_incomplete_beta, 'The incomplete beta function of a and b at x over beta(a, b).',
                    'a, b, x', '2.0, 3.0, 0.5')


def _gammasgn(x: ArrayLike) -> Value:
    x = inexact(x, 'gammasgn')
    floor = jnp.floor(x)
    sign = jnp.where((x > 0) | (jnp.remainder(floor, 2) == 0), 1.0, -1.0)
    return jnp.where((x < 0) & (x == floor), np.nan, sign)


def _gamma(x: ArrayLike) -> Value:
    x = inexact(x, 'gamma')
    return _gammasgn(x) * jnp.exp(gammaln(x))


def _factorial(n: ArrayLike) -> Value:
    n = inexact(n, 'factorial')
    return jnp.where(n < 0, 0.0, jnp.exp(gammaln(n + 1)))


def _betaln(a: ArrayLike, b: ArrayLike) -> Value:
    a, b = inexact_operands('betaln', a, b)
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def _beta(a: ArrayLike, b: ArrayLike) -> Value:
    a, b = inexact_operands('beta', a, b)
    return _gammasgn(a) * _gammasgn(b) * _gammasgn(a + b) * jnp.exp(_betaln(a, b))


gammasgn = _described(_gammasgn, 'gammasgn', 'The sign of gamma(x).', 'x', '-0.5')
gamma = _described(_gamma, 'gamma', 'The gamma function, (x - 1)! of whole numbers.', 'x', '4.0')
factorial = _described(_factorial, 'factorial', 'gamma(n + 1), 0 for negative n.', 'n', '3')
betaln = _described(_betaln, 'betaln', 'The logarithm of abs(beta(a, b)).', 'a, b', '2.0, 3.0')
beta = _described(_beta, 'beta', 'gamma(a) gamma(b) / gamma(a + b).', 'a, b', '2.0, 3.0')


def multigammaln(a: ArrayLike, d: int) -> Value:
    """The logarithm of the gamma function of d dimensions: a sum of gammaln(a - k/2) over k < d.

    a: [...], real numbers above (d - 1)/2; d: a number. The result has a's shape and placement. Nothing is communicated. Raises
    ShardingTypeError for unreduced operands.

        scipy.special.multigammaln(3.0, 2)
    """
    a = inexact(a, 'multigammaln')
    return sum((gammaln(a - k / 2) for k in range(d)), d * (d - 1) / 4 * ln(pi))


# ---- Bessel functions

i0 = _function('i0', ops.bessel_i0, 'The modified Bessel function of order 0.')
i0e = _function('i0e', ops.bessel_i0e, 'exp(-abs(x)) times the modified Bessel function of order 0.')
i1 = _function('i1', ops.bessel_i1, 'The modified Bessel function of order 1.')
i1e = _function('i1e', ops.bessel_i1e, 'exp(-abs(x)) times the modified Bessel function of order 1.')

# ---- logarithms and entropies

expit = _function('expit', elementary.logistic, '1 / (1 + exp(-x)).')
xlogy = _function('xlogy', ops.xlogy, 'x log(y), and 0 where x is 0.', 'x, y', '0.0, 0.0')
xlog1py = _function('xlog1py', ops.xlog1py, 'x log(1 + y), and 0 where x is 0.', 'x, y', '0.0, -1.0')


def _logit(x: ArrayLike) -> Value:
    x = inexact(x, 'logit')
    return jnp.log(x) - jnp.log1p(-x)


def _entr(x: ArrayLike) -> Value:
    x = inexact(x, 'entr')
    return jnp.where(x < 0, -np.inf, -kindly(ops.xlogy, x, x))


def _rel_entr(p: ArrayLike, q: ArrayLike) -> Value:
    p, q = inexact_operands('rel_entr', p, q)
    both = (p > 0) & (q > 0)
    known = jnp.where(both, p, 1.0)
    value = known * (jnp.log(known) - jnp.log(jnp.where(both, q, 1.0)))
    return jnp.where(both, value, jnp.where((p == 0) & (q >= 0), 0.0, np.inf))


def _kl_div(p: ArrayLike, q: ArrayLike) -> Value:
    p, q = inexact_operands('kl_div', p, q)
    return _rel_entr(p, q) - p + q


logit = _described(_logit, 'logit', 'log(x / (1 - x)).', 'x', '0.5')
entr = _described(_entr, 'entr', '-x log(x), 0 at zero, minus infinity below.', 'x', '0.5')
rel_entr = _described(_rel_entr, 'rel_entr', 'p log(p / q), 0 where p is 0, infinity where it is not defined.', 'p, q', '0.5, 0.25')
kl_div = _described(_kl_div, 'kl_div', 'p log(p / q) - p + q, infinity where it is not defined.', 'p, q', '0.5, 0.25')

__all__ = ['beta', 'betainc', 'betaln', 'digamma', 'entr', 'erf', 'erfc', 'erfinv', 'expit', 'factorial', 'gamma', 'gammainc',
           'gammaincc', 'gammaln', 'gammasgn', 'i0', 'i0e', 'i1', 'i1e', 'kl_div', 'log_ndtr', 'log_softmax', 'logit', 'logsumexp',
           'multigammaln', 'ndtr', 'ndtri', 'polygamma', 'rel_entr', 'softmax', 'xlog1py', 'xlogy', 'zeta']

bounded(globals(), __all__)
