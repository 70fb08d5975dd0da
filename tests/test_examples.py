"""The programs in examples/: each checks its own results, so it is enough that they run, and send what they should."""

import re
from pathlib import Path

import pytest

from distad.testing import launch

EXAMPLES = Path(__file__).parents[1] / 'examples'
pytestmark = [pytest.mark.ranks(1), pytest.mark.timeout(400)]

OPTIONS = {  # small ones
    'embedding': ['--steps', '3'],
    'ensemble': ['--steps', '8', '--models', '4'],
    'fsdp': ['--steps', '3'],
    'halo_heat': ['--rounds', '22'],
    'per_example_grads': ['--steps', '2'],
    'pipeline': ['--steps', '3'],
    'ring_matmul': ['--size', '48'],
    'sample_sort': ['--size', '2400'],
    'tensor_parallel': ['--steps', '3'],
    'train': ['--epochs', '2'],
}
# What the last line about a step says is sent on 1 and on 4 ranks.
SENDS = {
    'embedding': ('nothing', '1 all-reduce'),
    'ensemble': ('nothing', '1 all-reduce'),
    'fsdp': ('nothing', '6 all-gather, 1 all-reduce, 3 reduce-scatter'),
    'halo_heat': ('nothing', '1204 collective-permute'),
    'per_example_grads': ('nothing', '1 all-reduce'),
    'pipeline': ('nothing', '1 all-reduce, 22 collective-permute'),
    'ring_matmul': ('nothing', '6 collective-permute'),
    'sample_sort': ('nothing', '4 all-gather, 1 all-reduce, 1 all-to-all, 5 collective-permute'),
    'tensor_parallel': ('nothing', '6 all-reduce'),
}


def run(name: str, n: int, *options: str):
    return launch([str(EXAMPLES / f"{name}.py"), *options], n, timeout=150)


def test_every_program_is_run_here_and_is_in_the_readme():
    programs = {path.stem for path in EXAMPLES.glob('*.py')} - {'common'}
    readme = EXAMPLES.with_name('README.md').read_text()
    assert programs == set(OPTIONS)
    assert programs == set(re.findall(r'^\| `examples/(\w+)\.py` \|', readme, re.M))
    for path in EXAMPLES.glob('*.py'):
        assert len(path.read_text().splitlines()) < 120, path


@pytest.mark.parametrize('n', [1, 4])
@pytest.mark.parametrize('name', sorted(SENDS))
def test_an_example_is_right_and_sends_what_it_should(name, n):
    done = run(name, n, *OPTIONS[name])
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    errors = re.findall(r'relative error (\S+), allowed (\S+)', done.stdout)
    assert errors and all(float(error) <= float(allowed) for error, allowed in errors)
    sent = re.findall(r'(?:sends|forward and backward:?) (.*?)(?: \(.*)?$', done.stdout, re.M)
    assert sent[-1] == SENDS[name][(1, 4).index(n)]


def test_the_trainer_has_the_same_losses_on_any_number_of_ranks_with_one_collective_a_step():
    losses = {}
    for n in (1, 2, 3, 4):
        done = run('train', n, *OPTIONS['train'])
        assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
        lines = re.findall(r'^epoch +\d+ +loss (\S+) .* collectives a step (\d+) ', done.stdout, re.M)
        assert [int(sent) for _, sent in lines] == [int(n > 1)] * 2
        losses[n] = [float(loss) for loss, _ in lines]
    assert losses[1][1] < losses[1][0]
    for n in (2, 3, 4):
        assert losses[n] == pytest.approx(losses[1], abs=1e-5)


def test_the_trainer_learns_the_digits():
    done = run('train', 1)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    assert float(re.findall(r'test accuracy +(\S+) %', done.stdout)[-1]) >= 97


def test_a_wrong_result_ends_with_status_1_and_one_sentence():
    done = launch(f"""
        import sys
        sys.path.insert(0, {str(EXAMPLES)!r})
        import numpy as np
        from common import expect
        expect('the sum', np.ones(2), 1.1 * np.ones(2), 1e-3)
        print('went on')
        """, 2)
    assert done.returncode == 1
    assert done.stdout == 'the sum: relative error 9.1e-02, allowed 1e-03\n'
    assert done.stderr.count('the sum is wrong: the relative error is 9.1e-02\n') == 1


@pytest.mark.parametrize('name, options, message', [
    ('train', ['--batch', '100'], '--batch must divide 1440 and be a multiple of microbatches times ranks, 4 x 3'),
    ('fsdp', ['--steps', 'many'], "argument --steps: 'many' is not a number from 1 on"),
    ('pipeline', ['--layer-count', '3'], 'unrecognized arguments: --layer-count 3'),
])
def test_wrong_options_are_told_once(name, options, message):
    done = run(name, 3, *options)
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr.startswith('usage: ') and done.stderr.endswith(f"{name}.py: error: {message}\n")
    assert done.stderr.count('error:') == 1


@pytest.mark.parametrize('name, n', [('train', 1), ('tensor_parallel', 2)])
def test_help_is_told_once_and_needs_no_mpi(name, n):
    done = launch([str(EXAMPLES / f"{name}.py"), '--help'], n, env={'MPI4PY_LIBMPI': '/there/is/none'})
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.count(f"usage: {name}.py") == 1 and done.stdout.endswith('Run it with mpirun -n N.\n')
