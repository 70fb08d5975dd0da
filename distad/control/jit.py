"""jit: trace once per types, agree with the other ranks, compile, then run blocks through one Python function."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distad import tree
from distad.compiler.codegen import Program, compile_jaxpr
from distad.compiler.memory import MemoryAnalysis, analysis
from distad.compiler.text import as_text, fingerprint
from distad.config import config
from distad.control.call import call
from distad.control.donation import Donation, donation, give_up, usable
from distad.core.alike import check_alike
from distad.core.batching import named_axes
from distad.core.collector import collector_waits
from distad.core.eager import EAGER, block_of, frozen, mesh_of, read_types
from distad.core.forbid import forbidden_axes
from distad.core.jaxpr import Jaxpr, at_path, open_consts
from distad.core.lift import as_value
from distad.core.trace import current_trace
from distad.core.value import Array, is_scalar, typeof
from distad.ops.cast import cast
from distad.runtime import agreement
from distad.source import boundary
from distad.transforms.stage import stage
from distad.types.array_type import ArrayType
from distad.types.asked import is_sharding, wanted
from distad.types.mesh import Mesh, get_mesh
from distad.types.struct import ShapeDtypeStruct, struct_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traced:
    """A function traced on types: `.jaxpr` is its program; `closed` the same with `consts` as leading inputs, `giving` the same again
    with the arguments that are `donated` in boxes.
    """

    jaxpr: Jaxpr
    closed: Jaxpr
    giving: Jaxpr
    donated: tuple[int, ...]
    names: tuple[str, ...]
    consts: tuple
    out_tree: Any
    name: str
    mesh: Mesh | None

    @property
    def out_info(self) -> Any:
        return tree.unflatten(self.out_tree, map(struct_of, self.jaxpr.out_types))

    def lower(self) -> 'Lowered':
        return Lowered(traced=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A traced function, ready to be compiled."""

    traced: Traced

    def compile(self) -> 'Compiled':
        with collector_waits():
            program = compile_jaxpr(self.traced.giving, self.traced.mesh, f"jit({self.traced.name})/")
        return Compiled(traced=self.traced, program=program)

    def as_text(self) -> str:
        return str(self.traced.jaxpr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A per-rank program: `as_text()` lists its equations, `as_python()` is the source that runs."""

    traced: Traced
    program: Program

    def as_text(self) -> str:
        return as_text(self.program.jaxpr, f"jit({self.traced.name})/", self.traced.name)

    def as_python(self) -> str:
        return self.program.source

    def memory_analysis(self) -> MemoryAnalysis:
        """Bytes that a call takes on one rank, as its types tell."""
        return analysis(self.program.jaxpr)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ready:
    """What a call on arrays of known types comes to: a function on blocks, and what its results are."""

    mesh: Mesh | None                         # where it was traced
    run: Callable | None                      # None on a rank outside of the mesh
    outs: tuple[tuple[ArrayType, Mesh | None], ...]
    out_tree: Any
    donated: tuple[int, ...]
    names: tuple[str, ...]                    # of the arguments, where some are donated

    def __call__(self, blocks: list) -> list[Array]:
        if self.run is None:
            return [Array(t, m, None) for t, m in self.outs]
        return [Array(t, m, frozen(b)) for (t, m), b in zip(self.outs, self.run(*blocks), strict=True)]


class Jitted:
    """A function that runs compiled. See `jit`."""

    def __init__(self, fun: Callable, static_argnums: tuple[int, ...], static_argnames: tuple[str, ...], in_shardings: Any,
                 out_shardings: Any, hoist_reductions: bool = False, donated: Donation | None = None):
        functools.update_wrapper(self, fun)
        self.donation = donated
        self.hoist_reductions = hoist_reductions
        self.fun, self.in_shardings, self.out_shardings = fun, in_shardings, out_shardings
        self.static_argnums, self.static_argnames = static_argnums, static_argnames
        self.name = getattr(fun, '__name__', type(fun).__name__)
        self.plain = in_shardings is None and not static_argnums and not static_argnames
        self.cache: dict = {}
        self.ready: dict[tuple, Ready] = {}
        self.agreed: set[Traced] = set()

    @boundary
    def __call__(self, *args, **kwargs):
        if config.disable_jit:
            out = self.fun(*args, **kwargs)
            return out if self.out_shardings is None else self._placed(out)
        eager = current_trace() is EAGER
        key = None
        if eager and self.plain and not forbidden_axes() and not config.check_comm:
            key, mesh, leaves, blocks = _read(args, kwargs)
            ready = self.ready.get(key)
            if ready is not None and ready.mesh is mesh:
                if ready.donated:
                    give_up(leaves, ready.donated, blocks, self.name, ready.names)
                return ready.out_tree.unflatten(ready(blocks))
        flat, traced = self._traced(args, kwargs)
        if eager and traced not in self.agreed:
            agreement.check(traced.mesh, f"jit({self.name})", lambda: fingerprint(traced.jaxpr))
            self.agreed.add(traced)
        if eager and config.check_comm:
            check_alike(f'jit({self.name})', (f'argument {i}' for i in range(len(flat))), flat, traced.mesh)
        operands = (*traced.consts, *flat)
        if eager and traced.donated and not forbidden_axes():
            ready = self._prepared(operands, traced)
            blocks = [block_of(x, typeof(x)) for x in flat]
            give_up(flat, traced.donated, blocks, self.name, ready.names)
            outs = ready(blocks)
        else:
            outs = call(*operands, jaxpr=traced.closed, name=self.name)
            ready = None if key is None else self._prepared(operands, traced)
        if eager and config.check_comm:
            check_alike(f'jit({self.name})', (f'result {i}' for i in range(len(outs))), outs, traced.mesh)
        if key is not None and ready.run is not None:
            self.ready[key] = replace(ready, mesh=mesh)
        return tree.unflatten(traced.out_tree, outs)

    def _prepared(self, operands: tuple, traced: Traced) -> Ready:
        """What a call like this one comes to: the next one needs no more than its blocks."""
        types, placed = read_types(operands, self.name)
        outs, mesh, run = EAGER.find(call, types, placed, {'jaxpr': traced.giving, 'name': self.name})
        if run is not None and traced.consts:
            run = functools.partial(run, *(block_of(x, t) for x, t in zip(traced.consts, types)))
        return Ready(mesh=mesh, run=run, outs=tuple((t, None if t.mesh.empty else mesh) for t in outs), out_tree=traced.out_tree,
                     donated=traced.donated, names=traced.names)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    @boundary
    def trace(self, *args, **kwargs) -> Traced:
        """The program for arguments of these types (values or `ShapeDtypeStruct`s)."""
        return self._traced(args, kwargs)[1]

    def lower(self, *args, **kwargs) -> Lowered:
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args, **kwargs):
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        self.cache.clear()
        self.ready.clear()

    def _traced(self, args: tuple, kwargs: dict) -> tuple[list, Traced]:
        if self.in_shardings is not None:
            self._check_inputs(args)
        dynamic, static = self._parted(args, kwargs)
        leaves, structure = tree.flatten(dynamic)
        flat = [x if isinstance(x, ShapeDtypeStruct) else as_value(x, self.name) for x in leaves]
        types = tuple(map(typeof, flat))
        mesh = mesh_of(flat)
        if mesh is None and not get_mesh().empty:
            mesh = get_mesh()
        key = (structure, types, static, mesh, config.mode, forbidden_axes(), named_axes())
        try:
            found = self.cache.get(key)
        except TypeError:
            raise ValueError(f"static arguments of jit must be hashable, got {static}") from None
        if found is None:
            found = self.cache[key] = self._trace(structure, types, args, kwargs, static, mesh)
        return flat, found

    def _trace(self, structure, types: tuple[ArrayType, ...], args: tuple, kwargs: dict, static: tuple, mesh: Mesh | None) -> Traced:
        out_tree: list = []

        def flat_fun(*leaves):
            positional, named = self._joined(tree.unflatten(structure, leaves), len(args), static)
            out = self.fun(*positional, **named)
            if self.out_shardings is not None:
                out = self._placed(out)
            outs, made = tree.flatten(out)
            out_tree[:] = [made]
            return [as_value(y, f"the result of {self.name}") for y in outs]

        with at_path(''), collector_waits():
            jaxpr = stage(flat_fun, types, self.name).changed(hoist_reductions=self.hoist_reductions)
        closed, consts = open_consts(jaxpr)
        giving, donated, names = closed, (), ()
        if self.donation is not None:
            flags, names = self.donation.leaves(*self._parted(args, kwargs))
            donated = usable(flags, types, jaxpr.out_types, self.name)
            giving = closed.changed(donated=tuple(len(consts) + i for i in donated)) if donated else closed
        return Traced(jaxpr=jaxpr, closed=closed, giving=giving, donated=donated, names=names, consts=consts, out_tree=out_tree[0],
                      name=self.name, mesh=mesh)

    def _placed(self, out):
        """The results in the shardings asked for."""
        outs, structure = tree.flatten(out)
        specs = tree.broadcast_prefix(self.out_shardings, out, is_leaf=is_sharding, what='the result')
        values = [as_value(y, f"the result of {self.name}") for y in outs]
        return tree.unflatten(structure, [y if s is None else cast(y, wanted(y.type, s)) for y, s in zip(values, specs, strict=True)])

    def _check_inputs(self, args: tuple) -> None:
        """Arguments have to lie as `in_shardings` say: jit moves nothing unseen."""
        specs = tree.broadcast_prefix(self.in_shardings, args, is_leaf=is_sharding, what='the arguments')
        for x, s in zip(tree.leaves(args), specs, strict=True):
            t = typeof(x)
            if s is not None and not t.mesh.empty and t != wanted(t, s):
                raise ValueError(f"jit({self.name}): an argument of type {t} does not lie as in_shardings says, {s!r}. Bring it there "
                                 f"with reshard(x, {s!r}).")

    def _parted(self, args: tuple, kwargs: dict) -> tuple[tuple, tuple]:
        """Arguments to trace, and static ones."""
        fixed = {i % len(args) for i in self.static_argnums if -len(args) <= i < len(args)}
        dynamic = ([x for i, x in enumerate(args) if i not in fixed],
                   {k: v for k, v in kwargs.items() if k not in self.static_argnames})
        static = (tuple((i, args[i]) for i in sorted(fixed)),
                  tuple((k, v) for k, v in sorted(kwargs.items()) if k in self.static_argnames))
        return dynamic, static

    def _joined(self, dynamic, count: int, static) -> tuple[list, dict]:
        positional, named = dynamic
        fixed, rest = dict(static[0]), iter(positional)
        return [fixed[i] if i in fixed else next(rest) for i in range(count)], {**named, **dict(static[1])}


def _read(args: tuple, kwargs: dict) -> tuple[tuple | None, Mesh | None, Sequence, list]:
    """A call as a key, its mesh, its arguments one by one and their blocks. No key for what is neither array nor number."""
    if kwargs or any(x.__class__ is not Array for x in args):
        leaves, structure = tree.flatten((args, kwargs))
    else:
        leaves, structure = args, len(args)
    key, placed, blocks = [structure, config.mode], None, []
    for x in leaves:
        if x.__class__ is not Array:
            if not is_scalar(x):
                return None, None, leaves, []
            x = as_value(x, 'jit')
        key.append(x.type)
        blocks.append(x.block)
        if x.mesh is not placed and x.mesh is not None:
            if placed is not None:
                return None, None, leaves, []
            placed = x.mesh
    return tuple(key), get_mesh() if placed is None else placed, leaves, blocks


def jit(fun: Callable | None = None, *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
        donate_argnums: int | Sequence[int] = (), donate_argnames: str | Sequence[str] = (), in_shardings: Any = None,
        out_shardings: Any = None, hoist_reductions: bool = False) -> Any:
    """Compile a function: traced once for each combination of argument types, then run as one program.

    `static_argnums`, `static_argnames`: arguments handed to Python as they are, part of the cache key, to be hashable.
    `donate_argnums`, `donate_argnames`: arguments that the caller gives up. Those for which there is a result of the same shape and
    dtype are deleted by the call (later use is a RuntimeError), and results are made in their memory, unless somebody else looks at
    it: an update of parameters needs no second copy of them. Without effect inside a transformation.
    `in_shardings`: how arguments have to lie (a tree prefix of P or NamedSharding; ValueError otherwise). `out_shardings`: what the
    results are resharded to.
    `hoist_reductions`: sums over ranks that a scan takes in each round are taken once, after it, where that gives the same but for
    rounding. Everything the function does to arrays is traced; at the first call all ranks of the mesh compare their programs,
    and a difference is an error on each.
    Communication: that of the program, to be seen in `jit(f).lower(*args).compile().as_text()`.

        step = jit(lambda w, x: (x @ w).sum())
        print(step.trace(w, x).jaxpr)
    """
    if fun is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums, donate_argnames=donate_argnames, in_shardings=in_shardings,
                                 out_shardings=out_shardings, hoist_reductions=hoist_reductions)
    if not callable(fun):
        raise TypeError(f"jit takes a function, got {fun!r}")
    nums, names = _numbers(static_argnums), _names(static_argnames)
    given = donation(fun, _numbers(donate_argnums), _names(donate_argnames), nums, names)
    return Jitted(fun, nums, names, in_shardings, out_shardings, hoist_reductions, given)


def _numbers(nums: int | Sequence[int]) -> tuple[int, ...]:
    return (nums,) if isinstance(nums, int) else tuple(nums or ())


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())
