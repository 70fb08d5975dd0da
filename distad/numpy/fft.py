"""Discrete Fourier transforms under the names of numpy.fft: sizes and norms to choose, over the transforms of `distad.lax.fourier`."""

import math
import operator
from collections.abc import Callable, Sequence
from textwrap import dedent

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value
from distad.lax import slicing
from distad.lax.dims import dims_of
from distad.lax.fourier import mirrored, split_as, transformed
from distad.lax.kind import kindly, whole_along
from distad.numpy.creation import asarray
from distad.numpy.elementwise import conj
from distad.numpy.promotion import inexact
from distad.numpy.repeating import roll
from distad.ops.complex import real
from distad.source import bounded
from distad.types import dtypes

Sizes = Sequence[int] | None


def _start(name: str, a, s: Sizes, axes: Sizes) -> tuple[Value, tuple[int, ...], list[int]]:
    """The array, the dimensions to transform, and the sizes of the transforms."""
    x = as_value(inexact(as_value(a, name), name), name)
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    dims = dims_of(name, tuple(axes), x.ndim)
    sizes = [x.shape[d] for d in dims] if s is None else [operator.index(n) for n in s]
    if len(sizes) != len(dims) or any(n < 1 for n in sizes):
        raise ValueError(f"{name}: there is one size of 1 or more for each dimension, got {sizes} for {dims} of {x.type}")
    return x, dims, sizes


def _resized(x: Value, dims: Sequence[int], sizes: Sequence[int]) -> Value:
    """Dimensions cut off, or filled up with zeros."""
    by = dict(zip(dims, sizes, strict=True))
    return slicing.pad(x, 0, [(0, by.get(d, n) - n, 0) for d, n in enumerate(x.shape)])


def _transformed(x: Value, dims: tuple[int, ...], inverse: bool, norm: str | None) -> Value:
    if norm not in (None, 'backward', 'ortho', 'forward'):
        raise ValueError(f"fft: norm is 'backward', 'ortho' or 'forward', got {norm!r}")
    y = transformed(x, dims, inverse)
    n = math.prod(x.shape[d] for d in dims)
    factor = {'ortho': math.sqrt(n) if inverse else 1 / math.sqrt(n), 'forward': n if inverse else 1 / n}.get(norm, 1)
    return y if factor == 1 else y * factor


def _complex(name: str, a, s: Sizes, axes: Sizes, inverse: bool, norm: str | None) -> Value:
    x, dims, sizes = _start(name, a, s, axes)
    return split_as(_transformed(_resized(whole_along(x, dims), dims, sizes), dims, inverse, norm), x)


def _from_real(name: str, a, s: Sizes, axes: Sizes, norm: str | None) -> Value:
    x, dims, sizes = _start(name, a, s, axes)
    if x.dtype.kind == 'c':
        raise ValueError(f"{name} transforms real arrays, got {x.type}. Use the transform of complex ones.")
    y = _transformed(_resized(whole_along(x, dims), dims, sizes), dims, False, norm)
    return split_as(slicing.slice_in_dim(y, 0, sizes[-1] // 2 + 1, axis=dims[-1]), x)


def _to_real(name: str, a, s: Sizes, axes: Sizes, norm: str | None) -> Value:
    x, dims, sizes = _start(name, a, s, axes)
    last = dims[-1]
    n = sizes[-1] if s is not None else 2 * (sizes[-1] - 1)
    if n < 1:
        raise ValueError(f"{name}: the result has no elements, got {x.type}. Say its size.")
    y = _resized(whole_along(x, dims), dims, [*sizes[:-1], n // 2 + 1])
    if len(dims) > 1:
        y = _transformed(y, dims[:-1], True, norm)
    y = _transformed(mirrored(y, n, last), (last,), True, norm)
    return split_as(kindly(real, y), x)


# ---- the names

def _family(name: str, what: str, transform: Callable) -> tuple[Callable, Callable, Callable]:
    """The transform of one dimension, of two, and of any."""
    def one(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Value:
        return transform(name, a, None if n is None else (n,), (axis,), norm)

    def two(a, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Value:
        return transform(name + '2', a, s, axes, norm)

    def several(a, s: Sizes = None, axes: Sizes = None, norm: str | None = None) -> Value:
        return transform(name + 'n', a, s, axes, norm)

    for f, ending, dims in ((one, '', 'a dimension'), (two, '2', 'two dimensions'), (several, 'n', 'several dimensions')):
        f.__name__ = f.__qualname__ = name + ending
        f.__doc__ = dedent(f"""\
            {what} along {dims}.

            a: [..]; n or s: the sizes of the transform, to which dimensions are cut or filled up with zeros; norm: 'backward' (the
            default: the inverse is divided by the number of elements), 'ortho' (both by its root) or 'forward'. States and splits
            stay. Communication: one all-gather where a dimension that is transformed is split.

                jnp.fft.{name + ending}(jnp.ones((4, 4)))
            """)
    return one, two, several


fft, fft2, fftn = _family('fft', 'The Fourier transform', lambda name, a, s, axes, norm: _complex(name, a, s, axes, False, norm))
ifft, ifft2, ifftn = _family('ifft', 'The inverse Fourier transform',
                             lambda name, a, s, axes, norm: _complex(name, a, s, axes, True, norm))
rfft, rfft2, rfftn = _family('rfft', 'The half of the Fourier transform of a real array that determines it', _from_real)
irfft, irfft2, irfftn = _family('irfft', 'The real array of which rfft gives this', _to_real)

_OTHER_WAY = {None: 'forward', 'backward': 'forward', 'ortho': 'ortho', 'forward': 'backward'}


def hfft(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Value:
    """The Fourier transform of an array that is Hermitian, which is real: irfft of the conjugate, divided the other way round.

    a: [..], the half with the frequencies from 0 on; n: the size of the result, by default 2 (size - 1). All else as `irfft`.

        jnp.fft.hfft(jnp.ones(3))                 # 4., 0., 0., 0.
    """
    return _to_real('hfft', conj(a), None if n is None else (n,), (axis,), _OTHER_WAY.get(norm, norm))


def ihfft(a, n: int | None = None, axis: int = -1, norm: str | None = None) -> Value:
    """The half from which `hfft` makes a real array: the conjugate of rfft, divided the other way round. All else as `rfft`.

        jnp.fft.ihfft(jnp.ones(4))                # 1., 0., 0.
    """
    return conj(_from_real('ihfft', a, None if n is None else (n,), (axis,), _OTHER_WAY.get(norm, norm)))


def fftfreq(n: int, d: float = 1.0, *, dtype=None) -> Value:
    """The frequencies [n] of a transform of samples d apart.

        jnp.fft.fftfreq(4)                        # 0., 0.25, -0.5, -0.25
    """
    return asarray(np.fft.fftfreq(n, d), dtype=dtypes.canonical(np.float64) if dtype is None else dtype)


def rfftfreq(n: int, d: float = 1.0, *, dtype=None) -> Value:
    """The frequencies [n // 2 + 1] of a transform of n real samples d apart.

        jnp.fft.rfftfreq(4)                       # 0., 0.25, 0.5
    """
    return asarray(np.fft.rfftfreq(n, d), dtype=dtypes.canonical(np.float64) if dtype is None else dtype)


def fftshift(x, axes: int | Sequence[int] | None = None) -> Value:
    """Frequency 0 moved to the middle of dimensions, by default of all. See `roll`.

        jnp.fft.fftshift(jnp.arange(4))           # 2, 3, 0, 1
    """
    return _shifted('fftshift', x, axes, lambda n: n // 2)


def ifftshift(x, axes: int | Sequence[int] | None = None) -> Value:
    """What fftshift did, undone.

        jnp.fft.ifftshift(jnp.arange(4))          # 2, 3, 0, 1
    """
    return _shifted('ifftshift', x, axes, lambda n: -(n // 2))


def _shifted(name: str, x, axes, shift: Callable) -> Value:
    x = as_value(x, name)
    dims = dims_of(name, range(x.ndim) if axes is None else axes, x.ndim)
    return roll(x, [shift(x.shape[d]) for d in dims], dims) if dims else x


__all__ = ['fft', 'fft2', 'fftfreq', 'fftn', 'fftshift', 'hfft', 'ifft', 'ifft2', 'ifftn', 'ifftshift', 'ihfft', 'irfft', 'irfft2',
           'irfftn', 'rfft', 'rfft2', 'rfftfreq', 'rfftn']

bounded(globals(), __all__)
