"""How one rank's end ends the job. Each test starts an mpirun of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distad.runtime.launch import BLAS_VARIABLES, clean_environ
from distad.testing.launching import launch, mpirun

pytestmark = [pytest.mark.ranks(1), pytest.mark.timeout(90)]
QUICK = 30  # seconds, of a busy machine; what takes for ever takes longer

START = """
    import os, sys, threading, time
    import numpy as np
    from distad.runtime import collectives, mpi
    rank = mpi.rank()
    def all_reduce():
        return collectives.all_reduce(mpi.world(), np.float32(1))
    def say(what):
        sys.stdout.write(f'{rank} {what}\\n')  # one write, so that lines of ranks do not mix
"""


def run(body: str, n: int = 2, **env: str):
    lines = ''.join(f'    {line.strip()}\n' for line in body.strip().splitlines())
    began = time.monotonic()
    result = launch(START + lines, n, env=env)
    assert time.monotonic() - began < QUICK
    return result


@pytest.mark.parametrize('n', [2, 4])
def test_an_exception_ends_all_ranks(n):
    for body in ("all_reduce()\nif rank == 1: raise ValueError('boom')\nall_reduce()",
                 "if rank == 1: raise ValueError('boom')\nall_reduce()",
                 "if rank == 1: raise ValueError('boom')\ntime.sleep(100)"):
        result = run(body, n)
        assert result.returncode not in (0, None)
        assert result.stderr.count('Traceback') == 1 and '[rank 1] Traceback' in result.stderr
        assert result.stderr.count('ValueError: boom') == 1


def test_an_exception_on_all_ranks_is_seen_once():
    result = run("print('before')\nraise ValueError('boom')", 4)
    assert result.returncode == 1 and result.stderr.count('ValueError: boom') == 1 and 'before' in result.stdout


def test_an_exception_in_a_thread():
    result = run("""
        if rank == 0: threading.Thread(target=lambda: 1 / 0, name='worker').start()
        time.sleep(100 * (rank == 0))
        all_reduce()""")
    assert result.returncode == 1 and '[rank 0] in thread worker: Traceback' in result.stderr


def test_a_keyboard_interrupt():
    assert run('all_reduce()\nif rank == 0: raise KeyboardInterrupt\nall_reduce()').returncode == 130


@pytest.mark.parametrize('status', [0, 3])
def test_an_early_exit_while_others_wait(status):
    for first in ('', 'all_reduce()\n'):
        result = run(first + f'if rank == 1: sys.exit({status})\nall_reduce()')
        assert result.returncode == 1
        assert '[rank 0] Traceback' in result.stderr
        assert 'rank 1 has ended the program and will not come' in result.stderr


def test_an_early_exit_that_nobody_waits_for():
    body = "all_reduce()\nif rank == 1: sys.exit({})\ntime.sleep(0.5)\nprint('done')"
    result = run(body.format(3))
    assert result.returncode == 3 and 'done' in result.stdout and not result.stderr
    result = run(body.format(0))
    assert result.returncode == 0 and 'done' in result.stdout and not result.stderr


def test_a_rank_may_leave_after_its_part():
    """Rank 0 gets nothing in this permutation, so it ends long before rank 2 comes, for which rank 1 waits."""
    result = run("""
        g = mpi.world()
        size = lambda a, b: 5 if (a, b) == (2, 1) else 0
        if rank == 2: time.sleep(1.5)
        blocks = [np.full(size(rank, k), rank, np.int32) for k in range(3)]
        came = collectives.all_to_all_v(g, blocks, [(size(k, rank),) for k in range(3)])
        say([x.tolist() for x in came])""", 3)
    assert result.returncode == 0 and '1 [[], [], [2, 2, 2, 2, 2]]' in result.stdout


def test_the_deadline():
    result = run('all_reduce()\nif rank == 0: time.sleep(100)\nall_reduce()', DISTAD_TIMEOUT='1')
    assert result.returncode == 1
    assert 'CollectiveTimeoutError: #2 all-reduce over world, 4 B float32' in result.stderr


def test_ctrl_c(tmp_path: Path):
    """mpirun passes it on to the ranks; those in a collective hear it as well as those in Python."""
    script = tmp_path / 'wait.py'
    script.write_text('import sys, time\nimport numpy as np\nfrom distad.runtime import collectives, mpi\n'
                      "if mpi.rank() == 0:\n    print('ready', flush=True)\n    time.sleep(100)\n"
                      'collectives.all_reduce(mpi.world(), np.float32(1))\n')
    process = subprocess.Popen([mpirun(), '-n', '2', sys.executable, str(script)], env=clean_environ(), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == 'ready\n'
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=QUICK)
    assert process.returncode and 'KeyboardInterrupt' in stderr


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


def test_log_on_stderr_and_in_files(tmp_path: Path):
    body = 'all_reduce()'
    result = run(body, DISTAD_LOG='debug')
    for rank in range(2):
        assert f'[rank {rank}/2] distad DEBUG rank={rank}: #1 all-reduce over world, 4 B float32, at ' in result.stderr
    result = run(body, DISTAD_LOG='info')
    assert 'DEBUG' not in result.stderr
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
