"""One call on operands of some types: run it and its derivatives, and keep what a rank sees of the results."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distad.core.primitive import Primitive
from distad.core.value import Array, Zero, typeof
from distad.ops.basic import instantiated
from distad.runtime import recorder
from distad.transforms.jvp import jvp_flat
from distad.transforms.linearize import linearize_flat
from distad.transforms.transpose import backward, same_cotangent
from distad.types import dtypes
from distad.types.array_type import ArrayType
from tests.laws.calls import Call
from tests.laws.placements import Types


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call on operands of some types. `most`: how often it is differentiated at most."""

    primitive: Primitive
    call: Call
    types: Types
    params: dict
    outs: Types
    most: int = 2

    def __call__(self, *xs) -> list:
        made = self.primitive(*xs, **self.params)
        return list(made) if self.primitive.multiple else [made]

    def __str__(self) -> str:
        shown = ', '.join(f'{k}={v}' for k, v in self.params.items() if not callable(v) and '\n' not in str(v))
        return f"{self.primitive.name}({', '.join(map(str, self.types))}{'; ' if shown else ''}{shown})"

    @property
    def orders(self) -> int:
        """How often it can be differentiated. What is unreduced by max or min has no derivative before it is reduced."""
        active = any(x.active for x in self.call.operands) and any(dtypes.is_float(t.dtype) for t in self.outs)
        return min(self.most, self.call.orders) if active and all(t.kind == 'sum' for t in (*self.types, *self.outs)) else 0

    @property
    def tolerance(self) -> float:
        return max(self.call.tolerance, precision((*self.types, *self.outs)))


def precision(types: Types) -> float:
    """The relative error that values of these types may have."""
    widths = [t.dtype.itemsize // (2 if t.dtype.kind == 'c' else 1) for t in types if dtypes.is_float(t.dtype)]
    return {2: 5e-2, 4: 2e-5, 8: 1e-9}[min(widths, default=8)]


@dataclass(slots=True, kw_only=True)
class Observation:
    """Results by name ('value', 'tangent', 'second tangent', 'cotangent') with their types, and what was wrong."""

    types: dict[str, list[ArrayType]] = field(default_factory=dict)
    blocks: dict[str, list[np.ndarray]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a case is run on: operands; tangents for two orders, `Zero` where there are none; cotangents or None."""

    operands: list
    tangents: tuple[list, list]
    cotangents: list


def inputs(case: Case, place: Callable[[np.ndarray, ArrayType, int], Any], versions: Callable[[ArrayType], int]) -> Inputs:
    """Operands and directions of a case, placed. `versions` says which version of a value of some type is meant."""
    call, types = case.call, case.types
    where = [versions(t) for t in types]
    ends = [versions(t) for t in case.outs]

    def tangent(i: int, order: int):
        value = call.direction(i, order, where[i])
        return Zero(types[i].tangent()) if value is None else place(value, types[i])

    def cotangent(i: int):
        value = call.cotangent(i, case.outs[i], ends[i])
        return None if value is None else place(value, case.outs[i].dual())

    values = [call.value(i, version) for i, version in enumerate(where)]
    return Inputs(
        operands=[v if x.literal else place(v, t) for x, v, t in zip(call.operands, values, types, strict=True)],
        tangents=tuple([tangent(i, order) for i in range(len(types))] for order in (1, 2)) if case.orders else ([], []),
        cotangents=[cotangent(i) for i in range(len(ends))] if case.orders else [])


def observe(case: Case, given: Inputs) -> Observation:
    """Value, tangents and cotangents of a case, with all checks that a rank can do alone."""
    seen, call = Observation(), case.call
    first, second = given.tangents
    with recorder.count() as sent:
        _keep(seen, 'value', lambda: case(*given.operands), case.outs)
    _check_sent(case, seen, 'forward', sent)
    if 'value' not in seen.types or not case.orders:
        return seen
    if call.refuses(case.types):
        with suppress(NotImplementedError):
            tangents_of(case, given.operands, first)
            seen.faults.append('has a derivative, which it should refuse')
        return seen
    tangents = [t.tangent() for t in case.outs]
    duals = [t.dual() for x, t in zip(call.operands, case.types, strict=True) if x.active]
    with recorder.count() as sent:
        if call.forward:
            _keep(seen, 'tangent', lambda: tangents_of(case, given.operands, first), tangents)
        if call.forward and case.orders > 1:
            _keep(seen, 'second tangent', lambda: second_tangents_of(case, given.operands, first, second), tangents)
        if call.transposes:
            _keep(seen, 'cotangent', lambda: cotangents_of(case, given.operands, given.cotangents), duals)
    _check_sent(case, seen, 'in derivatives', sent)
    return seen


def tangents_of(case: Case, xs: Sequence, ts: Sequence) -> list:
    return list(map(_made, jvp_flat(case, xs, ts)[1]))


def _made(t):
    """A tangent as an array, also where it is known to be zero, and where it holds nothing."""
    if t.__class__ is Zero and t.type.dtype == dtypes.float0:
        return np.zeros(t.type.local_shape, dtypes.float0)
    return instantiated(t)


def second_tangents_of(case: Case, xs: Sequence, ts: Sequence, us: Sequence) -> list:
    return list(map(_made, jvp_flat(lambda *ys: tangents_of(case, ys, ts), xs, us)[1]))


def cotangents_of(case: Case, xs: Sequence, cts: Sequence) -> list:
    _, jaxpr, live = linearize_flat(case, xs, [x.active for x in case.call.operands])
    return list(map(instantiated, backward(jaxpr, [ct for ct, on in zip(cts, live, strict=True) if on])))


def block_of(y) -> np.ndarray:
    return np.asarray(y.block if isinstance(y, Array) else y)


def _keep(seen: Observation, name: str, compute: Callable[[], list], want: Sequence[ArrayType]) -> None:
    try:
        made = compute()
    except Exception as error:
        seen.faults.append(f'{name}: {type(error).__name__}: {error}')
        return
    seen.types[name], seen.blocks[name] = list(map(typeof, made)), list(map(block_of, made))
    for got, t, part in zip(seen.types[name], want, seen.blocks[name], strict=True):
        if t.dtype == dtypes.float0:
            continue
        if not (got == t if name == 'value' else same_cotangent(got, t)):
            seen.faults.append(f'{name} of type {got}, not {t}')
        if part.shape != got.local_shape or part.dtype != got.dtype:
            seen.faults.append(f'{name} of type {got} has a block {ArrayType(part.shape, part.dtype)}')


def _check_sent(case: Case, seen: Observation, when: str, sent: recorder.Count) -> None:
    """What is sent is what the op tells beforehand, which is nothing unless sending is what it is for."""
    if case.call.communicates or (case.call.stacked and when != 'forward'):
        return
    tell = case.primitive.messages
    told = Counter(kind for kind, *_ in tell(case.types, case.outs, case.params)) if tell else {}
    if sent.by_op != told:
        seen.faults.append(f'sends {when}: {sent.by_op}' + (f', and tells {dict(told)}' if told else ''))
