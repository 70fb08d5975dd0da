"""A program under mpirun in which something goes wrong, and what was left when it had ended."""

import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from distad.testing.launching import launch

GRACE = 2.0  # seconds in which a killed process may vanish

# Ranks meet once, as a program does that has been running; then comes the body.
START = """
    import os, signal, sys, threading, time
    import numpy as np
    import distad as jax
    from distad.runtime import collectives, mpi
    P = jax.P
    rank, size = jax.process_index(), jax.process_count()
    jax.set_mesh(jax.make_mesh((size,), ('X',)))
    x = jax.device_put(np.arange(4. * size), P('X'))
    def full(x):
        return np.asarray(jax.reshard(x, P()))
    def all_reduce():
        return collectives.all_reduce(mpi.world(), np.float32(1))
    def say(what):
        sys.stdout.write(f'{rank} {what}\\n')  # one write, so that lines of ranks do not mix
        sys.stdout.flush()
    def now():
        '''The moment in which it goes wrong.'''
        open(os.environ['FAULT_MOMENT'], 'w').write(str(time.time()))
    full(x)
    os.environ['DISTAD_TIMEOUT'] = os.environ['FAULT_TIMEOUT']  # from now on: starting may take longer on a busy machine
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended. `seconds` are those from the moment that the program noted to the end."""

    status: int
    out: str
    err: str
    seconds: float


def run(folder: Path, body: str, n: int = 2, *, start: str = START, timeout: float = 300, **env: str) -> Ended:
    """`mpirun -n n` of a program; no process of it may be left. Once started it waits for `timeout` seconds in a collective."""
    lines = ''.join(f'    {line}\n' for line in body.strip('\n').splitlines())
    moment, mark = folder / 'moment', f'FAULT_RUN={uuid.uuid4()}'
    moment.unlink(missing_ok=True)
    done = launch(start + lines, n, timeout=50, env=env | {
        'FAULT_MOMENT': str(moment), 'FAULT_RUN': mark.partition('=')[2], 'FAULT_TIMEOUT': str(timeout)})
    ended = time.time()
    while left := _processes(mark):
        assert time.time() < ended + GRACE, f'processes {left} are left'
        time.sleep(0.05)
    return Ended(status=done.returncode, out=done.stdout, err=done.stderr,
                 seconds=ended - float(moment.read_text()) if moment.exists() else 0.)


def _processes(mark: str) -> list[int]:
    """The living processes that have this in their environment."""
    found = []
    for path in Path('/proc').glob('[0-9]*/environ'):
        try:
            if mark in path.read_text(errors='replace'):
                found.append(int(path.parent.name))
        except OSError:  # ended, or somebody else's
            continue
    return [process for process in found if process != os.getpid()]
