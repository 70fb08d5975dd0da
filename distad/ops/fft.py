"""fft: the discrete Fourier transform along whole dimensions. Its matrix is symmetric, so it is its own transpose."""

import numpy as np

from distad.core.batching import shifting
from distad.core.primitive import BY_LINEARITY, Primitive, by_labels, signature
from distad.ops.makers import COMPLEX, check_dtype
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE


def _labels(x: ArrayType, *, dims: tuple[int, ...], inverse: bool):
    labels = [None if d in dims else d for d in range(x.ndim)]
    return signature('fft', [labels], [labels], linearity=ADDITIVE)


def _shape(x: ArrayType, *, dims: tuple[int, ...], inverse: bool):
    check_dtype('fft', COMPLEX, x)
    if not all(0 <= d < x.ndim and x.shape[d] for d in dims):
        raise ValueError(f"fft: {x} has not all of the dimensions {dims}, with elements")
    return x.shape, x.dtype


fft = Primitive(
    'fft',
    type=by_labels(_labels, _shape),
    labels=_labels,
    impl=lambda x, *, out, dims, inverse: (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=dims).astype(out.dtype, copy=False),
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, *, dims, inverse: fft(ct, dims=dims, inverse=inverse),),
    batch=shifting('dims'),
    linearity=ADDITIVE)
