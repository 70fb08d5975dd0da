"""Keys and bits. The reference is the generator itself, whose numbers `tests/random` compares with recorded ones."""

import numpy as np

from distad.runtime import threefry
from distad.types import dtypes
from distad.types.mesh import AbstractMesh
from tests.laws.calls import Call, M, N, Operand, Table, Types, call, call_on, i32, key, u32
from tests.laws.tables.shape import splits


def bits(keys: Operand, width: int, shape: tuple[int, ...]) -> Call:
    def params(types: Types, mesh: AbstractMesh):
        return [{'bit_width': width, 'shape': shape, 'sharding': s} for s in splits(shape, mesh)]
    return call_on(params, lambda k: threefry.bits(k, width, shape, (0,) * len(shape), shape), keys)


TABLE: Table = {
    'random_seed': [call(threefry.seed, i32()), call(threefry.seed, i32(N))],
    'random_fold_in': [call(threefry.fold_in, key(), u32()), call(threefry.fold_in, key(M, N), u32(M, N)),
                       call(threefry.fold_in, key(M, 1), u32(M, N))],
    'random_split': [call(lambda k: threefry.split(k, (2,)), key(), shape=(2,)),
                     call(lambda k: threefry.split(k, (3, 2)), key(M), shape=(3, 2))],
    'random_bits': [bits(key(), 32, (M, N)), bits(key(), 8, (N,)), bits(key(M), 64, (N,)), bits(key(), 16, ())],
    'random_wrap': [call(lambda x: np.ascontiguousarray(x).view(dtypes.KEY)[..., 0], u32(M, N, 2)),
                    call(lambda x: np.ascontiguousarray(x).view(dtypes.KEY)[..., 0], u32(2))],
    'random_unwrap': [call(lambda k: np.stack([k['hi'], k['lo']], -1), key(M, N)),
                      call(lambda k: np.stack([k['hi'], k['lo']], -1), key())],
}
