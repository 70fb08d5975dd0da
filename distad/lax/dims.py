"""Dimensions and shapes as users write them: negative, single, as lists."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def dim_of(name: str, axis: Any, ndim: int) -> int:
    """One dimension, counted from the end if negative."""
    d = operator.index(axis)
    if not -ndim <= d < ndim:
        raise ValueError(f"{name}: axis {d} is out of bounds for array of dimension {ndim}")
    return d % ndim


def dims_of(name: str, axes: int | Iterable[int], ndim: int) -> tuple[int, ...]:
    """Distinct dimensions, in the order given."""
    dims = tuple(dim_of(name, a, ndim) for a in (axes if np.iterable(axes) else (axes,)))
    if len(set(dims)) != len(dims):
        raise ValueError(f"{name}: repeated axis in {dims}")
    return dims


def shape_of(name: str, shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape, also of one dimension written as a number."""
    try:
        sizes = tuple(operator.index(n) for n in (shape if np.iterable(shape) else (shape,)))
    except TypeError as error:
        raise TypeError(f"{name}: shapes are integers known to Python, got {shape!r}: {error}") from None
    if any(n < 0 for n in sizes):
        raise ValueError(f"{name}: sizes are zero or more, got {sizes}")
    return sizes


def inferred(name: str, shape: int | Sequence[int], size: int) -> tuple[int, ...]:
    """A shape with at most one -1, which stands for what makes up `size` elements."""
    sizes = [operator.index(n) for n in (shape if np.iterable(shape) else (shape,))]
    if sizes.count(-1) == 1:
        rest = -int(np.prod(sizes, dtype=object))
        if rest and size % rest == 0 or not rest and not size:
            sizes[sizes.index(-1)] = size // rest if rest else 0
    sizes = tuple(sizes)
    if any(n < 0 for n in sizes) or int(np.prod(sizes, dtype=object)) != size:
        raise TypeError(f"cannot {name} array of size {size} into shape {tuple(shape) if np.iterable(shape) else shape}")
    return sizes
