"""The heat equation in autograd and mpi4py: the exchange of rows is a primitive with its own gradient."""

import autograd.numpy as anp
import numpy as np
from autograd import grad
from autograd.extend import defvjp, primitive
from measure import report
from mpi4py import MPI
from problem import RATE, SIZE, STEPS, data

comm = MPI.COMM_WORLD
rows = SIZE // comm.size
above = comm.rank - 1 if comm.rank else MPI.PROC_NULL
below = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
rate, four, half = np.float32(RATE), np.float32(4), np.float32(.5)


def exchange(first, last):
    top, bottom = np.zeros(SIZE, 'f'), np.zeros(SIZE, 'f')
    comm.Sendrecv(np.ascontiguousarray(first), above, 0, bottom, below, 0)
    comm.Sendrecv(np.ascontiguousarray(last), below, 1, top, above, 1)
    return top, bottom


@primitive
def bordered(u):
    v = np.zeros((rows + 2, SIZE + 2), 'f')
    v[1:-1, 1:-1] = u
    v[0, 1:-1], v[-1, 1:-1] = exchange(u[0], u[-1])
    return v


def bordered_vjp(ans, u):
    def back(ct):
        out = ct[1:-1, 1:-1].copy()
        top, bottom = exchange(ct[0, 1:-1], ct[-1, 1:-1])
        out[0] += top
        out[-1] += bottom
        return out
    return back


defvjp(bordered, bordered_vjp)
start = data()[comm.rank * rows:(comm.rank + 1) * rows]


def run(u):
    for _ in range(STEPS):
        v = bordered(u)
        u = u + rate * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - four * u)
    return u


gradient = grad(lambda u: half * anp.sum(run(u) ** 2))


def total(u) -> float:
    return comm.allreduce(float(np.abs(u).sum(dtype='d')))


def slowest(seconds: float) -> float:
    return comm.allreduce(seconds, MPI.MAX)


report('forward', lambda: run(start), total(run(start)), calls=3, warm=0, rank=comm.rank, slowest=slowest)
report('gradient', lambda: gradient(start), total(gradient(start)), calls=1, warm=0, rank=comm.rank, slowest=slowest)
