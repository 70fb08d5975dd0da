"""What is put right when MPI has started, once: launcher, setup, BLAS threads, exits, the black box of the node, memory."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from distad import log
from distad.late import Late
from distad.runtime import blackbox, clocks, exits, launch, memory, overdue, presence, timeline
from distad.runtime.setup import check_setup
from distad.runtime.waiting import TRIES_ALONE, TRIES_CROWDED, wait
from distad.runtime.world import World

threads_of = Late('threadpoolctl')


def begin(MPI: Any, yielding: bool) -> World:
    """The world of a run in which MPI has just started. A collective over all ranks."""
    all_ranks = MPI.COMM_WORLD
    library = MPI.Get_library_version().splitlines()[0].strip()
    launch.check_launcher(all_ranks.size, library)
    log.start(all_ranks.rank, all_ranks.size)
    memory.keep()
    comm, request = all_ranks.Idup()
    wait(request.Test, lambda: 'the start of distad on all ranks')
    # Preparing is a collective that may wait for the others, out of reach of a deadline. In MPICH it does not.
    prepares = library.startswith('MPICH') and MPI.VERSION >= 4
    here = World(MPI=MPI, comm=comm, rank=comm.rank, size=comm.size, tries=TRIES_ALONE, box=None, prepares=prepares)
    if here.size > 1:
        _settle(here, yielding)
    if folder := os.environ.get('DISTAD_TRACE'):
        timeline.start(folder, here.rank, here.size, clocks.compare(here))
    return here


def _settle(here: World, yielding: bool) -> None:
    """Agree with the other ranks, and share with those of this node its cores and a black box."""
    check_setup(here.comm)
    node = here.comm.Split_type(here.MPI.COMM_TYPE_SHARED)
    mine = launch.cores()
    ranks, theirs = zip(*node.allgather((here.rank, mine)), strict=True)
    sharing = launch.sharing(mine, theirs)
    here.box = blackbox.shared(here.rank, ranks, node.bcast)
    if node.rank == 0:
        launch.forget_shared_memory()  # all ranks of the node are here, so all have it
    node.Barrier()
    node.Free()
    if sharing > len(mine):
        here.tries = TRIES_CROWDED
        log.logger.info('%d ranks share %d cores: while they wait they yield, then sleep%s', sharing, len(mine),
                        ', and so does MPICH (MPIR_CVAR_ENABLE_HEAVY_YIELD=1)' if yielding else '')
    _limit_blas(max(1, len(mine) // sharing))
    exits.install(here.rank, partial(overdue.abort, here), partial(presence.leave, here), here.box)


def _limit_blas(threads: int) -> None:
    """Limit BLAS to so many threads, unless the user has chosen a number."""
    if any(name in os.environ for name in launch.BLAS_VARIABLES):
        return
    before = max((pool['num_threads'] for pool in threads_of.threadpool_info() if pool['user_api'] == 'blas'), default=0)
    os.environ['OPENBLAS_NUM_THREADS'] = str(threads)  # for libraries that are loaded later, such as SciPy's
    if before > threads:
        threads_of.threadpool_limits(limits=threads, user_api='blas')
        log.logger.info('BLAS uses %d of %d threads, as ranks share the cores of this node (to choose, set '
                        'OPENBLAS_NUM_THREADS)', threads, before)
