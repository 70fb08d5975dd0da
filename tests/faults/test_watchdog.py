"""A collective that does not come together: one report on all ranks, and an end with a status of its own."""

import re

import pytest

from distad.runtime import watchdog
from tests.faults.runs import run

pytestmark = [pytest.mark.ranks(1), pytest.mark.timeout(120)]

MISSING = """
def elsewhere():
    {}
now()
if rank == 1:
    elsewhere()
full(x)
"""


def check(ended, n, waiting, missing):
    assert ended.status == watchdog.STATUS == 75
    assert 1 <= ended.seconds < 6
    assert ended.err.count('TIME-OUT') == 1 and 'Traceback' not in ended.err
    assert f'{waiting} for {missing}.' in ended.err
    assert re.search(r'TIME-OUT: #2 all-gather over X, 16 B float32, at .*script.py:\d+ \(full\)', ended.err)
    for rank in range(n):
        section = re.search(rf'^rank {rank} \(process \d+\) (.*?)(?:^rank|\Z)', ended.err, re.M | re.S)[1]
        assert '#1 all-gather over X, 16 B float32, at ' in section and ' ms\n' in section
        if rank == 1:
            assert 'is between two collectives' in section and '#2' not in section.split('\n\n')[0]
        else:
            assert section.startswith('is inside #2 all-gather over X') and 'not ended' in section
            assert re.search(r'script.py:\d+ in <module>: full\(x\)\n', section)
    return re.search(r'^rank 1 (.*?)(?:^rank|\Z)', ended.err, re.M | re.S)[1]


def test_a_rank_that_sleeps(tmp_path):
    """Users of other systems complain that nothing is said of a rank that is alive and stuck (jax-ml/jax#38503)."""
    ended = run(tmp_path, MISSING.format('time.sleep(1e6)'), 3, timeout=1)
    section = check(ended, 3, 'Ranks 0, 2 wait', 'rank 1')
    assert re.search(r'script.py:\d+ in elsewhere: time.sleep\(1e6\)\n', section)
    assert re.search(r'Rank 1 has stopped after #1 .*, at .*in elsewhere: time.sleep.*; its process is sleeping', ended.err)


@pytest.mark.parametrize('body', ['while True: pass', 'lock = threading.Lock(); lock.acquire(); lock.acquire()'])
def test_a_rank_in_an_endless_loop_or_a_deadlock(tmp_path, body):
    section = check(run(tmp_path, MISSING.format(body), timeout=1), 2, 'Rank 0 waits', 'rank 1')
    assert f'in elsewhere: {body}\n' in section


def test_a_rank_that_is_stopped(tmp_path):
    ended = run(tmp_path, MISSING.format('os.kill(os.getpid(), signal.SIGSTOP)'), timeout=1)
    assert 'no stack: its process is stopped (SIGSTOP or a debugger)' in check(ended, 2, 'Rank 0 waits', 'rank 1')


def test_ranks_in_different_collectives(tmp_path):
    """Along the two axes of a mesh: each rank waits for another one, round in a circle."""
    ended = run(tmp_path, """
mesh = jax.make_mesh((2, 2), ('Y', 'Z'))
now()
collectives.all_reduce(mpi.group(mesh, ('Y',)), np.ones(3))
collectives.all_reduce(mpi.group(mesh, ('Z',)), np.ones(3))
collectives.all_reduce(mpi.group(mesh, ('Z',) if rank in (0, 3) else ('Y',)), np.ones(5))
""", 4, timeout=1.5)
    assert ended.status == 75 and ended.err.count('TIME-OUT') == 1
    for rank, other in ((0, 1), (1, 3), (3, 2), (2, 0)):
        assert f'Rank {rank} waits for rank {other}.\n' in ended.err
    assert re.search(r'Rank 0 is in another one: #\d+ all-reduce over Z, 40 B float64.* The ranks do not make the same calls',
                     ended.err)


def test_on_several_nodes(tmp_path):
    """MPICH is made to see two nodes of two ranks, which share no memory then. The waiting rank of the one asks the other's."""
    ended = run(tmp_path, "now()\nif rank == 3: time.sleep(1e6)\nfull(x)", 4, timeout=1, MPIR_CVAR_NUM_CLIQUES='2')
    assert ended.status == 75 and ended.err.count('TIME-OUT') == 1 and ended.seconds < 8
    assert 'Ranks 0, 1, 2 wait for rank 3.' in ended.err and 'Rank 3 has stopped after #1' in ended.err
    for rank in range(4):
        section = re.search(rf'^rank {rank} \(process \d+\) (.*?)(?:^rank|\Z)', ended.err, re.M | re.S)[1]
        assert ('is inside #2', 'is between two')[rank == 3] in section and 'script.py' in section


def test_a_rank_that_does_not_come_to_the_first_mesh(tmp_path):
    """Before MPI has started there is no memory to share: each rank that waits shows its stack."""
    ended = run(tmp_path, """
import os, sys, time
import distad as jax
open(os.environ['FAULT_MOMENT'], 'w').write(str(time.time()))
if os.environ['PMI_RANK'] == '1': time.sleep(100)
jax.process_index()
""", start='', DISTAD_TIMEOUT='1')
    assert ended.status and ended.seconds < 6 and 'Timeout' in ended.err and 'script.py' in ended.err
