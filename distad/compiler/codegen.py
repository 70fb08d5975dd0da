"""Writes a per-rank program as Python source: a line an equation, kernels bound, dead blocks dropped as they die.

Loops stand in the same function (`emit` of their primitives). What depends on no argument is computed while compiling. A kernel
that writes into a given array (`kernel.into`) gets one: the slice of a loop's stacked result, the array of an operand that dies
there, or a new one. Memory that is dropped is found again by the next allocation (see `runtime.memory`), so there is no arena but
the allocator's; results that leave the program own theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from distad.compiler.passes import optimized
from distad.compiler.summed import side_by_side, summed_in_place
from distad.config import config
from distad.core.eager import literal_block
from distad.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var, check, has_effect
from distad.core.primitive import Place, Primitive
from distad.runtime import memory, values
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh

DEEPEST = 12                   # loops inside one another in one Python function
CONSTANT_BYTES = 1 << 20       # larger values are rather computed anew than kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A compiled jaxpr: `run(*blocks) -> list of blocks`, the jaxpr after its passes, and the source."""

    jaxpr: Jaxpr
    run: Callable
    source: str


def compile_jaxpr(jaxpr: Jaxpr, mesh: Mesh | None, path: str = '') -> Program:
    """A function on this rank's blocks that runs `jaxpr`, which closes over nothing."""
    memory.keep()
    jaxpr = optimized(jaxpr)
    if config.check_types:
        check(jaxpr)
    writer = Writer(mesh)
    arguments = [writer.fresh('v') for _ in jaxpr.ins]
    for i in jaxpr.donated:
        writer.line(f"{arguments[i]} = taken({arguments[i]})")
    results = writer.body(jaxpr, arguments, path)
    writer.line(f"return [{', '.join(results)}]")
    source = f"def program({', '.join(arguments)}):\n" + ''.join(f"    {line}\n" for line in writer.lines)
    scope = dict(writer.bound)
    exec(compile(source, f"<distad {jaxpr.name or 'program'}>", 'exec'), scope)
    return Program(jaxpr=jaxpr, run=scope['program'], source=source)


def compile_alone(primitive: Primitive, place: Place, ins: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict) -> Callable:
    """The kernel of a primitive that writes itself (`emit`), as a program of one equation."""
    variables, results = tuple(map(Var, ins)), tuple(map(Var, outs))
    eqn = Equation(primitive=primitive, ins=variables, outs=results, params=params, source=place.source)
    return compile_jaxpr(Jaxpr(ins=variables, equations=(eqn,), outs=results, name=primitive.name), place.mesh, place.path).run


class Writer:
    """Source that is being written: its lines, and the objects that its names stand for."""

    def __init__(self, mesh: Mesh | None):
        self.mesh = mesh
        self.lines: list[str] = []
        self.bound: dict[str, object] = {'empty': np.empty, 'asarray': np.asarray, 'spare': memory.spare, 'taken': memory.taken}
        self.depth = 0
        self.count = 0
        self.literals: dict = {}
        self.kernels: dict = {}
        self.names: dict[int, str] = {}                 # of kernels, which `bound` keeps alive
        self.filled: set[Var] = set()
        self.ready: dict[Equation, Callable] = {}       # kernels that were made before their equation is written
        self.sides: dict[Equation, str] = {}            # the flat array in which what is summed together lies side by side
        self.beside: set[Var] = set()                   # what has its place there
        self.dying: set[str] = set()                    # the operands that die with the equation that is being written
        self.unread: set[Var] = set()                   # its results that nobody reads
        self.owned: set[str] = set()                    # arrays made by this program that nothing else may be looking at
        self.loose: set[str] = set()                    # those that a ufunc made, which may lie in another order

    # ---- lines and names

    def line(self, text: str) -> None:
        self.lines.append('    ' * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """The lines under a `for`, `while` or `if`."""
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line('pass')
        self.depth -= 1

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def bind(self, letter: str, value: object) -> str:
        name = self.fresh(letter)
        self.bound[name] = value
        return name

    def literal(self, a: Literal) -> str:
        """A number as array of rank 0, which kernels take faster than a NumPy scalar."""
        block = literal_block(a.value, a.type)
        key = (block.dtype, block.tobytes())
        if key not in self.literals:
            self.literals[key] = self.bind('c', np.asarray(block))
        return self.literals[key]

    # ---- equations

    def body(self, jaxpr: Jaxpr, arguments: Sequence[str], path: str, keep: Collection[str] = (),
             into: dict[Var, str] | None = None) -> list[str]:
        """Write a program on arguments of these names; the names of its results.

        `keep`: names that are needed afterwards. `into`: where results are to be written, if their kernels can; those that were
        are in `filled`.
        """
        names = dict(zip(jaxpr.ins, arguments, strict=True))
        known: dict[Var, object] = {}
        dies = _last_uses(jaxpr)
        self.owned.difference_update(arguments)
        into = dict(into or {})
        starts = side_by_side(self, jaxpr, dies, path, into)
        self.filled -= into.keys()                                   # a body may be written more than once
        for i, eqn in enumerate(jaxpr.equations):
            for text in starts.get(i, ()):
                self.line(text)
            dying = {names[v] for v in dies.get(i, ()) if v in names and v not in known} - set(keep)
            self.unread = {v for v in dies.get(i, ()) if v in eqn.outs}
            if not self.computed_now(eqn, known, names, path):
                self.equation(eqn, names, path, dying, into)
            self.release({names[v] for v in dies.get(i, ()) if v in eqn.outs and v not in known} | dying)
        return [self.use(a, names) for a in jaxpr.outs]

    def release(self, names: Iterable[str]) -> None:
        """Drop blocks that are not needed any more."""
        gone = sorted(set(names))
        if gone:
            self.line(f"del {', '.join(gone)}")

    def release_early(self, names: Iterable[str]) -> None:
        """Of these operands of the equation that is being written, drop those that die with it; at the start of an `emit`."""
        gone = self.dying & set(names)
        self.dying -= gone
        self.release(gone)

    def release_made(self, names: Iterable[str], since: int) -> None:
        """Drop what was made since the counter of names stood there."""
        self.release(n for n in names if n[0] == 'v' and int(n[1:]) > since)

    def use(self, a: Atom, names: dict[Var, str]) -> str:
        return self.literal(a) if a.__class__ is Literal else names[a]

    def place(self, eqn: Equation, path: str) -> Place:
        return Place(mesh=self.mesh, path=path + eqn.path, source=eqn.source, types=tuple(a.type for a in eqn.ins))

    def kernel(self, eqn: Equation, path: str) -> Callable:
        """The local function of an equation; one for all that are alike, where it does not matter which of them runs."""
        if eqn in self.ready:
            return self.ready.pop(eqn)
        primitive, types = eqn.primitive, (tuple(a.type for a in eqn.ins), tuple(v.type for v in eqn.outs))
        if config.check_values:
            kernel = primitive.kernel(self.place(eqn, path), *types, eqn.params)
            return values.watched(kernel, primitive.name, eqn.source, primitive.multiple)
        if getattr(primitive.kernel, '__func__', None) is not Primitive._plain_kernel:
            return primitive.kernel(self.place(eqn, path), *types, eqn.params)
        key = (primitive, types, tuple(eqn.params.items()))
        if key not in self.kernels:
            self.kernels[key] = primitive.kernel(self.place(eqn, path), *types, eqn.params)
        return self.kernels[key]

    def named(self, eqn: Equation, kernel: Callable) -> str:
        if id(kernel) not in self.names:
            self.names[id(kernel)] = self.bind(f"{_word(eqn)}_", kernel)
        return self.names[id(kernel)]

    def computed_now(self, eqn: Equation, known: dict[Var, object], names: dict[Var, str], path: str) -> bool:
        """Bind the results of an equation that depends on no argument."""
        if (has_effect(eqn) or eqn.primitive.messages or eqn.primitive.emit or config.check_values
                or not all(a.__class__ is Literal or a in known for a in eqn.ins)
                or sum(v.type.size * v.type.dtype.itemsize for v in eqn.outs) > CONSTANT_BYTES):
            return False
        operands = [literal_block(a.value, a.type) if a.__class__ is Literal else known[a] for a in eqn.ins]
        with np.errstate(all='ignore'):
            made = self.kernel(eqn, path)(*operands)
        for v, block in zip(eqn.outs, made if eqn.primitive.multiple else (made,), strict=True):
            known[v] = np.ascontiguousarray(block).reshape(np.shape(block))
            names[v] = self.bind('c', known[v])
        return True

    def equation(self, eqn: Equation, names: dict[Var, str], path: str, dying: set[str], into: dict[Var, str]) -> None:
        operands = [self.use(a, names) for a in eqn.ins]
        if eqn.primitive.emit is not None and self.depth < DEEPEST:
            self.owned.difference_update(operands)
            self.dying = dying
            taken = set(operands)
            for v, made in zip(eqn.outs, eqn.primitive.emit(self, eqn, operands, self.place(eqn, path)), strict=True):
                names[v] = made
                if made in taken or made[0] != 'v':                  # a name for each value, as each dies at its own time
                    names[v] = self.fresh('v')
                    self.line(f"{names[v]} = {made}")
                taken.add(names[v])
            return
        kernel = self.kernel(eqn, path)
        write = getattr(kernel, 'into', None)
        if write is None and any(v in (into or ()) for v in eqn.outs):
            write = getattr(kernel, 'may_write', None)
        if write is not None:
            self.written(eqn, write, operands, names, dying, into)
            return
        if hasattr(kernel, 'flat') and summed_in_place(self, eqn, kernel, operands, names, dying):
            return
        if isinstance(ufunc := getattr(kernel, 'func', None), np.ufunc) and eqn.outs[0].type.ndim:
            self.elementwise(eqn, ufunc, operands, names, dying)
            return
        name = self.named(eqn, kernel)
        for v in eqn.outs:
            names[v] = self.fresh('v')
        results = ', '.join(names[v] for v in eqn.outs)
        if eqn.primitive.multiple:
            results = f"[{results}]" if eqn.outs else '_'
        self.owned.difference_update(operands)                       # what comes out may be a view of what went in
        self.line(f"{results} = {name}({', '.join(operands)})")

    def elementwise(self, eqn: Equation, ufunc: np.ufunc, operands: list[str], names: dict[Var, str], dying: set[str]) -> None:
        """A call of a ufunc, whose result takes the place of an operand that dies, in whatever order that lies."""
        v, = eqn.outs
        dead = [a for a in eqn.ins if a.__class__ is Var and names[a] in dying and operands.count(names[a]) == 1 and alike(a, v)]
        old = next((names[a] for a in dead if names[a] in self.owned), None)
        perhaps = next((a for a in dead if a.type.local_bytes >= memory.LARGE), None)
        name, made = self.named(eqn, ufunc), self.fresh('v')
        names[v], where = made, ''
        if old is not None:
            where = f", out={old}"
        elif perhaps is not None:
            self.allocate(made, v, names[perhaps])
            where = f", out={made}"
        if perhaps is None or old is not None:
            self.owned.add(made)
        if not where or old in self.loose:
            self.loose.add(made)
        self.line(f"{made} = {name}({', '.join(operands)}{where})")

    def allocate(self, name: str, v: Var, instead: str | None = None) -> None:
        """An array for a result: a new one, or that of `instead` if it turns out to be nobody else's."""
        how = 'empty(' if instead is None else f"spare({instead}, "
        self.line(f"{name} = {how}{self.bind('s', v.type.local_shape)}, {self.bind('t', v.type.dtype)})")

    def written(self, eqn: Equation, write: Callable, operands: list[str], names: dict[Var, str], dying: set[str],
                into: dict[Var, str]) -> None:
        """An equation whose kernel writes into arrays that it is given."""
        dead = [a for a in reused(eqn) if a.__class__ is Var and names[a] in dying and operands.count(names[a]) == 1]
        reusable = [a for a in dead if names[a] in self.owned and names[a] not in self.loose]
        unsure = [a for a in dead if a not in reusable and a.type.local_bytes >= memory.LARGE]
        for v in eqn.outs:
            names[v] = self.fresh('v')
            old, perhaps = (next((x for x in found if alike(x, v)), None) for found in (reusable, unsure))
            if v in into:
                self.line(f"{names[v]} = {into[v]}")
                self.filled.add(v)
                if v in self.beside:
                    self.owned.add(names[v])
            elif old is not None:
                reusable.remove(old)
                self.line(f"{names[v]} = {names[old]}")
                self.owned.add(names[v])
            else:
                self.allocate(names[v], v, None if perhaps is None else names[perhaps])
                if perhaps is None:
                    self.owned.add(names[v])
                else:
                    unsure.remove(perhaps)
        operands = [f"asarray({x})" if a.type.ndim == 0 and a.__class__ is Var else x for a, x in zip(eqn.ins, operands, strict=True)]
        name = self.bind(f"{_word(eqn)}_", write)
        self.line(f"{name}({', '.join([*operands, *(names[v] for v in eqn.outs)])})")


def alike(x: Var, y: Var) -> bool:
    """Whether blocks of two values have one shape and dtype."""
    return x.type.local_shape == y.type.local_shape and x.type.dtype == y.type.dtype


def reused(eqn: Equation) -> list[Atom]:
    """The operands whose arrays a result may take over: each element is read before its place is written."""
    return list(eqn.ins) if eqn.primitive.pointwise else [eqn.ins[i] for i in eqn.params.get('in_place', ())]


def _word(eqn: Equation) -> str:
    return eqn.primitive.name.replace('-', '_')


def _last_uses(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """After which equation a block is not needed any more."""
    last: dict[Var, int] = {}
    for i, eqn in enumerate(jaxpr.equations):
        for a in (*eqn.ins, *eqn.outs):
            if a.__class__ is Var:
                last[a] = i
    for a in jaxpr.outs:
        last.pop(a, None)
    dies: dict[int, list[Var]] = {}
    for var, i in last.items():
        dies.setdefault(i, []).append(var)
    return dies
