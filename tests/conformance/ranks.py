"""How the ranks tell one another what they saw: over the library's control plane, which counts no collectives."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import distad as jax
from distad.runtime import collectives, mpi


def world_size() -> int:
    return mpi.size()


def is_first() -> bool:
    return mpi.rank() == 0


@functools.cache
def _world() -> Any:
    return mpi.group(jax.make_mesh((mpi.size(),), ('world',)), ('world',))


def exchange(value: Any) -> list[Any]:
    """Every rank's value, in the order of ranks.  Collective over all ranks."""
    if mpi.size() == 1:
        return [value]
    return [pickle.loads(data) for data in collectives.agree(_world(), pickle.dumps(value))]
