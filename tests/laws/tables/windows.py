"""Convolutions and reductions over windows."""

import numpy as np

from distad.ops.conv import ConvDims, Operand, Result
from tests.laws.calls import Call, M, N, Table, bf16, c, call, f, i32
from tests.laws.calls import Operand as Argument

FIRST = ConvDims(Operand((), (0,), (1,), (2,)), Operand((), (0,), (1,), (2,)), Result((), (0,), (1,), (2,)))
SHUFFLED = ConvDims(Operand((), (2,), (0,), (1,)), Operand((), (1,), (2,), (0,)), Result((), (1,), (2,), (0,)))
SHARED = ConvDims(Operand((1,), (0,), (2,), (3,)), Operand((0,), (2,), (1,), (3,)), Result((1,), (0,), (2,), (3,)))
NO_SUM = ConvDims(Operand((1,), (0, 2), (), (3,)), Operand((0,), (), (), (1,)), Result((1,), (3, 0), (), (2,)))


def along(x: np.ndarray, k: int, count: int, stride: int, low: int, base: int, dilation: int):
    """For each window the element of number k along the last dimension, and where there is one."""
    at = np.arange(count) * stride + k * dilation - low
    there = (at >= 0) & (at % base == 0) & (at // base < x.shape[-1])
    return np.where(there, x[..., np.where(there, at // base, 0)], 0), there


def convolution(x: Argument, w: Argument, count: int, stride: int = 1, padding=(0, 0), base: int = 1, dilation: int = 1,
                dims: ConvDims = FIRST) -> Call:
    """Along one dimension of space; letters are n n' for what is free in x, o in w, g for what they share, c for what is summed."""
    letters = [{d: letter for role, names in zip(of, words, strict=True) for d, letter in zip(role, names, strict=False)}
               for of, words in zip(dims, (('g', 'nm', 'c', 's'), ('g', 'o', 'c', 'k'), ('g', 'nm', 'o', 's')), strict=True)]
    x_s, w_k, out = (''.join(found[d] for d in range(len(found))) for found in letters)

    def reference(x, w):
        x, w = (v.astype(float) if v.dtype.kind == 'V' else v for v in (x, w))
        x, w = np.moveaxis(x, x_s.index('s'), -1), np.moveaxis(w, w_k.index('k'), -1)
        return sum(np.einsum(f"{x_s.replace('s', '')}s,{w_k.replace('k', '')}->{out}",
                             along(x, k, count, stride, padding[0], base, dilation)[0], w[..., k]) for k in range(w.shape[-1]))
    return call(reference, x, w, window_strides=(stride,), padding=(padding,), lhs_dilation=(base,), rhs_dilation=(dilation,),
                dims=dims, preferred_element_type=None)


def windowed(reduce, x: Argument, counts, sizes, strides=(1, 1), padding=((0, 0), (0, 0)), base=(1, 1), dilation=(1, 1)) -> Call:
    """Over two dimensions; `reduce` is a ufunc and the element that changes nothing."""
    ufunc, nothing = reduce

    def reference(x):
        for d, (count, size, s, p, b, w) in enumerate(zip(counts, sizes, strides, padding, base, dilation, strict=True)):
            seen = [along(np.moveaxis(x, d, -1), k, count, s, p[0], b, w) for k in range(size)]
            x = np.moveaxis(ufunc.reduce([np.where(there, v, nothing) for v, there in seen], axis=0), -1, d)
        return x
    return call(reference, x, window_dimensions=sizes, window_strides=strides, padding=padding, base_dilation=base,
                window_dilation=dilation)


def reductions(reduce, *more: Call) -> list[Call]:
    return [windowed(reduce, f(M, 10), (M, 4), (1, 3), (1, 2)), windowed(reduce, f(5, N), (6, N), (2, 1), padding=((1, 1), (0, 0))),
            windowed(reduce, f(6, 7), (6, 7), (2, 3), (2, 1), ((1, 0), (2, 2)), (2, 1), (1, 2)), *more]


def winners(select: str, x: Argument, counts, sizes, strides=(1, 1), padding=((0, 0), (0, 0))):
    """For each window, in order, the place of its winner, as a matrix [windows, elements]."""
    sign = 1 if select == 'max' else -1
    picks = np.zeros((np.prod(counts), x.size))
    for row, at in enumerate(np.ndindex(*counts)):
        inside = [i for j in np.ndindex(*sizes)
                  if all(0 <= (i := tuple(a * s + b - p[0] for a, s, b, p in zip(at, strides, j, padding)))[d] < n
                         for d, n in enumerate(x.shape))]
        best = max(inside, key=lambda i: sign * x[i])
        picks[row, np.ravel_multi_index(best, x.shape)] = 1
    return picks


def picking(select: str, x: Argument, counts, sizes, strides=(1, 1), padding=((0, 0), (0, 0)), back: bool = False) -> Call:
    def reference(t, x):
        matrix = winners(select, x, counts, sizes, strides, padding)
        return (matrix.T @ t.ravel()).reshape(x.shape) if back else (matrix @ t.ravel()).reshape(counts)
    ones = (1,) * len(sizes)
    return call(reference, f(*(counts if back else x.shape)), x, select=select, window_dimensions=sizes, window_strides=strides,
                padding=padding, base_dilation=ones, window_dilation=ones)


SUM, MAX, MIN = (np.add, 0), (np.maximum, -np.inf), (np.minimum, np.inf)

TABLE: Table = {
    'conv_general_dilated': [
        convolution(f(M, N, 5), f(6, N, 3), 3).but(places=14), convolution(f(4, M, 6), f(N, M, 2), 3, stride=2),
        convolution(f(M, 7, 4), f(3, N, M), 8, padding=(2, -3), base=2, dilation=2, dims=SHUFFLED),
        convolution(f(M, 4, 2, 5), f(4, 2, 6, 3), 6, padding=(2, 1), dims=SHARED).but(places=10),
        convolution(f(M, 4, 3, 5), f(4, 3), 3, dims=NO_SUM), convolution(f(2, 4, N), f(6, 4, 1), N),
        convolution(i32(4, 6, 5), i32(8, 6, 3), 3), convolution(c(4, 6, 5), c(8, 6, 3), 3, stride=2, padding=(0, 2)),
        convolution(bf16(4, 6, 4), bf16(2, 6, 1), 4).but(orders=0, tolerance=2e-2)],
    'reduce_window_sum': reductions(SUM, windowed(SUM, i32(M, 6), (M, 5), (1, 2)), windowed(SUM, c(M, 6), (M, 2), (1, 3), (1, 3)),
                                    windowed(SUM, f(4, 50), (4, 11), (1, 40))),
    'reduce_window_max': reductions(MAX, windowed((np.maximum, -2**31), i32(M, 6), (M, 5), (1, 2))),
    'reduce_window_min': reductions(MIN, windowed((np.minimum, 2**31 - 1), i32(M, 6), (M, 5), (1, 2))),
    'select_and_gather_add': [picking('max', f(M, 6), (M, 3), (1, 2), (1, 2)),
                              picking('min', f(5, N), (5, N), (3, 1), padding=((1, 1), (0, 0)))],
    'select_and_scatter_add': [picking('max', f(M, 6), (M, 3), (1, 2), (1, 2), back=True),
                               picking('min', f(5, N), (5, N), (3, 1), padding=((1, 1), (0, 0)), back=True)],
}
