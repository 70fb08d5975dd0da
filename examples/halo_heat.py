"""Find the source of heat in a plate from noisy pictures of its temperature, through 200 time steps on all ranks.

    mpirun -n 2 python examples/halo_heat.py

u' = laplace(u) + s - c u^4 on the unit square, heated by s and radiating, u = 0 on the edge and at the start. Each rank has some
rows of the grid and, before a time step, gets one row from either neighbour: its halo. `ppermute` gives zeros where nothing comes,
which are the edge of the plate.

The source sought minimizes (misfit of all pictures)^2 + penalty * (roughness of s)^2, by gradient descent with the step length of
Barzilai and Borwein (1988), which the last two gradients give. The 20 steps between two pictures are under `checkpoint`: the
backward pass keeps 10 temperatures in place of 200, and computes the others again, halos included.
"""

import time

import numpy as np
from common import Parser, expect, say, sends

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.debug import count_collectives

P = jax.P
PICTURES, STEPS, NOISE, PENALTY = 10, 20, 0.01, 3e-5
HEAT, RADIATION = 60, 20                  # s is in units of HEAT, so that s and u are about 1


def padded(u):
    """u: [n@X, n] and what lies around it: [n@X + 2 on each rank, n + 2]"""
    ranks = lax.axis_size('X')
    above = lax.ppermute(u[-1:], 'X', [(r, r + 1) for r in range(ranks - 1)])
    below = lax.ppermute(u[:1], 'X', [(r + 1, r) for r in range(ranks - 1)])
    return jnp.pad(jnp.concatenate([above, u, below]), ((0, 0), (1, 1)))


def differences(v):
    """The five-point stencil over a padded grid: the Laplacian times the square of the grid spacing."""
    return v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4 * v[1:-1, 1:-1]


def advanced(u, s, pad):
    """One explicit time step, as long as is stable. For distad's arrays and, with another `pad`, for NumPy's."""
    step = 0.25 / (u.shape[1] + 1) ** 2
    return u + differences(pad(u)) / 4 + step * (HEAT * s - RADIATION * u ** 4)


@jax.checkpoint
def until_next_picture(u, s):
    return lax.scan(lambda u, _: (advanced(u, s, padded), None), u, None, length=STEPS)[0]


@jax.shard_map(in_specs=(P('X'), P(None, 'X')), out_specs=P())
def objective(s, pictures):
    """s: [n@X, n], pictures: [PICTURES, n@X, n] -> []"""
    def misfit(u, picture):
        u = until_next_picture(u, s)
        return u, jnp.sum((u - picture) ** 2)

    _, misfits = lax.scan(misfit, jnp.zeros_like(s), pictures)
    return lax.psum(jnp.sum(misfits) + PENALTY * HEAT ** 2 * jnp.sum(differences(padded(s)) ** 2), 'X') / 2


def simulated(source) -> np.ndarray:
    """The pictures that a source gives, by NumPy on one rank."""
    u, pictures = np.zeros_like(source), []
    for _ in range(PICTURES):
        for _ in range(STEPS):
            u = advanced(u, source, lambda u: np.pad(u, 1))
        pictures.append(u)
    return np.array(pictures, 'float32')


def main() -> None:
    parser = Parser(__doc__)
    parser.number('size', 24, 'grid points along each side, a multiple of the ranks')
    parser.number('rounds', 30, 'rounds of gradient descent')
    options = parser.parse_args()
    ranks, n = jax.process_count(), options.size
    if n % ranks:
        parser.error(f"--size must be a multiple of the {ranks} ranks")
    jax.set_mesh(jax.make_mesh((ranks,), ('X',)))

    y, x = np.mgrid[1:n + 1, 1:n + 1] / (n + 1)
    truth = np.exp(-40 * ((x - .35) ** 2 + (y - .3) ** 2)) + 0.7 * np.exp(-30 * ((x - .6) ** 2 + (y - .7) ** 2))
    exact = simulated(truth)
    noise = np.random.default_rng(0).normal(0, NOISE * exact.max(), exact.shape).astype('float32')
    pictures = jax.device_put(exact + noise, P(None, 'X'))
    gradient = jax.jit(jax.grad(objective))
    dot = jax.jit(lambda a, b: jnp.sum(a * b))

    s, change, slope, started = jax.device_put(np.zeros((n, n), 'float32'), P('X')), None, None, time.perf_counter()
    for i in range(1, options.rounds + 1):
        before = slope
        with count_collectives() as sent:
            slope = gradient(s, pictures)
        length = dot(change, change) / dot(change, slope - before) if before is not None else 0.03
        change = -length * slope
        s = s + change
        if i == 1 or i % 5 == 0:
            error = np.linalg.norm(jax.process_allgather(s) - truth) / np.linalg.norm(truth)
            say(f"round {i:2}: gradient {float(dot(slope, slope)) ** 0.5:.1e}  error of the source {100 * error:5.1f} %  "
                f"{1e3 * (time.perf_counter() - started) / i:.0f} ms a round  a gradient sends {sends(sent)}")
    misfit = np.sum(noise ** 2) + PENALTY * HEAT ** 2 * np.sum(differences(np.pad(truth, 1)) ** 2)
    at_truth = jax.jit(objective)(jax.device_put(truth.astype('float32'), P('X')), pictures)
    expect('the objective at the truth', at_truth, misfit / 2, 1e-4)
    expect('the source', jax.process_allgather(s), truth, 0.05)


if __name__ == '__main__':
    main()
