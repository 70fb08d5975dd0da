"""The words that the tests here share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

import distad as jax
import distad.numpy as jnp

P = jax.P


def mesh(*shape: int, names: str = 'XYZ') -> None:
    """Make a mesh of this shape the current one."""
    jax.set_mesh(jax.make_mesh(shape, tuple(names[: len(shape)])))


def put(x: Any, *parts: Any, **kinds: set[str]) -> Any:
    """Place a NumPy array by a PartitionSpec."""
    return jax.device_put(jnp.asarray(x), P(*parts, **kinds))


def full(a: Any) -> np.ndarray:
    """The global value, the same on every rank."""
    return np.asarray(jax.reshard(a, P()))


def spec(a: Any) -> Any:
    return jax.typeof(a).sharding.spec


def fails(kinds: str, match: str, f: Callable[..., Any], *args: Any) -> None:
    """The call raises an error of one of the classes 'A|B', with a text in which `match` is found."""
    try:
        f(*args)
    except Exception as error:
        names = {kind.__name__ for kind in type(error).__mro__}
        assert names & set(kinds.split('|')), f'{type(error).__name__}: {error}'
        assert re.search(match, str(error), re.I | re.S), f'{type(error).__name__}: {error}'
    else:
        raise AssertionError('no error was raised')
