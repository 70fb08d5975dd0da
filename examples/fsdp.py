"""Training with all state split over the ranks (FSDP, ZeRO): weights come together layer by layer, and only while in use.

    mpirun -n 2 python examples/fsdp.py

A rank keeps rows of every weight, of its momentum and of its gradient. `all_gather(to='reduced')` makes a layer whole just
before its use; the type says that the cotangent is a sum still to come, and the transpose of this gather is the reduce-scatter
that forms the sum and leaves each rank its rows. `checkpoint` keeps no gathered weights: they are gathered again backward.
So a layer costs two all-gathers and one reduce-scatter a step, and nothing else is sent but the loss. The layers are rounds of
a scan, so that they come one after the other; written one by one, their gathers would be joined in one large message.
"""

import numpy as np
from common import Parser, expect, require, say, sends

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives

P = jax.P


@jax.checkpoint
def layer(x, rows):
    """x: [b@X, d], this rank's part of the batch; rows: [d@X, d], this rank's part of the weight -> [b@X, d]"""
    return jnp.tanh(x @ lax.all_gather(rows, 'X', tiled=True, to='reduced'))


@jax.shard_map(in_specs=(P(None, 'X'), P('X'), P('X')), out_specs=P())
def loss(weights, x, y):
    """weights: [layers, d@X, d], x and y: [b@X, d] -> [], the mean over all ranks"""
    x, _ = lax.scan(lambda x, rows: (layer(x, rows), None), x, weights)
    return lax.pmean(jnp.mean((x - y) ** 2), 'X')


@jax.jit
def step(weights, momentum, x, y):
    """Gradient descent with momentum; every array here is one part of N."""
    value, grads = jax.value_and_grad(loss)(weights, x, y)
    momentum = 0.9 * momentum + grads
    return weights - 0.1 * momentum, momentum, value


def reference(weights, momentum, x, y):
    """`step` by hand in NumPy, on one rank."""
    xs = [x]
    for w in weights:
        xs.append(np.tanh(xs[-1] @ w))
    value, dx, grads = np.mean((xs[-1] - y) ** 2), 2 * (xs[-1] - y) / y.size, []
    for w, a, out in reversed(list(zip(weights, xs, xs[1:]))):
        dx = dx * (1 - out ** 2)
        grads.append(a.T @ dx)
        dx = dx @ w.T
    momentum = 0.9 * momentum + np.array(grads[::-1])
    return weights - 0.1 * momentum, momentum, value


def main() -> None:
    parser = Parser(__doc__)
    parser.number('layers', 3, 'layers')
    parser.number('width', 48, 'units a layer, a multiple of the ranks')
    parser.number('batch', 96, 'examples a step, a multiple of the ranks')
    parser.number('steps', 20, 'steps')
    options = parser.parse_args()
    ranks, d = jax.process_count(), options.width
    if d % ranks or options.batch % ranks:
        parser.error(f"--width and --batch must be multiples of the {ranks} ranks")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    rng = np.random.default_rng(0)
    x, y = rng.uniform(-0.9, 0.9, size=(2, options.batch, d)).astype('float32')
    plain = rng.normal(0, 1 / np.sqrt(d), (options.layers, d, d)).astype('float32')
    plain_momentum = np.zeros_like(plain)
    x_here, y_here = jax.device_put((x, y), P('X'))
    weights, momentum = jax.device_put((plain, plain_momentum), P(None, 'X'))
    say(f"weights {jax.typeof(weights)}: a rank keeps {plain.nbytes // ranks / 1e3:.1f} of {plain.nbytes / 1e3:.1f} kB")

    for i in range(1, options.steps + 1):
        with count_collectives() as sent:
            weights, momentum, value = step(weights, momentum, x_here, y_here)
        plain, plain_momentum, wanted = reference(plain, plain_momentum, x, y)
        if i == 1 or i == options.steps:
            say(f"step {i}: loss {float(value):.6f}  sends {sends(sent)}")
    wanted_sends = {'all-gather': 2 * options.layers, 'reduce-scatter': options.layers, 'all-reduce': 1}
    require(ranks == 1 or sent.by_op == wanted_sends, f"a step sends {sent.by_op}, and should send {wanted_sends}")
    expect('the last loss', value, wanted, 1e-5)
    expect('the weights', jax.process_allgather(weights), plain, 1e-5)


if __name__ == '__main__':
    main()
