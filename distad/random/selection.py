"""Choices among finitely many: orders, categories, elements of an array."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from distad import lax
from distad import numpy as jnp
from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax.creation import on_mesh_of
from distad.lax.dims import dim_of, shape_of
from distad.lax.kind import with_sharding
from distad.lax.shape import Sharding
from distad.ops.random import random_split
from distad.random.continuous import random_gumbel
from distad.random.draws import Shape, float_dtype, place, random_uint, random_unit
from distad.random.keys import single
from distad.random.uniform import random_int
from distad.types import dtypes
from distad.types.spec import P


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Sharding = None) -> Value:
    """The numbers below x, or the slices of x along a dimension, in random order.

    Args:
      key: key<fry>[] or uint32[2]. x: a number n, or an array [..., n, ...]. axis: the dimension n.
      independent: whether the elements of each slice move by themselves.
      out_sharding: where the result lies; by default as x does.
    Returns: int32[n], or an array of the type of x.
    Communication: none where x is whole along the axis. Where it is split, the slices change ranks: by one reduce-scatter, or,
      for one dimension and independent elements, as in `lax.sort`. An array goes to another `out_sharding` as by `reshard`.
    Raises: TypeError for x that is neither; ValueError for an axis that x has not.

    >>> order = random.permutation(random.key(0), 5)
    """
    key = single('permutation', key)
    with on_mesh_of(out_sharding):
        if not np.ndim(x):
            if typeof(x).dtype.kind not in 'iu':
                raise TypeError(f'permutation takes an integer or an array with dimensions, got {typeof(x)}')
            dim_of('permutation', axis, 1)
            y = _shuffle(key, jnp.arange(int(x)), 0)
        else:
            x = as_value(x, 'permutation')
            y = _permuted(key, x, dim_of('permutation', axis, x.ndim), independent)
        return with_sharding(y, out_sharding)


def _permuted(key: Value, x: Value, axis: int, independent: bool) -> Value:
    if independent or x.ndim == 1:
        return _shuffle(key, x, axis)
    order = _shuffle(key, jnp.arange(x.shape[axis]), 0)
    if axes := typeof(x).partitions[axis]:                     # an order that is split as x is keeps the result so
        order = with_sharding(order, P(axes))
    return jnp.take(x, order, axis=axis, unique_indices=True)


def _shuffle(key: Value, x: Value, axis: int) -> Value:
    """Sorted by random words, so many times that equal words, which keep an order, have no weight."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        keys = random_split(key, shape=(2,))
        key = keys[0]
        words = random_uint(keys[1], 32, x.shape, place(x.shape, None, x))
        _, x = lax.sort((words, x), dimension=axis, num_keys=1)
    return x


def categorical(key: Any, logits: Any, axis: int = -1, shape: int | Sequence[int] | None = None, replace: bool = True,
                mode: str | None = None, *, out_sharding: Sharding = None) -> Value:
    """Indices of categories, with probabilities softmax(logits).

    Args:
      key: key<fry>[] or uint32[2]. logits: [m, n, k], of a float dtype. axis: the dimension k of the categories.
      shape: [..., m, n]; by default that of the logits without k. What stands before m are independent draws.
      replace: whether these may repeat a category. mode: as in `gumbel`.
      out_sharding: where the result lies; by default as the logits do.
    Returns: int32[..., m, n].
    Communication: none, unless the logits are split along the axis: then that of `jnp.argmax`.
    Raises: ValueError for another dtype, a shape that does not end with that of the logits, and more draws than categories
      without replacement.
    Source: the Gumbel-max trick; without replacement its top k: W. Kool, H. van Hoof, M. Welling, "Stochastic beams and where
      to find them", ICML (2019).

    >>> tokens = random.categorical(random.key(0), np.float32([0, 1, 2]), shape=(8,))
    """
    key, logits = single('categorical', key), as_value(logits, 'categorical')
    dtype = float_dtype('categorical', logits.dtype)
    axis = dim_of('categorical', axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1:]
    shape = batch if shape is None else shape_of('categorical', shape)
    draws = shape[:max(len(shape) - len(batch), 0)]
    if shape[len(draws):] != batch:
        raise ValueError(f'categorical: the shape {shape} must end with that of the logits without their categories, {batch}')
    with on_mesh_of(out_sharding):
        if replace:
            axis += len(draws)
            at = draws + logits.shape
            noise = random_gumbel('categorical', key, at, dtype, mode, place(at, None, logits))
            return with_sharding(jnp.argmax(noise + logits, axis=axis), out_sharding)
        noise = random_gumbel('categorical', key, logits.shape, dtype, mode, place(logits.shape, None, logits))
        count, size = math.prod(draws), logits.shape[axis]
        if count > size:
            raise ValueError(f'categorical: {count} draws without replacement from {size} categories')
        _, chosen = lax.top_k(jnp.moveaxis(noise + logits, axis, -1), count)
        return with_sharding(jnp.moveaxis(chosen, -1, 0).reshape(shape), out_sharding)


def choice(key: Any, a: Any, shape: int | Sequence[int] = (), replace: bool = True, p: Any = None, axis: int = 0,
           mode: str | None = None) -> Value:
    """Numbers below a, or slices of a along a dimension, drawn at random.

    Args:
      key: key<fry>[] or uint32[2]. a: a number n, or an array [..., n, ...]. shape: m, ...
      replace: whether a slice may be drawn more than once. p: their probabilities float[n], by default equal ones.
      axis: the dimension n. mode: as in `gumbel`, for draws without replacement by p.
    Returns: int32[m, ...], or an array [..., m, ..., ...] of the dtype of a.
    Communication: none, unless a or p are split along the axis: then that of `jnp.take`, `permutation` or `jnp.cumsum`.
    Raises: ValueError for p of another shape, nothing to draw from, and more draws than slices without replacement.

    >>> picked = random.choice(random.key(0), 5, (3,), replace=False)
    """
    key, shape = single('choice', key), shape_of('choice', shape)
    among = None if not np.ndim(a) else as_value(a, 'choice')
    axis = 0 if among is None else dim_of('choice', axis, among.ndim)
    size, count = int(a) if among is None else among.shape[axis], math.prod(shape)
    if size < 1 and count:
        raise ValueError(f'choice: nothing to draw from, got {typeof(a) if among is not None else a}')
    if not replace and count > size:
        raise ValueError(f'choice: {count} draws without replacement from {size}. Draw with replacement, or fewer.')
    if p is None and not replace:
        order = _shuffle(key, jnp.arange(size), 0) if among is None else _permuted(key, among, axis, False)
        first = lax.slice_in_dim(order, 0, count, axis=axis)
        return first.reshape(first.shape[:axis] + shape + first.shape[axis + 1:])
    if p is None:
        index = random_int(key, shape, 0, size, dtypes.canonical(np.int64), place(shape, None))
    else:
        index = _by_probability(key, as_value(p, 'choice'), size, shape, replace, mode)
    return index if among is None else jnp.take(among, index, axis=axis)


def _by_probability(key: Value, p: Value, size: int, shape: Shape, replace: bool, mode: str | None) -> Value:
    if p.shape != (size,):
        raise ValueError(f'choice: p must have a probability for each of {size}, got {p.type}')
    dtype = float_dtype('choice', p.dtype)
    if replace:
        ends = jnp.cumsum(p)
        return jnp.searchsorted(ends, ends[-1] * (1 - random_unit(key, shape, dtype, place(shape, None))))
    noise = random_gumbel('choice', key, (size,), dtype, mode, place((size,), None, p))
    return lax.top_k(noise + jnp.log(p), math.prod(shape))[1].reshape(shape)
