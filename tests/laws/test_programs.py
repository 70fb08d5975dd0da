"""Random small programs of kind functions, on operands placed at random: the same values and gradients on any placement.

A step that types refuse is done on operands brought to one place first, which has to work. Types alone decide that, so it is
the same in eager mode, under jit and in derivatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distad as jax
import distad.numpy as jnp
from distad.config import config
from distad.core.eager import frozen
from distad.core.jaxpr import check
from distad.core.value import Array, typeof
from distad.runtime import mpi
from distad.testing import collective
from distad.transforms.transpose import same_cotangent
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh
from tests.laws.blocks import block
from tests.laws.calls import random_value
from tests.laws.laws import REFUSALS
from tests.laws.placements import placed

Shape = tuple[int, ...]
A, B = 12, 24
SHAPES: tuple[Shape, ...] = ((A,), (B,), (A, B), (B, A), (A, A), ())
SPLITS: dict[int, Shape] = {A: (4, 3), B: (2, 12)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A function of that name in NumPy, of earlier values by their numbers, and further arguments. And 'reshard', whose
    argument is the number of a placement."""

    op: str
    of: tuple[int, ...]
    extra: tuple = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Shapes of inputs with the numbers of their placements (None: never placed), and steps."""

    inputs: tuple[tuple[Shape, int | None], ...]
    steps: tuple[Step, ...]


def take(step: Step, values: Sequence) -> Any:
    """A step on values of distad."""
    operands = [values[i] for i in step.of]
    if step.op == 'reshard':
        return jax.reshard(*operands, placement(typeof(operands[0]), *step.extra).spec)
    return called(jnp, step, operands)


def take_in_numpy(step: Step, values: Sequence) -> Any:
    operands = [values[i] for i in step.of]
    return operands[0] if step.op == 'reshard' else called(np, step, operands)


def called(library: Any, step: Step, operands: list) -> Any:
    f = getattr(library, step.op)
    if step.op == 'concatenate':
        return f(operands, *step.extra)
    if step.op == 'einsum':
        return f(*step.extra, *operands)
    if step.op == 'where':
        return f(operands[0] > 0, *operands)
    return f(*operands, *step.extra)


def placement(t: ArrayType, number: int) -> ArrayType:
    """One of all types that a value may have on the current mesh, the 0th being replicated."""
    mesh = jax.get_abstract_mesh()
    states = ['N', *range(t.ndim), 'R', 'U']
    types = [made for at in product(states, repeat=len(mesh.axis_names)) for flip in (False, True)
             if (made := placed(ArrayType(t.shape, t.dtype), mesh, at, flip)) is not None]
    return types[number % len(types)]


# ---- drawing programs

@st.composite
def programs(draw) -> Program:
    placements = st.one_of(st.integers(0, 99), st.integers(0, 99), st.none())
    inputs = tuple(draw(st.lists(st.tuples(st.sampled_from(SHAPES), placements), min_size=1, max_size=3)))
    shapes, steps = [shape for shape, _ in inputs], []
    for _ in range(draw(st.integers(1, 7))):
        steps_by_op = possible(shapes)
        step = draw(st.sampled_from(steps_by_op[draw(st.sampled_from(list(steps_by_op)))]))
        if step.op == 'reshard':
            step = replace(step, extra=(draw(st.integers(0, 99)),))
        steps.append(step)
        shapes.append(take_in_numpy(step, [np.zeros(shape) for shape in shapes]).shape)
    return Program(inputs=inputs, steps=tuple(steps))


def possible(shapes: Sequence[Shape]) -> dict[str, list[Step]]:
    """Steps that values of these shapes can take, by op. The latest values come first: they are tried first."""
    found: dict[str, list[Step]] = {}

    def add(op: str, of: tuple[int, ...], *extra: Any) -> None:
        found.setdefault(op, []).append(Step(op=op, of=of, extra=extra))

    latest = range(len(shapes) - 1, -1, -1)
    for i in latest:
        s = shapes[i]
        for op in ('reshard', 'sin', 'negative'):
            add(op, (i,))
        for axis in range(len(s)):
            for op in ('sum', 'max', 'mean', 'flip'):
                add(op, (i,), axis)
            if s[axis] in SPLITS:
                add('reshape', (i,), (*s[:axis], *SPLITS[s[axis]], *s[axis + 1:]))
        if len(s) > 1:
            add('transpose', (i,))
            add('reshape', (i,), -1)
        else:
            add('broadcast_to', (i,), (A, *s))
    for i, j in product(latest, latest):
        s, t = shapes[i], shapes[j]
        if s == t or not s or not t:
            for op in ('add', 'multiply', 'subtract', 'maximum', 'where'):
                add(op, (i, j))
        if 1 <= len(s) <= 2 and 1 <= len(t) <= 2 and s[-1] == t[0]:
            add('matmul', (i, j))
        if len(s) == 2 and s == t:
            for spec in ('ij,ij->i', 'ij,ij->', 'ik,jk->ij', 'ij,ij->ji'):
                add('einsum', (i, j), spec)
        if s and len(s) == len(t) and s[1:] == t[1:]:
            add('concatenate', (i, j))
    return found


# ---- running them

def run(program: Program, *inputs) -> Any:
    values = list(inputs)
    for step in program.steps:
        try:
            y = take(step, values)
        except REFUSALS:
            y = take(step, [jax.reshard(v, jax.P()) for v in values])
        values.append(y)
    last = jax.reshard(values[-1], jax.P())
    return jnp.sum(jnp.multiply(last, random_value(last.shape, last.dtype, 5)))


def run_in_numpy(program: Program, *inputs) -> Any:
    values = list(inputs)
    for step in program.steps:
        values.append(take_in_numpy(step, values))
    return np.sum(values[-1] * random_value(values[-1].shape, np.dtype(np.float64), 5))


def value_of(x) -> np.ndarray:
    return np.asarray(jax.process_allgather(x))


def check_program(program: Program, mesh: Mesh) -> None:
    whole = [random_value(shape, np.dtype(np.float64), i) for i, (shape, _) in enumerate(program.inputs)]
    types = [ArrayType(shape, np.float64) if number is None else placement(ArrayType(shape, np.float64), number)
             for shape, number in program.inputs]
    given = [Array(t, None, frozen(x.copy())) if t.mesh.empty else Array(t, mesh, frozen(block(x, t, mesh, mpi.rank())))
             for x, t in zip(whole, types, strict=True)]

    def f(*inputs):
        return run(program, *inputs)

    both = jax.value_and_grad(f, tuple(range(len(given))))
    want, slopes = both(*map(jnp.asarray, whole))                        # the same program, all replicated
    np.testing.assert_allclose(value_of(want), run_in_numpy(program, *whole), rtol=1e-9, atol=1e-9)
    for compiled in (both, jax.jit(both)):
        value, gradients = compiled(*given)
        np.testing.assert_allclose(value_of(value), value_of(want), rtol=1e-9, atol=1e-9)
        for t, slope, gradient in zip(types, slopes, gradients, strict=True):
            assert same_cotangent(typeof(gradient), t.dual())
            np.testing.assert_allclose(value_of(gradient), value_of(slope), rtol=1e-9, atol=1e-9)
    check(jax.make_jaxpr(f)(*given))
    check(jax.make_jaxpr(both)(*given))


@pytest.mark.meshes((2,), (2, 2), (4,), (3,), (1, 2))
@settings(max_examples=30)
@given(program=programs())
@collective
def test_placements_change_nothing(mesh: Mesh, program: Program) -> None:
    with config.override(enable_x64=True):
        check_program(program, mesh)
