"""Train a small network on handwritten digits, data parallel over all ranks, with one collective a step.

    mpirun -n 2 python examples/train.py --checkpoint run    # killed at any moment and started again, it ends with the same bits

The batch of a step is cut into microbatches, and every microbatch over the ranks. The weights are `reduced` while gradients are
taken, so the gradients come out `unreduced`: each rank sums its own over all microbatches, and the one `reshard` at the end
of the step adds those of all ranks, loss and gradients together in one message.
"""

import numpy as np
from common import Parser, say
from sklearn.datasets import load_digits

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives

P = jax.P


def digits(seed: int) -> tuple:
    """The digits as (images [n, 64], labels [n]) to train on and to test with; the same on every rank."""
    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    images, labels = (data.images.reshape(-1, 64)[order] / 16).astype('float32'), data.target[order].astype('int32')
    return (images[:1440], labels[:1440]), (images[1440:1788], labels[1440:1788])


def init(key, sizes: list[int]) -> list:
    """Weights [k, n] and biases [n] of each layer, replicated."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (m, n)) * np.sqrt(2 / m).astype('float32'), jnp.zeros(n))
            for k, m, n in zip(keys, sizes[:-1], sizes[1:])]


def logits(params: list, x):
    """x: [b@X, 64] -> [b@X, 10]"""
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss(params: list, x, y):
    """Cross-entropy summed over a microbatch, as float32[]{U:X}: the sum over the ranks is left to the end of the step."""
    picked = jax.nn.log_softmax(logits(params, x)) * jax.nn.one_hot(y, 10)
    return -lax.reduce_sum(picked, (0, 1), out_sharding=P(unreduced={'X'}))


@jax.jit
def step(state, xs, ys):
    """One step of Adam. xs: [m, b@X, 64], ys: [m, b@X]: m microbatches. Returns the new state and the mean loss."""
    params, first, second, count = state
    reduced = jax.reshard(params, P(reduced={'X'}))                       # free: the same copies, under another type

    def microbatch(total, batch):
        new = jax.value_and_grad(loss)(reduced, *batch)                   # unreduced: nothing is sent
        return jax.tree.map(jnp.add, total, new), None

    zero = jax.tree.map(jnp.zeros_like, (jnp.float32(0), params))
    total, _ = lax.scan(microbatch, jax.reshard(zero, P(unreduced={'X'})), (xs, ys))
    value, grads = jax.tree.map(lambda t: t / (xs.shape[0] * xs.shape[1]), jax.reshard(total, P()))     # the one all-reduce

    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
    rate = 3e-3 * jnp.sqrt(1 - 0.999 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return (params, first, second, count), value


@jax.jit
def accuracy(params: list, x, y):
    """The share of images [n@X, 64] whose label is guessed right: float32[]."""
    return jnp.mean(jnp.argmax(logits(params, x), axis=1) == y)


def main() -> None:
    parser = Parser(__doc__)
    parser.number('epochs', 30, 'passes over the training images')
    parser.number('microbatches', 4, 'microbatches a step')
    parser.number('batch', 240, 'images a step, over all ranks')
    parser.add_argument('--seed', type=int, default=0, help='seed of weights and order (default %(default)s)')
    parser.add_argument('--checkpoint', metavar='DIR', help='save to this folder, and start from the latest checkpoint in it')
    parser.number('every', 6, 'steps from one checkpoint to the next')
    options = parser.parse_args()
    ranks = jax.process_count()
    if options.batch % (options.microbatches * ranks) or 1440 % options.batch:
        parser.error(f"--batch must divide 1440 and be a multiple of microbatches times ranks, {options.microbatches} x {ranks}")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    (train_x, train_y), (test_x, test_y) = digits(options.seed)
    test = jax.device_put((test_x[:len(test_x) // ranks * ranks], test_y[:len(test_y) // ranks * ranks]), P('X'))
    params = init(jax.random.key(options.seed), [64, 128, 10])
    zeros = jax.tree.map(jnp.zeros_like, params)
    steps = len(train_y) // options.batch
    run = {'step': 0, 'state': (params, zeros, zeros, jnp.float32(0)), 'losses': np.zeros(steps)}
    if options.checkpoint and jax.checkpoint.latest_step(options.checkpoint) is not None:
        run = jax.checkpoint.restore(options.checkpoint, like=run)
        say(f"goes on after step {run['step']}")
    for number in range(run['step'], options.epochs * steps):
        epoch, turn = divmod(number, steps)
        order = np.random.default_rng((options.seed, epoch)).permutation(len(train_y))         # a function of the step alone
        places = order.reshape(steps, options.microbatches, -1)[turn]
        xs, ys = jax.device_put((train_x[places], train_y[places]), P(None, 'X'))
        with count_collectives() as sent:
            run['state'], value = step(run['state'], xs, ys)
        run['step'], run['losses'][turn] = number + 1, value
        if options.checkpoint and (run['step'] % options.every == 0 or run['step'] == options.epochs * steps):
            jax.checkpoint.save(options.checkpoint, run, step=run['step'], keep=2)
        if turn == steps - 1:
            score = float(accuracy(run['state'][0], *test))
            say(f"epoch {epoch + 1:3}  loss {run['losses'].mean():.6f}  test accuracy {100 * score:5.1f} %  "
                f"collectives a step {sent.total} ({sent.bytes / 1e3:.0f} kB)")


if __name__ == '__main__':
    main()
