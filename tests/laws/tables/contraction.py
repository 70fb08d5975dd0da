"""Contractions and reductions."""

from collections.abc import Callable

import numpy as np

from tests.laws.calls import Call, K, M, N, Operand, Table, bf16, boolean, c, call, f, f32, i32


def dot(spec: str, x: Operand, y: Operand, contracting, batch=((), ()), wide: type | None = None) -> Call:
    return call(lambda a, b: np.einsum(spec, a, b, dtype=wide or np.float64 if x.dtype.kind == 'V' else wide), x, y,
                dimension_numbers=(contracting, batch), preferred_element_type=None if wide is None else np.dtype(wide))


def reduced(reference: Callable, *operands: tuple[Operand, tuple[int, ...]]) -> list[Call]:
    return [call(lambda x, axes=axes: reference(x, axis=axes), operand, axes=axes) for operand, axes in operands]


TABLE: Table = {
    'dot_general': [
        dot('mk,kn->mn', f(M, K), f(K, N), ((1,), (0,))).but(places=16),
        dot('bmk,bkn->bmn', f(4, M, K), f(4, K, 6), ((2,), (1,)), ((0,), (0,))).but(places=8),
        dot('kmj,nkj->mn', f(M, 6, 4), f(N, M, 4), ((0, 2), (1, 2))),
        dot('jkm,nkj->mn', f(4, M, 6), f(N, M, 4), ((1, 0), (1, 2))),
        dot('k,k->', f(N), f(N), ((0,), (0,))), dot('m,n->mn', f(M), f(N), ((), ())),
        dot('bm,mb->bm', f(M, N), f(N, M), ((), ()), ((0, 1), (1, 0))),
        dot('mk,kn->mn', i32(M, 4), i32(4, N), ((1,), (0,))), dot('k,kn->n', c(N), c(N, M), ((0,), (0,))),
        dot('mk,kn->mn', f32(M, K), f32(K, N), ((1,), (0,)), wide=np.float64).but(orders=0),
        dot('mk,k->m', bf16(M, 4), bf16(4), ((1,), (0,))).but(orders=0)],
    'reduce_sum': [*reduced(np.sum, (f(M, N), (0,)), (f(M, N), (0, 1)), (f(M, N, K), (1,)), (f(N), (0,)), (f(M, N), ()),
                            (i32(M, N), (1,)), (c(N), (0,))),
                   call(lambda x: x.astype(np.float32).sum(0), bf16(M, N), axes=(0,)).but(orders=0)],
    'reduce_max': reduced(np.max, (f(M, N), (0,)), (f(M, N), (0, 1)), (i32(M, N), (1,)), (boolean(M, N), (0,))),
    'reduce_min': reduced(np.min, (f(M, N), (0,)), (f(M, N), (0, 1)), (i32(M, N), (1,)), (boolean(M, N), (0,))),
    'reduce_or': reduced(np.bitwise_or.reduce, (boolean(M, N), (0,)), (i32(M, N, low=0, high=15), (0,))),
    'reduce_and': reduced(np.bitwise_and.reduce, (boolean(M, N), (0,)), (i32(M, N, low=0, high=15), (0,))),
    'reduce_prod': [*reduced(np.prod, (f(M, 4), (1,)), (f(M, 2, 3), (1, 2)), (i32(M, 3), (1,)), (f(M, 1), (1,)))],
    'reduce_xor': reduced(np.bitwise_xor.reduce, (boolean(M, N), (0,)), (i32(M, N, low=0, high=15), (1,))),
    'argmax': [call(lambda x: np.argmax(x, 1).astype(np.int32), x, axes=(1,), index_dtype=np.dtype(np.int32))
               for x in (f(M, N), i32(M, N), boolean(M, N))],
    'argmin': [call(lambda x: np.argmin(x, 0).astype(np.int32), x, axes=(0,), index_dtype=np.dtype(np.int32))
               for x in (f(M, N), i32(M, N), bf16(M, N))],
}
