"""The products as einsum under jit, for distad and JAX."""

import numpy as np
from measure import report
from problem import CASES, operands
from side import jax, jnp

jax.config.update('jax_enable_x64', True)
for name, (dtype, a, b, formula) in CASES.items():
    x, y = map(jnp.asarray, operands(dtype, a, b))
    f = jax.jit(lambda x, y: jnp.einsum(formula, x, y))  # noqa: B023
    report(name, lambda: jax.block_until_ready(f(x, y)), float(np.abs(np.asarray(f(x, y), 'd')).sum()))  # noqa: B023
