"""Activation functions, element by element: as `distad.numpy`, they keep placements and communicate nothing."""

from collections.abc import Callable
from math import log as ln
from math import pi, sqrt

from distad import numpy as jnp
from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.core.value import Value
from distad.lax.documentation import NONLINEAR, documented
from distad.numpy.promotion import ArrayLike, inexact
from distad.ops import activation, elementary, special


def _function(name: str, f: Callable[..., Value], what: str, gives: str = "x's dtype (float32 for integers)",
              unreduced: str = NONLINEAR) -> Callable[..., Value]:
    """A function of an array, and perhaps of numbers, with a docstring."""
    return documented(f, name, what, gives=gives, unreduced=unreduced, module='nn')


def _rectifier(name: str, primitive: Primitive, what: str) -> Callable[[ArrayLike], Value]:
    def f(x: ArrayLike) -> Value:
        return primitive(as_value(x, name))
    return _function(name, f, what, "x's dtype")


relu = _rectifier('relu', activation.relu, 'max(x, 0); its derivative at zero is zero.')
relu6 = _rectifier('relu6', activation.relu6, 'x between 0 and 6; its derivative at both is zero.')


def _identity(x: ArrayLike) -> Value:
    return as_value(x, 'identity')


def _sigmoid(x: ArrayLike) -> Value:
    return elementary.logistic(inexact(x, 'sigmoid'))


def _softplus(x: ArrayLike) -> Value:
    return jnp.logaddexp(x, 0.0)


def _sparse_plus(x: ArrayLike) -> Value:
    x = inexact(x, 'sparse_plus')
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


def _sparse_sigmoid(x: ArrayLike) -> Value:
    return 0.5 * jnp.clip(inexact(x, 'sparse_sigmoid') + 1.0, 0.0, 2.0)


def _soft_sign(x: ArrayLike) -> Value:
    x = inexact(x, 'soft_sign')
    return x / (abs(x) + 1)


def _silu(x: ArrayLike) -> Value:
    x = inexact(x, 'silu')
    return x * elementary.logistic(x)


def _log_sigmoid(x: ArrayLike) -> Value:
    return -_softplus(-inexact(x, 'log_sigmoid'))


def _hard_tanh(x: ArrayLike) -> Value:
    x = as_value(x, 'hard_tanh')
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


def _hard_sigmoid(x: ArrayLike) -> Value:
    return relu6(as_value(x, 'hard_sigmoid') + 3.0) / 6.0


def _hard_silu(x: ArrayLike) -> Value:
    x = inexact(x, 'hard_silu')
    return x * _hard_sigmoid(x)


def _mish(x: ArrayLike) -> Value:
    x = inexact(x, 'mish')
    return x * jnp.tanh(_softplus(x))


def _log1mexp(x: ArrayLike) -> Value:
    x = inexact(x, 'log1mexp')
    return jnp.where(x < ln(2), jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


identity = _function('identity', _identity, 'x itself.', "x's dtype", 'nothing, for it is linear')
tanh = jnp.tanh
sigmoid = _function('sigmoid', _sigmoid, '1 / (1 + exp(-x)).')
softplus = _function('softplus', _softplus, 'log(1 + exp(x)).')
sparse_plus = _function('sparse_plus', _sparse_plus, '0 below -1, x above 1, the parabola (x + 1) ** 2 / 4 between.')
sparse_sigmoid = _function('sparse_sigmoid', _sparse_sigmoid, '0 below -1, 1 above 1, the line (x + 1) / 2 between.')
soft_sign = _function('soft_sign', _soft_sign, 'x / (abs(x) + 1).')
silu = swish = _function('silu', _silu, 'x * sigmoid(x).')
log_sigmoid = _function('log_sigmoid', _log_sigmoid, 'log(sigmoid(x)).')
hard_tanh = _function('hard_tanh', _hard_tanh, 'x between -1 and 1.', "x's dtype")
hard_sigmoid = _function('hard_sigmoid', _hard_sigmoid, 'relu6(x + 3) / 6.')
hard_silu = hard_swish = _function('hard_silu', _hard_silu, 'x * hard_sigmoid(x).')
mish = _function('mish', _mish, 'x * tanh(softplus(x)).')
log1mexp = _function('log1mexp', _log1mexp, 'log(1 - exp(-x)) for x > 0, exact near zero and far from it.')


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Value:
    """x above zero, alpha * (exp(x) - 1) below (Clevert and others 2016, arXiv:1511.07289).

    x: [...], numbers. The result has x's shape and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced x.

        nn.elu(-1.0)
    """
    x = inexact(x, 'elu')
    below = jnp.where(x > 0, 0.0, x)                # expm1 of a large x would be infinite, and 0 * inf no gradient
    return jnp.where(x > 0, x, alpha * jnp.expm1(below))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Value:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1), with a continuous derivative (Barron 2017, arXiv:1704.07483).

    x: [...], numbers. The result has x's shape and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced x.

        nn.celu(-1.0, 2.0)
    """
    x = inexact(x, 'celu')
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


def selu(x: ArrayLike) -> Value:
    """A scaled elu that keeps mean 0 and variance 1 (Klambauer and others 2017, arXiv:1706.02515).

    x: [...], numbers. The result has x's shape and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced x.

        nn.selu(-1.0)
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Value:
    """x above zero, negative_slope * x below.

    x: [...], numbers. The result has x's shape and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced x.

        nn.leaky_relu(-1.0)
    """
    x = as_value(x, 'leaky_relu')
    return jnp.where(x >= 0, x, negative_slope * x)


def gelu(x: ArrayLike, approximate: bool = True) -> Value:
    """x times the normal distribution function at x, or an approximation with tanh (Hendrycks and Gimpel, arXiv:1606.08415).

    x: [...], numbers. The result has x's shape and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced x.

        nn.gelu(1.0)
    """
    x = inexact(x, 'gelu')
    if approximate:
        return x * (0.5 * (1.0 + jnp.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))))
    return 0.5 * x * special.erfc(-x * sqrt(0.5))


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Value:
    """(x + sqrt(x ** 2 + b)) / 2 (Barron 2021, arXiv:2112.11687).

    x: [...], numbers. The result has x's shape and placement. Nothing is communicated. Raises ShardingTypeError for an
    unreduced x.

        nn.squareplus(1.0)
    """
    x = inexact(x, 'squareplus')
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2


def glu(x: ArrayLike, axis: int = -1) -> Value:
    """The first half of x along `axis`, times the sigmoid of the second (Dauphin and others 2017, arXiv:1612.08083).

    x: [..., 2n, ...]. The result has shape [..., n, ...]. If the dimension is split it is gathered first (an all-gather);
    nothing else is communicated. Raises ValueError for an odd size, ShardingTypeError for an unreduced x.

        nn.glu(jnp.ones(4))
    """
    x = as_value(x, 'glu')
    if x.shape[axis] % 2:
        raise ValueError(f"glu needs an even size of dimension {axis}, got {x.type}")
    value, gate = jnp.split(x, 2, axis)
    return value * _sigmoid(gate)


__all__ = ['celu', 'elu', 'gelu', 'glu', 'hard_sigmoid', 'hard_silu', 'hard_swish', 'hard_tanh', 'identity',
           'leaky_relu', 'log1mexp', 'log_sigmoid', 'mish', 'relu', 'relu6', 'selu', 'sigmoid', 'silu', 'soft_sign',
           'softplus', 'sparse_plus', 'sparse_sigmoid', 'squareplus', 'swish', 'tanh']
