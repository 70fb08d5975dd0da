"""Random numbers: functions of a key, so the same program draws the same numbers on every mesh and every run.

    key = random.key(0)
    a, b = random.split(key)                      # a key is used once; split it for more
    x = random.normal(a, (8, 4), out_sharding=P('X'))

There is no state. A sampler is a few equations over `random_bits`, whose element at a position of the whole array depends on
the key and the position only. So a split result is made split, each rank makes its block, and no sampler communicates. Without
`out_sharding` the numbers lie as the array parameters of the distribution do (a mask for the probabilities `p[m@X]` is split
over X); without those, on every rank. Inside `shard_map` a key that is the same on all ranks draws the same numbers on each:
fold in the rank's index for others.

Keys, bits and recipes are those of JAX 0.12, number for number; floats agree up to rounding.
"""

from distad.random.continuous import exponential, gumbel, laplace, normal, truncated_normal
from distad.random.families import (
    cauchy,
    clone,
    double_sided_maxwell,
    geometric,
    key_impl,
    logistic,
    lognormal,
    maxwell,
    multivariate_normal,
    orthogonal,
    pareto,
    rayleigh,
    triangular,
    weibull_min,
)
from distad.random.keys import PRNGKey, fold_in, key, key_data, split, wrap_key_data
from distad.random.selection import categorical, choice, permutation
from distad.random.uniform import bernoulli, bits, rademacher, randint, uniform
from distad.source import bounded

__all__ = ['PRNGKey', 'bernoulli', 'bits', 'categorical', 'cauchy', 'choice', 'clone', 'double_sided_maxwell', 'exponential',
           'fold_in', 'geometric', 'gumbel', 'key', 'key_data', 'key_impl', 'laplace', 'logistic', 'lognormal', 'maxwell',
           'multivariate_normal', 'normal', 'orthogonal', 'pareto', 'permutation', 'rademacher', 'randint', 'rayleigh', 'split',
           'triangular', 'truncated_normal', 'uniform', 'weibull_min', 'wrap_key_data']

bounded(globals())
