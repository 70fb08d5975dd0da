"""The heat equation for distad and JAX: a map over the ranks, with two permutations a step."""

from measure import report
from problem import RATE, STEPS, data
from side import RANK, RANKS, P, jax, jnp, mesh, place, total

mesh()
DOWN = [(i, i + 1) for i in range(RANKS - 1)]
UP = [(i + 1, i) for i in range(RANKS - 1)]


def step(u, _):
    above = jax.lax.ppermute(u[-1:], 'X', DOWN)
    below = jax.lax.ppermute(u[:1], 'X', UP)
    v = jnp.pad(jnp.concatenate([above, u, below]), ((0, 0), (1, 1)))
    return u + RATE * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * u), None


run = jax.shard_map(lambda u: jax.lax.scan(step, u, None, length=STEPS)[0], in_specs=P('X'), out_specs=P('X'))
forward = jax.jit(run)
gradient = jax.jit(jax.grad(lambda u: 0.5 * jnp.sum(run(u) ** 2)))
u = place(data(), P('X'))
report('forward', lambda: jax.block_until_ready(forward(u)), total(forward(u)), calls=8, warm=2, rank=RANK)
report('gradient', lambda: jax.block_until_ready(gradient(u)), total(gradient(u)), calls=8, warm=2, rank=RANK)
