"""One primitive on one mesh: all placements of its calls, observed and compared with the calls on whole operands."""

import pickle
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from distad.core.eager import frozen
from distad.core.primitive import Primitive
from distad.core.value import Array
from distad.errors import ShardingTypeError
from distad.runtime import collectives, mpi
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import agree, show
from distad.types.mesh import Mesh
from tests.laws.blocks import block, place_of, version_axes, whole
from tests.laws.calls import Call
from tests.laws.exchanges import refute
from tests.laws.observation import Case, Observation, inputs, observe
from tests.laws.placements import Types, candidates, varied
from tests.laws.reference import reference, unlike

REFUSALS = (ShardingTypeError, TypeError, ValueError, NotImplementedError)
CANDIDATES = 30


@dataclass(slots=True, kw_only=True)
class Visit:
    """What was found wrong, the same list on all ranks; how many placements types were asked about, accepted, and observed;
    how many results were compared."""

    faults: list[str] = field(default_factory=list)
    proposed: int = 0
    accepted: int = 0
    observed: int = 0
    compared: int = 0


def visit(primitive: Primitive, calls: Sequence[Call], mesh: Mesh) -> Visit:
    """The laws of a primitive on a mesh. Every rank of the mesh takes part."""
    group = mpi.group(mesh, mesh.axis_names)
    visited, cases, mine = Visit(), [], []
    for i, call in enumerate(calls):                                 # ranks share the work of comparing: each takes some calls
        here = i % group.size == group.index
        if here and not call.stacked:
            visited.faults += reference(primitive, call).faults
        some = chosen(primitive, call, mesh, visited)
        cases += some
        mine += [here] * len(some)
    if not cases:
        visited.faults.append(f'{primitive.name}: types accept no placement of any call')
    seen = [on_this_rank(case, mesh) for case in cases]
    visited.faults += [f'{case}: {fault}' for case, s in zip(cases, seen, strict=True) for fault in s.faults]
    visited.observed, visited.compared = len(cases), sum(len(s.blocks) for s in seen)
    digest = zlib.crc32(' '.join(show(case.types + case.outs) for case in cases).encode())
    everyone = [pickle.loads(part) for part in collectives.agree(group, pickle.dumps((digest, [s.blocks for s in seen])))]
    if len({theirs for theirs, _ in everyone}) > 1:
        visited.faults.append(f'{primitive.name}: the ranks accept different placements')
    else:
        for i in (i for i, here in enumerate(mine) if here):
            compare = refute if cases[i].call.stacked else judge
            visited.faults += compare(cases[i], seen[i], [blocks[i] for _, blocks in everyone], mesh)
    found = [pickle.loads(part) for part in collectives.agree(group, pickle.dumps(visited.faults))]
    visited.faults = list(dict.fromkeys(fault for part in found for fault in part))
    return visited


def chosen(primitive: Primitive, call: Call, mesh: Mesh, visited: Visit) -> list[Case]:
    """A sample of the placements of a call that types accept. They may refuse others; anything else is a fault."""
    tried: dict[Types, list[Case]] = {}

    def accepts(types: Types) -> bool:
        if types not in tried:
            visited.proposed += 1
            tried[types] = accepted(primitive, call, types, mesh, visited)
            visited.accepted += bool(tried[types])
        return bool(tried[types])

    def mended(types: Types) -> Types:
        """What a function that is kind would make of the operands."""
        with suppress(*REFUSALS):
            if primitive.labels:
                return agree(primitive.labels(*types, **call.params_on(types, mesh.abstract_mesh)[0]), types).operands
        return types

    literal = [x.literal for x in call.operands]
    for types in candidates(call.types, literal, mesh.abstract_mesh, accepts, mended, CANDIDATES):
        accepts(types)
    replicated = tuple(t if lit else t.update(mesh=mesh) for t, lit in zip(call.types, literal, strict=True))
    if not tried[replicated] and not call.stacked:
        visited.faults.append(f'{primitive.name}({show(replicated)}): refused, though all is replicated')
    good = sorted((types for types in tried if tried[types]), key=lambda types: types != replicated)
    half = len(mesh.axis_names) == 1 or (mesh.abstract_mesh.manual_axes and not call.stacked)
    cases = []
    for i, types in enumerate(varied(good, mesh.abstract_mesh, call.places // 2 + 1 if half else call.places)):
        options = tried[types]
        cases += options if len(options) < 5 else [options[5 * i % len(options)]]
    return [replace(case, most=1 if i % 3 else 2) for i, case in enumerate(cases)]     # the second order on every third one


def accepted(primitive: Primitive, call: Call, types: Types, mesh: Mesh, visited: Visit) -> list[Case]:
    """The cases of a call on operands of these types: one for each choice of parameters."""
    found: list[Case] = []
    try:
        with suppress(*REFUSALS):                                    # a program that is a parameter may be refused too
            for params in call.params_on(types, mesh.abstract_mesh):
                with suppress(*REFUSALS):
                    found.append(Case(primitive=primitive, call=call, types=types, params=params,
                                      outs=primitive.infer(types, params)))
    except Exception as error:
        visited.faults.append(f'{primitive.name}({show(types)}): typing raises {error!r}')
    return found


def on_this_rank(case: Case, mesh: Mesh) -> Observation:
    rank = mpi.rank()

    def place(value: np.ndarray, t: ArrayType) -> Array:
        return Array(t, mesh, frozen(block(value, t, mesh, rank)))
    return observe(case, inputs(case, place, lambda t: place_of(mesh, version_axes(t), mesh.coords(rank))))


def judge(case: Case, seen: Observation, by_rank: Sequence[dict[str, list[np.ndarray]]], mesh: Mesh) -> list[str]:
    """Compare the global meaning of what the ranks made with the call on whole operands."""
    faults = []
    for name, types in seen.types.items():
        if any(name not in blocks for blocks in by_rank):
            continue
        for i, t in enumerate(types):
            if t.dtype == dtypes.float0:
                continue
            try:
                values = whole([blocks[name][i] for blocks in by_rank], t if not t.mesh.empty else t.update(mesh=mesh), mesh)
            except Exception as error:
                faults.append(f'{case}: {name} {i}: {error}')
                continue
            for version, value in values.items():
                want = reference(case.primitive, case.call, versions_at(case, t, version, mesh)).blocks
                fault = unlike(value, want[name][i], case.tolerance) if name in want else ''
                if fault:
                    faults.append(f'{case}: {name} {i}: {fault}')
    return faults


def versions_at(case: Case, t: ArrayType, version: int, mesh: Mesh):
    """Which versions of operands and cotangents the ranks have at one place along the axes over which a result varies."""
    if not any(x.varying for x in (*case.types, *case.outs)):
        return None
    coords = next(mesh.coords(r) for r in mesh.ranks if place_of(mesh, version_axes(t), mesh.coords(r)) == version)
    return (tuple(place_of(mesh, version_axes(x), coords) for x in case.types),
            tuple(place_of(mesh, version_axes(x), coords) for x in case.outs))
