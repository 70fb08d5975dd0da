"""GEMM that adds to what is there, `c += a @ b`: NumPy has no call for it, the BLAS that NumPy brings along has.

It is called under the name that NumPy's wheels give it, so it has the threads that were chosen for NumPy; where there is no such
name, through SciPy's `cython_blas`, whose BLAS is another one (17 us slower for the product below). Sizes are handed as 64-bit
integers: a BLAS that reads 32 of them finds the same number in the lower half, where that comes first.

For c of 512 x 512 and a sum over 64, float32, one thread: matmul and add 360 us, this 264, the product alone 265. On smaller results
what a call through ctypes costs (6 us) is more than the sum.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable

import numpy as np

from distad.late import Late

LEAST = 1 << 18                # bytes of c from which it pays
_LARGEST = 1 << 31             # of a dimension, for 32-bit integers
_LETTERS = {'f': 's', 'd': 'd', 'F': 'c', 'D': 'z'}
_AS_IT_IS, _TRANSPOSED = ctypes.c_char(b'N'), ctypes.c_char(b'T')
_threads = Late('threadpoolctl')


@functools.cache
def _routine(char: str) -> Callable | None:
    """The Fortran routine for a dtype; None where there is none that can be called so."""
    if char not in _LETTERS or sys.byteorder != 'little':
        return None
    name = f"{_LETTERS[char]}gemm"
    address = _of_numpy(name) or _of_scipy(name)
    return address and ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)


def _of_numpy(name: str) -> int | None:
    for pool in _threads.threadpool_info():
        if pool['user_api'] == 'blas':
            library = ctypes.CDLL(pool['filepath'])
            for symbol in (f"scipy_{name}_64_", f"{name}_64_"):
                if hasattr(library, symbol):
                    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    return None


def _of_scipy(name: str) -> int | None:
    capsule = importlib.import_module('scipy.linalg.cython_blas').__pyx_capi__[name]
    told, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    told.restype, told.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, told(capsule))


def pays(m: int, n: int, k: int, dtype: np.dtype) -> bool:
    """Whether `adder` is faster than a product and a sum, and there is one."""
    return (m * n * dtype.itemsize >= LEAST and min(m, n, k) > 1 and max(m, n, k) < _LARGEST and dtype.isnative
            and _routine(dtype.char) is not None)


def adder(m: int, n: int, k: int, dtype: np.dtype) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """`add(a, b, c)` adds a @ b to c: [m, k], [k, n] however they lie, [m, n] contiguous and apart from both."""
    gemm, one = _routine(dtype.char), np.ones((), dtype)
    numbers: dict[int, ctypes.c_int64] = {}

    def number(i: int) -> int:
        if i not in numbers:
            numbers[i] = ctypes.c_int64(i)
        return ctypes.addressof(numbers[i])

    def laid(x: np.ndarray) -> tuple[np.ndarray, ctypes.c_char, int]:
        """An operand as BLAS takes it: itself, if one of its dimensions is contiguous and the other steps forward over that."""
        (first, second), size = x.strides, x.itemsize
        if second == size and first % size == 0 and x.shape[1] * size <= first < _LARGEST * size:
            return x, _AS_IT_IS, first // size
        if first == size and second % size == 0 and x.shape[0] * size <= second < _LARGEST * size:
            return x, _TRANSPOSED, second // size
        return x.copy(), _AS_IT_IS, x.shape[1]

    def add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        (a, ta, lda), (b, tb, ldb) = laid(a), laid(b)
        # Fortran reads what lies in rows as lying in columns, that is transposed: c' += b' a'.
        gemm(ctypes.addressof(tb), ctypes.addressof(ta), number(n), number(m), number(k), scale, b.ctypes.data, number(ldb),
             a.ctypes.data, number(lda), scale, c.ctypes.data, number(n))

    scale = one.ctypes.data
    add.one = one                                  # it has to live as long as its address is in use
    return add
