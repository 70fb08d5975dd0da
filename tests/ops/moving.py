"""The law of functions that only move elements: on every placement they are refused, or do what NumPy does, and back.

What such a function does is known from what NumPy makes of the numbers of the elements: each place of the result holds the
number of the element it came from, or 0 for a constant. So the gradient is known too, without differentiating anything.
"""

from collections.abc import Callable, Sequence

import numpy as np

import distad as jax
from distad import tree
from distad.errors import ShardingTypeError
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh
from tests.ops.arrays import counted, get, numbers, put


def check_move(f: Callable, reference: Callable, types: Sequence[ArrayType], mesh: Mesh, *, most: int = 1,
               jit: bool = False) -> bool:
    """Whether the types are accepted. Then values, result states, gradients and the number of messages are right.

    Only values with a split dimension may be refused, or ones in different states.
    """
    values = [numbers(t.shape, i, t.dtype) for i, t in enumerate(types)]
    xs = [put(v, t, mesh) for v, t in zip(values, types, strict=True)]
    where = f"of {', '.join(map(str, types))}"
    run = jax.jit(f) if jit else f
    try:
        sent, ys = _sent(lambda: tree.leaves(run(*xs)))
    except ShardingTypeError as error:
        states = {(t.unreduced, t.reduced) for t in types}
        assert any(any(t.partitions) for t in types) or len(states) > 1, f'{where}: {error}'
        return False
    wants = tree.leaves(reference(*values))
    assert len(ys) == len(wants)
    for y, want in zip(ys, wants, strict=True):
        assert y.shape == want.shape and y.dtype == types[0].dtype, f'{y.type} {where}'
        np.testing.assert_array_equal(get(y, mesh), want, err_msg=f'{y.type} {where}')
        assert y.type.unreduced == types[0].unreduced, f'{y.type} {where}'
    assert sent <= most, f'{sent} messages {where}'
    if types[0].dtype.kind == 'f':
        _check_gradients(f, reference, xs, ys, mesh, most, where)
    return True


def _check_gradients(f, reference, xs, ys, mesh: Mesh, most: int, where: str) -> None:
    cts = [numbers(y.shape, 7 + i) for i, y in enumerate(ys)]
    out, back = jax.vjp(lambda *args: tree.leaves(f(*args)), *xs)
    placed = [put(ct, y.type.dual().update(weak_type=False), mesh) for ct, y in zip(cts, out, strict=True)]
    sent, got = _sent(lambda: back(placed))
    wants = gradients_by_number(reference, [x.shape for x in xs], cts)
    for x, g, want in zip(xs, got, wants, strict=True):
        assert g.type == x.type.dual(), f'{x.type} has a cotangent of type {g.type} {where}'
        np.testing.assert_array_equal(get(g, mesh), want, err_msg=f'cotangent of {x.type} {where}')
    # each operand that is cut or cast beside others has one message of its own; the move itself adds `most`
    assert sent <= most + len({x.type for x in xs}) - 1, f'{sent} messages back {where}'


def gradients_by_number(reference: Callable, shapes: Sequence[tuple[int, ...]],
                        cts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The cotangents of the operands: each element gets the sum of what its copies get."""
    sizes = [int(np.prod(s)) for s in shapes]
    starts = np.cumsum([1, *sizes])
    named = [np.arange(a, a + n).reshape(s) for a, n, s in zip(starts, sizes, shapes, strict=False)]
    total = np.zeros(starts[-1])
    for places, ct in zip(tree.leaves(reference(*named)), cts, strict=True):
        np.add.at(total, places.reshape(-1), ct.reshape(-1))
    return [total[a:a + n].reshape(s) for a, n, s in zip(starts, sizes, shapes, strict=False)]


def _sent(call: Callable):
    out = []
    by_op, _ = counted(lambda: out.append(call()))
    return sum(by_op.values()), out[0]
