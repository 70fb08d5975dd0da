"""How many calls MPI really receives: counted below Python, by a library that the run loads before MPI."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from distad.testing import launch

SOURCE = Path(__file__).with_name('count.c')


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How often a rank made a call, and the bytes it gave."""

    times: int
    bytes: int


def count_calls(program: str | Path, n: int, folder: Path, timeout: float = 60) -> list[dict[str, Calls]]:
    """What each of n ranks called, by the name of the call (`Allreduce` is also its non-blocking form).

    The program counts from `MPI.Pcontrol(1)` to `MPI.Pcontrol(0)`. It must end by itself: `folder` gets the counts.
    """
    counts = folder / 'counts'
    done = launch(program, n, timeout=timeout, env={'LD_PRELOAD': str(_library(folder)), 'PMPI_COUNT': str(counts)})
    assert done.returncode == 0, done.stdout + done.stderr
    calls: list[dict[str, Calls]] = [{} for _ in range(n)]
    for line in counts.read_text().splitlines():
        rank, name, times, nbytes = line.split()
        calls[int(rank)][name] = Calls(times=int(times), bytes=int(nbytes))
    return calls


def _library(folder: Path) -> Path:
    """The counting library, built for the MPI at hand."""
    own = Path(sys.executable).with_name('mpicc')
    compiler = str(own) if own.exists() else shutil.which('mpicc')
    if compiler is None:
        pytest.skip('no mpicc to build the library that counts calls of MPI')
    library = folder / 'count.so'
    done = subprocess.run([compiler, '-shared', '-fPIC', '-O1', '-o', library, SOURCE], capture_output=True, text=True)
    if shutil.which('cc') is None and done.returncode:
        pytest.skip('no C compiler (cc) to build the library that counts calls of MPI')
    assert done.returncode == 0, done.stderr
    return library
