"""An ensemble of models, each trained on its own sample of the digits, the models split over the ranks.

    mpirun -n 2 python examples/ensemble.py

One model and its training step are written as if there were no other. `vmap` makes them a step of all models; the dimension it
maps over is split over the ranks, so each rank trains its own models and nothing is sent. Only the vote of all on the test images is a
sum over ranks: one all-reduce.
"""

import numpy as np
from common import Parser, expect, require, say, sends
from train import digits

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives

P = jax.P
HIDDEN, SAMPLE, RATE = 24, 360, 0.5


def init(key):
    """One model: weights [64, HIDDEN], [HIDDEN, 10]."""
    first, second = jax.random.split(key)
    return jax.random.normal(first, (64, HIDDEN)) * 0.15, jax.random.normal(second, (HIDDEN, 10)) * 0.2


def log_probabilities(model, x):
    """x: [64] -> [10]"""
    return jax.nn.log_softmax(jnp.tanh(x @ model[0]) @ model[1])


def loss(model, xs, ys):
    """Mean cross-entropy of one model on images [n, 64]."""
    return -jnp.mean(jax.vmap(lambda x, y: log_probabilities(model, x)[y])(xs, ys))


def trained(key, images, labels, steps: int):
    """One model, trained by gradient descent on a random sample of the images; its last loss too."""
    of_model, of_sample = jax.random.split(key)
    picked = jax.random.choice(of_sample, len(images), (SAMPLE,))
    xs, ys = images[picked], labels[picked]

    def step(model, _):
        value, g = jax.value_and_grad(loss)(model, xs, ys)
        return jax.tree.map(lambda w, d: w - RATE * d, model, g), value

    model, losses = lax.scan(step, init(of_model), None, length=steps)
    return model, losses[-1]


def main() -> None:
    parser = Parser(__doc__)
    parser.number('models', 12, 'models in the ensemble')
    parser.number('steps', 150, 'steps of the descent')
    options = parser.parse_args()
    ranks = jax.process_count()
    if options.models % ranks:
        parser.error(f"--models must be a multiple of the number of ranks, {ranks}")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    (images, labels), (test_x, test_y) = digits(seed=0)
    keys = jax.random.split(jax.random.key(0), options.models)
    train = jax.jit(jax.vmap(lambda key, xs, ys: trained(key, xs, ys, options.steps), in_axes=(0, None, None)))
    with count_collectives() as sent:
        models, losses = train(jax.reshard(keys, P('X')), images, labels)                      # [models@X, ...]
    say(f"training sends {sends(sent)}")
    require(sent.total == 0, 'the training of independent models communicates')

    one, value = jax.jit(trained, static_argnums=3)(keys[0], images, labels, options.steps)    # the first model again, by itself
    mine = [jax.reshard(m, P())[0] for m in models]
    expect('the first model', np.concatenate([np.ravel(m) for m in mine]), np.concatenate([np.ravel(m) for m in one]), 1e-3)

    @jax.jit
    def vote(models, xs):
        """The mean of the models' log-probabilities: [n, 10], and each model's own, [models@X, n, 10]."""
        each = jax.vmap(jax.vmap(log_probabilities, in_axes=(None, 0)), in_axes=(0, None))(models, xs)
        return jnp.mean(each, 0), each

    with count_collectives() as sent:
        together, each = vote(models, test_x)
    alone = np.asarray(jax.reshard(jnp.mean(jnp.argmax(each, 2) == test_y, 1), P()))
    say(f"test accuracy: {alone.min():.1%} to {alone.max():.1%} alone, {np.mean(np.argmax(np.asarray(together), 1) == test_y):.1%} "
        "together")
    say(f"a vote sends {sends(sent)}")


if __name__ == '__main__':
    main()
