"""Trainings that are killed and started again, for real, end with the bits of one that was left alone."""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from distad.runtime.launch import clean_environ
from distad.testing.launching import launch, mpirun
from tests.faults import soak

pytestmark = [pytest.mark.ranks(1), pytest.mark.timeout(300)]
TRAIN = Path(__file__).parents[2] / 'examples' / 'train.py'


def ranks_of(mark: str) -> list[int]:
    """The processes of Python that have this in their command line."""
    found = []
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            words = path.read_text().split('\0')
        except OSError:
            continue
        if mark in words and 'mpirun' not in words[0] and 'python' in words[0]:
            found.append(int(path.parent.name))
    return sorted(found)


def kill_after(folder: Path, step: int, which: int, options: list[str]) -> None:
    """Start the trainer, kill one of its ranks once the checkpoint of a step is there, and wait for the end of all."""
    process = subprocess.Popen([mpirun(), '-n', '2', sys.executable, str(TRAIN), *options], env=clean_environ(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + 100
        while not (folder / f'step-{step:08d}').exists():
            assert process.poll() is None and time.monotonic() < deadline, process.communicate(timeout=9)[0]
            time.sleep(0.002)
        os.kill(ranks_of(str(folder))[which], signal.SIGKILL)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0 and not ranks_of(str(folder))


@pytest.fixture
def folder(tmp_path):
    """A folder in memory, where there is one: kills do not ask whether the disk is a real one."""
    made = Path(tempfile.mkdtemp(prefix='distad-', dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else tmp_path))
    yield made
    shutil.rmtree(made)


def test_the_trainer_is_killed_and_resumes_bit_for_bit(folder):
    options = ['--epochs', '1', '--every', '1', '--checkpoint']
    calm, rough = folder / 'calm', folder / 'rough'
    left_alone = launch([str(TRAIN), *options, str(calm)], 2, timeout=120)
    assert left_alone.returncode == 0 and not left_alone.stderr
    kill_after(rough, 2, 1, [*options, str(rough)])
    done = launch([str(TRAIN), *options, str(rough)], 2, timeout=120)
    assert done.returncode == 0 and not done.stderr
    assert 2 <= int(re.search(r'goes on after step (\d+)', done.stdout)[1]) < 6
    assert done.stdout.splitlines()[-1] == left_alone.stdout.splitlines()[-1]
    assert soak.bits(calm, 6) == soak.bits(rough, 6)


def test_a_short_soak(folder):
    random.seed(1)
    soak.soak(argparse.Namespace(steps=200, every=5, kills=2, ranks=2), folder)


def test_a_failed_save_of_which_nobody_heard_ends_the_program_with_status_1(folder):
    done = launch(f"""
        import resource
        import numpy as np
        import distad as jax
        from distad import checkpoint
        jax.set_mesh(jax.make_mesh((2,), ('X',)))
        x = jax.device_put(np.ones((2, 5000), 'f4'), jax.P('X'))
        checkpoint.save_async({str(folder / 'run')!r}, x).wait()
        if jax.process_index() == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (30000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        checkpoint.save_async({str(folder / 'run')!r}, x)
        """, 2)
    assert done.returncode == 1
    assert done.stderr.count('the next checkpoint was not saved to') == 1 and 'rank 1: ' in done.stderr
    assert [path.name for path in (folder / 'run').iterdir()] == ['step-00000000']
