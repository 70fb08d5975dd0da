"""Functions that do the same for the same types run their rules once; after that, only the kernels that the rules chose.

A function of arrays promotes, broadcasts, casts and binds a few primitives. Which ones follows from the types of its arrays and the
values of its other arguments. So the first eager call notes the kernels it ran and what each of them got; a later call on
the same types and arguments looks this plan up and runs it. Under any other trace the function runs as it is written.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from distad.config import config
from distad.core.eager import EAGER, frozen, literal_block, read_types
from distad.core.forbid import forbidden_axes
from distad.core.primitive import Primitive
from distad.core.trace import Trace, current_trace, use_trace
from distad.core.value import Array, is_scalar
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh, meshes_in_use
from distad.types.sharding import NamedSharding
from distad.types.spec import P

_LIMIT = 4096
_NUMBERS = (float, int, bool, complex)
_PLAIN = (int, bool, str, type(None), type(...), np.dtype, type, P, NamedSharding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a function does on blocks: `run(*blocks)` gives the blocks of its results, or there is no such way.

    `placed` is the mesh of the placed operands and `around` the meshes in use: under others the plan does not hold.
    """

    placed: Mesh | None
    around: tuple
    run: Callable | None
    number: Callable | None = None                  # from the one number among the operands to its block
    outs: tuple[ArrayType, ...] = ()
    meshes: tuple[Mesh | None, ...] = ()
    single: bool = True


class Noting(Trace):
    """The eager trace, keeping a tape of the calls it makes: kernel, operands, their types, results, and whether these are many."""

    __slots__ = ('tape',)

    def __init__(self) -> None:
        self.tape: list[tuple] = []

    def process(self, primitive: Primitive, args: tuple, params: dict) -> list:
        outs = EAGER.process(primitive, args, params)
        types, mesh = read_types(args, primitive.name)
        self.tape.append((EAGER.find(primitive, types, mesh, params)[2], args, types, outs, primitive.multiple))
        return outs


def remembered(f: Callable, numbers: bool = False) -> Callable:
    """`f`, remembered. With `numbers`, a Python number beside arrays may be any: `f` hands it to a primitive as it is."""
    plans: dict[tuple, Plan] = {}

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if current_trace() is not EAGER:
            return f(*args, **kwargs)
        key, blocks, placed, number = [config.mode], [], None, None
        for x in args:
            kind = x.__class__
            if kind is Array:
                key.append(x.type)
                blocks.append(x.block)
                here = x.mesh
                if here is not placed and here is not None:
                    if placed is not None:
                        return f(*args, **kwargs)
                    placed = here
            elif numbers and kind in _NUMBERS:
                number = len(blocks)
                key.append(kind)
                blocks.append(x)
            else:
                key.append(_static(x))
        for name, x in kwargs.items():
            key.append((name, _static(x)))
        key = tuple(key)
        try:
            plan = plans.get(key)
        except TypeError:                           # an argument that is no key
            return f(*args, **kwargs)
        if plan is None or plan.placed is not placed or plan.around is not (now := meshes_in_use()) and plan.around != now:
            out, made = _noted(f, args, kwargs, numbers, placed)
            if len(plans) >= _LIMIT:
                plans.clear()
            plans[key] = made
            return out
        run = plan.run
        if run is None or forbidden_axes():
            return f(*args, **kwargs)
        if number is not None:
            blocks[number] = plan.number(blocks[number])
        made = run(*blocks)
        if plan.single:
            return Array(plan.outs[0], plan.meshes[0], frozen(made))
        return tuple([Array(t, m, frozen(b)) for t, m, b in zip(plan.outs, plan.meshes, made, strict=True)])
    return call


def _static(x: Any) -> Any:
    """An argument that is no array as part of a key: with its class, as 1, 1.0 and True are equal. Others have no hash."""
    kind = x.__class__
    if kind in _PLAIN:
        return kind, x
    if kind is float:
        return kind, x.hex()                        # 0.0 and -0.0 are equal
    if kind is tuple or kind is list:
        return (kind, *map(_static, x))
    if kind is slice:
        return kind, _static(x.start), _static(x.stop), _static(x.step)
    return _NO_KEY


_NO_KEY: list = []


def _noted(f: Callable, args: tuple, kwargs: dict, numbers: bool, placed: Mesh | None) -> tuple[Any, Plan]:
    """The result of a call, and the plan made from what it did."""
    noting, seen = Noting(), set()
    args = tuple(Array(x.type, x.mesh, x.block) if x.__class__ is Array and (id(x) in seen or seen.add(id(x))) else x
                 for x in args)                     # an array given twice is two operands, as others are the next time
    with use_trace(noting):
        out = f(*args, **kwargs)
    given = [x for x in args if x.__class__ is Array or numbers and x.__class__ in _NUMBERS]
    around = meshes_in_use()
    results = (out,) if out.__class__ is Array else out
    if noting.tape and results.__class__ is tuple and all(y.__class__ is Array and y.block is not None for y in results):
        run, number = _replay(noting.tape, given, results, out.__class__ is Array)
        return out, Plan(placed=placed, around=around, run=run, number=number, outs=tuple(y.type for y in results),
                         meshes=tuple(y.mesh for y in results), single=out.__class__ is Array)
    return out, Plan(placed=placed, around=around, run=None)


def _replay(tape: list[tuple], given: list, results: tuple, single: bool) -> tuple[Callable | None, Callable | None]:
    """A function on blocks that makes the calls of a tape again; None if they took something that was not given."""
    places = {id(x): i for i, x in enumerate(given) if x.__class__ is Array}
    free = [i for i, x in enumerate(given) if x.__class__ is not Array]
    literals = [(x, t) for _, args, types, *_ in tape for x, t in zip(args, types, strict=True) if is_scalar(x)]
    if free and len(literals) != 1:
        return None, None
    number = literals[0][1].dtype.type if free else None
    constants = [] if free else [literal_block(x, t) for x, t in literals]
    numbers = iter(free or range(len(given), len(given) + len(constants)))
    count = len(given) + len(constants)
    steps = []
    for kernel, args, _, outs, multiple in tape:
        operands = tuple(next(numbers) if is_scalar(x) else places.get(id(x)) for x in args)
        if None in operands:
            return None, None
        places.update((id(y), count + i) for i, y in enumerate(outs))
        count += len(outs)
        steps.append((kernel, operands, multiple))
    wanted = [places.get(id(y)) for y in results]
    if None in wanted:
        return None, None
    kernel, operands, multiple = steps[0]
    if len(steps) == 1 and single and not multiple and operands == tuple(range(len(given))):
        return kernel, number

    def run(*blocks: Any) -> Any:
        values = [*blocks, *constants]
        for kernel, operands, multiple in steps:
            made = kernel(*[values[i] for i in operands])
            values.extend(made) if multiple else values.append(made)
        return values[wanted[0]] if single else [values[i] for i in wanted]
    return run, number
