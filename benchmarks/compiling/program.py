"""From a Python function to its first result, for distad and JAX: import, trace and compile; 2000 small equations, and 20 000."""

import subprocess
import sys
import time

from measure import say
from side import SIDE, jax, jnp


def chain(n: int):
    def f(a, b):
        for i in range(n):
            a, b = b, a + b if i % 2 else a * b
        return b
    return f


def seconds(f) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def imported(names: str) -> float:
    code = f'import numpy, time; t = time.perf_counter(); import {names}; print(time.perf_counter() - t)'
    return float(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout)


module = 'distad' if SIDE == 'distad' else 'jax'
say('import, NumPy not counted', [imported(f'{module}, {module}.numpy') for _ in range(4)][1:])
x, y = jnp.ones(64), jnp.ones(64)
for n in (2000, 20000) if SIDE == 'distad' else (2000,):
    traced = []
    say(f'trace {n} equations', [seconds(lambda: traced.append(jax.jit(chain(n)).trace(x, y))) for _ in range(3)])  # noqa: B023
    say(f'compile {n} equations', [seconds(lambda: t.lower().compile()) for t in traced[:1 if n > 2000 else 3]])  # noqa: B023
gradient = [jax.jit(jax.grad(lambda a, b: chain(2000)(a, b).sum())).trace for _ in range(3)]
say('trace the gradient of 2000 equations', [seconds(lambda: f(x, y)) for f in gradient])  # noqa: B023
