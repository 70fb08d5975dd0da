"""What is put right when MPI starts, and what is left as it is. Each test starts an mpirun of its own."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distad.errors import DisagreementError
from distad.log import logger
from distad.runtime import setup
from distad.runtime.launch import BLAS_VARIABLES, clean_environ
from distad.testing.launching import launch

pytestmark = [pytest.mark.ranks(1), pytest.mark.timeout(90)]

START = """
    import sys
    import numpy as np
    from distad.runtime import collectives, mpi
    rank = mpi.rank()
    def all_reduce():
        return collectives.all_reduce(mpi.world(), np.float32(1))
    def say(what):
        sys.stdout.write(f'{rank} {what}\\n')  # one write, so that lines of ranks do not mix
"""


def run(body: str, n: int = 2, **env: str):
    return launch(START + ''.join(f'    {line.strip()}\n' for line in body.strip().splitlines()), n, env=env)


def test_one_rank_is_plain_python():
    result = run("raise ValueError('boom')", 1)
    assert result.returncode == 1 and result.stderr.startswith('Traceback') and '[rank' not in result.stderr
    assert run('sys.exit(3)', 1).returncode == 3


def test_ranks_that_believe_to_be_alone():
    environ = clean_environ() | {'OMPI_COMM_WORLD_SIZE': '2', 'OMPI_COMM_WORLD_RANK': '1'}
    command = [sys.executable, '-c', 'from distad.runtime import mpi; print(mpi.size())']
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and 'mpi4py and mpirun belong to different MPIs' in result.stderr
    environ['DISTAD_ALLOW_SINGLETON'] = '1'
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stdout == '1\n'


def test_importing_starts_no_mpi_and_waits_for_no_library_that_few_programs_call():
    code = "import sys, distad; sys.exit(not {'mpi4py.MPI', 'scipy', 'opt_einsum', 'threadpoolctl'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, '-c', code], env=clean_environ(), timeout=60).returncode == 0


def test_a_switch_that_did_not_reach_all_ranks():
    for name, value in (('DISTAD_REPRODUCIBLE', '1'), ('DISTAD_TRACE', 'traces')):
        result = launch(f"""
            import os
            if '1' in (os.environ.get('PMI_RANK'), os.environ.get('OMPI_COMM_WORLD_RANK')):
                os.environ['{name}'] = '{value}'
            import distad
            distad.device_count()
        """, 3)
        assert result.returncode == 1 and f'the ranks are not set up alike: {name} is ' in result.stderr
        assert 'on ranks 0, 2 and ' in result.stderr and 'on rank 1.' in result.stderr


def test_processors_may_differ():
    mine = setup.facts()
    said = []

    class Ranks:
        rank = 0

        def __init__(self, *others: dict[str, str]):
            self.others = others

        def allgather(self, x: dict[str, str]) -> list[dict[str, str]]:
            return [x, *self.others]

    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger.addHandler(handler)
    try:
        setup.check_setup(Ranks(mine, mine))
        assert not said
        setup.check_setup(Ranks(mine, mine | {'processor': 'Abacus'}))
    finally:
        logger.removeHandler(handler)
    assert len(said) == 1 and 'on ranks 0, 1 and Abacus on rank 2' in said[0]
    with pytest.raises(DisagreementError, match='numpy is .* on ranks 0, 2 and 1.0 on rank 1'):
        setup.check_setup(Ranks(mine | {'numpy': '1.0'}, mine))


def test_log_on_stderr_and_in_files(tmp_path: Path):
    body = 'all_reduce()'
    result = run(body, DISTAD_LOG='debug')
    for rank in range(2):
        assert f'[rank {rank}/2] distad DEBUG rank={rank}: #1 all-reduce over world, 4 B float32, at ' in result.stderr
    result = run("from distad.log import logger\nlogger.info('news')\nlogger.warning('careful')\nall_reduce()", DISTAD_LOG='info')
    assert 'DEBUG' not in result.stderr
    assert result.stderr.count('INFO news') == 1 and '[rank 0/2] distad INFO news' in result.stderr
    assert result.stderr.count('WARNING careful') == 2
    result = run(body, DISTAD_LOG_DIR=str(tmp_path / 'logs'))
    assert not result.stderr
    assert sorted(os.listdir(tmp_path / 'logs')) == ['rank0.log', 'rank1.log']
    assert '#1 all-reduce over world' in (tmp_path / 'logs' / 'rank1.log').read_text()


def test_blas_threads_are_shared_unless_chosen(monkeypatch):
    body = """
        from threadpoolctl import threadpool_info
        say(max(p['num_threads'] for p in threadpool_info() if p['user_api'] == 'blas'))"""
    count = min(2, os.cpu_count())
    for name in BLAS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    result = run(body, 4)
    share = max(1, len(os.sched_getaffinity(0)) // 4)
    assert sorted(result.stdout.split('\n')[:-1]) == [f'{r} {share}' for r in range(4)]
    assert f'0 {count}\n' in run(body, 2, OPENBLAS_NUM_THREADS=str(count)).stdout
