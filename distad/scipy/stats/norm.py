"""The normal distribution: densities, probabilities and quantiles, element by element."""

from math import log, pi

from distad import numpy as jnp
from distad.core.value import Value
from distad.lax.documentation import documented
from distad.numpy.promotion import ArrayLike, inexact_operands
from distad.scipy import special
from distad.source import bounded


def _standard(name: str, x: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> tuple[Value, Value]:
    """How many standard deviations elements are from the mean, and the standard deviation."""
    x, loc, scale = inexact_operands(name, x, loc, scale)
    return (x - loc) / scale, scale


def _logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Value:
    z, scale = _standard('logpdf', x, loc, scale)
    return -0.5 * (z * z + log(2 * pi)) - jnp.log(scale)


def _pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Value:
    return jnp.exp(_logpdf(x, loc, scale))


def _cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Value:
    return special.ndtr(_standard('cdf', x, loc, scale)[0])


def _logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Value:
    return special.log_ndtr(_standard('logcdf', x, loc, scale)[0])


def _sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Value:
    return special.ndtr(-_standard('sf', x, loc, scale)[0])


def _logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Value:
    return special.log_ndtr(-_standard('logsf', x, loc, scale)[0])


def _ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Value:
    q, loc, scale = inexact_operands('ppf', q, loc, scale)
    return special.ndtri(q) * scale + loc


def _isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Value:
    q, loc, scale = inexact_operands('isf', q, loc, scale)
    return loc - special.ndtri(q) * scale


def _named(f, name: str, what: str, operand: str = 'x'):
    return documented(f, name, what, operands=f'{operand}, loc=0, scale=1', gives='a float dtype', module='scipy.stats.norm')


pdf = _named(_pdf, 'pdf', 'The density of the normal distribution of mean loc and standard deviation scale.')
logpdf = _named(_logpdf, 'logpdf', 'The logarithm of the density of the normal distribution.')
cdf = _named(_cdf, 'cdf', 'The probability of values up to x under the normal distribution.')
logcdf = _named(_logcdf, 'logcdf', 'The logarithm of the probability of values up to x, exact far below the mean.')
sf = _named(_sf, 'sf', 'The probability of values above x under the normal distribution.')
logsf = _named(_logsf, 'logsf', 'The logarithm of the probability of values above x, exact far above the mean.')
ppf = _named(_ppf, 'ppf', 'The value up to which the probability is q.', 'q')
isf = _named(_isf, 'isf', 'The value above which the probability is q.', 'q')

__all__ = ['cdf', 'isf', 'logcdf', 'logpdf', 'logsf', 'pdf', 'ppf', 'sf']

bounded(globals(), __all__)
