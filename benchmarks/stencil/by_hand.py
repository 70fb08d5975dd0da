"""The heat equation in NumPy and mpi4py: two buffers with a row for the neighbour on each side, 32 rows at a time."""

import numpy as np
from measure import report
from mpi4py import MPI
from problem import RATE, SIZE, STEPS, data

comm = MPI.COMM_WORLD
rows = SIZE // comm.size
above = comm.rank - 1 if comm.rank else MPI.PROC_NULL
below = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
buffers = [np.zeros((rows + 2, SIZE), 'f') for _ in range(2)]
AT_ONCE = 32
scratch = np.empty((AT_ONCE, SIZE), 'f')
rate, rest = np.float32(RATE), np.float32(1 - 4 * RATE)
start = data()[comm.rank * rows:(comm.rank + 1) * rows]


def step(u: np.ndarray, out: np.ndarray) -> None:
    comm.Sendrecv(u[1], above, 0, u[rows + 1], below, 0)
    comm.Sendrecv(u[rows], below, 1, u[0], above, 1)
    for r in range(0, rows, AT_ONCE):
        s, d = u[r + 1:r + 1 + AT_ONCE], out[r + 1:r + 1 + AT_ONCE]
        np.add(u[r:r + AT_ONCE], u[r + 2:r + 2 + AT_ONCE], out=d)
        np.add(d[:, 1:], s[:, :-1], out=d[:, 1:])
        np.add(d[:, :-1], s[:, 1:], out=d[:, :-1])
        np.multiply(d, rate, out=d)
        np.multiply(s, rest, out=scratch)
        np.add(d, scratch, out=d)


def forward() -> np.ndarray:
    u, out = buffers
    u[1:-1] = start
    for _ in range(STEPS):
        step(u, out)
        u, out = out, u
    return u


def gradient() -> np.ndarray:
    u = forward()
    out = buffers[0] if u is buffers[1] else buffers[1]
    for _ in range(STEPS):
        step(u, out)
        u, out = out, u
    return u


def total(u: np.ndarray) -> float:
    return comm.allreduce(float(np.abs(u[1:-1]).sum(dtype='d')))


def slowest(seconds: float) -> float:
    return comm.allreduce(seconds, MPI.MAX)


report('forward', forward, total(forward()), calls=8, warm=2, rank=comm.rank, slowest=slowest)
report('gradient', gradient, total(gradient()), calls=8, warm=2, rank=comm.rank, slowest=slowest)
