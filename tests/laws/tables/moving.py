"""What moves data between ranks in explicit mode, and conversions between dtypes."""

import itertools

import ml_dtypes
import numpy as np

from distad.types.array_type import axis_state
from distad.types.mesh import AbstractMesh
from tests.laws.calls import Call, M, N, Operand, Table, Types, bf16, boolean, c, call, call_on, f, f32, i32
from tests.laws.placements import placed, states


def reshard(*operands: Operand) -> Call:
    """To every type, for the first operand; the others stay. Along manual axes nothing changes."""
    def params(types: Types, mesh: AbstractMesh):
        if mesh.empty:
            return [{'to': types}]
        first = operands[0].type
        choices = [[axis_state(types[0], axis)] if axis in mesh.manual_axes else states(first) for axis in mesh.axis_names]
        goals = [placed(first, mesh, at) for at in itertools.product(*choices)]
        return [{'to': (goal, *types[1:])} for goal in goals if goal is not None]
    return call_on(params, lambda *xs: list(xs), *operands).but(communicates=True, places=16)


def converted(operand: Operand, dtype: type, orders: int = 2) -> Call:
    return call(lambda x: (x.real if np.iscomplexobj(x) and np.dtype(dtype).kind != 'c' else x).astype(dtype), operand,
                new_dtype=np.dtype(dtype), weak_type=False).but(orders=orders)


TABLE: Table = {
    'reshard': [reshard(f(M, N)), reshard(f(N), f(M, N)), reshard(i32(M)), reshard(f())],
    'convert_element_type': [
        converted(f(M, N), np.float64), converted(f(N), np.float32, 0), converted(f(N), np.complex128), converted(c(N), np.float64),
        converted(f(N), np.int32), converted(i32(N), np.float64), converted(i32(N), np.uint8), converted(i32(N), bool),
        converted(f(N), bool), converted(boolean(N), np.float64), converted(f32(N), ml_dtypes.bfloat16, 0),
        converted(bf16(N), np.float32, 0)],
}
