"""The record of collectives: counters, ring buffer, log line."""

import logging

import numpy as np
import pytest

from distad.log import logger
from distad.runtime import collectives, mpi, recorder
from distad.runtime.recorder import Where, count


def all_reduce(mesh, n=1, where=recorder.NOWHERE):
    return collectives.all_reduce(mpi.group(mesh, ('X',)), np.ones(n, np.float32), where=where)


@pytest.mark.meshes((2,))
def test_counters_nest(mesh):
    with count() as outer:
        all_reduce(mesh, 4)
        with count() as inner, count() as twin:
            all_reduce(mesh, 2)
            collectives.all_gather(mpi.group(mesh, ('X',)), np.ones(3, np.int16))
    all_reduce(mesh)
    assert outer.by_op == {'all-reduce': 2, 'all-gather': 1} and outer.total == 3 and outer.bytes == 16 + 8 + 6
    assert inner.by_op == {'all-reduce': 1, 'all-gather': 1} and inner.bytes == 14 and inner == twin


@pytest.mark.meshes((2,))
def test_bytes_are_those_that_travel(mesh):
    with count() as c:
        collectives.all_reduce(mpi.group(mesh, ('X',)), np.ones(4, np.float16))  # as float32
    assert c.bytes == 16


@pytest.mark.meshes((2,))
def test_the_ring_buffer_keeps_the_last(mesh):
    for n in (1, 2):
        all_reduce(mesh, n, Where('jit(step)/reshard', 'train.py:12'))
    first, last = recorder.recent()[-2:]
    assert last.sequence == first.sequence + 1
    assert (last.op, last.axes, last.nbytes, last.dtype) == ('all-reduce', ('X',), 8, np.float32)
    assert last.started <= last.ended
    assert str(last) == f'#{last.sequence} all-reduce over X, 8 B float32, at train.py:12 (jit(step)/reshard)'
    for _ in range(recorder.LENGTH):
        recorder.begin(last.kind)
    assert len(recorder.recent()) == recorder.LENGTH


@pytest.mark.meshes((2,))
def test_the_log_line(mesh, caplog):
    logger.propagate = True  # to caplog; off when DISTAD_LOG is set
    with caplog.at_level(logging.INFO, 'distad'):
        all_reduce(mesh)
    assert not caplog.messages
    with caplog.at_level(logging.DEBUG, 'distad'):
        all_reduce(mesh)
    line, = caplog.messages
    assert line.startswith(f'X={mpi.rank()}: #') and ' all-reduce over X, 4 B float32, at ' in line
    assert 'test_recorder.py' in line and line.endswith(' ms')
