"""Timelines: what each rank writes, and what is told from all of them together."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from distad import profiler
from distad.__main__ import main
from distad.profiler.merge import merge, read, waiting
from distad.runtime import collectives, mpi, timeline


def collective(rank, ts, dur, call=1, ranks=(0, 1), nbytes=8, name='all-reduce'):
    return {'ph': 'X', 'name': name, 'cat': 'collective', 'pid': rank, 'tid': 0, 'ts': ts, 'dur': dur,
            'args': {'bytes': nbytes, 'ranks': list(ranks), 'call': call}}


def compute(rank, ts, dur):
    return {'ph': 'X', 'name': 'compute', 'cat': 'compute', 'pid': rank, 'tid': 0, 'ts': ts, 'dur': dur, 'args': {}}


@pytest.mark.ranks(1)
def test_waiting_ends_when_the_last_has_come():
    waits = waiting([collective(0, 100, 50), collective(1, 130, 22), collective(0, 200, 5, call=2), collective(1, 190, 4, call=2)])
    assert [(w['pid'], w['name'], w['ts'], w['dur']) for w in waits] == [
        (0, 'waiting for rank 1', 100, 30), (1, 'waiting for rank 0', 190, 4)]  # the second left early: it only sent


@pytest.mark.ranks(1)
def test_the_tables(tmp_path, capsys):
    ranks = [[compute(0, 0, 1e6), collective(0, 1e6, 1e6)], [compute(1, 0, 1.5e6), collective(1, 1.5e6, 0.5e6)]]
    for rank, events in enumerate(ranks):
        lines = ''.join(json.dumps(event) + ',\n' for event in events)
        # The second file is that of a rank which was killed.
        (tmp_path / f'rank{rank}.json').write_text('[\n' + lines + ('{"ph": "X", "na' if rank else '{"name": "end", "ph": "M"}\n]\n'))
    assert main(['trace', 'merge', str(tmp_path)]) == 0
    out = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert out[1] == ['all-reduce', '1', '16', 'B', '0.7500', 's', '33%', 'rank', '1', '(100%)']
    assert out[4] == ['0', '1.0000', 's', '(50%)', '0.5000', 's', '(25%)', '0.5000', 's', '(25%)']
    assert out[5] == ['1', '1.5000', 's', '(75%)', '0.5000', 's', '(25%)', '0.0000', 's', '(0%)']
    events = json.loads((tmp_path / 'trace.json').read_text())
    assert [e['name'] for e in events] == ['compute', 'all-reduce', 'compute', 'all-reduce', 'waiting for rank 1']


@pytest.mark.ranks(1)
def test_what_is_no_timeline(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(['trace', 'merge', str(tmp_path)])
    assert caught.value.code == 1 and f'DISTAD_TRACE={tmp_path}' in capsys.readouterr().err
    (tmp_path / 'rank0.json').write_text('{}')
    with pytest.raises(ValueError, match='rank0.json is not a timeline'):
        merge(tmp_path)


@pytest.mark.meshes((1,), (2,), (3,))
def test_a_trace_of_all_ranks(mesh, tmp_path):
    folder = Path(collectives.agree(mpi.world(), str(tmp_path).encode())[0].decode())
    group, late = mpi.group(mesh, ('X',)), mesh.size - 1
    with profiler.trace(folder):
        with profiler.TraceAnnotation('pause', of=late):
            time.sleep(0.4 * (mpi.rank() == late))
        collectives.all_reduce(group, np.ones(3, np.float32))
        with pytest.raises(RuntimeError, match='already'):
            timeline.start(folder, 0, 1, (0, 0))
    collectives.all_reduce(group, np.ones(3))  # after the trace
    json.loads((folder / f'rank{mpi.rank()}.json').read_text())
    events = read(folder / f'rank{mpi.rank()}.json')
    slices = [event for event in events if event['ph'] == 'X']
    assert all(event['ts'] >= -1e4 and event['pid'] == mpi.rank() for event in slices)
    pause, = (event for event in slices if event['name'] == 'pause')
    assert pause['args'] == {'of': late}
    clock, = (event for event in events if event['name'] == 'clock')
    assert abs(clock['args']['ahead of rank 0']) < 0.2   # on one machine all clocks are the same, but a loaded one answers late
    sent = [event for event in slices if event['cat'] == 'collective']
    assert len(sent) == (mesh.size > 1)
    for event in sent:
        assert (event['name'], event['args']['bytes'], event['args']['axes']) == ('all-reduce', 12, 'X')
    collectives.agree(mpi.world(), b'')
    if mpi.rank() == 0 and mesh.size > 1:
        assert f'rank {late} (100%)' in merge(folder)
        waits = [e for e in json.loads((folder / 'trace.json').read_text()) if e.get('cat') == 'waiting']
        assert {e['pid'] for e in waits} <= set(range(late)) and all(e['name'] == f'waiting for rank {late}' for e in waits)
        assert max(e['dur'] for e in waits) > 2e4
    collectives.agree(mpi.world(), b'')
