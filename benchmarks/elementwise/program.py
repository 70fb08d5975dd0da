"""The chains under jit, for distad and JAX."""

import numpy as np
from measure import report
from problem import DTYPES, arithmetic, arrays, transcendental
from side import jax, jnp

jax.config.update('jax_enable_x64', True)
f = jax.jit(lambda x, y: arithmetic(x, y, jnp.maximum, jnp.minimum))
g = jax.jit(lambda x, y: transcendental(x, y, jnp.tanh, jnp.exp, jnp.log))
for dtype in DTYPES:
    x, y = map(jnp.asarray, arrays(dtype))
    for name, chain in (('arithmetic', f), ('transcendental', g)):
        report(f'{name} {dtype}', lambda: jax.block_until_ready(chain(x, y)),  # noqa: B023
               float(np.abs(np.asarray(chain(x, y), 'd')).sum()))
