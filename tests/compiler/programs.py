"""Programs made with fusion and without, whatever their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad.compiler.llvm import engine
from distad.config import config

COMPILED = pytest.mark.skipif(not engine.available(), reason='no compiled loops: llvmlite is not installed, or DISTAD_LLVM=0')


def fused(f: Callable, *args: Any, llvm: bool = True, least: int = 2) -> tuple[list[np.ndarray], list[str]]:
    """The results of a jitted function whose passes over memory are joined from `least` elements on; the names of its operations."""
    with config.override(enable_x64=True, llvm=llvm, fuse_from=least):
        compiled = jax.jit(lambda *xs: f(*xs))
        outs = compiled(*map(jnp.asarray, args))
        program = compiled.lower(*map(jnp.asarray, args)).compile().program
        return [np.asarray(y) for y in jax.tree.leaves(outs)], [eqn.primitive.name for eqn in program.jaxpr.equations]


def both(f: Callable, x: np.ndarray, *rest: np.ndarray, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """The first result of a function compiled by LLVM, and by NumPy without fusion."""
    (compiled, *_), names = fused(f, x, *rest, least=least)
    assert 'fused' in names, names
    (plain, *_), names = fused(f, x, *rest, llvm=False, least=1 << 40)
    assert 'fused' not in names
    return compiled, plain
