"""Manual mode against the record: programs with `shard_map`, the types inside them and outside, values and gradients.

A case is a program text that defines `f`. The recipe of its inputs is another one than that of explicit mode (README_manual): the
summands of an unreduced input are values of their own, and the input is their sum.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

import distad as jax
import distad.numpy as jnp
from distad import extend, lax
from distad.interpreters import ad, batching
from tests.conformance.cases import INEXACT, NONFINITE, Case, Placed, difference, index, load, np_dtype, slices
from tests.conformance.harness import Outcome, Trial, merged, mesh_key, observed, on_mesh
from tests.conformance.judge import Verdict, whole_value
from tests.conformance.ranks import LOST, alarm, exchange
from tests.conformance.reasons import CLEAN

GROUPS = ('boundary', 'pcast', 'collective', 'unreduced_kind', 'binary', 'select', 'unary', 'nullary', 'matmul', 'transform',
          'custom', 'partial_manual', 'check_vma_false', 'control_flow', 'indexing', 'programs', 'vmap', 'vmap_inside')

# Where distad takes what JAX refuses, each with why it may: the value and its gradient are the only ones there can be.
ACCEPTED = {
    'reduced_meets_invarying': 'a free cast brings both to one state',
    'unreduced_needs_reduced_factor': 'a product with a number or a copy is linear in the summands',
    'dot_of_unreduced': 'a product is linear in the summands',
    'no_rule': 'JAX lacks the rule', 'internal': 'an accident of JAX', 'state_lost_in_gradient': 'an accident of JAX',
    'closure': 'an array closed over is an argument', 'update_state_mismatch': 'slices of any state can be stacked',
    'no_lowering': 'an impl is a NumPy function, which runs anywhere',
    'ppermute_axis_order': 'axes may be named in any order',
}

# Where distad answers otherwise by intent, case by case.
OTHERWISE = {
    'co2.pmax_X.VU': 'the max over X of a sum over Y that is still to come is not the sum of the maxima: refused',
    'mix.full_like_R': 'an array made like a reduced one is reduced, as in explicit mode',
    'tr.make_jaxpr_inside': 'the case counts equations, and a number needs no cast here',
    'pg.moe_grad': 'two sums of which one is ready two exchanges before the other: not joined, so that it need not wait',
    'pg.vocab_parallel_cross_entropy': 'two sums of which one is ready an exchange before the other: not joined, as above',
    'v.co.all_to_all.unb': 'one row for each example, as the record says is right (tests/manual/test_mapped_axes.py has the values)',
    'v.co.all_to_all_tiled.unb': 'one row for each example, as above',
    'v.co.psum_in_cond_batched_pred': 'value and derivative would be of two functions: refused',
    'vi.named_psum_both': 'mapped axes and mesh axes may be named together: the sum over both',
    'tr.linear_transpose_pcast': 'the sum of a constant, which XLA makes beforehand',
    'v.peek_ops': 'a slice at a place that all elements share leaves the batch where it is',
    'v.cf.scan_reverse': 'the carry is weakly typed before the first round alone, and so is no slice of it',
    'v.up.in_shard_map_type_dropped': 'states follow from those of the operands, so a rule that forgets them does no harm',
    'co4.ag_groups': 'groups of ranks are refused by name', 'co4.rs_groups': 'groups of ranks are refused by name',
    'co4.a2a_groups': 'groups of ranks are refused by name', 'cv.psum_groups': 'groups of ranks are refused by name',
}


def cases() -> tuple[Case, ...]:
    programs = tuple({**case, 'group': 'programs'} for case in load('manual_programs'))
    batched = tuple({**case, 'group': 'vmap', **({} if case['mesh'] else {'mesh': [], 'set_mesh': False})} for case in load('vmap'))
    return load('manual') + programs + batched


def selected(case: Case) -> bool:
    return case['group'] in GROUPS and 'auto' not in case.get('axis_types', ())


# ---- inputs

def formula(dtype: str, k: np.ndarray, position: int, piece: int = 0) -> np.ndarray:
    real = ((7 * k + 3 * position + 5 * piece) % 11 - 5) / 4
    if dtype == 'bool':
        return ((5 * k + position) % 7) % 2 == 1
    if dtype.startswith(('int', 'uint')):
        return np.asarray((5 * k + position) % 7).astype(np_dtype(dtype))
    if dtype.startswith('complex'):
        return (real + 1j * (((7 * k + 3 * position + 1) % 11) - 5) / 4).astype(np_dtype(dtype))
    return np.asarray(real).astype(np_dtype(dtype))


def pieces(placed: Placed, position: int, mesh: list) -> Iterator[np.ndarray]:
    """What each device holds, devices in row-major order."""
    order, sizes = [name for name, _ in mesh], dict(map(tuple, mesh))
    along = [name for name in order if name in placed.unreduced]
    for coords in np.ndindex(*(size for _, size in mesh)):
        at, piece = dict(zip(order, coords)), 0
        for name in along:
            piece = piece * sizes[name] + at[name]
        yield np.array(formula(placed.dtype, index(placed.shape), position, piece)[slices(placed, at, sizes)], order='C')


def place(placed: Placed, position: int, mesh: list) -> Any:
    if not mesh:
        return jnp.asarray(formula(placed.dtype, index(placed.shape), position))
    entries = [axes[0] if len(axes) == 1 else axes or None for axes in placed.spec]
    spec = jax.P(*entries, unreduced=set(placed.unreduced), reduced=set(placed.reduced))
    on = on_mesh(mesh_key(mesh))
    mine = [block for device, block in zip(on.devices.flat, pieces(placed, position, mesh))
            if device.process_index == jax.process_index()]
    return jax.make_array_from_single_device_arrays(placed.shape, jax.NamedSharding(on, spec), mine,
                                                    dtype=np_dtype(placed.dtype))


# ---- running

def run(case: Case) -> dict[str, Outcome]:
    trial: Trial = {}
    inner: list[str] = []
    peeks: list = []
    try:
        with nullcontext() if case.get('set_mesh') is False else jax.set_mesh(on_mesh(mesh_key(case['mesh']))):
            _run_here(case, trial, inner, peeks)
    except LOST as error:
        alarm()
        trial['waiting'] = Outcome(error=(type(error).__name__,), message=str(error))
    except Exception as error:
        trial['define'] = Outcome(error=tuple(k.__name__ for k in type(error).__mro__), message=str(error))
    trial['inner'] = Outcome(types=tuple(inner), python=peeks)
    every = exchange(case['id'], trial)
    return {phase: merged(phase, [seen.get(phase) for seen in every]) for phase in sorted({p for s in every for p in s})}


def _run_here(case: Case, trial: Trial, inner: list[str], peeks: list) -> None:
    recording = [True]

    def show(x: Any) -> Any:
        if recording[0]:
            inner.extend(str(jax.typeof(leaf)) for leaf in jax.tree.leaves(x))
        return x

    def peek(x: Any) -> Any:
        if 'peeks' not in case:
            return show(x)
        if recording[0]:
            val = getattr(x, 'val', None)
            peeks.append([type(x).__name__, list(x.shape), None if val is None else list(val.shape), getattr(x, 'batch_dim', None)])
        return x

    names = {'jax': jax, 'jnp': jnp, 'lax': lax, 'P': jax.P, 'np': np, 'show': show, 'peek': peek, 'Primitive': extend.Primitive,
             'ShapedArray': extend.ShapedArray, 'ad': ad, 'batching': batching}
    if case['mesh']:
        names['mesh'] = on_mesh(mesh_key(case['mesh']))
    exec(compile(case['program'].replace('from jax.', 'from distad.'), case['id'], 'exec'), names)
    f = names['f']
    placed = [Placed.of_arg(arg) for arg in case['args']]
    args = [place(p, i, case['mesh']) for i, p in enumerate(placed)]
    trial['jit'] = observed(lambda: (f if case.get('mode') == 'eager' else jax.jit(f))(*args))
    recording[0] = False
    if zlib.crc32(case['id'].encode()) % 3 == 0:
        trial['eager'] = observed(lambda: f(*args))
    if trial['jit'].error or not any(p.dtype in INEXACT for p in placed):
        return
    wrt = [i for i, p in enumerate(placed) if p.dtype in INEXACT]

    def restricted(*inexact: Any) -> list[Any]:
        given = dict(zip(wrt, inexact))
        return [y for y in jax.tree.leaves(f(*[given.get(i, x) for i, x in enumerate(args)]))
                if str(jax.typeof(y)).lstrip('~').split('[')[0] in INEXACT]

    outs = [Placed.parse(t) for t in trial['jit'].types]
    cotangents = [place(replace(o.dual(), dtype=o.dtype), len(args) + k, case['mesh'])
                  for k, o in enumerate(outs) if o.dtype in INEXACT]
    pull = jax.jit(lambda xs, cts: jax.vjp(restricted, *xs)[1](cts))
    trial['grad'] = observed(lambda: list(pull([args[i] for i in wrt], cotangents)))


# ---- judging

def judge(case: Case, trial: Trial) -> Verdict:
    verdict = Verdict(id=case['id'], group=case['group'])
    odd = [o.disagreement for o in trial.values() if o.disagreement]
    stuck = trial.get('waiting') or (trial.get('define') if 'error' not in case else None)
    if odd or stuck:
        verdict.problems += odd or [f"{stuck.error[0]}: {stuck.message}"]
    elif 'error' in case:
        _judge_refusal(case, trial, verdict)
    else:
        _judge_answer(case, trial, verdict)
    if case['id'] in OTHERWISE and verdict.problems:
        verdict.problems, verdict.reasons = [], [OTHERWISE[case['id']]]
    return verdict


def _judge_refusal(case: Case, trial: Trial, verdict: Verdict) -> None:
    got = trial.get('define') or trial['jit']
    if got.error:
        if not set(CLEAN + ('NameError', 'UnexpectedTracerError', 'NonConcreteBooleanIndexError')) & set(got.error):
            verdict.problems.append(f"raised {got.error[0]}: {got.message}; expected a refusal ({case['why']})")
        return
    why = next((text for slug, text in ACCEPTED.items() if slug in case['why']), None)
    if why is None and case.get('verdict') not in ('strict', 'gap', 'accident'):
        verdict.problems.append(f"gave {', '.join(got.types)}; expected {case['error']} ({case['why']})")
    else:
        verdict.reasons.append(why or case['verdict'])
        _eager_agrees(case, trial, verdict)


def _judge_answer(case: Case, trial: Trial, verdict: Verdict) -> None:
    got, record = trial['jit'], case.get('verdict')
    if got.error:
        if record in ('unsound', 'wrong', 'accident', 'gap') and set(CLEAN) & set(got.error):
            verdict.reasons.append(f"refused: {case.get('better', record)}")
        else:
            verdict.problems.append(f"raised {got.error[0]}: {got.message}; expected {', '.join(case.get('out', ()))}")
        return
    if record in ('unsound', 'wrong'):
        verdict.problems.append(f"gave {', '.join(got.types)}, which is {record}: {case.get('better')}")
        return
    if got.types != tuple(case['out']):
        _differs(case, verdict, f"type {', '.join(got.types)}; expected {', '.join(case['out'])}")
    shown = trial['inner'].types
    if 'inner_types' in case and [_no_kind(t) for t in shown] != [_no_kind(t) for t in case['inner_types']]:
        _differs(case, verdict, f"inside {', '.join(shown)}; expected {', '.join(case['inner_types'])}")
    peeks = [['Array' if name == 'ArrayImpl' else name, *rest] for name, *rest in case.get('peeks', ())]
    if peeks != trial['inner'].python:
        _differs(case, verdict, f"tracers inside {trial['inner'].python}; expected {peeks}")
    for leaf, want in enumerate(case.get('values', ())):
        _compare('jit', got, leaf, want, case, verdict)
    _eager_agrees(case, trial, verdict)
    if not case.get('collectives_in_loops') and not re.search('scan|fori|while', case['program']):
        _count('forward', got, sum(case.get('collectives', {}).values()), case, verdict)
    _judge_gradient(case, trial, verdict)


def _judge_gradient(case: Case, trial: Trial, verdict: Verdict) -> None:
    record, got = case.get('grad'), trial.get('grad')
    if record is None or got is None:
        return
    if got.error:
        if 'error' not in record and record.get('verdict') not in ('unsound', 'wrong'):
            verdict.problems.append(f"gradient raised {got.error[0]}: {got.message}")
        return
    want = tuple(p.dual().show(case['mesh']) for p in map(Placed.of_arg, case['args']) if p.dtype in INEXACT)
    if got.types != want:
        verdict.problems.append(f"gradient of type {', '.join(got.types)}; expected {', '.join(want)}")
    elif 'ct_values' in record and record.get('verdict') not in ('unsound', 'wrong'):
        for leaf, value in enumerate(record['ct_values']):
            _compare('gradient', got, leaf, value, case, verdict)


def _differs(case: Case, verdict: Verdict, text: str) -> None:
    (verdict.reasons if case.get('verdict') in ('gap', 'accident') else verdict.problems).append(text)


def _no_kind(text: str) -> str:
    """JAX prints a manual value of kind max like one of kind sum."""
    return re.sub(r'U_\w+:', 'U:', text)


def _eager_agrees(case: Case, trial: Trial, verdict: Verdict) -> None:
    eager, jit = trial.get('eager'), trial['jit']
    if eager is None:
        return
    if eager.error or eager.types != jit.types:
        verdict.problems.append(f"eager: {eager.error[:1] or eager.types} {eager.message}; jit: {', '.join(jit.types)}")
        return
    for leaf in range(len(jit.types)):
        if eager.parts[leaf]:
            differ = difference(whole_value(eager, leaf, case['mesh']), whole_value(jit, leaf, case['mesh']), 1e-4)
            if differ:
                verdict.problems.append(f"eager and jit, result {leaf}: {differ}")


def _compare(phase: str, got: Outcome, leaf: int, want: Any, case: Case, verdict: Verdict) -> None:
    if want is None or not got.parts[leaf]:
        return
    try:
        value = whole_value(got, leaf, case['mesh']).ravel()
    except (ValueError, KeyError) as error:
        verdict.problems.append(f"{phase}: result {leaf} ({got.types[leaf]}): {error}")
        return
    if isinstance(want, dict):
        value, want = np.array([value.sum(), np.abs(value).sum()]), [want['sum'], want['abs_sum']]
    expected = np.array([complex(*v) if isinstance(v, list) else NONFINITE.get(v, v) if isinstance(v, str) else v for v in want])
    loose = 2e-2 if 'float16' in got.types[leaf] else 2e-4
    differ = difference(value, expected.reshape(value.shape) if expected.size == value.size else expected, loose)
    if differ:
        verdict.problems.append(f"{phase}: result {leaf} ({got.types[leaf]}): {differ}")


def _count(phase: str, got: Outcome, most: int, case: Case, verdict: Verdict) -> None:
    if sum(got.collectives.values()) > most:
        sent = ', '.join(f"{n} {op}" for op, n in sorted(got.collectives.items()) if n)
        verdict.problems.append(f"{phase}: communicates more than JAX: {sent}; recorded {most}")


def check(case: Case) -> Verdict:
    return judge(case, run(case))


