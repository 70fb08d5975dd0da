"""The one inference of states: from the names of an op's dimensions and its linearity to the types it may meet.

An op says how its operands' dimensions and its result's are related by giving each a *label*, as in einsum: equal labels
are one dimension. It also says in which operands it is linear. From these two follow, one mesh axis at a time and
independently of the other axes, what state every operand has to be in and what state the result is in:

    the axis splits a label   operands that have the label are S, the others R; the result is S if it has the label,
                              and U (a sum to come) if the label is summed away
    an operand is U           operands of the same linear group are U too, all others R; the result is U
    neither                   all N gives N, all R gives R, all V gives V

`agree` computes those required states from the states that are there, by free or cheap moves only. A primitive is well
typed when nothing has to move (`infer`); a kind function first moves its operands where `agree` says. So both layers
rest on the same few lines, and no op has a sharding rule of its own.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from distad.errors import ShardingTypeError
from distad.types.array_type import ArrayType, axis_state
from distad.types.mesh import EMPTY_MESH, AbstractMesh

Label = Hashable | None
Labels = tuple[Label, ...]
Axes = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linearity:
    """In which operands an op is linear.

    `groups`: sets of operand positions. The op is linear in the operands of one group taken together (as `add` is in
    both), and in each group for itself when the others are held fixed (as `mul` is). Operands of no group are not
    linear. `anywhere` stands for 'all operands from the `skip`-th on are one group', whatever their number. `moves` says
    that elements are moved only, never combined, so that max- and min-summands pass through as well.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    anywhere: bool = False
    skip: int = 0
    moves: bool = False

    def groups_of(self, count: int) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(self.skip, count)),) if self.anywhere else self.groups


NONLINEAR = Linearity()
ADDITIVE = Linearity(anywhere=True)
STRUCTURAL = Linearity(anywhere=True, moves=True)
BILINEAR = Linearity(groups=((0,), (1,)))
LINEAR_IN_FIRST = Linearity(groups=((0,),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One call of an op, as far as states matter.

    `ins`, `outs`: a label for each dimension of each operand and result; None marks a dimension that must be whole
    (or has size 1). `reducer`: what happens to a label that no result has ('sum', 'max', 'min'), None when it may not be
    split. `given`: labels that arise in the result, with the axes they shall be split over.
    """

    name: str
    ins: tuple[Labels, ...]
    outs: tuple[Labels, ...]
    linearity: Linearity = NONLINEAR
    reducer: str | None = None
    given: Mapping[Label, Axes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Required operand types, and partitions and states of each result."""

    operands: tuple[ArrayType, ...]
    mesh: AbstractMesh
    outs: tuple[tuple[Axes, ...], ...]
    unreduced: frozenset[str]
    reduced: frozenset[str]
    varying: frozenset[str]
    kind: str

    def out(self, index: int, shape: Sequence[int], dtype, *, weak_type: bool = False) -> ArrayType:
        """The type of a result: its shape and dtype come from the op, its states from the agreement."""
        base = ArrayType(tuple(shape), dtype, weak_type=weak_type)
        if self.mesh.empty:
            return base
        return base.update(mesh=self.mesh, partitions=self.outs[index], unreduced=self.unreduced,
                           reduced=self.reduced, varying=self.varying, kind=self.kind)


def is_literal(t: ArrayType) -> bool:
    """A number without a place: it is the same everywhere and takes any state."""
    return t.ndim == 0 and t.mesh.empty


def common_mesh(name: str, types: Sequence[ArrayType]) -> AbstractMesh:
    """The mesh of a call; values that were never placed have none and adapt."""
    mesh = EMPTY_MESH
    for t in types:
        if t.mesh.empty or t.mesh == mesh:
            continue
        if not mesh.empty and (mesh.axis_names, mesh.axis_sizes) == (t.mesh.axis_names, t.mesh.axis_sizes):
            raise ShardingTypeError(f"{name} meets an array from outside of a shard_map inside of it, got {show(types)}. Pass it as an "
                                    "argument of the mapped function.")
        if not mesh.empty:
            raise ValueError(f"{name}: operands live on different meshes: {mesh} and {t.mesh}. "
                             "Bring them to one mesh with device_put.")
        mesh = t.mesh
    return mesh


def agree(sig: Signature, types: Sequence[ArrayType], *, mixed: str = 'R') -> Agreement:
    """The states that a call needs, from those that are there.

    `mixed` is the state that N and R operands take along explicit axes when they meet and nothing else decides ('R', or 'N' to
    forget R).
    Raises ShardingTypeError when the user has a real choice.
    """
    types = tuple(types)
    mesh = common_mesh(sig.name, types)
    if mesh.empty:
        return Agreement(operands=types, mesh=mesh, outs=tuple(((),) * len(o) for o in sig.outs), unreduced=frozenset(),
                         reduced=frozenset(), varying=frozenset(), kind='sum')
    axes_of = _axes_of_labels(sig, types)
    split = {axis: label for label, axes in axes_of.items() for axis in axes}
    kept = {label for labels in sig.outs for label in labels}
    partitions = tuple(tuple(axes_of.get(label, ()) if label is not None else () for label in labels)
                       for labels in sig.ins)
    states: list[dict[str, str]] = [{} for _ in types]
    result: dict[str, str] = {}
    for axis in mesh.axis_names:
        now = [axis_state(t, axis) for t in types]
        if axis in split:
            need, result[axis] = _split_axis(sig, types, axis, now, partitions, split[axis] in kept)
        else:
            need, result[axis] = _whole_axis(sig, types, axis, now, 'R' if axis in mesh.manual_axes else mixed)
        for state, new in zip(states, need, strict=True):
            state[axis] = new
    kind = _kind(sig, types, split, kept)
    operands = tuple(t if is_literal(t) else _restate(t, mesh, parts, state)
                     for t, parts, state in zip(types, partitions, states, strict=True))
    outs = tuple(tuple(axes_of.get(label, ()) if label is not None else () for label in labels) for labels in sig.outs)
    pick = {s: frozenset(a for a, r in result.items() if r == s) for s in 'URV'}
    return Agreement(operands=operands, mesh=mesh, outs=outs, unreduced=pick['U'], reduced=pick['R'],
                     varying=pick['V'], kind=kind)


def infer(sig: Signature, types: Sequence[ArrayType]) -> Agreement:
    """The strict form, for primitives: what `agree` says, provided that no operand has to change."""
    agreement = agree(sig, types)
    for t, need in zip(types, agreement.operands, strict=True):
        if t is not need and not same_states(t, need):
            raise ShardingTypeError(
                f"{sig.name} takes operands in states that go together, got {show(types)}; it would take "
                f"{show(agreement.operands)}. Cast with reshard, or call the function of distad.numpy or distad.lax, "
                "which does so.")
    return agreement


def same_states(a: ArrayType, b: ArrayType) -> bool:
    """Whether two types say the same of every axis. A value without a mesh counts as N on every axis of one."""
    return (a.partitions == b.partitions and a.unreduced == b.unreduced and a.reduced == b.reduced
            and a.varying == b.varying and a.kind == b.kind)


def show(types: Sequence[ArrayType]) -> str:
    return ', '.join(map(str, types)) if types else 'no operands'


# ---- one label, one mesh axis

def _axes_of_labels(sig: Signature, types: Sequence[ArrayType]) -> dict[Label, Axes]:
    """Which axes split which label. A summed label yields an axis that a kept one claims too."""
    found: dict[Label, Axes] = {label: axes for label, axes in sig.given.items() if axes}
    for t, labels in zip(types, sig.ins, strict=True):
        for dim, (label, axes) in enumerate(zip(labels, t.partitions, strict=True)):
            if not axes:
                continue
            if label is None:
                raise ShardingTypeError(
                    f"{sig.name} needs the whole of dimension {dim}, which is split over {_words(axes)}, got "
                    f"{show(types)}. Gather it first: reshard(x, P({_without(t, dim)})).")
            if found.setdefault(label, axes) != axes:
                raise ShardingTypeError(
                    f"{sig.name}: one dimension is split over {_words(found[label])} in one operand and over "
                    f"{_words(axes)} in another, got {show(types)}. Reshard one of them so that they agree.")
    kept = {label for labels in sig.outs for label in labels}
    owner: dict[str, Label] = {}
    for label in sorted(found, key=lambda label: label not in kept):      # stable: kept labels claim their axes first
        for axis in found[label]:
            other = owner.setdefault(axis, label)
            if other == label:
                continue
            if label in kept or sig.reducer is None:
                raise ShardingTypeError(
                    f"{sig.name}: the result would have two dimensions split over mesh axis {axis}: "
                    f"{_would_be(sig, found)}, got {show(types)}. Reshard an operand so that each mesh axis splits one "
                    "dimension.")
            found[label] = ()
            break
    return {label: axes for label, axes in found.items() if axes}


def _split_axis(sig: Signature, types, axis: str, now: list[str], partitions, is_kept: bool) -> tuple[list[str], str]:
    has = [any(axis in axes for axes in parts) for parts in partitions]
    # A label that is summed away leaves one operand's contribution unreduced. Those it is added to are summands too, then.
    beside = () if is_kept else {i for group in sig.linearity.groups_of(len(types)) if any(has[i] for i in group) for i in group}
    for i, (t, state) in enumerate(zip(types, now, strict=True)):
        if state == 'U' and not is_literal(t) and not (i in beside and not has[i]):
            if sig.linearity.groups_of(len(types)) == ():
                raise _nonlinear(sig, t, axis)
            raise ShardingTypeError(
                f"{sig.name} meets a value unreduced over {axis} and a dimension split over {axis}, got {show(types)}. "
                "Reduce first: reshard the unreduced operand to a sharding without unreduced.")
    if not is_kept and sig.reducer is None:
        raise ShardingTypeError(f"{sig.name} needs the whole of a dimension that is split over {axis}, got "
                                f"{show(types)}. Gather it with reshard.")
    need = ['S' if here else 'U' if i in beside else 'R' for i, here in enumerate(has)]
    return need, 'S' if is_kept else 'U'


def _whole_axis(sig: Signature, types, axis: str, now: list[str], mixed: str) -> tuple[list[str], str]:
    placed = [state for t, state in zip(types, now, strict=True) if not is_literal(t)]
    if 'U' in placed:
        return _unreduced_axis(sig, types, axis, now), 'U'
    if 'V' in placed:
        return ['V' if state in 'NRSV' else state for state in now], 'V'
    # an operand whose split dimension gave way (it is contracted, and the axis is free again) is gathered
    have = set(placed) - {'S'}
    state = 'N' if not have else have.pop() if len(have) == 1 and mixed == 'R' else mixed
    return [state] * len(now), state


def _unreduced_axis(sig: Signature, types, axis: str, now: list[str]) -> list[str]:
    groups = sig.linearity.groups_of(len(types))
    group = None
    for i, (t, state) in enumerate(zip(types, now, strict=True)):
        if state != 'U' or is_literal(t):
            continue
        mine = next((g for g in groups if i in g), None)
        if mine is None:
            raise _nonlinear(sig, t, axis)
        if t.kind != 'sum' and not sig.linearity.moves:
            raise ShardingTypeError(f"{sig.name} combines elements and cannot take a value whose {t.kind} over {axis} is "
                                    f"still to come, got {show(types)}. Reduce it first with reshard.")
        if group is not None and mine != group:
            raise ShardingTypeError(
                f"{sig.name} of two values unreduced over {axis} would need the product of their sums, got "
                f"{show(types)}. Reduce one of them first: reshard(x, P(...)) without unreduced.")
        group = mine
    for i in group or ():
        if now[i] != 'U' or is_literal(types[i]):
            raise ShardingTypeError(
                f"{sig.name} meets values unreduced and not unreduced over {axis}, got {show(types)}. Added to each "
                f"summand the other would count once per rank. Reduce first: reshard(x, P(...)) without unreduced, or "
                f"make the other unreduced too: reshard(y, P(..., unreduced={{'{axis}'}})).")
    return ['U' if i in (group or ()) else 'R' for i in range(len(types))]


def _nonlinear(sig: Signature, t: ArrayType, axis: str) -> ShardingTypeError:
    return ShardingTypeError(
        f"{sig.name} is a non-linear operation and cannot accept input that is unreduced, got {t}: {sig.name} of a sum "
        f"is not the sum over {axis} of {sig.name}. Reduce first: reshard(x, P(...)) without unreduced.")


def _kind(sig: Signature, types, split, kept) -> str:
    kinds = {t.kind for t in types if t.unreduced}
    if any(label not in kept for label in split.values()):
        kinds.add(sig.reducer or 'sum')
    if len(kinds) > 1:
        raise ShardingTypeError(f"{sig.name} would mix unreduced values of kinds {' and '.join(sorted(kinds))}, got "
                                f"{show(types)}. Reduce one of them first with reshard.")
    return kinds.pop() if kinds else 'sum'


def _restate(t: ArrayType, mesh: AbstractMesh, parts, state: Mapping[str, str]) -> ArrayType:
    pick = {s: frozenset(a for a, st in state.items() if st == s) for s in 'URV'}
    if (t.partitions == parts and t.unreduced == pick['U'] and t.reduced == pick['R'] and t.varying == pick['V']
            and t.mesh == mesh):
        return t
    return t.update(mesh=mesh, partitions=parts, unreduced=pick['U'], reduced=pick['R'], varying=pick['V'],
                    kind=t.kind if pick['U'] else 'sum')


def _would_be(sig: Signature, found: Mapping[Label, Axes]) -> str:
    dims = ','.join('.' if not found.get(label) else '@' + _words(found[label]) for label in sig.outs[0])
    return f"[{dims}]"


def _without(t: ArrayType, dim: int) -> str:
    return ', '.join('None' if i == dim or not axes else repr(axes[0]) if len(axes) == 1 else repr(axes)
                     for i, axes in enumerate(t.partitions))


def _words(axes: Axes) -> str:
    return axes[0] if len(axes) == 1 else f"({','.join(axes)})"
