"""Fourier transforms: of complex numbers, and of real ones by the half of the frequencies that determines them.

All are linear: unreduced and reduced arrays keep their states. A split dimension that is transformed is gathered first, by one
all-gather, and the result is split again where its size divides; other dimensions stay as they are. Transforms of real arrays are
those of complex ones of which half is left out, or put back by symmetry.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax import slicing
from distad.lax.kind import kindly, whole_along
from distad.ops.cast import cast
from distad.ops.complex import conj, real
from distad.ops.convert import convert_element_type
from distad.ops.fft import fft as fft_p
from distad.types import dtypes

__all__ = ['FftType', 'fft']


class FftType(IntEnum):
    """Which transform: of complex arrays or back, of real ones to half of the frequencies or back."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Value:
    """A Fourier transform of the last dimensions.

    Args:
      x: [..., n, m], complex; real for RFFT. fft_type: FFT, IFFT, RFFT or IRFFT, or its name. fft_lengths: the sizes n, m of the
        transform, on the side of the real array for RFFT and IRFFT.
    Returns: [..., n, m], complex; for RFFT [..., n, m // 2 + 1]; for IRFFT of such an array [..., n, m], real. Inverse ones are divided
      by the number of elements.
    Communication: an all-gather where a dimension that is transformed is split.
    Raises: TypeError for another dtype, ValueError for sizes that the array has not.

    >>> fft(np.complex64([1, 1]), 'FFT', (2,))
    Array([2.+0.j, 0.+0.j], dtype=complex64)
    """
    kind = FftType[fft_type] if isinstance(fft_type, str) else FftType(fft_type)
    x, sizes = as_value(x, 'fft'), tuple(fft_lengths)
    t = typeof(x)
    wants = 'f' if kind is FftType.RFFT else 'c'
    if t.dtype.kind != wants:
        raise TypeError(f"fft of type {kind.name} takes {'real floats' if wants == 'f' else 'complex numbers'}, got {t}")
    have = (*sizes[:-1], *(sizes[-1:] if kind is not FftType.IRFFT else [n // 2 + 1 for n in sizes[-1:]]))
    if not sizes or t.shape[t.ndim - len(sizes):] != have:
        raise ValueError(f"fft of type {kind.name} and lengths {sizes} takes an array whose last dimensions are {have}, got {t}")
    dims = tuple(range(t.ndim - len(sizes), t.ndim))
    y = whole_along(x, dims)
    if kind is FftType.IRFFT:
        y = transformed(y, dims[:-1], True) if dims[:-1] else y
        y = kindly(real, transformed(mirrored(y, sizes[-1], dims[-1]), dims[-1:], True))
    else:
        y = transformed(y, dims, kind is FftType.IFFT)
    if kind is FftType.RFFT:
        y = slicing.slice_in_dim(y, 0, sizes[-1] // 2 + 1, axis=dims[-1])
    return split_as(y, x)


def transformed(x: Value, dims: tuple[int, ...], inverse: bool) -> Value:
    """The transform along whole dimensions, complex; inverse ones are divided by the number of elements."""
    return kindly(fft_p, _complex(x), dims=dims, inverse=inverse)


def _complex(x: Value) -> Value:
    dtype = dtypes.canonical(np.result_type(x.dtype, np.complex64))
    return x if x.dtype == dtype else convert_element_type(x, new_dtype=dtype, weak_type=False)


def mirrored(y: Value, n: int, d: int) -> Value:
    """All n frequencies along a dimension from the half that determines them if the other side is real."""
    y = _complex(y)
    back = kindly(conj, slicing.rev(slicing.slice_in_dim(y, 1, (n + 1) // 2, axis=d), (d,)))
    return slicing.concatenate([y, back], d)


def split_as(y: Value, x: Value) -> Value:
    """The result split as the operand, where its sizes divide."""
    t, before = typeof(y), typeof(x)
    parts = tuple(axes if not axes or n % t.mesh.axis_size(axes) == 0 else ()
                  for n, axes in zip(t.shape, before.partitions, strict=True))
    return cast(y, t.update(partitions=parts))
