"""vmap is the stack of calls: a primitive on a batch at any place of any of its operands, beside the calls of the elements.

Each rank compares its own block of the batch with the stack of its blocks of the elements, so nothing has to be put together: what
an element's block means is the business of the other laws. Tangents of a batch are the stack of those of the elements; so are
cotangents, and those of an operand without batch add up.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

import distad as jax
from distad.core.eager import frozen
from distad.core.primitive import Primitive
from distad.core.value import Array, Zero, typeof
from distad.runtime import mpi, recorder
from distad.transforms.batch import AxisData
from distad.transforms.transpose import same_cotangent
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.mesh import EMPTY_MESH, Mesh
from distad.types.sharding import NamedSharding
from tests.laws.blocks import block, place_of, version_axes
from tests.laws.calls import Call
from tests.laws.laws import Visit, chosen
from tests.laws.observation import Case, block_of, cotangents_of, tangents_of
from tests.laws.reference import unlike, whole_case

Dims = tuple[int | None, ...]
APART = 10007                                                       # the versions of elements, beside those of ranks


@dataclass(slots=True, kw_only=True)
class Elements:
    """The elements of batches of a case as one rank has them: their blocks, and what calls of them give."""

    case: Case
    mesh: Mesh | None
    made: dict = field(default_factory=dict)

    def place(self, value: np.ndarray, t: ArrayType) -> Array:
        """A value as block of a rank."""
        if self.mesh is None or t.mesh.empty:
            return Array(t, None, frozen(np.array(value)))
        return Array(t, self.mesh, frozen(block(value, t, self.mesh, mpi.rank())))

    def version(self, t: ArrayType) -> int:
        return 0 if self.mesh is None else place_of(self.mesh, version_axes(t), self.mesh.coords(mpi.rank()))

    def operand(self, i: int, element: int):
        x, t = self.case.call.operands[i], self.case.types[i]
        value = self.case.call.value(i, self.version(t) + APART * element)
        return value if x.literal else self.place(value, t)

    def tangent(self, i: int, element: int):
        t = self.case.types[i]
        value = self.case.call.direction(i, 1, self.version(t) + APART * element)
        return Zero(t.tangent()) if value is None else self.place(value, t)

    def cotangent(self, i: int, element: int):
        t = self.case.outs[i]
        value = self.case.call.cotangent(i, t, self.version(t) + APART * element)
        return None if value is None else self.place(value, t.dual())

    def called(self, what: str, batched: Sequence[bool], element: int) -> list[np.ndarray]:
        """Blocks of the results, tangents or cotangents of a call; operands that are not batched are those of the first one."""
        key = what, tuple(batched), element
        if key not in self.made:
            of = [element if b else 0 for b in batched]
            xs = list(map(self.operand, range(len(of)), of))
            if what == 'value':
                made = self.case(*xs)
            elif what == 'tangent':
                made = tangents_of(self.case, xs, list(map(self.tangent, range(len(of)), of)))
            else:
                made = cotangents_of(self.case, xs, [self.cotangent(i, element) for i in range(len(self.case.outs))])
            self.made[key] = list(map(block_of, made))
        return self.made[key]


@dataclass(frozen=True, kw_only=True)
class Batched:
    """A case on a batch with its axis at `dims` of the operands. Called it is the map of the case."""

    elements: Elements
    axis: AxisData
    dims: Dims
    reduced: bool = False                                           # operands without batch are reduced where the batch is split

    @property
    def case(self) -> Case:
        return self.elements.case

    @property
    def call(self) -> Call:
        return self.case.call

    def __str__(self) -> str:
        split = f' split over {self.axis.axes}' if self.axis.axes else ''
        return f'{self.case} on a batch of {self.axis.size}{split} at {self.dims}'

    def __call__(self, *xs) -> list:
        return jax.vmap(self.case, in_axes=self.dims)(*xs)

    @cached_property
    def mine(self) -> range:
        """The elements that this rank has."""
        mesh, n = self.elements.mesh, self.axis.size
        if not self.axis.axes:
            return range(n)
        at = 0
        for axis in self.axis.axes:
            n //= mesh.shape[axis]
            at += mesh.coords(mpi.rank())[axis] * n
        return range(at, at + n)

    def batch(self, made: Callable[[int], Array | Zero], t: ArrayType, d: int | None):
        """What `made` gives for each element, as a batch."""
        if d is None:
            x = made(0)
            return Array(self.lone(t), x.mesh, x.block) if x.__class__ is Array and self.reduced else x
        xs = list(map(made, self.mine))
        t = self.axis.batched(t, d)
        return Zero(t) if xs and xs[0].__class__ is Zero else Array(
            t, None if t.mesh.empty else self.elements.mesh,
            frozen(np.stack([x.block for x in xs], d) if xs else np.zeros(t.local_shape, t.dtype)))

    def lone(self, t: ArrayType) -> ArrayType:
        """The type of an operand without batch."""
        return t.update(reduced=t.reduced | set(self.axis.axes)) if self.reduced and not t.mesh.empty else t

    def operands(self) -> list:
        return [self.batch(lambda b, i=i: self.elements.operand(i, b), t, d)
                for i, (t, d) in enumerate(zip(self.case.types, self.dims, strict=True))]

    def faults(self, derive: bool) -> Iterator[str]:
        """What is unlike the calls of the elements."""
        try:
            yield from (f'{self}: {fault}' for fault in self._value())
            if derive and self.case.orders and not self.call.refuses(self.case.types):
                if self.call.forward:
                    yield from (f'{self}: tangent {fault}' for fault in self._tangents())
                if self.call.transposes:
                    yield from (f'{self}: cotangent {fault}' for fault in self._cotangents())
        except Exception as error:
            yield f'{self}: {type(error).__name__}: {error}'

    @property
    def batched(self) -> list[bool]:
        return [d is not None for d in self.dims]

    def _value(self) -> Iterator[str]:
        xs = self.operands()
        with recorder.count() as sent:
            made = self(*xs)
        apart = self.axis.axes and self.case.primitive.name == 'while'              # asks whether all elements are done
        if sent.by_op and not (self.call.communicates or self.case.primitive.messages or apart):
            yield f'sends {sent.by_op}'
        yield from self._stacked('value', made, self.case.outs)

    def _tangents(self) -> Iterator[str]:
        ts = [self.batch(lambda b, i=i: self.elements.tangent(i, b), t, d)
              for i, (t, d) in enumerate(zip(self.case.types, self.dims, strict=True))]
        yield from self._stacked('tangent', tangents_of(self, self.operands(), ts), [t.tangent() for t in self.case.outs])

    def _stacked(self, what: str, made: Sequence, types: Sequence[ArrayType]) -> Iterator[str]:
        want = [self.elements.called(what, self.batched, b) for b in self.mine]
        for i, (y, t) in enumerate(zip(made, types, strict=True)):
            if t.dtype == dtypes.float0:
                continue
            t = self.axis.batched(t, 0)
            if typeof(y) != t:
                yield f'{i} of type {typeof(y)}, not {t}'
            elif want:
                fault = unlike(block_of(y), np.stack([blocks[i] for blocks in want]), self.case.tolerance)
                if fault:
                    yield f'{i}: {fault}'

    def _cotangents(self) -> Iterator[str]:
        cts = [self.batch(lambda b, i=i: self.elements.cotangent(i, b), t.dual(), 0) if dtypes.is_float(t.dtype) else None
               for i, t in enumerate(self.case.outs)]
        made = cotangents_of(self, self.operands(), cts)
        active = [i for i, x in enumerate(self.call.operands) if x.active]
        for k, (i, ct) in enumerate(zip(active, made, strict=True)):
            t, d = self.case.types[i], self.dims[i]
            dual = (self.axis.batched(t, d) if d is not None else self.lone(t)).dual()
            if not same_cotangent(typeof(ct), dual):
                yield f'{i} of type {typeof(ct)}, not {dual}'
                continue
            some = self.mine if d is not None or dual.unreduced & set(self.axis.axes) else range(self.axis.size)
            want = [self.elements.called('cotangent', self.batched, b)[k] for b in some]
            fault = unlike(block_of(ct), np.stack(want, d) if d is not None else sum(want), self.case.tolerance)
            if fault:
                yield f'{i}: {fault}'


# ---- which batches

def everywhere(call: Call) -> list[Dims]:
    """The batch at each place of each operand alone, at some places of two, and of all."""
    at = [[] if x.literal else range(t.ndim + 1) for x, t in zip(call.operands, call.types, strict=True)]
    open_ = [i for i, places in enumerate(at) if places]

    def dims(chosen: dict[int, int]) -> Dims:
        return tuple(chosen.get(i) for i in range(len(at)))
    found = [dims({i: d}) for i in open_ for d in at[i]]
    if len(open_) > 2:
        found += [dims({i: at[i][-1], j: at[j][0]}) for i, j in zip(open_, open_[1:], strict=False)]
    if len(open_) > 1:
        found += [dims({i: at[i][0] for i in open_}), dims({i: at[i][-1] for i in open_}),
                  dims({i: at[i][k % len(at[i])] for k, i in enumerate(open_)})]
    return list(dict.fromkeys(found))


def few(call: Call, number: int) -> list[Dims]:
    """Two of these, others for each number."""
    every = everywhere(call)
    return [every[-1 - number % min(3, len(every))], every[number % len(every)]] if every else []


def on_one_rank(primitive: Primitive, calls: Sequence[Call]) -> list[str]:
    """The law on whole operands, for the first call at all places: with derivatives; for batches of one and of none."""
    faults: list[str] = []
    for number, call in enumerate(calls):
        case = whole_case(primitive, call)
        elements = Elements(case=case, mesh=None)
        some = few(call, number) if number else everywhere(call)[::-1]
        for i, dims in enumerate(some):
            faults += Batched(elements=elements, axis=AxisData(size=3), dims=dims).faults(derive=not i and number < 3)
        for size in (1, 0) if some and not number else ():
            faults += Batched(elements=elements, axis=AxisData(size=size), dims=some[0]).faults(derive=False)
    return faults


def named(param: object) -> set[str]:
    """The mesh axes that a parameter speaks of."""
    if isinstance(param, NamedSharding):
        return {a for axes in param.spec.axes for a in axes}
    return set(param) if isinstance(param, frozenset) else set()


def on_mesh(primitive: Primitive, calls: Sequence[Call], mesh: Mesh) -> list[str]:
    """The law on placed operands: batches that are whole, and batches split over the axes that the elements leave free."""
    faults: list[str] = []
    free = EMPTY_MESH if mesh.abstract_mesh.manual_axes else mesh.abstract_mesh
    for call in calls:
        for number, case in enumerate(chosen(primitive, call, mesh, Visit()) if everywhere(call) else []):
            elements = Elements(case=case, mesh=mesh)
            used = set().union(*(t.split_axes | t.unreduced | t.reduced | t.varying for t in (*case.types, *case.outs)),
                               *map(named, case.params.values()))
            unused = tuple(a for a in free.axis_names if a not in used)
            first, second = few(call, number + len(call.operands))
            faults += Batched(elements=elements, axis=AxisData(size=2), dims=first).faults(derive=not number)
            if unused:
                split = AxisData(size=2 * mesh.abstract_mesh.axis_size(unused), axes=unused, mesh=mesh.abstract_mesh)
                faults += Batched(elements=elements, axis=split, dims=second, reduced=bool(number % 2)).faults(derive=not number)
    return faults
