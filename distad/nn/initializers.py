"""First values of weights: functions of `(key, shape, dtype, out_sharding)`.

The scaled ones keep the variance of what passes through a layer: lecun (LeCun et al. 1998), glorot (Glorot and Bengio 2010), he
(He et al. 2015). Each rank draws its block; nothing is sent.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distad import numpy as jnp
from distad import random
from distad.lax.placement import reshard

Initializer = Callable[..., Any]


def zeros(key: Any, shape: Sequence[int], dtype: Any = np.float32, out_sharding: Any = None) -> Any:
    """Zeros [shape]; the key is not used."""
    return jnp.zeros(shape, dtype, out_sharding=out_sharding)


def ones(key: Any, shape: Sequence[int], dtype: Any = np.float32, out_sharding: Any = None) -> Any:
    """Ones [shape]; the key is not used."""
    return jnp.ones(shape, dtype, out_sharding=out_sharding)


def constant(value: float) -> Initializer:
    """An initializer that gives one value everywhere."""
    return lambda key, shape, dtype=np.float32, out_sharding=None: jnp.full(shape, value, dtype, out_sharding=out_sharding)


def normal(stddev: float = 1e-2) -> Initializer:
    """Normal values of mean 0 and the given standard deviation."""
    def init(key, shape, dtype=np.float32, out_sharding=None):
        return random.normal(key, shape, dtype, out_sharding=out_sharding) * np.dtype(dtype).type(stddev)
    return init


def uniform(scale: float = 1e-2) -> Initializer:
    """Uniform values in [0, scale)."""
    def init(key, shape, dtype=np.float32, out_sharding=None):
        return random.uniform(key, shape, dtype, out_sharding=out_sharding) * np.dtype(dtype).type(scale)
    return init


def truncated_normal(stddev: float = 1e-2, lower: float = -2.0, upper: float = 2.0) -> Initializer:
    """Normal values of mean 0, cut at `lower` and `upper` times the given deviation, which makes theirs a little less."""
    def init(key, shape, dtype=np.float32, out_sharding=None):
        drawn = random.truncated_normal(key, lower, upper, shape, dtype, out_sharding=out_sharding)
        return drawn * np.dtype(dtype).type(stddev)
    return init


def orthogonal(scale: float = 1.0, column_axis: int = -1) -> Initializer:
    """Matrices with orthonormal rows or columns, times `scale`; all dimensions but `column_axis` are one."""
    def init(key, shape, dtype=np.float32, out_sharding=None):
        if len(shape) < 2:
            raise ValueError(f"orthogonal needs two dimensions or more, got shape {tuple(shape)}")
        columns = shape[column_axis]
        q = random.orthogonal(key, math.prod(shape) // columns, (), dtype, columns)
        others = [n for d, n in enumerate(shape) if d != column_axis % len(shape)]
        q = jnp.moveaxis(q.reshape(*others, columns), -1, column_axis) * np.dtype(dtype).type(scale)
        return q if out_sharding is None else reshard(q, out_sharding)
    return init


def variance_scaling(scale: float, mode: str, distribution: str, in_axis: int = -2, out_axis: int = -1) -> Initializer:
    """Values whose variance is `scale` over the number of inputs ('fan_in'), outputs ('fan_out') or their mean ('fan_avg').

    distribution: 'normal', 'truncated_normal' (cut at two standard deviations) or 'uniform'.
    """
    def init(key, shape, dtype=np.float32, out_sharding=None):
        if len(shape) < 2:
            raise ValueError(f"variance_scaling needs inputs and outputs, so two dimensions or more, got shape {tuple(shape)}")
        field = math.prod(shape) / (shape[in_axis] * shape[out_axis])
        fan_in, fan_out = shape[in_axis] * field, shape[out_axis] * field
        fans = {'fan_in': fan_in, 'fan_out': fan_out, 'fan_avg': (fan_in + fan_out) / 2}
        if mode not in fans:
            raise ValueError(f"variance_scaling: mode is one of {', '.join(fans)}, got {mode!r}")
        variance, cast = scale / fans[mode], np.dtype(dtype).type
        if distribution == 'normal':
            return random.normal(key, shape, dtype, out_sharding=out_sharding) * cast(math.sqrt(variance))
        if distribution == 'truncated_normal':
            kept = 0.87962566103423978                    # standard deviation of a standard normal cut at -2 and 2
            drawn = random.truncated_normal(key, -2, 2, shape, dtype, out_sharding=out_sharding)
            return drawn * cast(math.sqrt(variance) / kept)
        if distribution == 'uniform':
            drawn = random.uniform(key, shape, dtype, -1, out_sharding=out_sharding)
            return drawn * cast(math.sqrt(3 * variance))
        raise ValueError(f"variance_scaling: distribution is normal, truncated_normal or uniform, got {distribution!r}")
    return init


def _named(scale: float, mode: str, distribution: str) -> Callable[..., Initializer]:
    def make(in_axis: int = -2, out_axis: int = -1) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis)
    return make


glorot_normal = xavier_normal = _named(1.0, 'fan_avg', 'truncated_normal')
glorot_uniform = xavier_uniform = _named(1.0, 'fan_avg', 'uniform')
lecun_normal, lecun_uniform = _named(1.0, 'fan_in', 'truncated_normal'), _named(1.0, 'fan_in', 'uniform')
he_normal = kaiming_normal = _named(2.0, 'fan_in', 'truncated_normal')
he_uniform = kaiming_uniform = _named(2.0, 'fan_in', 'uniform')
