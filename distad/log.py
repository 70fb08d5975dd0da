"""Log lines: standard logging under the name `distad`, each line with its rank in front.

    DISTAD_LOG=debug|info|warning    lines of this level and above go to stderr
    DISTAD_LOG_DIR=logs              they go to logs/rank<r>.log instead, one file a rank, without end and never renamed

What is for information is alike on all ranks: on stderr only rank 0 says it. Warnings, and what is for debugging, come from each.

With neither set nothing is touched: the lines go where the program's own logging configuration sends them.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

logger = logging.getLogger('distad')

_LEVELS = {'debug': logging.DEBUG, 'info': logging.INFO, 'warning': logging.WARNING}


def start(rank: int | None = None, size: int | None = None) -> None:
    """Send the lines where the environment asks; called again once the rank is known."""
    level = os.environ.get('DISTAD_LOG', '').lower()
    folder = os.environ.get('DISTAD_LOG_DIR', '')
    if not level and not folder:
        return
    level = level or 'debug'
    if level not in _LEVELS:
        raise ValueError(f'DISTAD_LOG is {", ".join(_LEVELS)} or unset, not {level!r}')
    for handler in list(logger.handlers):
        if isinstance(handler, _Ours):
            logger.removeHandler(handler)
            handler.close()
    logger.addHandler(_Ours(rank, size, folder))
    logger.setLevel(_LEVELS[level])
    logger.propagate = False


class _Ours(logging.StreamHandler):
    """Our handler: stderr, or the file of this rank as soon as there is a rank."""

    def __init__(self, rank: int | None, size: int | None, folder: str) -> None:
        self.file = None
        if folder and rank is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.file = open(Path(folder) / f'rank{rank}.log', 'a')  # noqa: SIM115 (open as long as the process)
        super().__init__(self.file)
        who = 'distad' if rank is None else f'[rank {rank}/{size}] distad'
        self.setFormatter(logging.Formatter(f'{who} %(levelname)s %(message)s'))
        if rank and self.file is None:
            self.addFilter(lambda record: record.levelno != logging.INFO)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        super().close()


start()
