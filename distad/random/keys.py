"""Keys: made from a seed, split, folded with a number, written as two words and read back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from distad.config import config
from distad.core.lift import as_value
from distad.core.value import Value, is_scalar, typeof
from distad.lax.creation import new_type
from distad.lax.dims import shape_of
from distad.lax.kind import kindly
from distad.ops.cast import cast
from distad.ops.convert import convert_element_type
from distad.ops.random import random_fold_in, random_seed, random_split, random_unwrap, random_wrap
from distad.types import dtypes

_UINT32 = np.dtype(np.uint32)


def key(seed: Any, *, impl: str | None = None) -> Value:
    """The key of a seed.

    Args:
      seed: an integer, the same on every rank, or a value of rank 0. Without x64 its low 32 bits count.
      impl: 'threefry2x32', the one generator there is.
    Returns: key<fry>[], on every rank.
    Raises: TypeError for a seed that is no integer or has dimensions; OverflowError for one beyond 64 bits.

    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    if impl not in (None, 'threefry2x32'):
        raise ValueError(f"key: there is one generator, 'threefry2x32', not {impl!r}. Leave impl out.")
    if isinstance(seed, int) and not isinstance(seed, bool):
        wide = np.int64(seed)                                  # raises OverflowError
        seed = wide if config.enable_x64 else wide.astype(np.int32)
    t = typeof(seed)
    if t.dtype.kind not in 'iub':
        raise TypeError(f'key takes an integer as seed, got {t}. Convert it with int.')
    if t.ndim:
        raise TypeError(f'key takes one seed, got {t}. Use vmap(random.key) for a key from each.')
    made = random_seed(seed if is_scalar(seed) else as_value(seed, 'key'))
    return cast(made, new_type((), dtypes.KEY)) if typeof(made).mesh.empty else made


def PRNGKey(seed: Any, *, impl: str | None = None) -> Value:
    """The key of a seed in the older form, uint32[2], which all functions here take too. All else as `key`.

    >>> random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    return random_unwrap(key(seed, impl=impl))


def split(key: Any, num: int | Sequence[int] = 2) -> Value:
    """New keys from one, which should not be used again.

    Args:
      key: key<fry>[] or uint32[2]. num: how many, or the shape n of an array of keys.
    Returns: key<fry>[n], or uint32[n, 2] for a key in that form; placed as the key is.
    Communication: none.

    >>> a, b, c = random.split(random.key(0), 3)
    """
    shape = shape_of('split', num)
    return _like(key, random_split(single('split', key), shape=shape))


def fold_in(key: Any, data: Any) -> Value:
    """A new key from a key and a number, such as a step or the index of a rank.

    Args:
      key: key<fry>[] or uint32[2]. data: an integer from 0 to 2**32 - 1; a value of rank 0 of another dtype is converted.
    Returns: key<fry>[], or uint32[2] for a key in that form. It varies over a manual axis if the key or the number does.
    Communication: none.
    Raises: OverflowError for a Python number beyond 32 bits.

    >>> k = random.fold_in(random.key(0), 3)
    """
    if isinstance(data, (bool, int, float)):
        data = np.uint32(int(data))                            # raises OverflowError
    t = typeof(data)
    if t.ndim:
        raise TypeError(f'fold_in takes one number, got {t}. Use vmap(random.fold_in) for a key from each.')
    if t.dtype != _UINT32:
        data = convert_element_type(as_value(data, 'fold_in'), new_dtype=_UINT32, weak_type=False)
    return _like(key, kindly(random_fold_in, single('fold_in', key), data))


def key_data(keys: Any) -> Value:
    """Keys as words: key<fry>[...] to uint32[..., 2]. Communication: none.

    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return random_unwrap(as_keys('key_data', keys))


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None) -> Value:
    """Words as keys: uint32[..., 2] to key<fry>[...]. Communication: none.

    Args:
      key_bits_array: such as `key_data` gives. impl: 'threefry2x32', the one generator there is.
    Raises: TypeError for another dtype or last dimension.

    >>> k = random.wrap_key_data(random.key_data(random.key(7)))
    """
    if impl not in (None, 'threefry2x32'):
        raise ValueError(f"wrap_key_data: there is one generator, 'threefry2x32', not {impl!r}. Leave impl out.")
    return random_wrap(as_value(key_bits_array, 'wrap_key_data'))


def as_keys(name: str, keys: Any) -> Value:
    """Keys in either form as key<fry>."""
    keys = as_value(keys, name)
    t = typeof(keys)
    if t.dtype == dtypes.KEY:
        return keys
    if t.dtype != _UINT32 or t.shape[-1:] != (2,):
        raise TypeError(f'{name} takes keys, got {t}. Make one with random.key(seed).')
    return random_wrap(keys)


def single(name: str, key: Any) -> Value:
    """One key, in either form, as key<fry>[]."""
    made = as_keys(name, key)
    if typeof(made).ndim:
        raise ValueError(f'{name} takes one key, got {typeof(key)}. Use vmap to draw with each of them.')
    return made


def _like(key: Any, made: Value) -> Value:
    """New keys in the form of the old one."""
    return made if typeof(key).dtype == dtypes.KEY else random_unwrap(made)
