"""A product of two split matrices without ever holding one of them whole: blocks go round a ring.

    mpirun -n 2 python examples/ring_matmul.py

x lies by rows and w by columns, and y = x @ w is wanted by columns, so each rank needs all rows of x. An all-gather would
bring them at once and needs room for all of x. Here a rank multiplies the block that it has, and hands it on to the next rank:
after N products and N - 1 messages every block has been everywhere. The product and the message of a step do not depend on one
another. Backward, the messages go round the other way, which is the transpose of ppermute.
"""

import numpy as np
from common import Parser, expect, say, sends

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives

P = jax.P


def gathered(x, w):
    """The same product, all rows brought at once: what the ring is compared with."""
    return lax.all_gather(x, 'X', tiled=True) @ w


def ring(x, w):
    """x: [m@X, k], w: [k, n@X] -> [m, n@X]"""
    ranks = lax.axis_size('X')
    onward = [(r, (r + 1) % ranks) for r in range(ranks)]
    products = []
    for i in range(ranks):
        products.append(x @ w)                                      # of the rows that started i ranks before this one
        if i < ranks - 1:
            x = lax.ppermute(x, 'X', onward)
    # Each rank has the blocks in another order. This choice differs between ranks, which is right: its branches send nothing.
    orders = [lambda *ys, r=r: jnp.concatenate([ys[(r - b) % ranks] for b in range(ranks)]) for r in range(ranks)]
    return lax.switch(lax.axis_index('X'), orders, *products)


def mapped(product):
    return jax.shard_map(product, in_specs=(P('X', None), P(None, 'X')), out_specs=P(None, 'X'))


def weighted(product, weight):
    return lambda x, w: jnp.sum(weight * product(x, w))


def main() -> None:
    parser = Parser(__doc__)
    parser.number('size', 240, 'rows and columns, a multiple of the ranks')
    options = parser.parse_args()
    ranks, n = jax.process_count(), options.size
    if n % ranks:
        parser.error(f"--size must be a multiple of the {ranks} ranks")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    rng = np.random.default_rng(0)
    x, w, weight = rng.normal(size=(3, n, n)).astype('float32')
    x_here, w_here, weight_here = jax.device_put((x, w, weight), (P('X', None), P(None, 'X'), P(None, 'X')))
    for product in (gathered, ring):
        forward = jax.jit(mapped(product))
        backward = jax.jit(jax.grad(weighted(forward, weight_here), argnums=(0, 1)))
        with count_collectives() as there:
            y = forward(x_here, w_here)
        with count_collectives() as both:
            dx, dw = backward(x_here, w_here)
        name = product.__name__
        say(f"{name}: {jax.typeof(x_here)} @ {jax.typeof(w_here)} -> {jax.typeof(y)}")
        say(f"{name}: forward {sends(there)}; forward and backward {sends(both)}")
        y, dx, dw = jax.process_allgather((y, dx, dw))
        expect(f"{name}: y", y, x @ w, 1e-5)
        expect(f"{name}: dx", dx, weight @ w.T, 1e-5)
        expect(f"{name}: dw", dw, x.T @ weight, 1e-5)


if __name__ == '__main__':
    main()
