"""Fourier transforms."""

import numpy as np

from tests.laws.calls import M, Table, c, call

TABLE: Table = {
    'fft': [call(lambda x: np.fft.fft(x, axis=1), c(M, 5), dims=(1,), inverse=False),
            call(lambda x: np.fft.ifft2(x), c(M, 3, 4), dims=(1, 2), inverse=True)],
}
