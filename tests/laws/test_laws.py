"""The laws find what is wrong: primitives with one fault each."""

from collections.abc import Callable

import numpy as np
import pytest

from distad.config import config
from distad.core.primitive import BY_LINEARITY, NoRule, Place, Primitive
from distad.ops.arithmetic import add, mul
from distad.ops.broadcast import reduce_sum
from distad.ops.elementary import cos
from distad.ops.makers import FLOAT, elementwise, scalar, ufunc, unary
from distad.ops.stop import stopped
from distad.runtime import collectives, mpi
from distad.types.inference import ADDITIVE
from tests.laws.calls import Call, M, N, call, f
from tests.laws.laws import visit


def twice(impl: Callable = lambda x, *, out: 2 * x, **fields) -> Primitive:
    """A linear op as it should be, but for some fields."""
    whole = {'jvp': BY_LINEARITY, 'linearity': ADDITIVE, 'transpose': lambda ct, x: mul(ct, scalar(2, ct))}
    return unary('twice', impl, FLOAT, **(whole | fields))


def sine(jvp: Callable) -> Primitive:
    return unary('sine', ufunc(np.sin), FLOAT, jvp=jvp)


def typed(rule: Callable) -> Primitive:
    return Primitive('twice', type=rule, impl=lambda x, *, out: 2 * x, jvp=BY_LINEARITY, linearity=ADDITIVE, batch=NoRule(''),
                     transpose=(lambda ct, x: add(ct, ct),))


def kernel_that_sends(place: Place, ins, outs, params) -> Callable:
    group = None if place.mesh is None else mpi.group(place.mesh, place.mesh.axis_names)
    return lambda x: 2 * x if group is None else 2 * collectives.all_reduce(group, x, 'max')


def raises(error: Exception) -> Callable:
    def rule(*args, **kwargs):
        raise error
    return rule


def varied_by_rank(x):
    if mpi.rank() and x.split_axes:
        raise ValueError('not here')
    return x


TWICE, SINE = call(lambda x: 2 * x, f(M, N)), call(np.sin, f(M, N))

FAULTS: dict[str, tuple[Primitive, Call, str]] = {
    'a value that NumPy does not give': (twice(lambda x, *, out: 3 * x), TWICE, 'on one rank: value'),
    'a nonlinear op that calls itself linear': (
        unary('square', ufunc(np.square), FLOAT, jvp=lambda t, y, x: mul(t, mul(scalar(2, x), x)), linearity=ADDITIVE),
        call(np.square, f(M, N)), '{U:X}): value 0'),
    'an op that moves elements over the blocks': (
        twice(lambda x, *, out: np.roll(2 * x, 1, 0)), call(lambda x: np.roll(2 * x, 1, 0), f(M, N)), '[12@X,24]): value 0'),
    'a wrong tangent': (sine(lambda t, y, x: mul(t, y)), SINE, 'tangent'),
    'a tangent that is right and has a wrong one': (sine(lambda t, y, x: mul(t, stopped(cos(x)))), SINE, 'second tangent'),
    'a tangent of another type': (sine(lambda t, y, x: reduce_sum(t, axes=(0,))), SINE, 'tangent of type float64[24]'),
    'a wrong transpose': (twice(transpose=lambda ct, x: add(ct, mul(ct, scalar(2, ct)))), TWICE, '<A x, y>'),
    'a cotangent of another type': (
        twice(transpose=lambda ct, x: reduce_sum(ct, axes=(0,))), TWICE, 'a cotangent of a value of type float64[12,24]'),
    'a block of another dtype': (twice(lambda x, *, out: (2 * x).astype(np.float32)), TWICE, 'has a block float32[12,24]'),
    'a block of another shape': (
        twice(lambda x, *, out: 2 * x[:, :1] if out.starts else x), TWICE, 'has a block float64[12,1]'),
    'copies that differ': (twice(lambda x, *, out: 2 * x * (1 + 1e-15 * mpi.rank())), TWICE, 'copies differ'),
    'an op that sends': (
        Primitive('twice', type=lambda x: x, kernel=kernel_that_sends, jvp=BY_LINEARITY, linearity=ADDITIVE, batch=NoRule(''),
                  transpose=(lambda ct, x: add(ct, ct),)), TWICE, "sends forward: {'all-reduce': 1}"),
    'an error that is none of types': (typed(raises(KeyError('X'))), TWICE, "KeyError('X')"),
    'an op that refuses all': (typed(lambda x: x if x.mesh.empty else raises(ValueError())()), TWICE, 'all is replicated'),
    'ranks that do not agree on what is refused': (typed(varied_by_rank), TWICE, 'accept different placements'),
}


@pytest.mark.parametrize('what', FAULTS)
@pytest.mark.meshes((2,))
def test_a_fault_is_found(what: str, mesh) -> None:
    primitive, one, told = FAULTS[what]
    with config.override(enable_x64=True):
        faults = visit(primitive, [one], mesh).faults
    assert any(told in fault for fault in faults), faults


@pytest.mark.meshes((2,))
def test_none_is_found_where_there_is_none(mesh) -> None:
    product = elementwise('product', ufunc(np.multiply), jvp=(lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t)))
    with config.override(enable_x64=True):
        for primitive, one in (twice(), TWICE), (sine(lambda t, y, x: mul(t, cos(x))), SINE), (
                product, call(np.multiply, f(M, N), f(1, N))):
            visited = visit(primitive, [one], mesh)
            assert not visited.faults
            assert visited.proposed > visited.accepted >= visited.observed >= 4
            assert 3 * visited.observed < visited.compared < 4 * visited.observed
