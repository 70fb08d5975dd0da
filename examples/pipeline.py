"""A pipeline over microbatches: each rank has some of the layers, and activations travel from rank to rank.

    mpirun -n 2 python examples/pipeline.py

In round t rank r has microbatch t - r: it applies its layers and hands the result on to rank r + 1. After M + N - 1 rounds the last
of M microbatches has left the last of N ranks. Only the forward pipeline is written here. Its gradient is a pipeline that runs
backward, since the transpose of handing on is handing back, of a scan a scan in reverse; each rank's gradients sum up as the
microbatches come back, and never leave it. A rank keeps what enters its layers and computes the rest again (checkpoint).
"""

import numpy as np
from common import Parser, expect, require, say, sends

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives

P = jax.P


@jax.checkpoint
def stage(weights, x):
    """This rank's layers. weights: [l, d, d], x: [b, d] -> [b, d]"""
    return lax.scan(lambda x, w: (x + jnp.tanh(x @ w), None), x, weights)[0]


@jax.shard_map(in_specs=(P('X'), P(), P()), out_specs=P())
def loss(weights, xs, ys):
    """weights: [layers@X, d, d]; xs and ys: [M, b, d], read by the first and by the last rank -> [], the mean square error"""
    ranks, rank = lax.axis_size('X'), lax.axis_index('X')
    to_next = [(r, r + 1) for r in range(ranks - 1)]
    waiting = jnp.zeros((ranks - 1, *xs.shape[1:]))                 # rounds in which nothing new enters, or nothing leaves yet

    def one_round(arrived, x):
        y = stage(weights, jnp.where(rank == 0, x, arrived))
        return lax.ppermute(y, 'X', to_next), y

    nothing = lax.pcast(jnp.zeros(xs.shape[1:]), 'X', to='varying')
    _, left = lax.scan(one_round, nothing, jnp.concatenate([xs, waiting]))
    error = jnp.mean((left[ranks - 1:] - ys) ** 2)                  # on the last rank; elsewhere of no meaning
    return lax.psum(jnp.where(rank == ranks - 1, error, 0), 'X')


@jax.jit
def step(weights, xs, ys):
    value, grads = jax.value_and_grad(loss)(weights, xs, ys)
    return weights - 0.2 * grads, value


def reference(weights, xs, ys):
    """`step` by hand in NumPy, on one rank and without microbatches."""
    x, y = (a.reshape(-1, a.shape[-1]) for a in (xs, ys))
    inputs = [x]
    for w in weights:
        inputs.append(inputs[-1] + np.tanh(inputs[-1] @ w))
    value, dx, grads = np.mean((inputs[-1] - y) ** 2), 2 * (inputs[-1] - y) / y.size, []
    for w, a in reversed(list(zip(weights, inputs))):
        inner = dx * (1 - np.tanh(a @ w) ** 2)
        grads.append(a.T @ inner)
        dx = dx + inner @ w.T
    return weights - 0.2 * np.array(grads[::-1]), value


def main() -> None:
    parser = Parser(__doc__)
    parser.number('layers', 12, 'layers, a multiple of the ranks')
    parser.number('microbatches', 8, 'microbatches a step')
    parser.number('steps', 10, 'steps of gradient descent')
    options = parser.parse_args()
    ranks, layers, count = jax.process_count(), options.layers, options.microbatches
    if layers % ranks:
        parser.error(f"--layers must be a multiple of the {ranks} ranks")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    rng, d = np.random.default_rng(0), 16
    xs, ys = rng.normal(size=(2, count, 4, d)).astype('float32')
    plain = rng.normal(0, 0.3 / np.sqrt(d), (layers, d, d)).astype('float32')
    weights = jax.device_put(plain, P('X'))
    say(f"{layers} layers on {ranks} ranks, {count} microbatches: {count + ranks - 1} rounds, "
        f"of which a rank waits {ranks - 1} ({100 * (ranks - 1) / (count + ranks - 1):.0f} %)")

    with count_collectives() as there:
        jax.jit(loss)(weights, xs, ys)
    say(f"forward: {sends(there)}")
    for i in range(1, options.steps + 1):
        with count_collectives() as both:
            weights, value = step(weights, xs, ys)
        plain, wanted = reference(plain, xs, ys)
        if i == 1 or i == options.steps:
            say(f"step {i}: loss {float(value):.6f}  forward and backward: {sends(both)}")
    rounds = count + ranks - 1
    require(ranks == 1 or both.by_op == {'collective-permute': 2 * rounds, 'all-reduce': 1},
            f"a step sends {both.by_op}, and should send a message a round and direction and one all-reduce")
    expect('the last loss', value, wanted, 1e-5)
    expect('the weights', jax.process_allgather(weights), plain, 1e-5)


if __name__ == '__main__':
    main()
