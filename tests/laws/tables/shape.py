"""Ops that move elements: broadcasting, shapes, slices, joining."""

import math

import numpy as np

from distad.types.array_type import ArrayType
from distad.types.mesh import AbstractMesh
from distad.types.sharding import NamedSharding
from distad.types.spec import P
from tests.laws.calls import Call, K, M, N, Operand, Table, Types, boolean, c, call, call_on, f, i32, number


def splits(shape: tuple[int, ...], mesh: AbstractMesh) -> list[NamedSharding | None]:
    """No sharding, and those that split one dimension over one axis or over all."""
    if mesh.empty:
        return [None]
    free = tuple(axis for axis in mesh.axis_names if axis not in mesh.manual_axes)
    some = {(axis,) for axis in free} | ({free} if free else set())
    return [None, *(NamedSharding(mesh, P(*[axes if d == dim else None for d in range(len(shape))]))
                    for dim, n in enumerate(shape) for axes in sorted(some) if n % mesh.axis_size(axes) == 0)]


def broadcast(operand: Operand, shape: tuple[int, ...], dims: tuple[int, ...]) -> Call:
    def params(types: Types, mesh: AbstractMesh):
        return [{'shape': shape, 'broadcast_dimensions': dims, 'sharding': s} for s in splits(shape, mesh)]

    def reference(x):
        places = [x.shape[dims.index(d)] if d in dims else 1 for d in range(len(shape))]
        return np.broadcast_to(np.reshape(x, places), shape)
    return call_on(params, reference, operand).but(places=6)


def iota(shape: tuple[int, ...], dtype: type, dimension: int) -> Call:
    def params(types: Types, mesh: AbstractMesh):
        return [{'shape': shape, 'dtype': np.dtype(dtype), 'dimension': dimension, 'sharding': s} for s in splits(shape, mesh)]

    def reference():
        return np.broadcast_to(np.arange(shape[dimension]).reshape([-1 if d == dimension else 1 for d in range(len(shape))]),
                               shape).astype(dtype)
    return call_on(params, reference)


def zeros(shape: tuple[int, ...], dtype: type) -> Call:
    def params(types: Types, mesh: AbstractMesh):
        whole = ArrayType(shape, dtype)
        placed = [ArrayType(shape, dtype, sharding=s) for s in splits(shape, mesh)]
        return [{'type': t} for t in ([whole] if mesh.empty else [
            *placed, *(whole.update(mesh=mesh, **{state: {a}}) for a in mesh.axis_names for state in ('unreduced', 'reduced'))])]
    return call_on(params, lambda: np.zeros(shape, dtype))


def reshape(before: Operand, after: tuple[int, ...]) -> Call:
    return call(lambda x: x.reshape(after), before, new_sizes=after).but(places=8)


def cut(operand: Operand, start, limit, strides=None) -> Call:
    index = tuple(map(slice, start, limit, strides or (1,) * len(start)))
    return call(lambda x: x[index], operand, start_indices=start, limit_indices=limit, strides=strides)


def padded(operand: Operand, config: tuple[tuple[int, int, int], ...], value: Operand) -> Call:
    def reference(x, v):
        for d, (low, high, inner) in enumerate(config):
            x = np.moveaxis(x, d, 0)
            y = np.full((x.shape[0] + max(x.shape[0] - 1, 0) * inner, *x.shape[1:]), v, x.dtype)
            y[::inner + 1] = x
            y = np.concatenate([np.full((max(low, 0), *y.shape[1:]), v), y[max(-low, 0):len(y) - max(-high, 0)],
                                np.full((max(high, 0), *y.shape[1:]), v)])
            x = np.moveaxis(y, 0, d)
        return x.astype(operand.dtype)
    return call(reference, operand, value, padding_config=config)


def joined(dimension: int, *operands: Operand) -> Call:
    return call(lambda *xs: np.concatenate(xs, dimension), *operands, dimension=dimension)


TABLE: Table = {
    'zeros': [zeros((M, N), np.float64), zeros((), np.int32)],
    'broadcast_in_dim': [broadcast(f(N), (M, N), (1,)), broadcast(f(N), (N, M), (0,)), broadcast(f(M, 1), (M, N), (0, 1)),
                         broadcast(f(1), (M,), (0,)), broadcast(f(), (M, N), ()), broadcast(i32(N), (1, N), (1,)),
                         broadcast(number(np.float64(1.5)), (M, N), ())],
    'transpose': [call(np.transpose, f(M, N), permutation=(1, 0)),
                  call(lambda x: x.transpose(1, 2, 0), f(M, N, K), permutation=(1, 2, 0)),
                  call(lambda x: x, i32(N), permutation=(0,))],
    'squeeze': [call(lambda x: x[:, 0], f(M, 1, N), dimensions=(1,)), call(lambda x: x[0, :, 0], f(1, N, 1), dimensions=(0, 2)),
                call(lambda x: x[0], f(1), dimensions=(0,))],
    'reshape': [reshape(f(M, N), (M * N,)), reshape(f(M * N), (M, N)), reshape(f(M, N), (M, 4, 6)), reshape(f(M, N), (N, M)),
                reshape(f(4, 3, N), (M, N)), reshape(f(M, 1, N), (1, M, N)), reshape(f(4, 4, 3), (16, 3)),
                reshape(f(1), ()), reshape(i32(M, N), (6, 2, N))],
    'slice': [cut(f(M, N), (0, 3), (M, 20), (1, 2)), cut(f(M, N), (2, 0), (8, N)), cut(f(N), (0,), (N,)), cut(f(N), (5,), (5,)),
              cut(i32(M, N), (0, 0), (M, N), (3, 1))],
    'pad': [padded(f(M, N), ((1, 2, 0), (0, 0, 0)), f()), padded(f(M, N), ((0, 0, 0), (2, 0, 1)), number(np.float64(0.0))),
            padded(f(N), ((-2, 3, 2),), f()), padded(f(M, N), ((-1, -3, 0), (1, 1, 0)), f()), padded(i32(N), ((3, -4, 1),), i32()),
            padded(f(M, N), ((0, 0, 0), (0, 0, 0)), f())],
    'concatenate': [joined(0, f(M, N), f(K, N)), joined(1, f(M, N), f(M, K), f(M, N)), joined(0, i32(N)),
                    joined(0, boolean(N), boolean(M))],
    'split': [call(lambda x: np.split(x, [4], 1), f(M, N), sizes=(4, 20), axis=1),
              call(lambda x: np.split(x, [2, 7], 0), f(M, N), sizes=(2, 5, 5), axis=0),
              call(lambda x: [x], i32(N), sizes=(N,), axis=0)],
    'rev': [call(lambda x: x[::-1], f(M, N), dimensions=(0,)), call(lambda x: x[::-1, :, ::-1], f(M, N, K), dimensions=(0, 2)),
            call(lambda x: x, c(N), dimensions=())],
    'iota': [iota((M, N), np.int32, 0), iota((M, N), np.float64, 1), iota((N,), np.uint8, 0)],
}

assert math.prod((M, N)) % 16 == 0          # reshapes above
