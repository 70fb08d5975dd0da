"""A training that is killed at random moments, again and again, ends with the bits of one that was left alone.

    python -m tests.faults.soak --steps 10000 --kills 40 --ranks 3          # make soak

Each life of the run loses one rank, chosen at random, by kill -9 after a random time. The launcher ends the others, and the same
command starts them again. The model is small, so that saving is much of the work and is often what a kill hits.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from distad.runtime.launch import clean_environ
from distad.testing.launching import mpirun

PROGRAM = """
    import os, sys
    import numpy as np
    import distad as jax
    import distad.numpy as jnp
    from distad import checkpoint
    P = jax.P
    folder, steps, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    n = jax.process_count()
    jax.set_mesh(jax.make_mesh((n,), ('X',)))
    sys.stdout.write(f'process {os.getpid()}\\n')            # one write, so that lines of ranks do not mix
    sys.stdout.flush()

    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w['in']) @ w['out'] * jnp.sin(x)) / 32

    places = {'in': P(None, 'X'), 'out': P('X')}

    @jax.jit
    def step(w, momentum, key):
        key, now = jax.random.split(key)
        x = jax.random.normal(now, (12 * n, 8), out_sharding=P('X'))
        g = jax.reshard(jax.grad(loss)(w, x), places)
        momentum = jax.tree.map(lambda m, d: 0.9 * m + d, momentum, g)                        # split: each rank has a part
        return jax.tree.map(lambda p, m: p - 0.001 * jax.reshard(m, P()), w, momentum), momentum, key

    rng = np.random.default_rng(0)
    w = jax.device_put({'in': rng.standard_normal((8, 12 * n)), 'out': rng.standard_normal((12 * n, 8))}, P())
    run = {'step': 0, 'w': w, 'momentum': jax.reshard(jax.tree.map(jnp.zeros_like, w), places), 'key': jax.random.key(0)}
    if checkpoint.latest_step(folder) is not None:
        run = checkpoint.restore(folder, like=run)
    sys.stdout.write(f"from {run['step']}\\n")
    sys.stdout.flush()
    for number in range(run['step'], steps):
        run['w'], run['momentum'], run['key'] = step(run['w'], run['momentum'], run['key'])
        run['step'] = number + 1
        if run['step'] % every == 0 or run['step'] == steps:
            save = checkpoint.save if run['step'] // every % 2 or run['step'] == steps else checkpoint.save_async
            save(folder, run, step=run['step'], keep=2)
"""


def life(folder: Path, options: argparse.Namespace, seconds: float | None) -> float | None:
    """Run the program until it ends, or kill one of its ranks so long after all of them have started. How long it ran to its end."""
    script = folder.with_suffix('.py')
    script.write_text(textwrap.dedent(PROGRAM))
    command = [mpirun(), '-n', str(options.ranks), sys.executable, str(script), str(folder), str(options.steps), str(options.every)]
    process = subprocess.Popen(command, env=clean_environ() | {'OPENBLAS_NUM_THREADS': '1'}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(2 * options.ranks)]
        began = time.monotonic()
        ranks = [int(line.split()[1]) for line in lines if line.startswith('process ')]
        if len(ranks) < options.ranks:
            raise SystemExit(f'the run did not start\n{"".join(lines)}{process.communicate()[1]}')
        if seconds is not None:
            time.sleep(seconds)
            if process.poll() is None:
                os.kill(random.choice(ranks), signal.SIGKILL)
        _, errors = process.communicate(timeout=1800)
    finally:
        process.kill()
    if process.returncode and seconds is None:
        raise SystemExit(f'the run ended with status {process.returncode}\n{errors}')
    return None if process.returncode else time.monotonic() - began


def bits(folder: Path, step: int) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / f'step-{step:08d}').iterdir()}


def soak(options: argparse.Namespace, base: Path) -> int:
    """The number of kills survived; ends the program if the bits differ."""
    calm, rough = base / 'calm', base / 'rough'
    longest = 2 * life(calm, options, None) / (options.kills + 1)          # so that most kills come before the end
    kills = 0
    while life(rough, options, random.uniform(0, longest) if kills < options.kills else None) is None:
        kills += 1
    if bits(calm, options.steps) != bits(rough, options.steps):
        raise SystemExit(f'after {kills} kills the bits differ from those of the undisturbed run: {calm}, {rough}')
    return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--steps', type=int, default=10000)
    parser.add_argument('--every', type=int, default=20, help='steps between checkpoints (default %(default)s)')
    parser.add_argument('--kills', type=int, default=40, help='the most (default %(default)s)')
    parser.add_argument('--ranks', type=int, default=3)
    parser.add_argument('--folder', help='where the checkpoints go, instead of the folder for temporary files')
    parser.add_argument('--seed', type=int, default=0, help='of the moments and of the ranks (default %(default)s)')
    options = parser.parse_args()
    random.seed(options.seed)
    began, base = time.monotonic(), Path(tempfile.mkdtemp(prefix='distad-soak-', dir=options.folder))
    kills = soak(options, base)
    shutil.rmtree(base)
    print(f'{options.steps} steps on {options.ranks} ranks, killed {kills} times in {time.monotonic() - began:.0f} s: the same bits')


if __name__ == '__main__':
    main()
