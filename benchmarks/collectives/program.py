"""All-reduce as a program of distad or JAX sees it: psum under jit; for distad also the call that carries it, in place, as an
equation of a compiled program makes it."""

import numpy as np
from measure import report
from problem import SIZES, calls, label
from side import RANK, RANKS, SIDE, P, jax, mesh, place

if SIDE == 'distad':
    from distad.runtime.collectives import reducer
    from distad.runtime.recorder import Where

mesh()
psum = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'X'), in_specs=P('X'), out_specs=P()))
for size in SIZES:
    x = place(np.zeros(size // 4 * RANKS, 'f'), P('X'))
    report(f'psum, jit, {label(size)}', lambda: jax.block_until_ready(psum(x)), calls=calls(size), rank=RANK)  # noqa: B023
    if SIDE == 'distad':
        move = reducer(jax.get_mesh(), ('X',), 'sum', Where('jit(step)/psum', 'program.py'))
        block = np.zeros(size // 4, 'f')
        report(f'in place, {label(size)}', lambda: move(block, True), calls=calls(size), rank=RANK)  # noqa: B023
