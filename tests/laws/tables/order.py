"""Order and accumulation along a dimension."""

import numpy as np

from tests.laws.calls import Call, Elsewhere, K, M, N, Operand, Table, boolean, call, f, f32, i32, u32


class Sorted(Operand):
    """Its elements stand in order."""

    __slots__ = ()

    def value(self, seed: int) -> np.ndarray:
        return np.sort(Operand.value(self, seed))


def sorting(*operands: Operand, dimension: int, num_keys: int = 1) -> Call:
    def reference(*xs):
        at = np.lexsort(xs[num_keys - 1::-1] if num_keys > 1 else xs[:1], axis=dimension)
        return [np.take_along_axis(x, at, dimension) for x in xs]
    return call(reference, *operands, dimension=dimension, is_stable=True, num_keys=num_keys)


def sample_sorting(*operands: Operand, num_keys: int = 1) -> Call:
    reference = sorting(*operands, dimension=0, num_keys=num_keys).reference
    return call(reference, *operands, num_keys=num_keys).but(communicates=True)


def top(operand: Operand, k: int, axis: int) -> Call:
    def reference(x):
        n = x.shape[axis]
        at = np.take(n - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind='stable'), axis), range(k), axis)
        return [np.take_along_axis(x, at, axis), at.astype(np.int32)]
    return call(reference, operand, k=k, axis=axis, is_stable=True)


def searching(a: Operand, v: Operand, side: str) -> Call:
    def reference(a, v):
        a = a.reshape(*a.shape[:-1], *[1] * (v.ndim - a.ndim + 1), a.shape[-1])
        return np.sum(a < v[..., None] if side == 'left' else a <= v[..., None], -1).astype(np.int32)
    return call(reference, a, v, side=side)


def along(f, operand: Operand, axis: int, reverse: bool = False, **more) -> Call:
    def reference(x):
        y = f(np.flip(x, axis) if reverse else x, axis=axis)
        return (np.flip(y, axis) if reverse else y).astype(x.dtype)
    return call(reference, operand, axis=axis, reverse=reverse).but(**more)


def each(f, low: float = -2.0, high: float = 2.0) -> list[Call]:
    return [along(f, x, axis, reverse, places=6) for x, axis, reverse in (
        (f_(M, N, low, high), 0, False), (f_(M, N, low, high), 1, True), (f_(N, None, low, high), 0, False))]


def f_(m: int, n: int | None, low: float, high: float) -> Operand:
    return f(m, low=low, high=high) if n is None else f(m, n, low=low, high=high)


def recurred(a, b, axis: int, reverse: bool):
    a, b = (np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0) for x in (a, b))
    y = np.array(b)
    for i in range(1, len(y)):
        y[i] += a[i] * y[i - 1]
    y = np.moveaxis(y, 0, axis)
    return np.flip(y, axis) if reverse else y


def recurrence(a: Operand, b: Operand, axis: int, reverse: bool) -> Call:
    return call(lambda a, b: recurred(a, b, axis, reverse), a, b, axis=axis, reverse=reverse)


TABLE: Table = {
    'sort': [sorting(f(M, N), dimension=0), sorting(f(M, N), f(M, N), i32(M, N), dimension=1),
             sorting(i32(N, low=0, high=3), f(N), dimension=0), sorting(i32(M, K, low=0, high=2), f(M, K), dimension=1, num_keys=2),
             sorting(boolean(N), dimension=0), sorting(f32(M, N), dimension=1).but(orders=0)],
    'sample_sort': [sample_sorting(f(N)), sample_sorting(i32(N, low=0, high=3), f(N)), sample_sorting(u32(K), f(K), f(K), num_keys=2)],
    'permute': Elsewhere(by='sample_sort', why='its numbers are those of a permutation'),
    'top_k': [top(f(M, N), 4, 0), top(f(M, N), 5, 1), top(i32(N, low=0, high=4), 6, 0)],
    'searchsorted': [searching(Sorted(shape=(M,)), f(N), 'left'),
                     searching(Sorted(shape=(N,), dtype=np.dtype(np.int32), high=9), i32(M, 4), 'right'),
                     searching(Sorted(shape=(M, N)), f(M), 'left'), searching(Sorted(shape=(4, 6)), f(4, M), 'right')],
    'cumsum': [*each(np.cumsum), along(np.cumsum, i32(M, N), 0)],
    'cumprod': [*each(np.cumprod), along(np.cumprod, i32(6, N, low=1, high=3), 0)],
    'cummax': [*each(np.maximum.accumulate), along(np.maximum.accumulate, i32(M, N), 0)],
    'cummin': [*each(np.minimum.accumulate), along(np.minimum.accumulate, i32(M, N), 0)],
    'cumlogsumexp': each(np.logaddexp.accumulate),
    'linear_recurrence': [recurrence(f(M, N), f(M, N), 0, False), recurrence(f(M, N), f(M, N), 1, True),
                          recurrence(f(N), f(N), 0, False)],
}
