"""Fourier transforms: NumPy's values on every placement, gradients by the adjoint, and what is sent."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import distad as jax
import distad.numpy as jnp
from tests.ops.arrays import counted, get, numbers, placements, put

MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
M, N = 12, 6
TRANSFORMS = [
    lambda np, x: np.fft.fft(x), lambda np, x: np.fft.ifft(x, axis=0), lambda np, x: np.fft.fft(x, 4), lambda np, x: np.fft.fft(x, 9),
    lambda np, x: np.fft.rfft(x), lambda np, x: np.fft.rfft(x, 7, 0, 'ortho'), lambda np, x: np.fft.irfft(x),
    lambda np, x: np.fft.irfft(x, 9), lambda np, x: np.fft.irfft(x, norm='forward'), lambda np, x: np.fft.fft2(x, norm='ortho'),
    lambda np, x: np.fft.rfftn(x), lambda np, x: np.fft.irfft2(x), lambda np, x: np.fft.fftshift(x),
    lambda np, x: np.fft.ifftshift(x, 1), lambda np, x: np.fft.hfft(x, 9), lambda np, x: np.fft.ihfft(x, norm='ortho'),
    lambda np, x: np.fft.hfft(x * 1j, axis=0, norm='forward')]


@pytest.mark.parametrize('index', range(len(TRANSFORMS)))
@MESHES
def test_transforms(index, mesh):
    f, x = TRANSFORMS[index], numbers((M, N), 1)
    want = f(np, x)
    weights = numbers(want.shape, 2)
    whole = None
    for t in placements(x.shape, mesh):
        value = put(x, t, mesh)
        y = f(jnp, value)
        assert y.type.unreduced == t.unreduced
        assert_allclose(get(y, mesh), want, rtol=1e-4, atol=1e-4, err_msg=str(t))
        assert sum(counted(lambda v=value: f(jnp, v))[0].values()) <= 2
        ct = jax.grad(lambda x: jnp.sum(jax.reshard(f(jnp, x).real, jax.P(None, None)) * weights))(value)
        assert ct.type == t.dual()
        whole = get(ct, mesh) if whole is None else whole
        assert_allclose(get(ct, mesh), whole, rtol=1e-4, atol=1e-4, err_msg=str(t))
    d = numbers((M, N), 3)
    assert_allclose(np.sum(whole * d), np.sum(f(np, d).real * weights), rtol=1e-3, atol=1e-3)


def test_frequencies_and_what_comes_back():
    assert_allclose(jnp.fft.fftfreq(5, 0.5), np.fft.fftfreq(5, 0.5))
    assert_allclose(jnp.fft.rfftfreq(6), np.fft.rfftfreq(6))
    x = numbers((M, 5), 1)
    assert_allclose(jnp.fft.irfftn(jnp.fft.rfftn(x), x.shape), x, atol=1e-5)
    with pytest.raises(ValueError, match='real arrays'):
        jnp.fft.rfft(x * 1j)
    with pytest.raises(ValueError, match='norm is'):
        jnp.fft.fft(x, norm='both')
