"""What has to be the same on all ranks before the first of them computes: versions and switches.

An environment variable that did not reach a node, or another version there, would let its ranks call other collectives, or round
otherwise than the rest: a hang, or numbers called replicated that are not. So the ranks compare what they run on when they start.
Processors may differ; then the log says what follows from it.
"""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

from distad.config import SWITCHES, config
from distad.errors import DisagreementError
from distad.late import Late
from distad.log import logger
from distad.runtime.world import names

_OWN = frozenset({'dump', 'num_cpu_devices', 'platforms', 'platform_name'})  # switches that may differ

metadata = Late('importlib.metadata')


def check_setup(comm: Any) -> None:
    """Raise on all ranks of a communicator if they are not set up alike."""
    every = comm.allgather(facts())
    unlike = [name for name in every[0] if len({mine[name] for mine in every}) > 1]
    if 'processor' in unlike:
        unlike.remove('processor')
        if comm.rank == 0:
            logger.warning('ranks run on different processors (%s): what BLAS and NumPy compute there may differ in the last bits, '
                           'also in values that are called replicated', _told('processor', every))
    if unlike:
        raise DisagreementError(
            'the ranks are not set up alike: ' + '; '.join(f'{name} is {_told(name, every)}' for name in unlike)
            + '. They would call different collectives or round differently. Install the same versions on all nodes, and let the '
            'launcher hand environment variables to all ranks (mpirun -genv NAME VALUE, with Open MPI -x NAME)')


def facts() -> dict[str, str]:
    """What this rank runs on, by name."""
    blas = np.show_config(mode='dicts')['Build Dependencies'].get('blas', {})
    known = {'distad': _version('distad'), 'numpy': np.__version__, 'BLAS': f"{blas.get('name')} {blas.get('version')}",
             'llvmlite': _version('llvmlite'), 'processor': _processor(),
             'DISTAD_TRACE': 'set' if os.environ.get('DISTAD_TRACE') else 'not set'}
    return known | {switch.variable or name: _word(getattr(config, name)) for name, switch in SWITCHES.items() if name not in _OWN}


def _word(value: object) -> str:
    if isinstance(value, frozenset):
        return ','.join(sorted(value)) or 'off'
    return str(int(value)) if isinstance(value, bool) else str(value)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except ModuleNotFoundError:
        return 'not installed'


def _processor() -> str:
    try:
        with open('/proc/cpuinfo') as lines:       # long on a node of many cores; the first of them tells
            return next(line.partition(':')[2].strip() for line in lines if line.startswith('model name'))
    except (OSError, StopIteration):
        return platform.processor()


def _told(name: str, every: list[dict[str, str]]) -> str:
    """'0 on ranks 0, 1 and 1 on ranks 2, 3'."""
    who: dict[str, list[int]] = {}
    for rank, mine in enumerate(every):
        who.setdefault(mine[name], []).append(rank)
    return ' and '.join(f'{value} on {names(ranks)}' for value, ranks in who.items())
