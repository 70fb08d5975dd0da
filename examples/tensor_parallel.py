"""A network of residual blocks whose weights are split over the ranks, as in Megatron: one all-reduce a block and direction.

    mpirun -n 2 python examples/tensor_parallel.py

A block is x + tanh(x @ w1) @ w2. Each rank has some columns of w1 and the same rows of w2: its share of the hidden units.
Two functions at the ends of the block are all there is to it, and each is the transpose of the other:

    enter    every rank has the same x and goes on alone      a free cast forward, an all-reduce of gradients backward
    leave    the ranks add what their hidden units give       an all-reduce forward, a free cast backward
"""

import numpy as np
from common import Parser, expect, say, sends

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives

P = jax.P


def block(x, w1, w2):
    """x: [b, d], the same on all ranks; w1: [d, h@X], w2: [h@X, d] -> [b, d]"""
    x_here = lax.pcast(x, 'X', to='varying')                        # enter
    part = jnp.tanh(x_here @ w1) @ w2                               # this rank's summand, of all [b, d]
    return x + lax.psum(part, 'X')                                  # leave


@jax.shard_map(in_specs=((P(None, 'X'), P('X', None)), P()), out_specs=P())
def network(weights, x):
    for w1, w2 in zip(*weights):
        x = block(x, w1, w2)
    return x


def loss(weights, x, y):
    return jnp.mean((network(weights, x) - y) ** 2)


@jax.jit
def step(weights, x, y):
    """One step of gradient descent: the new weights, the loss, and the gradient with respect to x."""
    value, (grads, dx) = jax.value_and_grad(loss, argnums=(0, 1))(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, grads), value, dx


def reference(weights, x, y):
    """`step` by hand in NumPy, on one rank."""
    (w1s, w2s), xs, hidden = weights, [x], []
    for w1, w2 in zip(w1s, w2s):
        hidden.append(np.tanh(xs[-1] @ w1))
        xs.append(xs[-1] + hidden[-1] @ w2)
    value, dx = np.mean((xs[-1] - y) ** 2), 2 * (xs[-1] - y) / y.size
    new1, new2 = [], []
    for w1, w2, a, h in reversed(list(zip(w1s, w2s, xs, hidden))):
        dh = dx @ w2.T * (1 - h ** 2)
        new1.insert(0, w1 - 0.5 * a.T @ dh)
        new2.insert(0, w2 - 0.5 * h.T @ dx)
        dx = dx + dh @ w1.T
    return (new1, new2), value, dx


def main() -> None:
    parser = Parser(__doc__)
    parser.number('blocks', 3, 'residual blocks')
    parser.number('hidden', 48, 'hidden units a block, a multiple of the ranks')
    parser.number('steps', 20, 'steps of gradient descent')
    options = parser.parse_args()
    ranks = jax.process_count()
    if options.hidden % ranks:
        parser.error(f"--hidden must be a multiple of the {ranks} ranks")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    rng, d, h = np.random.default_rng(0), 16, options.hidden
    x, y = rng.normal(size=(2, 32, d)).astype('float32')
    w1s, w2s = ([rng.normal(0, 0.5 / np.sqrt(s[0]), s).astype('float32') for _ in range(options.blocks)] for s in ((d, h), (h, d)))
    weights = jax.device_put((w1s, w2s), (P(None, 'X'), P('X', None)))
    plain = (w1s, w2s)

    with count_collectives() as sent:
        jax.jit(network)(weights, x)
    say(f"forward: {sends(sent)}")
    for i in range(1, options.steps + 1):
        with count_collectives() as sent:
            weights, value, dx = step(weights, x, y)
        plain, value_ref, dx_ref = reference(plain, x, y)
        if i == 1 or i == options.steps:
            say(f"step {i}: loss {float(value):.6f}  forward and backward: {sends(sent)}")
    expect('the last loss', value, value_ref, 1e-4)
    expect('the gradient of x', dx, dx_ref, 1e-3)
    expect('the weights w1', jax.process_allgather(weights[0]), np.array(plain[0]), 1e-4)


if __name__ == '__main__':
    main()
