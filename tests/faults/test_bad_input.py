"""Every malformed call of the table `bad_calls` gives one clear error, the same on all ranks, and leaves the process usable."""

import os
import shutil
import tempfile

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.runtime import collectives, mpi
from tests.faults import bad_calls

P = jax.P
MEMORY = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None                # no waiting for a disk


@pytest.mark.meshes((1,), (2,), (3,), (4,))
def test_malformed_calls(mesh):
    mine = tempfile.mkdtemp(prefix='distad-', dir=MEMORY) if mpi.rank() == 0 else ''
    base = collectives.agree(mpi.world(), mine.encode())[0].decode()
    cases = [case for case in bad_calls.table(mesh, base) if case.ranks <= mesh.size]
    assert len(cases) >= (200 if mesh.size == 1 else 350)
    split = jax.device_put(np.arange(2. * mesh.size), P('X'))
    wrong = []
    for case in cases:
        error = None
        try:
            case.call()
        except Exception as raised:
            error = raised
        where = f'{case.family}, line {case.call.__code__.co_firstlineno}'
        if said := bad_calls.explained(case, error):
            wrong.append(f'{where}: {said}')
        said = collectives.agree(mpi.world(), f'{where} {type(error).__name__}: {error}'.encode())
        if len(set(said)) > 1:
            wrong.append('the ranks differ: ' + ' | '.join(text.decode() for text in said))
        if float(jnp.sum(split)) != np.arange(2. * mesh.size).sum() or jax.get_mesh() != mesh:
            wrong.append(f'{where}: afterwards sums are wrong, or the mesh is another one')
    collectives.agree(mpi.world(), b'')
    if mpi.rank() == 0:
        shutil.rmtree(base)
    assert not wrong, '\n'.join(wrong)
