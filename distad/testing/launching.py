"""Programs of a test's own under mpirun: for what ends or hangs whole runs, and for what users see."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from distad.runtime.launch import clean_environ

# What the user, not the launcher, says to Open MPI.
USER = ('OMPI_ALLOW_RUN_AS_ROOT', 'OMPI_MCA_rmaps_', 'PRTE_MCA_rmaps_')
# Programs that are compiled once start in a third of the time, also where the environment keeps Python from writing bytecode.
BYTECODE = {'PYTHONDONTWRITEBYTECODE': '', 'PYTHONPYCACHEPREFIX': str(Path(tempfile.gettempdir(), f'distad-bytecode-{os.getuid()}'))}


def launch(program: str | Path | Sequence[str], n: int, *, env: Mapping[str, str] | None = None, timeout: float = 60,
           cwd: str | Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `mpirun -n n python program` and returns its status and output; at the time-out it kills all and raises.

    The program is the text of a script, the path of one, or a list of arguments for python (`['-m', 'pytest']`). A test
    that launches runs on one rank: `@pytest.mark.ranks(1)`.
    """
    environment = clean_environ() | BYTECODE | {name: value for name, value in os.environ.items() if name.startswith(USER)}
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(program, str):
            script = Path(folder, 'script.py')
            script.write_text(textwrap.dedent(program))
            program = script
        arguments = [str(program)] if isinstance(program, Path) else list(program)
        command = [mpirun(), '-n', str(n), sys.executable, *arguments]
        process = subprocess.Popen(
            command, env=environment | dict(env or {}), cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            out, err = _end(process)
            raise TimeoutError(f'{" ".join(command)} took more than {timeout:g} s\n{out}\n{err}') from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def mpirun() -> str:
    """The mpirun that belongs to this Python, or else the first on the path."""
    own = Path(sys.executable).with_name('mpirun')
    found = str(own) if own.exists() else shutil.which('mpirun')
    if found is None:
        raise FileNotFoundError('there is no mpirun: install an MPI, or the extra of distad: pip install distad[mpich]')
    return found


def _end(process: subprocess.Popen[str]) -> tuple[str, str]:
    for number in (signal.SIGTERM, signal.SIGKILL):  # mpirun passes the first on to ranks that are not in its group
        try:
            os.killpg(process.pid, number)
            return process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    return process.communicate()
