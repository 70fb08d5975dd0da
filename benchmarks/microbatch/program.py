"""The microbatch step for distad and JAX: reduced weights, unreduced gradients, one reshard."""

from functools import partial

from measure import report
from problem import RATE, checksum, data
from side import RANK, RANKS, P, jax, jnp, mesh, part, place

mesh()


def loss(weights, x):
    return jnp.sum(jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0] ** 2)


@partial(jax.jit, donate_argnums=0)
def step(weights, xs):
    def microbatch(total, x):
        return total + jax.grad(loss)(weights, x), None
    total = jax.reshard(jnp.zeros_like(weights), P(unreduced={'X'}))
    gradient = jax.reshard(jax.lax.scan(microbatch, total, xs)[0], P())
    return jax.reshard(jax.reshard(weights, P()) - RATE * gradient, P(reduced={'X'}))


before, inputs = data(RANKS)
xs = place(inputs, P(None, 'X', None))
state = [step(jax.reshard(place(before, P()), P(reduced={'X'})), xs)]
check = checksum(before, part(state[0]))


def again() -> None:
    state[0] = step(state[0], xs)
    jax.block_until_ready(state[0])


report('step', again, check, rank=RANK)
