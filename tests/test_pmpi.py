"""The counter counts: what it says of a program is what the program plainly calls."""

from pathlib import Path

import pytest

from tests.pmpi import Calls, count_calls


@pytest.mark.ranks(1)
def test_calls_between_the_marks_are_counted_by_rank_and_size(tmp_path: Path) -> None:
    calls = count_calls("""
        import numpy as np
        from mpi4py import MPI
        world, x, y = MPI.COMM_WORLD, np.ones(5, np.float32), np.empty(5, np.float32)
        world.Barrier()
        MPI.Pcontrol(1)
        world.Allreduce(x, y)
        world.Iallreduce(x, y).Wait()
        if world.rank:
            world.Send(x[:2], 0)
        else:
            world.Recv(y[:2], 1)
        world.Ialltoallv([x, [2, 2]], [y, [2, 2]]).Wait()
        MPI.Pcontrol(0)
        world.Barrier()
    """, 2, tmp_path)
    both = {'Allreduce': Calls(times=2, bytes=40), 'Alltoallv': Calls(times=1, bytes=0)}
    assert calls == [both | {'Recv': Calls(times=1, bytes=8)}, both | {'Send': Calls(times=1, bytes=8)}]


@pytest.mark.ranks(1)
def test_a_wait_in_the_library_sends_one_message(tmp_path: Path) -> None:
    calls = count_calls("""
        import numpy as np
        from mpi4py import MPI
        from distad.runtime import collectives, mpi
        world = mpi.world()
        MPI.Pcontrol(1)
        collectives.all_reduce(world, np.ones((3, 7), np.float32))
        MPI.Pcontrol(0)
    """, 3, tmp_path)
    assert calls == 3 * [{'Allreduce': Calls(times=1, bytes=84)}]
