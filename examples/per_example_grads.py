"""A gradient for every example: learn digits with each example's gradient clipped, so that none can say too much.

    mpirun -n 2 python examples/per_example_grads.py

`vmap(grad(loss))` makes one gradient for each example. The examples are split over the ranks, and so are their gradients; the
model is written for one example and knows of neither. Each gradient is scaled to a norm of at most `CLIP` where it lies, the scaled
ones are added up on each rank, and one all-reduce adds what the ranks have. (This is the step of private learning, Abadi et al.
2016, without its noise.)
"""

import numpy as np
from common import Parser, expect, say, sends
from train import digits, init

import distad as jax
import distad.numpy as jnp
from distad.debug import count_collectives

P = jax.P
CLIP, RATE, BATCH = 1.0, 1.0, 96


def loss(params: list, x, y):
    """Cross-entropy of one image, x: [64], y: [] -> []"""
    (w, b), (v, c) = params
    scores = jax.nn.relu(x @ w + b) @ v + c
    return jax.nn.logsumexp(scores) - scores[y]


def clipped(params: list, x, y):
    """The gradient of one example, of norm at most CLIP, and the norm that it had."""
    g = jax.grad(loss)(params, x, y)
    norm = jnp.sqrt(sum(jnp.vdot(a, a) for a in jax.tree.leaves(g)))
    return jax.tree.map(lambda a: a * jnp.minimum(1., CLIP / norm), g), norm


@jax.jit
def step(params: list, xs, ys):
    """One step on a batch, xs: [b@X, 64], ys: [b@X]. The new parameters, and what share of the gradients was clipped."""
    g, norms = jax.vmap(clipped, in_axes=(None, 0, 0))(params, xs, ys)                                    # [b@X, ...] each
    sums = jax.tree.map(lambda a: jnp.einsum('b...->...', a, out_sharding=P(unreduced={'X'})), (g, (norms > CLIP) * 1.))
    total, over = jax.reshard(sums, P())                                                                  # the one all-reduce
    return jax.tree.map(lambda p, a: p - RATE * a / len(xs), params, total), over / len(xs)


def numpy_step(params: list, xs, ys) -> list:
    """The same step with NumPy, example by example, its gradients by hand."""
    (w, b), (v, c) = params
    total = [(np.zeros_like(w), np.zeros_like(b)), (np.zeros_like(v), np.zeros_like(c))]
    for x, y in zip(xs, ys):
        hidden = x @ w + b
        active = np.maximum(hidden, 0)
        scores = active @ v + c
        d = np.exp(scores - scores.max())
        d = d / d.sum() - np.eye(10)[y]
        back = v @ d * (hidden > 0)
        g = [(np.outer(x, back), back), (np.outer(active, d), d)]
        scale = min(1., CLIP / np.sqrt(sum((a ** 2).sum() for pair in g for a in pair)))
        total = [tuple(t + scale * a for t, a in zip(ts, pair)) for ts, pair in zip(total, g)]
    return [tuple(p - RATE * t / len(xs) for p, t in zip(ps, ts)) for ps, ts in zip(params, total)]


def main() -> None:
    parser = Parser(__doc__)
    parser.number('steps', 60, 'steps of the descent')
    steps = parser.parse_args().steps
    ranks = jax.process_count()
    if BATCH % ranks:
        parser.error(f"the {BATCH} images of a step must lie evenly on the ranks, and there are {ranks}")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    (images, labels), (test_x, test_y) = digits(seed=0)
    params = init(jax.random.key(0), [64, 32, 10])
    of_batch = [jax.device_put((images[i:i + BATCH], labels[i:i + BATCH]), P('X')) for i in range(0, len(images), BATCH)]
    by_hand = numpy_step(jax.tree.map(np.asarray, params), images[:BATCH], labels[:BATCH])
    for i in range(steps):
        with count_collectives() as sent:
            params, over = step(params, *of_batch[i % len(of_batch)])
        if i == 0:
            expect('parameters after one step', np.concatenate([np.ravel(a) for a in jax.tree.leaves(params)]),
                   np.concatenate([np.ravel(a) for a in jax.tree.leaves(by_hand)]), 1e-5)
        if i % 20 == 0 or i == steps - 1:
            say(f"step {i + 1}: {float(over):.0%} of the gradients clipped")
    scores = jax.vmap(lambda x: jax.nn.relu(x @ params[0][0] + params[0][1]) @ params[1][0] + params[1][1])(test_x)
    say(f"test accuracy {np.mean(np.argmax(np.asarray(scores), 1) == test_y):.1%}")
    say(f"a step sends {sends(sent)}")


if __name__ == '__main__':
    main()
