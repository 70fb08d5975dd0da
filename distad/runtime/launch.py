"""What the launcher left in the environment, and what follows from it. No MPI here, so all of it is testable without.

A launcher (mpirun, srun) tells each process its rank through environment variables. An MPI library that does not know
this launcher ignores them, and each process then believes that it is rank 0 of 1: N copies of the program run, each
alone, and write over one another's files. That is found here by comparing what the launcher said with what MPI says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from distad.errors import LauncherMismatchError

# number of ranks, number of this rank, who sets them. SLURM_STEP_NUM_TASKS and not SLURM_NTASKS: the latter is also
# set in a batch script, where a plain `python` rightly is alone.
LAUNCHERS = (
    ('PMI_SIZE', 'PMI_RANK', 'the mpirun of MPICH or Intel MPI'),
    ('OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_RANK', 'the mpirun of Open MPI'),
    ('SLURM_STEP_NUM_TASKS', 'SLURM_PROCID', 'srun'),
    ('FLUX_JOB_SIZE', 'FLUX_TASK_RANK', 'flux run'),
    ('PALS_NRANKS', 'PALS_RANKID', 'the mpiexec of PALS'),
)
BLAS_VARIABLES = ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'BLIS_NUM_THREADS')

_LAUNCHER_PREFIXES = ('PMI_', 'PMIX_', 'PMI1_', 'PMI2_', 'OMPI_', 'PRTE_', 'HYDI_', 'HYDRA_', 'MPI_LOCAL', 'PALS_',
                      'FLUX_')


def check_launcher(size: int, library: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise if a launcher says it started several ranks while MPI, called `library`, says there is one."""
    if size != 1 or environ.get('DISTAD_ALLOW_SINGLETON', '0') not in ('', '0'):
        return
    for size_variable, rank_variable, launcher in LAUNCHERS:
        count = environ.get(size_variable, '')
        if count.isdigit() and int(count) > 1:
            raise LauncherMismatchError(
                'mpi4py and mpirun belong to different MPIs: this process is rank '
                f'{environ.get(rank_variable, "?")} of {count} for {launcher} (${size_variable}), but rank 0 of 1 for '
                f'the MPI library of mpi4py ({library}). Start it with the mpirun of that library '
                f'({os.path.join(sys.prefix, "bin", "mpirun")} if it was installed by pip), under Slurm with '
                "srun --mpi=pmi2 for MPICH or --mpi=pmix for Open MPI, or let mpi4py use the launcher's library: "
                'MPI4PY_LIBMPI=/path/to/libmpi.so. If separate one-rank runs are meant, set DISTAD_ALLOW_SINGLETON=1')


def clean_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment without the launcher's variables: for a child process that is to start MPI by itself."""
    return {name: value for name, value in environ.items() if not name.startswith(_LAUNCHER_PREFIXES)}


def forget_shared_memory() -> None:
    """Take the name of the memory that MPICH shares on this node, once all its ranks have it: nothing is left after a kill.

    MPICH takes it itself in an orderly end only: after an abort or a kill 2 to 8 MB of /dev/shm were lost each time.
    """
    try:
        lines = Path('/proc/self/maps').read_text().splitlines()
    except OSError:  # not Linux
        return
    for path in {line.split()[-1] for line in lines if '/dev/shm/mpich_shm_' in line}:
        Path(path).unlink(missing_ok=True)


def yield_when_crowded(environ: dict[str, str] | os._Environ = os.environ) -> bool:
    """Let MPICH give up the core while it waits, if there are more ranks than cores here. Counts before MPI_Init only.

    MPICH polls, and with more ranks than cores the ranks that wait take the time of the one they wait for: 5 to 20
    times slower. With a core for each rank the setting would make small messages slower.
    """
    local = environ.get('MPI_LOCALNRANKS', '')
    if not local.isdigit() or int(local) <= node_cores() or 'MPIR_CVAR_ENABLE_HEAVY_YIELD' in environ:
        return False
    environ['MPIR_CVAR_ENABLE_HEAVY_YIELD'] = '1'
    return True


def node_cores() -> int:
    """The cores this job may use on this node: those of the launcher's daemon, as a rank itself may be bound to one."""
    return max(len(cores()), len(cores(os.getppid())))


def cores(process: int = 0) -> frozenset[int]:
    """The cores a process may run on; all of them where the system cannot tell."""
    try:
        return frozenset(os.sched_getaffinity(process))
    except (AttributeError, OSError):
        return frozenset(range(os.cpu_count() or 1))


def sharing(mine: frozenset[int], node: list[frozenset[int]]) -> int:
    """How many ranks of the node, this one included, may run on this rank's cores. One, if each is bound to its own."""
    return sum(1 for other in node if other & mine)
