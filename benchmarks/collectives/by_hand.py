"""Allreduce of mpi4py, to another buffer and in place."""

import numpy as np
from measure import report
from mpi4py import MPI
from problem import SIZES, calls, label

comm = MPI.COMM_WORLD
for size in SIZES:
    x, y = np.zeros(size // 4, 'f'), np.empty(size // 4, 'f')
    report(f'psum, jit, {label(size)}', lambda: comm.Allreduce(x, y), calls=calls(size), rank=comm.rank)  # noqa: B023
    report(f'in place, {label(size)}', lambda: comm.Allreduce(MPI.IN_PLACE, x), calls=calls(size), rank=comm.rank)  # noqa: B023
