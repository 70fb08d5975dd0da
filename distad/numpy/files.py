"""Arrays from bytes, text and NumPy's files, and how they are printed: what NumPy does, on every rank alike.

A file holds whole arrays here, which every rank reads; for arrays that are split see `distad.checkpoint`.
"""

from typing import Any

import numpy as np

from distad.core.value import Value
from distad.numpy.creation import FLOAT, asarray, placement
from distad.types import dtypes

array_repr, array_str, set_printoptions, get_printoptions = np.array_repr, np.array_str, np.set_printoptions, np.get_printoptions
printoptions, save, savez, iterable = np.printoptions, np.save, np.savez, np.iterable


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in a file that `save` has written, replicated; of `savez` a mapping of NumPy arrays. Options as of `numpy.load`.

        jnp.load('x.npy')
    """
    found = np.load(file, *args, **kwargs)
    return asarray(found) if isinstance(found, np.ndarray) else found


def frombuffer(buffer: Any, dtype: Any = FLOAT, count: int = -1, offset: int = 0) -> Value:
    """The numbers that bytes stand for, `count` of them (-1: all) from a byte on. 64-bit ones become 32-bit unless x64 is enabled.

        jnp.frombuffer(b'abc', jnp.uint8)         # 97, 98, 99
    """
    return asarray(np.frombuffer(buffer, np.dtype(dtype), count, offset))


def fromstring(string: str, dtype: Any = FLOAT, count: int = -1, *, sep: str) -> Value:
    """The numbers in a text, with `sep` between them.

        jnp.fromstring('1 2 3', sep=' ')          # 1., 2., 3.
    """
    return asarray(np.fromstring(string, dtypes.canonical(dtype), count, sep=sep))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Value:
    """The array of another library on the CPU, copied.

    x: has `__dlpack__`. device: a device or a NamedSharding.

        jnp.from_dlpack(np.arange(3))
    """
    return asarray(np.array(np.from_dlpack(x)), out_sharding=placement(device, None))


def fromfile(*args: Any, **kwargs: Any) -> None:
    """Refused, as in JAX: a file may change while a program runs. Use `asarray(numpy.fromfile(..))`."""
    raise NotImplementedError('fromfile: read the file by NumPy, jnp.asarray(numpy.fromfile(...)), or a checkpoint on all ranks')


def fromiter(*args: Any, **kwargs: Any) -> None:
    """Refused, as in JAX: an iterator may be used up. Use `asarray(numpy.fromiter(..))`."""
    raise NotImplementedError('fromiter: use up the iterator by NumPy, jnp.asarray(numpy.fromiter(...))')


__all__ = ['array_repr', 'array_str', 'frombuffer', 'fromfile', 'fromiter', 'fromstring', 'from_dlpack', 'get_printoptions', 'iterable',
           'load', 'printoptions', 'save', 'savez', 'set_printoptions']
