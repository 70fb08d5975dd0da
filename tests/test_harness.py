"""The harness itself: small test runs of their own under mpirun, and what their terminals say."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from distad.testing import launch

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.ranks(1), pytest.mark.timeout(150)]

HEAD = """
    import numpy as np
    import pytest
    from distad.runtime import collectives, mpi
    from distad.types.mesh import Device, Mesh, get_mesh, set_mesh

    def psum(mesh):
        return collectives.all_reduce(mpi.group(mesh, mesh.axis_names), np.ones(1))[0]
"""


def run(folder: Path, tests: str, n: int, *arguments: str) -> tuple[int, str]:
    """The status and the output of `mpirun -n n python -m pytest` on these tests."""
    (folder / 'conftest.py').write_text("pytest_plugins = ['distad.testing']\n")
    (folder / 'test_it.py').write_text(dedent(HEAD) + dedent(tests))
    done = launch(['-m', 'pytest', '--with-mpi', '-p', 'no:cacheprovider', '--color=no', '-v', *arguments], n, cwd=folder,
                  env={'PYTHONPATH': str(ROOT), 'COLUMNS': '200'}, timeout=120)
    return done.returncode, done.stdout + done.stderr


def block(output: str, test: str) -> str:
    """What the output says of a failed test, from its heading to the next."""
    return re.search(rf'^_+ {re.escape(test)} _+$(.*?)^(?:_{{3,}} |={{3,}})', output, re.M | re.S)[1]


@pytest.fixture(scope='module')
def failures(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """A run of three ranks in which much goes wrong."""
    return run(tmp_path_factory.mktemp('failures'), """
        @pytest.mark.meshes((3,))
        def test_one_rank_raises_while_the_others_wait(mesh):
            print('printed by', mpi.rank())
            if mpi.rank() == 1:
                raise ValueError('only here')
            psum(mesh)

        @pytest.mark.meshes((3,))
        def test_the_next_one_is_not_disturbed(mesh):
            assert psum(mesh) == 3

        def test_ranks_meet_no_more():
            mesh = Mesh([Device(id=r, process_index=r) for r in (2, 1, 0)], ('a',))
            assert mpi.rank() != 1
            psum(mesh)

        def test_but_the_next_do():
            assert psum(Mesh([Device(id=r, process_index=r) for r in (2, 1, 0)], ('a',))) == 3

        def test_all_fail_alike():
            assert 1 + 1 == 3

        def test_each_fails_in_its_own_way():
            raise ValueError(f'number {mpi.rank()}')

        def test_one_skips():
            if mpi.rank() == 2:
                pytest.skip('not I')

        @pytest.mark.meshes((3,))
        def test_one_makes_a_collective_of_its_own(mesh):
            if mpi.rank() == 0:
                psum(mesh)

        @pytest.mark.timeout(1.5)
        @pytest.mark.meshes((3,))
        def test_two_do(mesh):
            if mpi.rank() < 2:
                psum(mesh)

        @pytest.fixture
        def broken(mesh):
            yield
            assert mpi.rank() != 1
            psum(mesh)

        @pytest.mark.meshes((3,))
        def test_teardown(mesh, broken):
            pass

        @pytest.mark.meshes((3,))
        def test_after_teardown(mesh):
            assert get_mesh() == mesh

        @pytest.mark.xfail(strict=True)
        @pytest.mark.meshes((3,))
        def test_expected_to_fail(mesh):
            assert mpi.rank() != 1
            psum(mesh)

        @pytest.mark.parametrize('i', range(2))
        def test_good(i):
            assert get_mesh().empty
            set_mesh(Mesh([Device(id=r, process_index=r) for r in (0, 1)], ('a',)))
    """, 3)


def test_a_failed_run_ends_by_itself_and_rank_0_alone_speaks(failures: tuple[int, str]) -> None:
    status, output = failures
    assert status == 1
    assert output.count('test session starts') == output.count('short test summary') == 1
    assert '7 failed, 6 passed, 1 xfailed, 1 error' in output
    assert 'MPI Information' not in output
    assert 'ranks: 3' in output


def test_a_failure_of_one_rank_is_reported_once_with_its_rank(failures: tuple[int, str]) -> None:
    _, output = failures
    assert output.count("raise ValueError('only here')") == 1
    text = block(output, 'test_one_rank_raises_while_the_others_wait[3]')
    assert 'raised on rank 1 of 3' in text
    for waiting in (0, 2):
        assert re.search(rf'rank {waiting}: test_it.py:\d+: .*for rank 1, which failed', text)
    assert 'Captured stdout call on rank 1' in text
    assert 'printed by 1' in text and 'printed by 0' not in text
    assert '[3] - [rank 1 of 3] ValueError: only here' in output


def test_ranks_that_make_a_communicator_are_woken_too(failures: tuple[int, str]) -> None:
    text = block(failures[1], 'test_ranks_meet_no_more')
    assert 'raised on rank 1 of 3' in text and 'for rank 1, which failed' in text
    assert 'test_but_the_next_do PASSED' in failures[1]


def test_different_failures_are_all_shown(failures: tuple[int, str]) -> None:
    _, output = failures
    assert 'raised on ranks 0, 1, 2 of 3' in block(output, 'test_all_fail_alike')
    text = block(output, 'test_each_fails_in_its_own_way')
    for rank in range(3):
        assert f'raised on rank {rank} of 3' in text and f'ValueError: number {rank}' in text


def test_unequal_outcomes_are_a_failure(failures: tuple[int, str]) -> None:
    text = block(failures[1], 'test_one_skips')
    assert 'the ranks disagree: rank 0: setup passed, call passed, teardown passed; rank 1: ' in text
    assert 'rank 2: setup passed, call skipped, teardown passed' in text


def test_a_collective_to_which_not_all_come_is_named(failures: tuple[int, str]) -> None:
    text = block(failures[1], 'test_one_makes_a_collective_of_its_own[3]')
    assert 'which ranks 1, 2 ended the test without' in text and 'raised on rank 0 of 3' in text
    text = block(failures[1], 'test_two_do[3]')
    assert 'until the time-out of the test, which rank 2 ended without it' in text
    # The later of the two may see that the earlier has ended the test, so that their words may differ.
    assert re.search(r'raised on rank(s 0, 1| 0 of 3.*raised on rank 1) of 3', text, re.S)


def test_a_hang_ends_the_run_with_all_stacks(tmp_path: Path) -> None:
    status, output = run(tmp_path, """
        def wait_for_ever():
            mpi.world().channel.comm.Barrier()

        @pytest.mark.timeout(1)
        def test_hangs():
            if mpi.rank() == 1:
                wait_for_ever()
    """, 2)
    assert status == 124
    report = output[output.index('TIME-OUT: test_it.py::test_hangs took more than 1 s'):]
    stacks = re.match(r'.*\nrank 0:\n(.*?)\nrank 1:\n(.*?)\n\n', report, re.S)
    assert 'at the end of the test, waiting for the others' in stacks[1]
    assert re.fullmatch(r'  .*/test_it.py:\d+ in test_hangs: wait_for_ever\(\)\n'
                        r'  .*/test_it.py:\d+ in wait_for_ever: mpi.world\(\).channel.comm.Barrier\(\)', stacks[2])


@pytest.mark.parametrize(('tests', 'message'), [
    ('if mpi.rank() == 1:\n    def test_more(): pass', 'rank 1 collected other tests than rank 0'),
    ('assert mpi.rank() != 1', 'assert 1 != 1'),
], ids=['other tests', 'an error on one rank'])
def test_ranks_must_collect_the_same(tmp_path: Path, tests: str, message: str) -> None:
    status, output = run(tmp_path, f'def test_fine(): pass\n{tests}', 2)
    assert status == 4
    assert message in output


@pytest.mark.parametrize(('n', 'here'), [
    (1, {'free', 'mesh[1]', 'some', 'mpi', 'outside[1]'}),
    (2, {'free', 'mesh[2]', 'mpi', 'two', 'outside[1]', 'outside[2]'}),
    (3, {'some', 'mpi', 'two', 'outside[1]', 'outside[2]'}),
    (4, {'mesh[4]', 'mesh[2x2]', 'mpi', 'two', 'outside[1]', 'outside[2]', 'outside[4]'}),
])
def test_a_test_runs_where_it_belongs(tmp_path: Path, n: int, here: set[str]) -> None:
    status, output = run(tmp_path, """
        def test_free(): pass

        @pytest.mark.meshes((1,), (2,), (4,), (2, 2))
        def test_mesh(mesh):
            assert get_mesh() is mesh and mesh.size == mpi.size()
            assert mesh.axis_names == ('X', 'Y')[:len(mesh.axis_sizes)]

        @pytest.mark.partial
        @pytest.mark.meshes((1,), (2,), (4,))
        def test_outside(mesh):
            assert mesh.size <= mpi.size()
            assert mesh.coords(mpi.rank()) is None or psum(mesh) == mesh.size

        @pytest.mark.ranks(1, 3)
        def test_some(): pass

        @pytest.mark.mpi
        def test_mpi(): pass

        @pytest.mark.mpi(min_size=2)
        def test_two(): pass
    """, n, '-o', 'distad_ranks=1 2')
    assert status == 0
    assert set(re.findall(r'test_it.py::test_(\S+) PASSED', output)) == here
    assert 'tests that belong to other runs: ' in output and 'skipped' not in output


def test_a_run_to_which_no_test_belongs_is_no_failure(tmp_path: Path) -> None:
    status, output = run(tmp_path, '@pytest.mark.ranks(2)\ndef test_two(): pass', 1)
    assert status == 0
    assert 'tests that belong to other runs: 1 to mpirun -n 2' in output


def test_ranks_shrink_an_example_together(tmp_path: Path) -> None:
    status, output = run(tmp_path, """
        from hypothesis import HealthCheck, Phase, given, settings, strategies
        from distad.testing import collective

        @pytest.mark.meshes((2,))
        @settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck),
                  phases=(Phase.generate, Phase.shrink))
        @given(xs=strategies.lists(strategies.integers(0, 1000)))
        @collective
        def test_property(mesh, xs):
            assert mpi.rank() != 1 or sum(xs) < 500
            psum(mesh)
    """, 2)
    assert status == 1
    assert 'xs=[500]' in output and 'failed on ranks 0, 1 of 2' in output


def test_launch_ends_what_takes_too_long() -> None:
    with pytest.raises(TimeoutError, match=r'(?s)took more than 2 s.*before'):
        launch("""
            import time
            print('before', flush=True)
            time.sleep(600)
        """, 2, timeout=2)
