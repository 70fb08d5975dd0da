"""Scatters that multiply, or keep the lesser or greater; and the adjoint pair that the derivative of the latter takes.

An update that is what is there in the end has won, and shares the tangent with all others that have. Whether it has, the rank
knows that has the element. So the comparison is part of an op, whose labels are those of a lookup: nothing is sent.
"""

from collections.abc import Callable

import numpy as np

from distad.core.primitive import BY_LINEARITY, NoRule, Place, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.ops.arithmetic import add, div, mul
from distad.ops.basic import instantiated, zeros_of
from distad.ops.compare import eq
from distad.ops.convert import convert_element_type
from distad.ops.gather import gather_shape, index_labels, operand_labels, part_of, scatter_add, scatter_by, window_labels, windowed
from distad.ops.windows import Dims, Windows, put, take
from distad.types.array_type import ArrayType
from distad.types.inference import LINEAR_IN_FIRST, NONLINEAR, Signature

# ---- winners: an adjoint pair, both linear in the first operand

def _labels(x: ArrayType, indices: ArrayType, windows: Windows, sizes: Dims) -> tuple[list, list, list]:
    operand, index = operand_labels(x, windows, sizes), index_labels(indices, windows)
    return operand, index, window_labels(x, operand, index, windows)


def _add_labels(t: ArrayType, indices: ArrayType, updates: ArrayType, y: ArrayType, *, windows: Windows, slice_sizes: Dims,
                mode: str) -> Signature:
    operand, index, window = _labels(y, indices, windows, slice_sizes)
    return signature('add-winners', [window, index, window, operand], [operand], linearity=LINEAR_IN_FIRST, reducer='sum')


def _won(updates, i, y, params, part) -> np.ndarray:
    """Where an update is what is there; what is elsewhere has not won."""
    there = take(y, i, params['windows'], params['slice_sizes'], part, params['mode'], y.dtype.type(0))
    return updates == there


def _add_kernel(place: Place, ins, outs, params) -> Callable:
    part = part_of(place, ins[3])

    def run(t, i, updates, y):
        winners = np.where(_won(updates, i, y, params, part), t, t.dtype.type(0))
        return put(np.zeros_like(y), i, winners, params['windows'], params['slice_sizes'], part, params['mode'], np.add)
    return run


def _add_transpose(ct, t, indices, updates, y, **params):
    return [pick_winners(ct, indices, updates, y, **params), None, None, None]


add_winners = Primitive(
    'add-winners',
    type=by_labels(_add_labels, lambda t, indices, updates, y, **params: (y.shape, t.dtype)),
    labels=_add_labels,
    kernel=_add_kernel,
    jvp=BY_LINEARITY,
    transpose=_add_transpose,
    batch=windowed('uiux'),
    linearity=LINEAR_IN_FIRST)


def _pick_labels(ct: ArrayType, indices: ArrayType, updates: ArrayType, y: ArrayType, *, windows: Windows, slice_sizes: Dims,
                 mode: str) -> Signature:
    operand, index, window = _labels(y, indices, windows, slice_sizes)
    return signature('pick-winners', [operand, index, window, operand], [window], linearity=LINEAR_IN_FIRST, reducer='sum')


def _pick_kernel(place: Place, ins, outs, params) -> Callable:
    part = part_of(place, ins[0])

    def run(ct, i, updates, y):
        zero = ct.dtype.type(0)
        mine = take(ct, i, params['windows'], params['slice_sizes'], part, params['mode'], zero)
        return np.where(_won(updates, i, y, params, part), mine, zero)
    return run


pick_winners = Primitive(
    'pick-winners',
    type=by_labels(_pick_labels, lambda ct, indices, updates, y, **params: gather_shape(ct, indices, **params, fill=None)),
    labels=_pick_labels,
    kernel=_pick_kernel,
    jvp=BY_LINEARITY,
    transpose=lambda ct, x, indices, updates, y, **params: [add_winners(ct, indices, updates, y, **params), None, None, None],
    batch=windowed('xiux'),
    linearity=LINEAR_IN_FIRST)


# ---- the lesser and the greater

def _extremum_jvp(primals, tangents, **params):
    """The winner's tangent; where several values are it, their mean."""
    primitive = params.pop('_primitive')
    x, indices, updates = primals
    y = primitive(*primals, **params)
    t = typeof(x)
    if typeof(y).unreduced:
        raise NotImplementedError(f"{primitive.name} of {t} and split updates to {typeof(y)} has no derivative while its "
                                  f"{typeof(y).kind} over the ranks is still to come.")
    x_wins = convert_element_type(eq(x, y), new_dtype=t.dtype, weak_type=False)
    every = add(zeros_of(typeof(updates)), t.dtype.type(1))
    tx, tu = instantiated(tangents[0]), instantiated(tangents[2])
    count = add(x_wins, add_winners(every, indices, updates, y, **params))
    return [y], [div(add(mul(tx, x_wins), add_winners(tu, indices, updates, y, **params)), count)]


def _extremum(name: str, kind: str, combine: np.ufunc) -> Primitive:
    made: list[Primitive] = []
    made.append(scatter_by(name, combine, linearity=NONLINEAR, reducer=kind, transpose=NoRule('it is not linear'),
                           jvp=lambda primals, tangents, **params: _extremum_jvp(primals, tangents, **params, _primitive=made[0])))
    return made[0]


scatter_min = _extremum('scatter-min', 'min', np.minimum)
scatter_max = _extremum('scatter-max', 'max', np.maximum)


# ---- products

def _mul_jvp(primals, tangents, **params):
    """The relative changes of all updates of an element add up."""
    x, indices, updates = primals
    y = scatter_mul(x, indices, updates, **params)
    t = typeof(y)
    total = None
    if tangents[0].__class__ is not Zero:
        total = scatter_mul(tangents[0], indices, updates, **params)
    if tangents[2].__class__ is not Zero:
        none = zeros_of(t.update(unreduced=(), reduced=t.reduced | t.unreduced, kind='sum'))
        term = mul(y, scatter_add(none, indices, div(tangents[2], updates), **params))
        total = term if total is None else add(total, term)
    return [y], [Zero(t.tangent()) if total is None else total]


def _mul_transpose(ct, x, indices, updates, *, windows: Windows, slice_sizes: Dims, mode: str):
    return [scatter_mul(ct, indices, updates, windows=windows, slice_sizes=slice_sizes, mode=mode), None, None]


scatter_mul = scatter_by('scatter-mul', np.multiply, linearity=LINEAR_IN_FIRST, reducer=None, jvp=_mul_jvp,
                         transpose=_mul_transpose)
