"""What a call costs besides its arithmetic, for distad and JAX: arrays of 4 elements, one device or split over two ranks."""

import numpy as np
from measure import report
from side import RANK, RANKS, P, jax, jnp, mesh, place

if RANKS > 1:
    mesh()
    x, y, w = place(np.ones(4, 'f'), P('X')), place(np.ones(4, 'f'), P('X')), place(np.ones((4, 4), 'f'), P('X', None))
else:
    x, y, w = jnp.ones(4), jnp.ones(4), jnp.ones((4, 4))
ten = [x] * 10
plain = jax.jit(lambda x, y: x * 2 + y)
tree = jax.jit(lambda xs: [x + 1 for x in xs])
flat = jax.jit(lambda *xs: xs[0] + 1)
for name, call in (('x + y', lambda: x + y), ('x * 2.0', lambda: x * 2.0), ('tanh', lambda: jnp.tanh(x)), ('x.sum()', lambda: w.sum(1)),
                   ('jit, 2 arrays', lambda: plain(x, y)), ('jit, 10 arrays, 1 result', lambda: flat(*ten)),
                   ('jit, list of 10, 10 results', lambda: tree(ten))):
    report(name, call, inner=500, rank=RANK)
gradient = jax.grad(lambda v: sum([v + y for _ in range(10)]).sum())
report('grad of 10 adds, eager', lambda: gradient(x), inner=5, rank=RANK)
