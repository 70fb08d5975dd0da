"""Sorting more numbers than one rank could hold, and a gradient through it: the distance between two samples.

    mpirun -n 4 python examples/sample_sort.py --size 100000

Both samples are split over the ranks. `jnp.sort` of a split array is a sample sort: each rank sorts its block and shows a regular
sample of it, the ranks agree on where the whole is to be cut, and each element goes to its rank, twice at most. No rank ever holds
more than a few blocks, however the values are spread. The Wasserstein distance of two samples of one size is the mean distance of
their elements in order. Its gradient goes back the way that the elements came: an exchange of one block.
"""

import numpy as np
from common import Parser, expect, require, say, sends

import distad as jax
import distad.numpy as jnp
from distad.debug import count_collectives

P = jax.P


def distance(x, y):
    """How far two samples [n@X] lie apart."""
    return jnp.mean(jnp.abs(jnp.sort(x) - jnp.sort(y)))


def samples(n: int) -> tuple[np.ndarray, np.ndarray]:
    """One that falls, so that each element has to leave its rank, and is very uneven; one with many equal elements."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.lognormal(sigma=3, size=n))[::-1]
    return x.astype('float32'), rng.integers(0, 7, n).astype('float32')


def reference_gradient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    order = np.argsort(x, kind='stable')
    gradient = np.empty_like(x)
    gradient[order] = np.sign(x[order] - np.sort(y)) / len(x)
    return gradient


def of_all_ranks(number: int) -> str:
    """What each rank counted, in kB."""
    sharding = jax.NamedSharding(jax.get_mesh(), P('X'))
    mine = jax.make_array_from_single_device_arrays((jax.process_count(),), sharding, [np.array([number], 'int32')])
    return ', '.join(f"{n / 1e3:.1f}" for n in jax.process_allgather(mine))


def main() -> None:
    parser = Parser(__doc__)
    parser.number('size', 100_000, 'elements of each sample, a multiple of the ranks')
    options = parser.parse_args()
    ranks, n = jax.process_count(), options.size
    if n % ranks:
        parser.error(f"--size must be a multiple of the {ranks} ranks")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))
    x, y = samples(n)
    x_here, y_here = jax.device_put((x, y), (P('X'), P('X')))

    with count_collectives() as sent:
        in_order = jax.jit(jnp.sort)(x_here)
    say(f"sort: {jax.typeof(x_here)} -> {jax.typeof(in_order)} sends {sends(sent)}")
    block = x.nbytes / ranks / 1e3
    say(f"sort: kB from each rank: {of_all_ranks(sent.bytes)}; its block has {block:.1f}, the whole {ranks * block:.1f}")
    expect('sort', jax.process_allgather(in_order), np.sort(x), 0.0)

    order = jax.process_allgather(jax.jit(jnp.argsort)(y_here))
    require(np.array_equal(order, np.argsort(y, kind='stable')), 'argsort is wrong')
    say('argsort: equal elements keep their order')

    with count_collectives() as sent:
        found, gradient = jax.jit(jax.value_and_grad(distance))(x_here, y_here)
    say(f"distance: forward and backward {sends(sent)}")
    say(f"distance: kB from each rank: {of_all_ranks(sent.bytes)}")
    expect('distance', found, np.mean(np.abs(np.sort(x) - np.sort(y))), 1e-5)
    expect('gradient', jax.process_allgather(gradient), reference_gradient(x, y), 1e-6)


if __name__ == '__main__':
    main()
