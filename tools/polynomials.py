"""Writes distad/compiler/llvm/coefficients.py: `python tools/polynomials.py` (needs mpmath).

Every polynomial interpolates its function at the Chebyshev nodes of an interval, in 150 digits: no more than a small factor above
the best there is (Trefethen, Approximation Theory and Approximation Practice, chapter 16), so a degree is chosen that leaves
room. The functions are those that remain after what is known exactly was split off (Cody and Waite, Software Manual for the
Elementary Functions, 1980; Muller, Elementary Functions, 3rd edition, 2016).
"""

from pathlib import Path

import mpmath as mp

mp.mp.dps = 150
TINY = mp.mpf(10) ** -30
TARGET = Path(__file__).parent.parent / 'distad/compiler/llvm/coefficients.py'


def interpolated(f, low, high, degree: int) -> list:
    """Coefficients, constant first, of the polynomial that meets f at the Chebyshev nodes."""
    n = degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    powers = mp.matrix(n, n)
    for i, x in enumerate(nodes):
        for j in range(n):
            powers[i, j] = x ** j
    return list(mp.lu_solve(powers, mp.matrix([f(x if abs(x) > TINY else TINY) for x in nodes])))   # 0 / 0 at zero


def odd(f):
    """(f(x) - x) / x**3 as a function of x**2."""
    return lambda z: (f(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3


def scaled_erfc(t):
    x = 2 * (1 + t) / (1 - t)
    return mp.erfc(x) * mp.exp(x * x) / (1 - t)


def atanh_rest(z):
    return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z


def erf_inv_of_log(w):
    """erfinv(x) / x where w = -log(1 - x**2)."""
    u = mp.exp(-max(w, TINY))
    x = mp.sqrt(1 - u)
    if w < 1:
        return mp.erfinv(x) / x
    rest = mp.log(u / (1 + x))                                       # log(1 - x)
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) - rest, mp.sqrt(w), tol=mp.mpf(10) ** -60) / x


half = mp.log(2) / 2
root = mp.sqrt(2)
quarter = (mp.pi / 4) ** 2
TABLE = {
    'EXP': ('(exp(r) - 1 - r) / r**2, |r| <= log(2) / 2', lambda r: (mp.exp(r) - 1 - r) / r ** 2, -half, half, 5, 10),
    'LOG': ('(log(1 + f) - f + f**2 / 2) / f**3, sqrt(1/2) <= 1 + f <= sqrt(2)',
            lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3, root / 2 - 1, root - 1, 9, None),
    'ATANH': ('(2 atanh(s) / s - 2) / s**2 of s**2, s = f / (2 + f) for the same f', atanh_rest, mp.mpf(0),
              ((root - 1) / (root + 1)) ** 2, None, 7),
    'SIN': ('(sin(x) - x) / x**3 of x**2, |x| <= pi / 4', odd(mp.sin), mp.mpf(0), quarter, 3, 6),
    'COS': ('(cos(x) - 1 + x**2 / 2) / x**4 of x**2, |x| <= pi / 4',
            lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z ** 2, mp.mpf(0), quarter, 3, 6),
    'TANH': ('(tanh(x) - x) / x**3 of x**2, |x| <= 0.625', odd(mp.tanh), mp.mpf(0), mp.mpf('0.625') ** 2, 6, None),
    'ATAN': ('(atan(x) - x) / x**3 of x**2, |x| <= tan(pi / 8)', odd(mp.atan), mp.mpf(0), mp.tan(mp.pi / 8) ** 2, 4, 11),
    'ASIN': ('(asin(x) - x) / x**3 of x**2, |x| <= 1/2', odd(mp.asin), mp.mpf(0), mp.mpf('0.25'), 5, 12),
    'CBRT': ('cbrt(1 + f), sqrt(1/2) <= 1 + f <= sqrt(2)', lambda f: mp.cbrt(1 + f), root / 2 - 1, root - 1, 4, 7),
    'ERF_INV': ('(erfinv(x) / x - sqrt(pi) / 2) / w, w = -log(1 - x**2) = 3 (1 + t), |t| <= 1',
                lambda t: (erf_inv_of_log(3 * (1 + t)) - mp.sqrt(mp.pi) / 2) / (3 * (1 + t)), mp.mpf(-1), mp.mpf(1), 10, 23),
    'ERF_INV_FAR': ('erfinv(x) / x where sqrt(w) = 3.2 + 0.8 t', lambda t: erf_inv_of_log((16 + 4 * t) ** 2 / 25), mp.mpf(-1),
                    mp.mpf(1), 9, 20),
    'ERF_INV_FARTHEST': ('erfinv(x) / x where sqrt(w) = 5 + t', lambda t: erf_inv_of_log((5 + t) ** 2), mp.mpf(-1), mp.mpf('1.1'),
                         None, 18),
    'ERF': ('erf(x) / x - 1 of x**2, |x| <= 1', lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, mp.mpf(0), mp.mpf(1), 7, 12),
    'LOG_ERFC': ('log(erfc(x)), 1 <= x <= 4', lambda x: mp.log(mp.erfc(x)), mp.mpf(1), mp.mpf(4), 9, None),
    'ERFC': ('erfc(x) exp(x**2) / (1 - t) of t = (x - 2) / (x + 2), 1/2 <= x <= 27', scaled_erfc,
             mp.mpf('-0.6'), mp.mpf(25) / 29, None, 24),
}


def main() -> None:
    lines = ['"""Polynomials, constant term first, as tools/polynomials.py computes them: by item size of the dtype."""', '']
    for name, (what, f, low, high, single, double) in TABLE.items():
        lines += ['', f'# {what}', f'{name} = {{']
        for size, degree in ((4, single), (8, double)):
            if degree is not None:
                numbers = [repr(float(c)) for c in interpolated(f, low, high, degree)]
                rows = [', '.join(numbers[i:i + 5]) for i in range(0, len(numbers), 5)]
                lines.append(f'    {size}: (' + ',\n        '.join(rows) + '),')
        lines.append('}')
    TARGET.write_text('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
