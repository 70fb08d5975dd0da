"""lax.cond, lax.switch and lax.while_loop: the kind functions over the primitives."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from distad import tree
from distad.control.branch import cond as cond_p
from distad.control.branch import varying_axes
from distad.control.closure import lifted
from distad.control.loop import same_type
from distad.control.repair import repair
from distad.control.while_primitive import while_p
from distad.core.jaxpr import Jaxpr, open_consts
from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.ops.cast import cast
from distad.ops.compare import ne
from distad.ops.convert import convert_element_type
from distad.transforms.stage import stage


def cond(pred: Any, true_fun: Callable, false_fun: Callable, *operands: Any) -> Any:
    """`true_fun(*operands)` where `pred` holds, else `false_fun(*operands)`; only one of them runs.

    pred: a bool of rank 0, the same on all ranks; inside shard_map it may vary over manual axes, then the results do too and no
    branch may communicate over these axes. operands: pytrees. Both functions return values of equal types. Communication: that
    of the branch taken. Raises TypeError when the types of the branches differ, VaryingPredicateError when ranks could
    wait for each other for ever.

        lax.cond(x > 0, jnp.sin, jnp.cos, x)
    """
    p = as_value(pred, 'cond')
    if p.ndim:
        raise TypeError(f"cond: the predicate must have rank 0, got {p.type}. Reduce it with all() or any().")
    if p.dtype != bool:
        p = ne(p, p.dtype.type(0))
    return _choose('cond', convert_element_type(p, new_dtype=np.dtype(np.int32), weak_type=False), (false_fun, true_fun),
                   operands)


def switch(index: Any, branches: Sequence[Callable], *operands: Any) -> Any:
    """`branches[index](*operands)`, the index clamped to the branches there are. See `cond`."""
    if not branches:
        raise ValueError('switch needs at least one branch')
    i = as_value(index, 'switch')
    if i.ndim or i.dtype.kind not in 'iu':
        raise TypeError(f"switch: the index must be an integer of rank 0, got {i.type}")
    if len(branches) == 1:
        return branches[0](*operands)
    return _choose('switch', convert_element_type(i, new_dtype=np.dtype(np.int32), weak_type=False), tuple(branches), operands)


def _choose(name: str, index: Value, branches: tuple[Callable, ...], operands: tuple) -> Any:
    leaves, structure = tree.flatten(operands)
    values = [as_value(x, name) for x in leaves]
    axes = varying_axes(name, index.type)
    if axes:
        values, branches = [_entering(x, axes) for x in values], tuple(_closing(b, axes) for b in branches)
    programs, consts, trees = [], [], []
    for branch in branches:
        cell: list = []
        jaxpr = stage(_flat(name, branch, structure, axes, cell), [x.type for x in values], getattr(branch, '__name__', 'branch'))
        jaxpr, closed_over = open_consts(jaxpr)
        programs.append(jaxpr)
        consts.append(closed_over)
        trees.append(cell[0])
    if any(t != trees[0] for t in trees):
        raise TypeError(f"{name}: branches return values of different structure: {', '.join(map(str, trees))}")
    _check_outs(name, programs)
    programs = [_with_all_consts(p, consts, i) for i, p in enumerate(programs)]
    outs = cond_p(index, *(c for cs in consts for c in cs), *values, branches=tuple(programs))
    return tree.unflatten(trees[0], outs)


def _flat(name: str, branch: Callable, structure, axes: frozenset[str], cell: list) -> Callable:
    """The branch on flat values; where ranks choose differently its results are made to vary."""
    def flat(*xs):
        outs, made = tree.flatten(branch(*tree.unflatten(structure, xs)))
        cell[:] = [made]
        return [_vary(as_value(y, f"a branch of {name}"), axes) for y in outs]
    return flat


def _entering(x: Value, axes: frozenset[str]) -> Value:
    """What enters a branch that ranks choose differently varies already: the sum that the cast to it transposes to stands outside."""
    return x if x.type.unreduced & axes else _vary(x, axes)


def _closing(branch: Callable, axes: frozenset[str]) -> Callable:
    """The same for the arrays that a branch closes over."""
    body, closed = lifted(branch)
    entering = [_entering(x, axes) for x in closed]
    return wraps(branch)(lambda *operands: body(entering, *operands)) if closed else branch


def _vary(y: Value, axes: frozenset[str]) -> Value:
    t = typeof(y)
    if t.mesh.empty or axes <= t.varying:
        return y
    return cast(y, t.update(varying=t.varying | axes, reduced=t.reduced - axes))


def _check_outs(name: str, programs: list[Jaxpr]) -> None:
    """Branches must agree; a number that is weakly typed in one takes the dtype of the other."""
    first = programs[0].out_types
    for i, other in enumerate(programs[1:], 1):
        for k, (a, b) in enumerate(zip(first, other.out_types, strict=True)):
            if not same_type(a, b):
                raise TypeError(f"{name}: result {k} is {a} in branch 0 and {b} in branch {i}; the types must be equal. "
                                + repair(a, 'the one of branch 0', b, f"the one of branch {i}"))


def _with_all_consts(jaxpr: Jaxpr, consts: list[tuple], mine: int) -> Jaxpr:
    """A branch that takes what every branch closes over and reads its own."""
    own = len(consts[mine])

    def pad(values: tuple) -> tuple:
        from_others = stage(lambda *xs: [], [typeof(v) for v in values])
        return from_others.ins
    ins = [v for i, cs in enumerate(consts) for v in (jaxpr.ins[:own] if i == mine else pad(cs))]
    return jaxpr.changed(ins=(*ins, *jaxpr.ins[own:]))


def while_loop(cond_fun: Callable, body_fun: Callable, init_val: Any) -> Any:
    """`while cond_fun(val): val = body_fun(val)`, as one loop.

    init_val: a pytree whose types stay equal from round to round, states included. cond_fun returns a bool of rank 0, the same
    on all ranks; inside shard_map it may vary over manual axes, then the carry varies and nothing communicates over them.
    Differentiable forwards only. Communication: that of the functions, each round.

        lax.while_loop(lambda x: x < 100., lambda x: 2 * x, 1.)
    """
    leaves, structure = tree.flatten(init_val)
    carry = [as_value(x, 'while_loop') for x in leaves]
    cell: list = []

    def body(*xs):
        outs, made = tree.flatten(body_fun(tree.unflatten(structure, xs)))
        cell[:] = [made]
        return [as_value(y, 'the body of while_loop') for y in outs]

    def test(*xs):
        return [as_value(cond_fun(tree.unflatten(structure, xs)), 'the condition of while_loop')]

    types = [x.type for x in carry]
    program = stage(body, types, getattr(body_fun, '__name__', 'body'))
    if cell[0] != structure:
        raise TypeError(f"while_loop: the carry enters with structure {structure} and leaves with {cell[0]}")
    promoted = [convert_element_type(x, new_dtype=got.dtype, weak_type=got.weak_type)
                if x.type.weak_type and x.type.dtype != got.dtype else x for x, got in zip(carry, program.out_types, strict=True)]
    if any(a is not b for a, b in zip(carry, promoted, strict=True)):
        carry, types = promoted, [x.type for x in promoted]
        program = stage(body, types, program.name)
    paths = [tree.keystr(path) for path, _ in tree.flatten_with_path(init_val)[0]]
    for path, x, got in zip(paths, carry, program.out_types, strict=True):
        if not same_type(got, x.type):
            raise TypeError(f"while_loop: the carry{path} enters a round as {x.type} and leaves it as {got}; the types must be "
                            'equal. ' + repair(x.type, f"init{path}", got, f"carry{path}"))
    cond_jaxpr, cond_consts = open_consts(stage(test, types, getattr(cond_fun, '__name__', 'cond')))
    body_jaxpr, body_consts = open_consts(program)
    outs = while_p(*cond_consts, *body_consts, *carry, cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr,
                   cond_consts=len(cond_consts), body_consts=len(body_consts))
    return tree.unflatten(structure, outs)
