"""How often, and how together: counts of integers and in bins, covariance, correlation, convolution.

Where observations are split, each rank counts or multiplies its own, and one all-reduce of the result follows.
"""

import operator
from typing import Any

import numpy as np

from distad.core.lift import as_value, read
from distad.core.value import Value, typeof
from distad.errors import ConcretizationTypeError
from distad.lax import slicing
from distad.lax.contraction import contraction
from distad.lax.convolution import conv_general_dilated
from distad.lax.kind import kindly, settle, whole_along
from distad.lax.shape import Sharding
from distad.numpy.at import At
from distad.numpy.creation import linspace, ones_like, zeros
from distad.numpy.cumulative import diff
from distad.numpy.diagonals import diagonal
from distad.numpy.elementwise import conj
from distad.numpy.indexing import getitem
from distad.numpy.joining import concatenate, flip
from distad.numpy.known import known
from distad.numpy.linear import outer
from distad.numpy.logic import clip, where
from distad.numpy.promotion import ArrayLike, converted, inexact, promoted
from distad.numpy.reductions import max, min, sum
from distad.numpy.shapes import atleast_2d, ravel, transpose
from distad.numpy.sorting import searchsorted
from distad.numpy.statistics import average
from distad.ops import arithmetic, powers
from distad.ops.broadcast import expand_dims
from distad.ops.complex import real
from distad.ops.shape import squeeze

# ---- counts

def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None,
             out_sharding: Sharding = None) -> Value:
    """How often each number from 0 on is there, or the sum of the weights where it is.

    x: int[n], those below 0 count as 0; weights: [n]; length: the size of the result, which it needs under jit; larger numbers are
    left out. Without it the size is the greatest number and one, or `minlength`.
    Communication: an all-reduce of the result where x is split, unless `out_sharding` leaves that sum to come.
    Raises ConcretizationTypeError for traced numbers without `length`.

        jnp.bincount(jnp.array([1, 1, 3]), length=4)      # 0, 2, 0, 1
    """
    numbers = as_value(x, 'bincount')
    if numbers.ndim != 1 or numbers.dtype.kind not in 'iu':
        raise TypeError(f"bincount takes a vector of integers, got {numbers.type}")
    if length is None:
        array = known(numbers)
        if array is None:
            raise ConcretizationTypeError(f"bincount of traced numbers of type {numbers.type} needs length=n: how many there are is "
                                          "not known while the program is traced.")
        found = known(max(numbers, initial=-1))
        length = np.maximum(operator.index(minlength), int(read(found)) + 1)
    counted = ones_like(numbers, np.int32) if weights is None else as_value(weights, 'bincount')
    empty = zeros(operator.index(length), typeof(counted).dtype)
    return At(empty)[clip(numbers, 0)].add(counted, mode='drop', out_sharding=out_sharding)


def histogram_bin_edges(a: ArrayLike, bins: int | ArrayLike = 10, range: ArrayLike | None = None,
                        weights: ArrayLike | None = None) -> Value:
    """The ends of bins of one width from the least to the greatest element, or over a `range`; or the given ends.

    a: [...]; bins: a number of bins, or their ends. Returns [bins + 1], whole. Communication: two all-reduces of one number where a
    is split and no range is given.

        jnp.histogram_bin_edges(jnp.arange(5.), 2)        # 0., 2., 4.
    """
    x = inexact(as_value(a, 'histogram'), 'histogram')
    if np.ndim(bins):
        return converted(as_value(bins if isinstance(bins, Value) else np.asarray(bins), 'histogram'), x.dtype, False)
    low, high = (min(x), max(x)) if range is None else (converted(as_value(v, 'histogram'), x.dtype, False) for v in range)
    half = where(low == high, x.dtype.type(0.5), x.dtype.type(0))
    return linspace(kindly(arithmetic.sub, low, half), kindly(arithmetic.add, high, half), operator.index(bins) + 1, dtype=x.dtype)


def histogram(a: ArrayLike, bins: int | ArrayLike = 10, range: ArrayLike | None = None, weights: ArrayLike | None = None,
              density: bool | None = None) -> tuple[Value, Value]:
    """How many elements lie in each bin, and the ends of the bins. The last bin has its right end.

    a: [...]; weights: [...], what elements count instead of 1; density: whether counts are divided by their sum and the bins' widths.
    Communication: an all-reduce of the counts where a is split, besides that of `histogram_bin_edges`.

        jnp.histogram(jnp.arange(5.), 2)                  # (2., 3.), (0., 2., 4.)
    """
    x = ravel(inexact(as_value(a, 'histogram'), 'histogram'))
    edges = histogram_bin_edges(x, bins, range)
    count = edges.size
    place = searchsorted(edges, x, side='right')
    place = where(x == getitem(edges, -1), np.int32(count - 1), place)
    counted = ones_like(x) if weights is None else ravel(as_value(weights, 'histogram'))
    found = At(zeros(count, typeof(counted).dtype))[place].add(counted, mode='drop')
    found = slicing.slice_in_dim(found, 1, None)
    if density:
        found = found / diff(edges) / sum(found)
    return found, edges


# ---- covariance

def cov(m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
        fweights: ArrayLike | None = None, aweights: ArrayLike | None = None) -> Value:
    """Covariances of variables, of which each row has the observations.

    m: [p, n], or [n] for one variable; y: more rows; rowvar: whether variables are rows (else columns); ddof: what is taken off the
    number of observations (1, or 0 if `bias`); fweights, aweights: [n], how often, and how much, observations count.
    Returns: [p, p], whole; a number for one variable.
    Communication: two all-reduces where observations are split. Raises ShardingTypeError where variables are.

        jnp.cov(jnp.array([[0., 1., 2.], [2., 1., 0.]]))
    """
    rows = [_variables(v, rowvar) for v in (m, y) if v is not None]
    x = concatenate(rows, 0) if len(rows) == 2 else rows[0]
    weights = [as_value(w, 'cov') for w in (fweights, aweights) if w is not None]
    w = None if not weights else weights[0] if len(weights) == 1 else weights[0] * weights[1]
    ddof = (0 if bias else 1) if ddof is None else ddof
    x = x - average(x, 1, weights=w, keepdims=True)
    if w is None:
        degrees, weighed = x.dtype.type(x.shape[1] - ddof), x
    else:
        total = sum(w)
        degrees = total - ddof * (1 if aweights is None else sum(w * as_value(aweights, 'cov')) / total)
        weighed = x * w
    x, weighed = promoted('cov', x, weighed)
    products = contraction('cov', weighed, conj(x), (((1,), (1,)), ((), ())), None, None, keep=True)
    c = settle(products, x) / degrees
    return c if c.shape != (1, 1) else getitem(c, (0, 0))


def _variables(v: ArrayLike, rowvar: bool) -> Value:
    x = inexact(as_value(v, 'cov'), 'cov')
    if x.ndim > 2:
        raise ValueError(f"cov takes arrays of at most two dimensions, got {x.type}")
    return transpose(x) if x.ndim == 2 and not rowvar else atleast_2d(x)


def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True) -> Value:
    """Correlation coefficients of variables, between -1 and 1. Arguments, communication and errors as of `cov`.

        jnp.corrcoef(jnp.array([[0., 1., 2.], [2., 1., 0.]]))
    """
    c = cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    spread = diagonal(c)
    spread = kindly(powers.sqrt, kindly(real, spread) if c.dtype.kind == 'c' else spread)
    r = c / outer(spread, spread)
    return r if c.dtype.kind == 'c' else clip(r, -1, 1)


# ---- convolution

def convolve(a: ArrayLike, v: ArrayLike, mode: str = 'full', *, precision: Any = None, preferred_element_type: Any = None) -> Value:
    """The sums of products of two vectors of which one is turned round and moved along the other.

    a: [n]; v: [m]; mode: 'full' gives [n + m - 1], 'same' the middle max(n, m), 'valid' those where the vectors overlap wholly.
    The result is a float, split as the longer vector. Linear in each; one may be unreduced. Communication: where the longer one is
    split and the result has its size, blocks' borders go to the neighbours in at most two messages; where it has another size the
    vector is gathered. A split shorter one is gathered. Raises ShardingTypeError where the size does not divide.

        jnp.convolve(jnp.array([1., 2.]), jnp.array([1., 1.]))    # 1., 3., 2.
    """
    x, y = (inexact(v, 'convolve') for v in promoted('convolve', as_value(a, 'convolve'), as_value(v, 'convolve')))
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        raise ValueError(f"convolve takes two vectors with elements, got {x.type} and {y.type}")
    if mode not in ('full', 'same', 'valid'):
        raise ValueError(f"convolve: mode is 'full', 'same' or 'valid', got {mode!r}")
    if x.size < y.size:
        x, y = y, x
    m = y.size
    pads = {'full': (m - 1, m - 1), 'same': (m // 2, (m - 1) // 2), 'valid': (0, 0)}[mode]
    signal, kernel = (expand_dims(v, (0, 1)) for v in (x, flip(whole_along(y, (0,)))))
    return squeeze(conv_general_dilated(signal, kernel, (1,), [pads], preferred_element_type=preferred_element_type), dimensions=(0, 1))


def correlate(a: ArrayLike, v: ArrayLike, mode: str = 'valid', *, precision: Any = None, preferred_element_type: Any = None) -> Value:
    """The sums of products of two vectors of which the second, conjugated, is moved along the first. All else as `convolve`.

        jnp.correlate(jnp.array([1., 2., 3.]), jnp.array([0., 1.]))       # 2., 3.
    """
    x, y = as_value(a, 'correlate'), as_value(v, 'correlate')
    if x.size < y.size:
        return conj(flip(correlate(y, x, mode, preferred_element_type=preferred_element_type)))
    return convolve(x, conj(flip(y)), mode, preferred_element_type=preferred_element_type)


__all__ = ['bincount', 'convolve', 'corrcoef', 'correlate', 'cov', 'histogram', 'histogram_bin_edges']
