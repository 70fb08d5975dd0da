"""What the launcher says and what MPI says."""

import pytest

from distad.errors import LauncherMismatchError
from distad.runtime import launch

MPICH = 'MPICH Version: 5.0.2'


@pytest.mark.parametrize('variables, launcher', [
    ({'PMI_SIZE': '2', 'PMI_RANK': '1'}, 'MPICH'),
    ({'OMPI_COMM_WORLD_SIZE': '4', 'OMPI_COMM_WORLD_RANK': '3'}, 'Open MPI'),
    ({'SLURM_STEP_NUM_TASKS': '8', 'SLURM_PROCID': '0'}, 'srun'),
    ({'FLUX_JOB_SIZE': '2', 'FLUX_TASK_RANK': '0'}, 'flux run'),
    ({'PALS_NRANKS': '2', 'PALS_RANKID': '0'}, 'PALS'),
])
def test_ranks_that_believe_to_be_alone(variables, launcher):
    with pytest.raises(LauncherMismatchError, match='mpi4py and mpirun belong to different MPIs') as error:
        launch.check_launcher(1, MPICH, variables)
    size, rank = variables.values()
    assert f'rank {rank} of {size} for ' in str(error.value) and launcher in str(error.value)
    assert MPICH in str(error.value)
    launch.check_launcher(1, MPICH, variables | {'DISTAD_ALLOW_SINGLETON': '1'})
    launch.check_launcher(int(size), MPICH, variables)


def test_ranks_that_are_alone():
    launch.check_launcher(1, MPICH, {})
    launch.check_launcher(1, MPICH, {'PMI_SIZE': '1', 'PMI_RANK': '0'})
    # A plain `python` in a batch script.
    launch.check_launcher(1, MPICH, {'SLURM_NTASKS': '4', 'SLURM_PROCID': '0'})


def test_a_child_starts_without_the_launchers_variables():
    mine = {'PMI_RANK': '1', 'PMI_FD': '5', 'OMPI_COMM_WORLD_RANK': '1', 'MPI_LOCALNRANKS': '2', 'HYDI_CONTROL_FD': '7',
            'PATH': '/bin', 'MPI4PY_LIBMPI': '/opt/libmpi.so', 'MPIR_CVAR_ENABLE_HEAVY_YIELD': '1'}
    assert sorted(launch.clean_environ(mine)) == ['MPI4PY_LIBMPI', 'MPIR_CVAR_ENABLE_HEAVY_YIELD', 'PATH']


def test_mpich_yields_where_ranks_outnumber_cores():
    cores = launch.node_cores()
    environ = {'MPI_LOCALNRANKS': str(cores)}
    assert not launch.yield_when_crowded(environ) and len(environ) == 1
    environ = {'MPI_LOCALNRANKS': str(cores + 1)}
    assert launch.yield_when_crowded(environ) and environ['MPIR_CVAR_ENABLE_HEAVY_YIELD'] == '1'
    environ = {'MPI_LOCALNRANKS': str(cores + 1), 'MPIR_CVAR_ENABLE_HEAVY_YIELD': '0'}
    assert not launch.yield_when_crowded(environ) and environ['MPIR_CVAR_ENABLE_HEAVY_YIELD'] == '0'
    assert not launch.yield_when_crowded({})


def test_who_shares_cores():
    all_cores, bound = frozenset(range(4)), [frozenset({0, 1}), frozenset({2, 3})]
    assert launch.sharing(all_cores, [all_cores] * 3) == 3
    assert launch.sharing(bound[0], bound) == 1
