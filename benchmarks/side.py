"""distad or JAX, for programs that run on both unchanged. The environment variable SIDE says which.

    distad    the ranks that mpirun has started, or one process alone
    jax1      JAX in one process with DEVICES devices
    jax2      JAX in the processes that spawn.py has started, with its own collectives
"""

import os

import numpy as np

SIDE = os.environ['SIDE']
if SIDE == 'distad':
    import distad as jax
    import distad.numpy as jnp
else:
    import jax
    import jax.numpy as jnp
    if SIDE == 'jax2':
        jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", int(os.environ['WORLD_SIZE']), int(os.environ['RANK']))
    else:
        jax.config.update('jax_num_cpu_devices', int(os.environ.get('DEVICES', 1)))

P = jax.P
RANKS = jax.device_count()
RANK = jax.process_index()


def mesh() -> None:
    """All devices in a row, axis X."""
    jax.set_mesh(jax.make_mesh((RANKS,), ('X',)))


def place(x: np.ndarray, spec) -> object:
    """A whole array, which every process has, in a sharding."""
    sharding = jax.NamedSharding(jax.sharding.get_mesh() if SIDE != 'distad' else jax.get_mesh(), spec)
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])


def part(x) -> np.ndarray:
    """The block of an array on this process's first device."""
    return np.asarray(x.addressable_data(0))


def total(x) -> float:
    """The sum of absolute values over all devices."""
    return float(jax.jit(lambda x: jnp.sum(jnp.abs(x)))(x))


__all__ = ['P', 'RANK', 'RANKS', 'SIDE', 'jax', 'jnp', 'mesh', 'part', 'place', 'total']
