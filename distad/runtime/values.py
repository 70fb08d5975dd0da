"""`debug_nans`, which is DISTAD_CHECK=values: the first operation that gives NaN is an error that names it, its line and the rank.

Only the rank that sees one raises, as nothing is sent; its end is then that of the job. Programs are made for it (`config.mode` is
part of what they are remembered by), so without it nothing is asked on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distad.runtime import mpi
from distad.source import user_source
from distad.types import dtypes


def watched(kernel: Callable, name: str, source: Any, multiple: bool) -> Callable:
    """The kernel of an operation, whose results are looked through for NaN. Without a source it is the line that runs then."""
    def run(*blocks):
        made = kernel(*blocks)
        for block in made if multiple else (made,):
            _look(block, name, source)
        return made

    return run


def _look(block: Any, name: str, source: Any) -> None:
    block = np.asarray(block)
    if not (dtypes.is_float(block.dtype) or block.dtype.kind == 'c'):
        return
    odd = np.isnan(block)
    if not odd.any():
        return
    first = list(map(int, np.argwhere(odd)[0]))
    raise FloatingPointError(
        f'{name} gave NaN on rank {mpi.rank()}, at {source or user_source()}: {int(odd.sum())} of {block.size} elements of '
        f'the block {dtypes.name(block.dtype)}{list(block.shape)}, the first at {first}. If it is meant, turn off debug_nans '
        '(DISTAD_CHECK=values)')
