"""Programs of a test's own under mpirun: for what ends or hangs whole runs, and for what users see."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from distad.runtime.launch import clean_environ

# What the user, not the launcher, says to Open MPI.
USER = ('OMPI_ALLOW_RUN_AS_ROOT', 'OMPI_MCA_rmaps_', 'PRTE_MCA_rmaps_')


def launch(program: str | Path | Sequence[str], n: int, *, env: Mapping[str, str] | None = None, timeout: float = 60,
           cwd: str | Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `mpirun -n n python program` and returns its status and output; at the time-out it kills all and raises.

    The program is the text of a script, the path of one, or a list of arguments for python (`['-m', 'pytest']`). A test
    that launches runs on one rank: `@pytest.mark.ranks(1)`.
    """
    started = time.time()
    environment = clean_environ() | {name: value for name, value in os.environ.items() if name.startswith(USER)}
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
        finally:
            if process.returncode:
                _sweep(started)
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


def _sweep(since: float) -> None:
    """Removes the shared memory that a run left behind: MPICH keeps it after an abort, 2 to 8 MB each time."""
    left = [path for path in Path('/dev/shm').glob('mpich_shm_*') if _made_by_us(path, since)]
    if left:
        time.sleep(0.1)  # who has made such a file just now maps it in this time
        used = ''.join(_text(path) for path in Path('/proc').glob('[0-9]*/maps'))
        for path in left:
            if path.name not in used:
                path.unlink(missing_ok=True)


def _made_by_us(path: Path, since: float) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return status.st_uid == os.getuid() and status.st_ctime >= since


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended, or is somebody else's
        return ''
