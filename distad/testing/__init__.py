"""Tests under mpirun: a pytest plugin by which a test has one outcome for all ranks and never hangs.

    # conftest.py                                  # on the command line
    pytest_plugins = ['distad.testing']            mpirun -n 4 python -m pytest

    @pytest.mark.meshes((2,), (4,), (2, 2))        # one test per shape, in runs of 2 and of 4 ranks
    def test_sum(mesh): ...                        # `mesh` has the axes X, Y, Z and is the current mesh

- A test fails on all ranks if it fails on one. Rank 0 reports it, once, with the ranks that raised.
- Ranks that wait in a collective for one that failed are woken; the run goes on with the next test.
- A test that takes too long (`distad_timeout` in the configuration, `@pytest.mark.timeout(seconds)`) fails if the ranks
  wait in a collective. If anything else blocks them, the run ends with status 124 and the stack of every rank.
- `@pytest.mark.partial` runs a test also where its mesh leaves ranks over, `@pytest.mark.ranks(1, 3)` in runs of these
  sizes, and `mpi(min_size=2)` of pytest-mpi from a size on. A test runs only in runs it belongs to.
- A test leaves no mesh set. Fixtures of a wider scope than a test cannot set one.
- `collective` goes below hypothesis's `@given`; `launch` runs a program under an mpirun of its own.

What decides whether a collective takes place must be the same on all ranks, in tests as anywhere else.
"""

from distad.testing.launching import launch
from distad.testing.plugin import mesh, pytest_addoption, pytest_cmdline_main, pytest_configure, pytest_generate_tests
from distad.testing.properties import collective

__all__ = [
    'collective', 'launch', 'mesh', 'pytest_addoption', 'pytest_cmdline_main', 'pytest_configure',
    'pytest_generate_tests',
]
