"""Special functions. SciPy is implementation and reference; the derivatives it lacks are differences of what it has."""

import numpy as np
from scipy import special

from tests.laws.calls import M, N, Table, call, f, number
from tests.laws.tables.elementwise import rough, unary

H = 1e-5


def by_shape(function, a, x):
    """The derivative of a function of shape parameter and value in the parameter."""
    return (function(a + H, x) - function(a - H, x)) / (2 * H)


def gamma_density(a, x):
    return np.exp((a - 1) * np.log(x) - x - special.gammaln(a))


TABLE: Table = {
    'erf': unary(special.erf), 'erfc': unary(special.erfc), 'erf_inv': unary(special.erfinv, -0.8, 0.8),
    'log_ndtr': unary(special.log_ndtr, -4.0, 3.0), 'ndtri': unary(special.ndtri, 0.1, 0.9),
    'xlogy': rough(special.xlogy, 0.3, 3.0), 'xlog1py': rough(special.xlog1py, 0.3, 3.0),
    'lgamma': unary(special.gammaln, 0.5, 4.0), 'digamma': unary(special.digamma, 0.5, 4.0),
    'polygamma': [call(lambda m, x: special.polygamma(2, x), number(np.float64(2)), f(M, N, low=0.7, high=4.0)),
                  call(lambda m, x: special.polygamma(1, x), f(1, low=1.0, high=1.0), f(N, low=0.7, high=4.0)).but(orders=0)],
    'zeta': [call(special.zeta, number(np.float64(3)), f(M, N, low=0.7, high=4.0)),
             call(special.zeta, f(M, 1, low=2.0, high=4.0), f(M, N, low=0.7, high=4.0)).but(orders=0)],
    'igamma': [*(one.but(orders=1) for one in rough(special.gammainc, 0.7, 3.0)[:2]),
               call(special.gammainc, number(np.float64(1.5)), f(N, low=0.7, high=3.0))],
    'igammac': [*(one.but(orders=1) for one in rough(special.gammaincc, 0.7, 3.0)[:2]),
                call(special.gammaincc, number(np.float64(1.5)), f(N, low=0.7, high=3.0))],
    'igamma_grad_a': [one.but(orders=0, tolerance=1e-6) for one in
                      rough(lambda a, x: by_shape(special.gammainc, a, x), 0.7, 3.0)],
    'random_gamma_grad': [one.but(orders=0, tolerance=1e-6) for one in
                          rough(lambda a, x: -by_shape(special.gammainc, a, x) / gamma_density(a, x), 0.7, 3.0)],
    'regularized_incomplete_beta': [
        call(special.betainc, number(np.float64(1.5)), number(np.float64(2.5)), f(M, N, low=0.1, high=0.9)),
        call(special.betainc, f(N, low=1.0, high=3.0), f(1, low=1.0, high=3.0), f(N, low=0.1, high=0.9)).but(orders=0)],
    'bessel_i0e': unary(special.i0e, 0.3, 3.0), 'bessel_i1e': unary(special.i1e, 0.3, 3.0),
    'bessel_i0': unary(special.i0, 0.3, 3.0), 'bessel_i1': unary(special.i1, 0.3, 3.0),
}
