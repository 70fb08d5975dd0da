"""The derivative of the regularized incomplete gamma function P(a, x) in its shape parameter a, which SciPy has not.

P(a, x) = x^a e^-x / gamma(a + 1) * sum_n x^n / ((a + 1) ... (a + n)); the sum is differentiated term by term. For x > a + 1
the continued fraction of 1 - P converges faster (DLMF 8.9.2); it is evaluated by the recurrence of numerators and
denominators, and so are their derivatives.
"""

import numpy as np

from distad.late import Late

special = Late('scipy.special')

_STEPS = 2000
_TOLERANCE = 1e-13         # what rounding leaves of the fraction's derivative: below it the last digits never come to rest


def gamma_derivative(a, x) -> np.ndarray:
    """dP(a, x) / da, elementwise, in float64."""
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    valid = (a > 0) & (x > 0) & np.isfinite(x)
    a1, x1 = np.where(valid, a, 1.0), np.where(valid, x, 1.0)
    by_series = (x1 <= 1) | (x1 <= a1 + 1)
    series = _by_series(a1, np.where(by_series, x1, 1.0))
    fraction = -_by_fraction(np.where(by_series, 1.0, a1), np.where(by_series, 3.0, x1))
    y = np.where(by_series, series, fraction)
    at_ends = np.where((a > 0) & ((x == 0) | (x == np.inf)), 0.0, np.nan)
    return np.where(valid, y, at_ends)


def gamma_sample_derivative(a, x) -> np.ndarray:
    """dx / da at fixed P(a, x): how a sample of the gamma distribution moves with its shape parameter."""
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    log_density = special.xlogy(a - 1, x) - x - special.gammaln(a)
    return -gamma_derivative(a, x) * np.exp(-log_density)


def _by_series(a, x):
    term, total = np.ones_like(x), np.ones_like(x)
    d_term, d_total = np.zeros_like(x), np.zeros_like(x)
    for n in range(1, _STEPS):
        ratio = x / (a + n)
        d_term = ratio * (d_term - term / (a + n))
        term = ratio * term
        total, d_total = total + term, d_total + d_term
        if np.all(np.abs(d_term) <= _TOLERANCE * np.abs(d_total)) and np.all(term <= _TOLERANCE * total):
            break
    factor = np.exp(a * np.log(x) - x - special.gammaln(a + 1))
    return factor * ((np.log(x) - special.psi(a + 1)) * total + d_total)


def _by_fraction(a, x):
    """d(1 - P) / da from 1 - P = x^a e^-x / gamma(a) * 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...))."""
    p0, p1 = np.zeros_like(x), np.ones_like(x)             # numerators, denominators, and their derivatives in a
    q0, q1 = np.ones_like(x), x + 1 - a
    dp0, dp1, dq0, dq1 = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x), -np.ones_like(x)
    value, slope = p1 / q1, -dq1 / q1**2
    for n in range(1, _STEPS):
        b, c = x + 2 * n + 1 - a, n * (a - n)              # db/da = -1, dc/da = n
        p0, p1, dp0, dp1 = p1, b * p1 + c * p0, dp1, b * dp1 - p1 + c * dp0 + n * p0
        q0, q1, dq0, dq1 = q1, b * q1 + c * q0, dq1, b * dq1 - q1 + c * dq0 + n * q0
        scale = 1 / np.maximum(np.abs(q1), 1.0)            # only ratios matter: keep them from overflowing
        p0, p1, dp0, dp1 = p0 * scale, p1 * scale, dp0 * scale, dp1 * scale
        q0, q1, dq0, dq1 = q0 * scale, q1 * scale, dq0 * scale, dq1 * scale
        before = slope
        value, slope = p1 / q1, (dp1 * q1 - p1 * dq1) / q1**2
        if np.all(np.abs(slope - before) <= _TOLERANCE * np.abs(slope)):
            break
    factor = np.exp(a * np.log(x) - x - special.gammaln(a))
    return factor * ((np.log(x) - special.psi(a)) * value + slope)
