"""Run one case on all ranks and collect what happened.

Every rank runs the same phases in the same order: the expression, the same under `jit`, its gradients, and, where the
record holds no value to compare with, a reference.  Which phases run depends on the record and on types only, so all
ranks decide alike.  An exception ends a phase, never the case.  At the end of a case the ranks exchange what they saw,
once, over the control plane; so a case that went differently on one rank is found right there and can't shift the
next one.

The reference of a case is the same expression on replicated inputs, or, where its `out_sharding` does not allow that,
on a mesh of one device, on which nothing can go wrong by sharding.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.runtime import recorder
from tests.conformance.cases import INEXACT, Case, Placed, blocks, cotangent_value, input_value, mesh_size
from tests.conformance.ranks import LOST, alarm, exchange, world_size

PYTHON_GROUPS = ('typeof', 'pspec', 'pieces', 'jaxpr')
CotangentKind = str  # 'ones' or 'mod7'


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one phase gave on one rank, or on all of them (then `parts` holds every device's block)."""

    error: tuple[str, ...] = ()  # the class names along the exception's MRO
    message: str = ''
    types: tuple[str, ...] = ()
    parts: tuple[dict[int, np.ndarray], ...] = ()
    python: Any = None
    collectives: dict[str, int] = field(default_factory=dict)
    disagreement: str = ''


Trial = dict[str, Outcome]


def run(case: Case, *, jit: bool) -> dict[str, Outcome]:
    """Run all phases of a case and return what all ranks saw together.  Collective over all ranks."""
    trial: Trial = {}
    try:
        _run_here(case, jit, trial)
    except LOST as error:
        alarm()
        trial['waiting'] = _failed(error)
    except Exception as error:  # the inputs could not be made: a failure of the case, not of the run
        trial['inputs'] = _failed(error)
    every = exchange(case['id'], trial)
    phases = sorted({phase for seen in every for phase in seen})
    listing = 'addressable_shards' in case.get('expr', '')
    if 'py' in case or case['group'] in PYTHON_GROUPS:
        every = every[: mesh_size(case)]  # a rank beyond the mesh has no value to show
    return {phase: merged(phase, [seen.get(phase) for seen in every], listing) for phase in phases}


def chosen_for_jit(case: Case) -> bool:
    """One case in four, the same ones always and on all ranks."""
    return zlib.crc32(case['id'].encode()) % 4 == 0


def fits(case: Case) -> bool:
    """Whether this launch has enough ranks for the case's mesh."""
    return mesh_size(case) <= world_size()


# ---- phases


def _run_here(case: Case, jit: bool, trial: Trial) -> None:
    with _double_precision(case.get('x64', False)), jax.set_mesh(on_mesh(mesh_key(case['mesh']))):
        function = _function(case)
        placed = [Placed.of_arg(arg) for arg in case['args']]
        args = _arguments(case, placed, case['mesh'])
        keep = case['group'] in PYTHON_GROUPS or 'py' in case
        trial['eager'] = observed(lambda: function(*args), keep)
        if jit and not keep:
            trial['jit'] = observed(lambda: jax.jit(function)(*args))
        if keep and 'error' in case and not trial['eager'].error:
            trial['reference'] = _reference(case, lambda args, mesh: observed(lambda: function(*args), keep))
        worked = not trial['eager'].error and not keep
        inexact = any(arg['dtype'] in INEXACT for arg in case['args'])
        if worked and inexact and ('grad' in case or 'error' in case):
            for kind in ('ones', 'mod7'):
                trial[f'grad {kind}'] = _observe_gradient(function, args, kind, case['mesh'])
            if jit:
                trial['jit grad mod7'] = _observe_gradient(function, args, 'mod7', case['mesh'], jit=True)
        if worked and 'values' not in case:
            trial['reference'] = _reference(case, lambda args, mesh: observed(lambda: function(*args)))
        if 'grad mod7' in trial and not trial['grad mod7'].error and 'ct_values_mod7' not in case.get('grad', {}):
            trial['reference grad'] = _reference(
                case, lambda args, mesh: _observe_gradient(function, args, 'mod7', mesh))


def observed(call: Callable[[], Any], keep: bool = False) -> Outcome:
    try:
        with recorder.count() as counted:
            out = call()
        return _result([] if keep else jax.tree.leaves(out), dict(counted.by_op), out if keep else None)
    except LOST:
        raise
    except Exception as error:
        return _failed(error)


def _observe_gradient(function: Callable, args: Sequence[Any], kind: CotangentKind, mesh: list,
                      jit: bool = False) -> Outcome:
    """The vjp with respect to all inexact arguments, for one choice of cotangents."""
    wrt = [i for i, x in enumerate(args) if _type(x).dtype in INEXACT]

    def restricted(*inexact: Any) -> list[Any]:
        given = dict(zip(wrt, inexact))
        leaves = jax.tree.leaves(function(*[given.get(i, x) for i, x in enumerate(args)]))
        return [leaf for leaf in leaves if _type(leaf).dtype in INEXACT]

    def pull(inexact: Sequence[Any], cotangents: list[Any]) -> Any:
        return jax.vjp(restricted, *inexact)[1](cotangents)

    inexact = [args[i] for i in wrt]
    try:
        with recorder.count() as forward:
            outs, pullback = jax.vjp(restricted, *inexact)
        duals = [_type(out).dual() for out in outs]
        cotangents = [_place(cotangent_value(kind, dual, j), dual, mesh) for j, dual in enumerate(duals)]
        with recorder.count() as counted:
            back = jax.jit(pull)(inexact, cotangents) if jit else pullback(cotangents)
        total = dict(counted.by_op) if jit else _add(forward.by_op, counted.by_op)
        return _result(list(back), total)
    except LOST:
        raise
    except Exception as error:
        return _failed(error)


def _reference(case: Case, observe: Callable[[list[Any], list], Outcome]) -> Outcome:
    """The phase on replicated inputs, else on one device."""
    placed = [Placed.of_arg(arg).replicated() for arg in case['args']]
    outcome = observe(_arguments(case, placed, case['mesh']), case['mesh'])
    if not outcome.error:
        return outcome
    one = [[name, 1] for name, _ in case['mesh']]
    with jax.set_mesh(on_mesh(mesh_key(one))):
        return observe(_arguments(case, [Placed.of_arg(arg) for arg in case['args']], one), one)


def _result(leaves: list[Any], collectives: dict[str, int], python: Any = None) -> Outcome:
    return Outcome(types=tuple(str(jax.typeof(leaf)) for leaf in leaves), parts=tuple(map(_local, leaves)),
                   python=python, collectives=collectives)


def _failed(error: BaseException) -> Outcome:
    return Outcome(error=tuple(kind.__name__ for kind in type(error).__mro__), message=str(error))


def _local(leaf: Any) -> dict[int, np.ndarray]:
    """What this rank holds of a result, by device; key -1 for a value that lies on no mesh."""
    if not hasattr(leaf, 'addressable_shards'):
        return {-1: np.asarray(leaf)}
    if str(jax.typeof(leaf)).startswith('key<'):
        return {}
    return {shard.device.id: np.asarray(shard.data) for shard in leaf.addressable_shards}


# ---- inputs


def _function(case: Case) -> Callable:
    names = {'jax': jax, 'jnp': jnp, 'lax': lax, 'np': np, 'under': _under}
    if 'source' in case:
        exec(compile(case['source'], case['id'], 'exec'), names)
        return names['f']
    code = compile(case['expr'], case['id'], 'eval')
    return lambda *args: eval(code, names | dict(zip('abcdefghijklmnopqrstuvwxyz', args)))


def _under(context: Any, function: Callable) -> Any:
    with context:
        return function()


def _arguments(case: Case, placed: list[Placed], mesh: list) -> list[Any]:
    return [_place(input_value(arg, i), p, mesh) for i, (arg, p) in enumerate(zip(case['args'], placed))]


def _place(value: np.ndarray, placed: Placed, mesh: list) -> Any:
    """An array from raw blocks, so that the summands of an unreduced value are ours and not the library's."""
    entries = [axes[0] if len(axes) == 1 else axes or None for axes in placed.spec]
    spec = jax.P(*entries, unreduced=set(placed.unreduced), reduced=set(placed.reduced))
    on = on_mesh(mesh_key(mesh))
    mine = [block for device, block in zip(on.devices.flat, blocks(value, placed, mesh))
            if device.process_index == jax.process_index()]
    return jax.make_array_from_single_device_arrays(value.shape, jax.NamedSharding(on, spec), mine, dtype=value.dtype)


def _type(x: Any) -> Placed:
    return Placed.parse(str(jax.typeof(x)))


def mesh_key(mesh: list) -> tuple[tuple[str, int], ...]:
    return tuple((name, size) for name, size in mesh)


@functools.cache
def on_mesh(axes: tuple[tuple[str, int], ...]) -> Any:
    return jax.make_mesh(tuple(size for _, size in axes), tuple(name for name, _ in axes))


@contextmanager
def _double_precision(enabled: bool) -> Iterator[None]:
    if not enabled:
        yield
        return
    jax.config.update('jax_enable_x64', True)
    try:
        yield
    finally:
        jax.config.update('jax_enable_x64', False)


def _add(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {op: a.get(op, 0) + b.get(op, 0) for op in {*a, *b}}


# ---- all ranks together


def merged(phase: str, seen: list[Outcome | None], listing: bool = False) -> Outcome:
    """One outcome out of every rank's; what the ranks should agree on and do not is noted in `disagreement`."""
    ran = [outcome for outcome in seen if outcome is not None]
    answers = [_answer(outcome) for outcome in seen]
    odd = next((rank for rank, answer in enumerate(answers) if answer != answers[0]), None)
    disagreement = '' if odd is None else f'ranks disagree in {phase}: rank 0 {answers[0]}; rank {odd} {answers[odd]}'
    first = ran[0]
    whole = not disagreement and not first.error
    parts = tuple(functools.reduce(dict.__or__, leaves) for leaves in zip(*(o.parts for o in ran))) if whole else ()
    collectives = {op: max(o.collectives.get(op, 0) for o in ran) for op in {op for o in ran for op in o.collectives}}
    return Outcome(error=first.error, message=first.message, types=first.types, parts=parts,
                   python=_listed([o.python for o in ran]) if listing and whole else first.python,
                   collectives=collectives, disagreement=disagreement)


def _answer(outcome: Outcome | None) -> str:
    if outcome is None:
        return 'did not get there'
    if outcome.error:
        return f"raised {outcome.error[0]}: {re.sub(r'0x[0-9a-f]+', '0x', outcome.message)}"
    return f"returned {', '.join(outcome.types) or 'a Python value'}"


def _listed(values: list[Any]) -> Any:
    """Each rank lists its own shards only; the record lists those of all devices."""
    if not all(isinstance(value, list) for value in values):
        return values[0]
    return sorted((item for value in values for item in value), key=lambda item: item[0])
