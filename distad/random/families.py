"""Distributions made of others: functions of uniform, normal and exponential numbers.

Parameters are numbers or arrays that broadcast to the shape, which by default is theirs; the result lies as they do unless
`out_sharding` says otherwise, and can be differentiated by them. Nothing is communicated. The dtype is a float one, by default float32
(float64 with x64); another one raises ValueError, as do parameters that do not broadcast.
"""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from distad import numpy as jnp
from distad.core.lift import as_value
from distad.core.value import Value
from distad.lax.creation import on_mesh_of
from distad.lax.dims import shape_of
from distad.lax.kind import with_sharding
from distad.lax.shape import Sharding
from distad.ops.random import random_split
from distad.random.continuous import exponential, normal
from distad.random.draws import broadcast, float_dtype, parameter, place, random_between, random_unit
from distad.random.keys import as_keys, single
from distad.random.uniform import rademacher
from distad.types import dtypes
from distad.types.sharding import NamedSharding

Shape = int | Sequence[int] | None
_Draw = Callable[[Value, tuple[int, ...], np.dtype, NamedSharding | None], Value]


def _drawn(name: str, key: Any, shape: Shape, dtype: Any, out_sharding: Sharding, draw: _Draw, make: Callable[..., Value],
           *parameters: Any) -> Value:
    """What `make` makes of drawn numbers and the parameters, in the sharding asked for."""
    dtype = float_dtype(name, dtype)
    shape = broadcast(name, None if shape is None else shape_of(name, shape), *parameters)
    with on_mesh_of(out_sharding):
        given = [parameter(name, x, dtype) for x in parameters]
        drawn = draw(single(name, key), shape, dtype, place(shape, out_sharding, *given))
        return with_sharding(make(drawn, *given), out_sharding)


def _from(low: Callable[[np.dtype], float]) -> _Draw:
    """Uniform numbers below 1 from one on at which what is made of them is finite."""
    return lambda key, shape, dtype, where: random_between(key, shape, dtype, dtype.type(low(dtype)), dtype.type(1), where)


def _normal(key: Value, shape: tuple[int, ...], dtype: np.dtype, where: NamedSharding | None) -> Value:
    return normal(key, shape, dtype, out_sharding=where)


def _exponential(key: Value, shape: tuple[int, ...], dtype: np.dtype, where: NamedSharding | None) -> Value:
    return exponential(key, shape, dtype, out_sharding=where)


_above_zero, _above_eps = _from(lambda dtype: ml_dtypes.finfo(dtype).tiny), _from(lambda dtype: ml_dtypes.finfo(dtype).eps)


def logistic(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """The logistic distribution: distribution function 1 / (1 + exp(-x)).

    >>> x = random.logistic(random.key(0), (8,))
    """
    return _drawn('logistic', key, shape, dtype, out_sharding, _above_zero, lambda u: jnp.log(u / (1 - u)))


def cauchy(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """The Cauchy distribution: density 1 / (pi (1 + x^2)).

    >>> x = random.cauchy(random.key(0), (8,))
    """
    return _drawn('cauchy', key, shape, dtype, out_sharding, _above_eps, lambda u: jnp.tan(np.pi * (u - 0.5)))


def rayleigh(key: Any, scale: Any, shape: Shape = None, dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """The Rayleigh distribution of a scale: density proportional to x exp(-x^2 / (2 scale^2)) for x above 0.

    >>> x = random.rayleigh(random.key(0), 2., (8,))
    """
    return _drawn('rayleigh', key, shape, dtype, out_sharding, random_unit, lambda u, s: s * jnp.sqrt(-2 * jnp.log(u)), scale)


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Shape = (), dtype: Any = None, *,
                out_sharding: Sharding = None) -> Value:
    """The Weibull distribution: distribution function 1 - exp(-(x / scale)^concentration) for x above 0.

    >>> x = random.weibull_min(random.key(0), 1., 2., (8,))
    """
    return _drawn('weibull_min', key, shape, dtype, out_sharding, random_unit,
                  lambda u, s, c: s * jnp.power(-jnp.log1p(-u), 1 / c), scale, concentration)


def pareto(key: Any, b: Any, shape: Shape = None, dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """The Pareto distribution of a shape: density b / x^(b + 1) for x above 1.

    >>> x = random.pareto(random.key(0), 3., (8,))
    """
    return _drawn('pareto', key, shape, dtype, out_sharding, _exponential, lambda e, b: jnp.exp(e / b), b)


def lognormal(key: Any, sigma: Any = 1., shape: Shape = None, dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """The exponential of normal numbers of mean 0 and standard deviation sigma.

    >>> x = random.lognormal(random.key(0), 0.5, (8,))
    """
    return _drawn('lognormal', key, shape, dtype, out_sharding, _normal, lambda z, s: jnp.exp(z * s), sigma)


def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Shape = None, dtype: Any = None, *,
               out_sharding: Sharding = None) -> Value:
    """The triangular distribution: a density that rises from `left` to `mode` and falls to `right`.

    >>> x = random.triangular(random.key(0), 0., 1., 3., (8,))
    """
    def make(u: Value, low: Any, top: Any, high: Any) -> Value:
        rising = low + jnp.sqrt(u * (high - low) * (top - low))
        falling = high - jnp.sqrt((1 - u) * (high - low) * (high - top))
        return jnp.where(u < (top - low) / (high - low), rising, falling)
    return _drawn('triangular', key, shape, dtype, out_sharding, random_unit, make, left, mode, right)


def geometric(key: Any, p: Any, shape: Shape = None, dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """How many trials it takes until the first succeeds, each with probability p: integers from 1 on, of an integer `dtype`.

    >>> x = random.geometric(random.key(0), 0.5, (8,))
    """
    dtype = dtypes.canonical(np.int64 if dtype is None else dtype)
    if dtype.kind not in 'iu':
        raise ValueError(f'geometric: the dtype must be an integer one, not {dtypes.name(dtype)}')
    drawn = _drawn('geometric', key, shape, None, out_sharding, random_unit,
                   lambda u, p: jnp.floor(jnp.log(u) / jnp.log1p(-p)) + 1, p)
    return drawn.astype(dtype)


def maxwell(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Sharding = None) -> Value:
    """The length of a vector of three normal numbers: density proportional to x^2 exp(-x^2 / 2) for x above 0.

    >>> x = random.maxwell(random.key(0), (8,))
    """
    def draw(key: Value, shape: tuple[int, ...], dtype: np.dtype, where: NamedSharding | None) -> Value:
        parts = where if where is None else where.update(spec=type(where.spec)(*where.spec.partitions, None))
        return jnp.linalg.norm(normal(key, (*shape, 3), dtype, out_sharding=parts), axis=-1)
    return _drawn('maxwell', key, shape, dtype, out_sharding, draw, lambda x: x)


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Shape = (), dtype: Any = None, *,
                         out_sharding: Sharding = None) -> Value:
    """`maxwell` times scale, with a random sign, about loc.

    >>> x = random.double_sided_maxwell(random.key(0), 0., 1., (8,))
    """
    def draw(key: Value, shape: tuple[int, ...], dtype: np.dtype, where: NamedSharding | None) -> Value:
        keys = random_split(key, shape=(2,))
        sizes = maxwell(keys[0], shape, dtype, out_sharding=where)
        return sizes * rademacher(keys[1], shape, dtype, out_sharding=where)
    return _drawn('double_sided_maxwell', key, shape, dtype, out_sharding, draw, lambda x, m, s: x * s + m, loc, scale)


def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Shape = None, dtype: Any = None, method: str = 'cholesky') -> Value:
    """Vectors of normal numbers with these means and covariances.

    mean: [..., n]; cov: [..., n, n], whole in n; shape: of the batch, by default that of the parameters. method: 'cholesky', the factor
    with which independent numbers are multiplied. Returns [*shape, n].

    >>> x = random.multivariate_normal(random.key(0), np.float32([0, 1]), np.float32([[2, 1], [1, 2]]), (8,))
    """
    if method != 'cholesky':
        raise NotImplementedError(f"multivariate_normal by {method!r}: there is method='cholesky'")
    dtype = float_dtype('multivariate_normal', dtype)
    mean, cov = (parameter('multivariate_normal', x, dtype) for x in (as_value(mean, 'multivariate_normal'), cov))
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-2:] != (mean.shape[-1],) * 2:
        raise ValueError(f"multivariate_normal takes means [.., n] and covariances [.., n, n], got {mean.type} and {cov.type}")
    batch = np.broadcast_shapes(mean.shape[:-1], cov.shape[:-2]) if shape is None else shape_of('multivariate_normal', shape)
    drawn = normal(key, (*batch, mean.shape[-1]), dtype)
    return mean + jnp.einsum('...ij,...j->...i', jnp.linalg.cholesky(cov), drawn)


def orthogonal(key: Any, n: int, shape: Shape = (), dtype: Any = None, m: int | None = None) -> Value:
    """Orthogonal (of a complex dtype unitary) matrices, all alike probable: [*shape, n, m] with orthonormal columns or rows; m is n.

    Source: F. Mezzadri, "How to generate random matrices from the classical compact groups", Notices AMS 54 (2007).

    >>> q = random.orthogonal(random.key(0), 3)
    """
    dtype = float_dtype('orthogonal', dtype, or_complex=True)
    m = n if m is None else m
    drawn = normal(key, (*shape_of('orthogonal', shape), max(n, m), min(n, m)), dtype)
    q, r = jnp.linalg.qr(drawn)
    d = jnp.diagonal(r, axis1=-2, axis2=-1)
    q = q * jnp.expand_dims(d / jnp.abs(d), -2)
    return q if n >= m else jnp.conj(jnp.matrix_transpose(q))


def clone(key: Any) -> Value:
    """The key once more, to draw the same numbers again on purpose.

    >>> again = random.clone(random.key(0))
    """
    return as_value(key, 'clone')


def key_impl(keys: Any) -> str:
    """The generator of keys: 'threefry2x32', the one there is.

    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    as_keys('key_impl', keys)
    return 'threefry2x32'
