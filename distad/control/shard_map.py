"""shard_map: run a function on each rank's block, with explicit collectives (manual mode)."""

import functools
from collections.abc import Callable
from typing import Any

from distad import tree
from distad.control.closure import lifted
from distad.control.map_primitive import inner_type, outer_type
from distad.control.map_primitive import shard_map as shard_map_p
from distad.core.eager import EAGER
from distad.core.jaxpr import open_consts
from distad.core.lift import as_value
from distad.core.trace import current_trace
from distad.core.value import Array, Value, is_scalar, typeof
from distad.errors import DuplicateSpecError, ShardingTypeError
from distad.ops.casts import pvary
from distad.source import boundary
from distad.transforms.stage import stage
from distad.types.array_type import ArrayType, axis_state
from distad.types.mesh import AbstractMesh, AxisType, Mesh, get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from distad.types.sharding import array_sharding
from distad.types.spec import P, written


class Infer:
    """The specs of arguments are what their types say."""


def shard_map(f: Callable | None = None, /, *, mesh: Mesh | AbstractMesh | None = None, in_specs: Any = Infer, out_specs: Any,
              axis_names: frozenset[str] | set[str] = frozenset(), check_vma: bool = True) -> Callable:
    """Map a function over the blocks of its arguments: inside, each rank computes on its own, and collectives are explicit.

    f: a function of arrays. mesh: by default the current one. in_specs: a P for each argument, or a tree prefix of them; by
    default what the arguments' types say. A None leaves an argument untouched. out_specs: the same for the results.
    axis_names: the axes that become manual (all by default); the others stay explicit inside. Inside, a value is per manual
    axis varying {V:X}, the same on all ranks (nothing printed), unreduced {U:X} or reduced {R:X}. `P('X')` binds to a varying
    value, `P()` to one that is the same everywhere, `P(unreduced={'X'})` and `P(reduced={'X'})` to these. Arrays that `f`
    closes over are arguments with inferred specs.
    Communication: only what `f` asks for; nothing at the boundary, forward or backward. Without `f` a decorator.
    Raises ValueError when an argument lies otherwise than its spec says (use reshard), or a result is not what its spec claims.

        @shard_map(in_specs=P('X'), out_specs=P())
        def total(x):
            return lax.psum(x.sum(), 'X')
    """
    if f is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=axis_names,
                                 check_vma=check_vma)
    if not callable(f):
        raise TypeError(f"shard_map takes a function, got {f!r}")
    if not isinstance(axis_names, (set, frozenset)):
        raise TypeError(f"shard_map: axis_names is a set of mesh axis names, got {axis_names!r}")

    @boundary
    @functools.wraps(f)
    def mapped(*args):
        return _Call(f, mesh, in_specs, out_specs, frozenset(axis_names), check_vma).run(args)

    return mapped


class _Call:
    """One call of a mapped function: meshes, specs and their checks."""

    def __init__(self, f: Callable, mesh, in_specs, out_specs, axis_names: frozenset[str], check_vma: bool):
        self.f, self.in_specs, self.out_specs, self.check_vma = f, in_specs, out_specs, check_vma
        self.given = mesh
        self.outer = _mesh(mesh)
        unknown = axis_names - set(self.outer.axis_names)
        if unknown:
            raise ValueError(f"shard_map: axis_names {sorted(unknown)} are not axes of the mesh, which has "
                             f"{self.outer.axis_names}")
        taken = frozenset(self.outer.manual_axes)
        self.manual = (axis_names or frozenset(self.outer.axis_names)) - taken
        if not self.manual:
            raise ValueError(f"shard_map: no axis is left to be mapped over; {sorted(taken)} are manual already")
        if self.outer.auto_axes:
            raise ValueError(f"shard_map: the mesh {self.outer} has Auto axes, of which nothing is tracked: either they are "
                             "those of a map with check_vma=False around this one, or make the mesh with Explicit axes.")
        kind = AxisType.Manual if check_vma else AxisType.Auto          # Auto: no states are tracked
        self.inner = self.outer.with_types(dict.fromkeys(self.manual, kind))

    def run(self, args: tuple):
        if isinstance(self.given, Mesh) and get_mesh().empty:
            with set_mesh(self.given):
                return self._run(args)
        return self._run(args)

    def _run(self, args: tuple):
        body, closed = lifted(self.f)
        leaves, structure = tree.flatten(args)
        specs = self._specs(args, leaves)
        dynamic = [i for i, s in enumerate(specs) if s is not None]
        values = [*closed, *(as_value(leaves[i], 'shard_map') for i in dynamic)]
        specs = [*(self._inferred(x.type) for x in closed), *(specs[i] for i in dynamic)]
        values = [self._checked(x, s) for x, s in zip(values, specs, strict=True)]
        types = [inner_type(x.type, s, self.inner, self.manual) for x, s in zip(values, specs, strict=True)]
        out_tree: list = []

        def flat(*inputs):
            given = list(leaves)
            for i, x in zip(dynamic, inputs[len(closed):], strict=True):
                given[i] = x
            out = body(inputs[:len(closed)], *tree.unflatten(structure, given))
            outs, made = tree.flatten(out)
            out_specs = self._result_specs(out, len(outs))
            outs = [self._out(as_value(y, 'the result of shard_map'), s) for y, s in zip(outs, out_specs, strict=True)]
            out_tree[:] = [made, out_specs]
            return outs

        with use_abstract_mesh(self.inner):
            if current_trace() is EAGER:
                outs = flat(*(Array(t, x.mesh, x.block) for x, t in zip(values, types, strict=True)))
                made = [Array(outer_type(y.type, s, self.outer, self.manual), y.mesh, y.block)
                        for y, s in zip(outs, out_tree[1], strict=True)]
                return tree.unflatten(out_tree[0], made)
            jaxpr = stage(flat, types, getattr(self.f, '__name__', 'f'))
        jaxpr, consts = open_consts(jaxpr)
        made = shard_map_p(*map(self._constant, consts), *values, jaxpr=jaxpr, mesh=self.inner, outer_mesh=self.outer,
                           manual=self.manual, in_specs=(*([P()] * len(consts)), *specs), out_specs=tuple(out_tree[1]),
                           check_vma=self.check_vma)
        return tree.unflatten(out_tree[0], made)

    def _constant(self, x):
        """What the body made of NumPy values is the same on all ranks, outside as inside; anything else came from outside."""
        t = typeof(x)
        if isinstance(x, Array) and t.mesh == self.inner and not (t.varying & self.manual):
            return Array(t.update(mesh=self.outer), x.mesh, x.block)
        if t.mesh.empty:
            return _placed(as_value(x, 'shard_map'), self.outer)
        raise ShardingTypeError(f"shard_map: the body uses a value of type {t} from outside, which it does not name itself. Pass "
                                "it as an argument.")

    # ---- arguments

    def _specs(self, args: tuple, leaves: list) -> list[P | None]:
        if self.in_specs is Infer:
            return [self._inferred(typeof(x)) if isinstance(x, Value) or is_scalar(x) else P() for x in leaves]
        specs = tuple(self.in_specs) if isinstance(self.in_specs, list) else self.in_specs
        for s in tree.leaves(specs, is_leaf=_is_spec):
            if s is not None and not isinstance(s, P):
                raise TypeError(f"shard_map: in_specs are PartitionSpecs, got {s!r}")
            self._check_spec(s, 'in_specs')
        try:
            return tree.broadcast_prefix(specs, args, is_leaf=_is_spec, what='the arguments')
        except ValueError as error:
            raise ValueError(f"shard_map: in_specs are not a tree prefix of the {len(args)} arguments: {error}") from None

    def _check_spec(self, spec: P | None, what: str) -> None:
        if spec is None:
            return
        used = [a for axes in spec.axes for a in axes]
        for a in (*used, *spec.unreduced, *spec.reduced):
            if a not in self.outer.axis_names:
                raise ValueError(f"shard_map: {what} name {a!r}, which is no axis of the mesh {self.outer.axis_names}")
            if a not in self.manual:
                raise ValueError(f"shard_map: {what} name {a!r}, which is not among the manual axes {sorted(self.manual)}. The "
                                 "types of arguments say how they lie over the other axes.")
        if len(set(used)) < len(used):
            raise DuplicateSpecError(f"shard_map: {what} {spec!r} name a mesh axis twice: an axis splits one dimension, once")

    def _inferred(self, t: ArrayType) -> P:
        if t.mesh.empty:
            return P()
        parts = []
        for axes in t.partitions:
            mine = tuple(a for a in axes if a in self.manual)
            if axes[:len(mine)] != mine:
                raise ValueError(f"shard_map: the spec of an argument of type {t} can't be inferred over {sorted(self.manual)} "
                                 "alone, since another axis splits the dimension first")
            parts.append(mine)
        return P(*parts, unreduced=t.unreduced & self.manual, reduced=t.reduced & self.manual)

    def _checked(self, x, spec: P):
        """An argument whose type agrees with its spec; one that was never placed is the same on all ranks."""
        t = x.type
        if len(spec.axes) > t.ndim:
            raise ValueError(f"shard_map: {spec!r} has more entries than {t} has dimensions")
        array_sharding(self.outer.with_types(dict.fromkeys(self.manual, AxisType.Explicit)), spec, t.shape)
        if t.mesh.empty:
            x = _placed(x, self.outer)
            t = x.type
        wanted = (*spec.axes, *(((),) * (t.ndim - len(spec.axes))))
        have = tuple(tuple(a for a in axes if a in self.manual) for axes in t.partitions)
        leads = all(axes[:len(mine)] == mine for axes, mine in zip(t.partitions, have, strict=True))
        if (have != wanted or not leads or t.unreduced & self.manual != spec.unreduced or t.reduced & self.manual != spec.reduced):
            raise ValueError(f"shard_map: an argument of type {t} does not lie as in_specs say, {spec!r}. The boundary moves no "
                             f"data: bring it there with reshard(x, {written(spec)}), or change the spec.")
        return x

    # ---- results

    def _result_specs(self, out: Any, count: int) -> list[P]:
        specs = list(tree.leaves(self.out_specs, is_leaf=_is_spec))
        for s in specs:
            if s is not None and not isinstance(s, P):
                raise TypeError(f"shard_map: out_specs are PartitionSpecs, got {s!r}")
            self._check_spec(s, 'out_specs')
        try:
            found = tree.broadcast_prefix(self.out_specs, out, is_leaf=_is_spec, what='the result')
        except ValueError as error:
            raise ValueError(f"shard_map: out_specs are not a tree prefix of the result: {error}") from None
        if len(found) != count or any(s is None for s in found):
            raise ValueError(f"shard_map: out_specs {self.out_specs!r} do not give a spec for each of the {count} results")
        return found

    def _out(self, y, spec: P):
        """A result as its spec claims; copies become varying ones for free where the spec tiles them."""
        t = typeof(y)
        if t.mesh.empty:
            y = _placed(y, self.inner)
            t = y.type
        if len(spec.axes) > t.ndim:
            raise ValueError(f"shard_map: out_specs {spec!r} have more entries than the result {t} has dimensions. Give a "
                             "scalar a dimension first, y[None], to tile it.")
        tiled = [a for axes in spec.axes for a in axes]
        if not self.check_vma:
            return y
        plain = tuple(a for a in tiled if axis_state(t, a) == 'N')
        if plain:
            y = pvary(y, axes=plain)
            t = y.type
        for a in sorted(self.manual):
            state = axis_state(t, a)
            want = 'V' if a in tiled else 'U' if a in spec.unreduced else 'R' if a in spec.reduced else 'N'
            if state != want:
                raise ValueError(f"shard_map: out_specs {spec!r} for a result of type {t}: {_claim(a, state, want)}")
        if spec.unreduced and str(spec.unreduced_kind.name) != t.kind:
            raise ValueError(f"shard_map: out_specs {spec!r} for a result of type {t}, whose {t.kind} is still to come")
        return y


_WORDS = {'V': 'varies over', 'N': 'is the same on all ranks along', 'U': 'is unreduced over', 'R': 'is reduced over'}
# By what the value is and what the spec claims. What is the same everywhere is tiled for free, without a word.
_MEND = {('V', 'N'): "sum it with psum(y, {axis!r}), gather it with all_gather(y, {axis!r}, to='invarying'), or tile it: name "
                     '{axis} in its spec', ('V', 'U'): "pcast(y, {axis!r}, to='unreduced')",
         ('V', 'R'): "gather it with all_gather(y, {axis!r}, to='reduced'), or psum(y, {axis!r}) and "
                     "then pcast(y, {axis!r}, to='reduced')",
         ('U', 'N'): 'psum(y, {axis!r})', ('U', 'V'): 'psum_scatter(y, {axis!r}, tiled=True)',
         ('U', 'R'): "psum(y, {axis!r}) and then pcast(y, {axis!r}, to='reduced')",
         ('N', 'U'): 'let its spec not name {axis}, and reshard what the map returns',
         ('N', 'R'): "pcast(y, {axis!r}, to='reduced')", ('R', 'N'): 'say reduced={{{axis!r}}} in its spec',
         ('R', 'V'): "pcast(y, {axis!r}, to='varying')",
         ('R', 'U'): 'say reduced={{{axis!r}}} in its spec, and reshard what the map returns'}


def _claim(axis: str, state: str, want: str) -> str:
    return (f"the value {_WORDS[state]} {axis}, the spec claims that it {_WORDS[want]} {axis}. To mend it: "
            f"{_MEND[state, want].format(axis=axis)}.")


def _placed(x, mesh: AbstractMesh):
    """A value that was never placed, as one that is the same on every rank of the mesh."""
    t = x.type.update(mesh=mesh)
    if isinstance(x, Array):
        return Array(t, get_mesh(), x.block)
    raise ValueError(f"shard_map: an argument of type {x.type} lies on no mesh. Put it on {mesh} with reshard(x, P()).")


def _mesh(mesh) -> AbstractMesh:
    context = get_abstract_mesh()
    if mesh is None:
        if context.empty:
            raise ValueError('shard_map needs a mesh: pass mesh=, or make one current with set_mesh')
        return context
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(f"shard_map: mesh is a Mesh, got {mesh!r}")
    given = mesh.abstract_mesh
    if context.empty:
        return given
    if (given.axis_names, given.axis_sizes) != (context.axis_names, context.axis_sizes):
        raise ValueError(f"shard_map: the mesh given, {given}, is not the current one, {context}")
    return context


def _is_spec(s) -> bool:
    return s is None or isinstance(s, P)
