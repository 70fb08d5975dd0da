"""How one rank's end ends the job: within seconds, with a status other than 0, and with its own traceback, once and last."""

import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from distad.runtime.launch import clean_environ
from distad.testing.launching import BYTECODE, mpirun
from tests.faults.runs import START, run

pytestmark = [pytest.mark.ranks(1), pytest.mark.timeout(120)]
QUICK = 5


@pytest.mark.parametrize('n, body', [
    (3, "if rank == 1: now(); raise ValueError('boom')\nif rank == 2: time.sleep(100)\nall_reduce()"),
    (2, """
def called(x):
    if rank == 1: now(); raise ValueError('boom')
    return x
jax.jit(lambda x: jax.pure_callback(called, jax.ShapeDtypeStruct((), np.float32), x))(np.float32(1))
all_reduce()"""),
], ids=['others wait or sleep', 'in a callback'])
def test_an_exception(tmp_path, n, body):
    ended = run(tmp_path, body, n)
    assert ended.status == 1 and ended.seconds < QUICK
    assert ended.err.count('Traceback') == 1 and ended.err.startswith('[rank 1] Traceback')
    assert len(re.findall(r'^ValueError: .*boom', ended.err, re.M)) == 1


def test_exceptions_on_all_ranks(tmp_path):
    """The first shows its traceback; of the others a line stands before it."""
    ended = run(tmp_path, """
print('before')
all_reduce()
now()
if rank < 3: raise ValueError('boom')
time.sleep(0.02)
raise KeyError('other')""", 4)
    assert ended.status == 1 and ended.seconds < QUICK and 'before' in ended.out
    assert ended.err.count('Traceback') == 1 and ended.err.count('ValueError: boom') == 1
    before = ended.err.partition('Traceback')[0]
    assert re.search(r"^\[rank 3\] KeyError: 'other'\n", before, re.M)
    assert re.search(r'^\[ranks \d, \d\] the same as below\n', before, re.M)


@pytest.mark.parametrize('where, body', [
    ('in thread worker: ', "if rank == 0: threading.Thread(target=lambda: 1 / 0, name='worker').start()\ntime.sleep(100)"),
    ('at exit: ', "import atexit\nif rank == 0: atexit.register(lambda: 1 / 0)\nif rank: all_reduce()"),
], ids=['thread', 'exit'])
def test_an_exception_elsewhere(tmp_path, where, body):
    ended = run(tmp_path, 'now()\n' + body)
    assert ended.status == 1 and ended.seconds < QUICK
    assert f'[rank 0] {where}Traceback' in ended.err and ended.err.count('Traceback') == 1 and 'ZeroDivisionError' in ended.err


def test_an_exception_before_mpi_has_started(tmp_path):
    """At import, say, while others wait in MPI_Init."""
    ended = run(tmp_path, """
import os, time
import distad as jax
open(os.environ['FAULT_MOMENT'], 'w').write(str(time.time()))
if os.environ['PMI_RANK'] == '1': import no_such_module
jax.process_index()
""", start='')
    assert ended.status == 1 and ended.seconds < QUICK and '[rank 1] Traceback' in ended.err and 'no_such_module' in ended.err


def test_no_memory(tmp_path):
    ended = run(tmp_path, """
import resource
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
now()
if rank == 1: np.ones(1 << 33)
all_reduce()""")
    assert ended.status == 1 and ended.seconds < QUICK and 'MemoryError' in ended.err and '[rank 1] Traceback' in ended.err


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGTERM])
def test_a_rank_that_is_killed(tmp_path, number):
    ended = run(tmp_path, f"""
if rank == 0:
    maps = open('/proc/self/maps').read().splitlines()
    say([line for line in maps if '/dev/shm/' in line and not line.endswith('(deleted)')])
all_reduce()
if rank == 1:
    now()
    os.kill(os.getpid(), {number:d})
all_reduce()""")
    assert ended.status and ended.seconds < QUICK
    assert ended.out.startswith('0 []\n')  # memory that has a name would be left over


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_mpirun_is_told_to_end(tmp_path: Path, number):
    """It passes Ctrl-C on to the ranks; those in a collective hear it as well as those in Python."""
    script = tmp_path / 'wait.py'
    script.write_text(textwrap.dedent(START + "    if rank == 0:\n        say('ready')\n        time.sleep(100)\n    all_reduce()\n"))
    process = subprocess.Popen([mpirun(), '-n', '2', sys.executable, str(script)], text=True,
                               env=clean_environ() | BYTECODE | {'FAULT_TIMEOUT': '300'}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == '0 ready\n'
    began = time.monotonic()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode and time.monotonic() - began < QUICK
    if number == signal.SIGINT:
        assert process.returncode == 130 and stderr.count('Traceback') == 1 and 'KeyboardInterrupt' in stderr


def test_an_early_exit_while_others_wait(tmp_path):
    ended = run(tmp_path, 'now()\nif rank == 1: sys.exit(0)\nall_reduce()')
    assert ended.status == 1 and ended.seconds < QUICK
    assert '[rank 0] Traceback' in ended.err and 'rank 1 has ended the program and will not come' in ended.err


def test_an_early_exit_that_nobody_waits_for(tmp_path):
    ended = run(tmp_path, "if rank == 1: sys.exit(3)\ntime.sleep(0.5)\nprint('done')")
    assert ended.status == 3 and 'done' in ended.out and not ended.err


def test_a_rank_may_leave_after_its_part(tmp_path):
    """Rank 0 gets nothing in this permutation, so it ends long before rank 2 comes, for which rank 1 waits."""
    ended = run(tmp_path, """
g = mpi.world()
size = lambda a, b: 5 if (a, b) == (2, 1) else 0
if rank == 2: time.sleep(1.5)
blocks = [np.full(size(rank, k), rank, np.int32) for k in range(3)]
came = collectives.all_to_all_v(g, blocks, [(size(k, rank),) for k in range(3)])
say([x.tolist() for x in came])""", 3)
    assert ended.status == 0 and '1 [[], [], [2, 2, 2, 2, 2]]' in ended.out
