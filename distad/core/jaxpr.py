"""The intermediate representation: a typed list of equations, in the notation of JAX's jaxprs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache

from distad.core.primitive import Primitive
from distad.core.trace import current_trace
from distad.core.value import typeof
from distad.errors import ShardingTypeError
from distad.source import Source
from distad.types.array_type import ArrayType


class Var:
    """A variable: an identity with a type."""

    __slots__ = ('type',)

    def __init__(self, type: ArrayType):
        self.type = type


class Literal:
    """A number written into an equation."""

    __slots__ = ('value', 'type')

    def __init__(self, value):
        self.value = value
        self.type = typeof(value)


Atom = Var | Literal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Equation:
    """`outs = primitive[params] ins`, with the scopes and the user's line it came from."""

    primitive: Primitive
    ins: tuple[Atom, ...]
    outs: tuple[Var, ...]
    params: dict
    path: str = ''
    source: Source | None = None

    def changed(self, **parts) -> 'Equation':
        """The same equation with some parts replaced; where it came from stays."""
        return replace(self, **parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Jaxpr:
    """A typed program. `consts` are values it closes over, paired with their variables. Compared by identity.

    `hoist_reductions` and `donated` are wishes to the compiler: the blocks of these inputs are given up, each handed in a box.
    """

    ins: tuple[Var, ...]
    equations: tuple[Equation, ...]
    outs: tuple[Atom, ...]
    consts: tuple[tuple[Var, object], ...] = ()
    name: str = ''
    hoist_reductions: bool = False
    donated: tuple[int, ...] = ()

    def changed(self, **parts) -> 'Jaxpr':
        """The same program with some parts replaced."""
        return replace(self, **parts)

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        return tuple(v.type for v in self.ins)

    @property
    def out_types(self) -> tuple[ArrayType, ...]:
        return tuple(v.type for v in self.outs)

    # names that JAX users know
    in_avals = in_types
    out_avals = out_types

    @property
    def eqns(self) -> tuple[Equation, ...]:
        return self.equations

    @property
    def jaxpr(self) -> 'Jaxpr':
        return self

    def __str__(self) -> str:
        return FORMAT[0](self)

    __repr__ = __str__


FORMAT: list = [lambda jaxpr: object.__repr__(jaxpr)]      # set by core.pretty, which needs Jaxpr itself


def chosen(values: Iterable, flags: Iterable[bool]) -> tuple:
    """The values whose flag is set."""
    return tuple(x for x, on in zip(values, flags, strict=True) if on)


def others(values: Iterable, flags: Iterable[bool]) -> tuple:
    """The values whose flag is not set."""
    return tuple(x for x, on in zip(values, flags, strict=True) if not on)


def open_consts(jaxpr: Jaxpr) -> tuple[Jaxpr, tuple]:
    """The same program with what it closes over as leading arguments, and those arguments."""
    if not jaxpr.consts:
        return jaxpr, ()
    variables, values = zip(*jaxpr.consts, strict=True)
    return jaxpr.changed(ins=(*variables, *jaxpr.ins), consts=()), values


# ---- scopes: where an equation stands in the program, for op names and logs

_path: ContextVar[str] = ContextVar('distad_path', default='')


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Name the equations made in the body, as `jax.named_scope`."""
    token = _path.set(f"{_path.get()}{name}/")
    try:
        yield
    finally:
        _path.reset(token)


@contextmanager
def at_path(path: str) -> Iterator[None]:
    """Stand where an earlier equation stood, while its rules run."""
    token = _path.set(path)
    try:
        yield
    finally:
        _path.reset(token)


def current_path() -> str:
    return _path.get()


# ---- meaning

def evaluate(jaxpr: Jaxpr, *args) -> list:
    """Run a program equation by equation under the current trace."""
    env = dict(jaxpr.consts)
    env.update(zip(jaxpr.ins, args, strict=True))
    trace = current_trace()
    for eqn in jaxpr.equations:
        operands = tuple(a.value if a.__class__ is Literal else env[a] for a in eqn.ins)
        with at_equation(eqn):
            outs = trace.process(eqn.primitive, operands, eqn.params)
        env.update(zip(eqn.outs, outs, strict=True))
    return [a.value if a.__class__ is Literal else env[a] for a in jaxpr.outs]


_source: ContextVar[Source | None] = ContextVar('distad_source', default=None)


def replayed_source() -> Source | None:
    """The line an equation was first written at, while a program is run or transformed again."""
    return _source.get()


class at_equation:
    """`with at_equation(eqn):` equations made in the body come from where `eqn` came from, and so do errors."""

    __slots__ = ('eqn', 'path', 'source')

    def __init__(self, eqn: Equation):
        self.eqn = eqn

    def __enter__(self) -> None:
        self.path, self.source = _path.set(_path.get() + self.eqn.path), _source.set(self.eqn.source)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        _path.reset(self.path)
        _source.reset(self.source)
        if isinstance(error, Exception):
            note = f"in {self.eqn.primitive.name} written at {self.eqn.source}"
            if note not in getattr(error, '__notes__', ()):
                error.add_note(note)


def as_function(jaxpr: Jaxpr):
    """The program as a Python function of its arguments."""
    return lambda *args: evaluate(jaxpr, *args)


def check(jaxpr: Jaxpr) -> None:
    """Infer every equation anew and compare: what DISTAD_CHECK asks for after each transformation."""
    known = {var for var, _ in jaxpr.consts} | set(jaxpr.ins)
    for eqn in jaxpr.equations:
        for a in eqn.ins:
            if a.__class__ is Var and a not in known:
                raise AssertionError(f"{eqn.primitive}: an operand of type {a.type} is used before it is made")
        got = eqn.primitive.infer(tuple(a.type for a in eqn.ins), eqn.params)
        if got != tuple(v.type for v in eqn.outs):
            raise ShardingTypeError(f"{eqn.primitive} gives {', '.join(map(str, got))}, but its equation says "
                                    f"{', '.join(str(v.type) for v in eqn.outs)}")
        known.update(eqn.outs)


def sub_jaxprs(params: dict) -> Iterator[Jaxpr]:
    """The programs inside an equation."""
    for value in params.values():
        if isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (v for v in value if isinstance(v, Jaxpr))


def has_effect(eqn: Equation) -> bool:
    """Whether an equation does more than its results tell, itself or in a program inside it: then it stays, once, in its order."""
    return eqn.primitive.effect or bool(eqn.params) and any(map(_effectful, sub_jaxprs(eqn.params)))


@lru_cache(maxsize=4096)
def _effectful(jaxpr: Jaxpr) -> bool:
    return any(map(has_effect, jaxpr.equations))
