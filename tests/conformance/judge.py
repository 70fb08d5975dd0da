"""Compare what happened with the record.

A verdict is `passed` (as recorded), `reason` (otherwise, for a reason in `reasons.py`, with a value checked by the
reference) or `failed`, with one line for each thing that is not right.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from tests.conformance import reasons
from tests.conformance.cases import Case, Placed, assemble, difference, recorded_value, tolerance
from tests.conformance.harness import Outcome, Trial, chosen_for_jit, run

# XLA drops a loss that only its gradient is asked for; run equation by equation, it is computed.
DIFFERENTIATED = re.compile(r'grad\(|vjp\(|linearize\(')
LOOPS = re.compile(r'scan|while_loop|fori_loop|lax\.map|associative')
# The backward pass of these is refused by everyone: there is no rule to find.
GRADIENT_MUST_FAIL = ('while-reverse-mode', 'custom-vjp-type-mismatch')


@dataclass(slots=True, kw_only=True)
class Verdict:
    id: str
    group: str
    problems: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        return 'failed' if self.problems else 'reason' if self.reasons else 'passed'

    def because(self, case: Case, way: str, otherwise: str) -> bool:
        """Note the reason that allows this difference, or the problem if there is none."""
        text = reasons.find(case, way)
        if text is None:
            self.problems.append(otherwise)
        elif text not in self.reasons:
            self.reasons.append(text)
        return text is not None


def judge(case: Case, trial: Trial) -> Verdict:
    """The verdict on a case from what all ranks saw."""
    verdict = Verdict(id=case['id'], group=case['group'])
    first = ('inputs', 'waiting')  # where ranks part ways there, what follows is no news
    phases = sorted(trial, key=lambda phase: phase not in first)
    odd = [trial[phase].disagreement for phase in phases if trial[phase].disagreement]
    if odd:
        verdict.problems += odd
    elif 'waiting' in trial:
        verdict.problems.append(f"a collective did not end: {_said(trial['waiting'])}")
    elif 'inputs' in trial:
        verdict.problems.append(f"the inputs could not be made: {_said(trial['inputs'])}")
    else:
        for mode in ('eager', 'jit'):
            if mode in trial:
                _judge_forward(case, mode, trial, verdict)
        for phase in ('grad ones', 'grad mod7', 'jit grad mod7'):
            if phase in trial:
                _judge_gradient(case, phase, trial, verdict)
    return verdict


def check(case: Case, jit: str = 'some') -> Verdict:
    """Run a case and judge it; `jit` is 'none', 'some' (one case in four) or 'all'.  Collective over all ranks."""
    always = jit == 'all' or 'source' in case
    return judge(case, run(case, jit=jit != 'none' and (always or chosen_for_jit(case))))


# ---- forward


def _judge_forward(case: Case, mode: str, trial: Trial, verdict: Verdict) -> None:
    got = trial[mode]
    if 'error' in case:
        _judge_refusal(case, mode, trial, verdict)
    elif mode == 'jit' and 'jit_error' in case and got.error:
        pass
    elif got.error:
        wanted = case.get('py', ', '.join(case.get('out', ())))
        line = f'{mode}: raised {_said(got)}; expected {wanted}'
        if not reasons.clean(got):
            verdict.problems.append(line)
        else:
            verdict.because(case, 'refuses', line)
    elif 'py' in case:
        if not _same_python(got.python, case['py']):
            verdict.because(case, 'python', f"{mode}: got {got.python!r}, expected {case['py']!r}")
    else:
        _judge_types(case, mode, got, verdict)
        _judge_values(case, mode, trial, verdict)
        _judge_count(case, mode, got.collectives, _recorded_count(case, 'collective'), verdict)


def _judge_refusal(case: Case, mode: str, trial: Trial, verdict: Verdict) -> None:
    got = trial[mode]
    expected = {case['error'], case.get('jit_error', case['error'])} if mode == 'jit' else {case['error']}
    label = f"{'/'.join(sorted(expected))} ({case['error_kind']})"
    if got.error:
        if expected & set(got.error):
            return
        line = f'{mode}: raised {_said(got)}; expected {label}'
        if reasons.clean(got):
            verdict.because(case, 'class', line)
        else:
            verdict.problems.append(line)
    else:
        gave = ', '.join(got.types) or repr(got.python)
        if verdict.because(case, 'accepts', f'{mode}: gave {gave}; expected {label}'):
            if 'reference' in trial:
                if not reasons.find(case, 'undefined'):
                    _compare(mode, got, trial['reference'], case, verdict)
            else:
                verdict.problems.append(f'{mode}: gave {gave}, and there is no reference to check it by')


def _judge_types(case: Case, mode: str, got: Outcome, verdict: Verdict) -> None:
    want = tuple(case['jit_out'] if mode == 'jit' and 'jit_out' in case else case['out'])
    if got.types != want:
        verdict.because(case, 'type', f"{mode}: type {', '.join(got.types)}; expected {', '.join(want)}")


def _judge_values(case: Case, mode: str, trial: Trial, verdict: Verdict) -> None:
    got = trial[mode]
    if 'values' in case:
        _compare_recorded(mode, got, case['values'], case, verdict)
        _compare_sums(mode, got, case, verdict)
    elif 'reference' in trial:
        _compare(mode, got, trial['reference'], case, verdict)


# ---- gradients


def _judge_gradient(case: Case, phase: str, trial: Trial, verdict: Verdict) -> None:
    got, record = trial[phase], case.get('grad', {})
    kind = record.get('error_kind')
    if got.error:
        if not reasons.clean(got):
            verdict.problems.append(f'{phase}: raised {_said(got)}')
        elif 'error' in case:
            verdict.problems.append(f'{phase}: the forward pass is accepted, the backward pass raised {_said(got)}')
        elif not {'error', 'run_error', 'jax_wrong_value'} & set(record):
            verdict.because(case, 'refuses', f"{phase}: raised {_said(got)}; expected {', '.join(record['ct_types'])}")
        return
    if kind in GRADIENT_MUST_FAIL:
        verdict.problems.append(f"{phase}: gave {', '.join(got.types)}; expected {record['error']} ({kind})")
        return
    want = tuple(_cotangent_types(case))
    if got.types != want:
        verdict.problems.append(f"{phase}: type {', '.join(got.types)}; expected {', '.join(want)}")
    recorded = record.get('ct_values' if phase == 'grad ones' else 'ct_values_mod7')
    if recorded is not None:
        _compare_recorded(phase, got, recorded, case, verdict)
        forward = {} if phase.startswith('jit') else _recorded_count(case, 'collective')
        backward = _recorded_count(case, 'grad_collective')
        if backward is not None and forward is not None:
            _judge_count(case, phase, got.collectives, sum(_values(forward)) + sum(_values(backward)), verdict)
    elif phase != 'grad ones' and 'reference grad' in trial:
        _compare(phase, got, trial['reference grad'], case, verdict)


def _cotangent_types(case: Case) -> list[str]:
    inexact = [Placed.of_arg(arg) for arg in case['args']]
    return [p.dual().show(case['mesh']) for p in inexact if p.dtype.startswith(('float', 'bfloat', 'complex'))]


# ---- values


def whole_value(outcome: Outcome, leaf: int, mesh: list) -> np.ndarray:
    parts, placed = outcome.parts[leaf], Placed.parse(outcome.types[leaf])
    whole = not placed.unreduced and not any(placed.spec)
    if whole and parts and len(parts) < int(np.prod([size for _, size in mesh], dtype=int)):
        return next(iter(parts.values()))  # a value that lies on no mesh, or on one device
    return assemble(parts, placed, mesh)


def _compare_recorded(phase: str, got: Outcome, values: list, case: Case, verdict: Verdict) -> None:
    if len(values) != len(got.types):
        verdict.problems.append(f'{phase}: {len(got.types)} results, expected {len(values)}')
        return
    for leaf, (text, want) in enumerate(zip(got.types, values)):
        if want is not None:
            array = recorded_value(want, 'complex' in text)
            _compare_arrays(phase, got, leaf, array, case, verdict)


def _compare(phase: str, got: Outcome, reference: Outcome, case: Case, verdict: Verdict) -> None:
    """With the same program on replicated inputs (its arrays may lie on a mesh of one device)."""
    if got.python != reference.python:
        verdict.problems.append(f'{phase}: gave {got.python!r}, the reference {reference.python!r}')
    elif reference.error:
        verdict.problems.append(f'{phase}: there is no reference to check the value by: {_said(reference)}')
    elif len(reference.types) != len(got.types):
        verdict.problems.append(f'{phase}: {len(got.types)} results, the reference has {len(reference.types)}')
    else:
        for leaf in range(len(got.types)):
            if got.parts[leaf]:
                mesh = case['mesh'] if len(reference.parts[leaf]) > 1 else [[name, 1] for name, _ in case['mesh']]
                _compare_arrays(phase, got, leaf, whole_value(reference, leaf, mesh), case, verdict)


def _compare_arrays(phase: str, got: Outcome, leaf: int, want: np.ndarray, case: Case, verdict: Verdict) -> None:
    try:
        value = whole_value(got, leaf, case['mesh'])
    except (ValueError, KeyError) as error:
        verdict.problems.append(f'{phase}: result {leaf} ({got.types[leaf]}): {error}')
        return
    differ = difference(value, want, max(tolerance(t.lstrip('~').split('[')[0]) for t in got.types))
    if differ:
        verdict.problems.append(f'{phase}: result {leaf} ({got.types[leaf]}): {differ}')


def _compare_sums(phase: str, got: Outcome, case: Case, verdict: Verdict) -> None:
    """Programs record the sum of every result, also of those too large to list."""
    for leaf, (want, value) in enumerate(zip(case.get('value_sums', ()), case['values'])):
        if value is None and not any(f'{phase}: result {leaf} ' in line for line in verdict.problems):
            total = np.asarray(whole_value(got, leaf, case['mesh']), np.float64).sum()
            if differ := difference(total, recorded_value(want, False), 2e-3):
                verdict.problems.append(f'{phase}: sum of result {leaf} ({got.types[leaf]}): {differ}')


# ---- collectives


def _recorded_count(case: Case, key: str) -> dict[str, int] | None:
    """Collectives per kind; XLA joins several arrays in one operation, we count each array."""
    if f'{key}s' not in case or 'source' in case and case['collectives_in_loops'] or LOOPS.search(case.get('expr', '')):
        return None
    count = {op: n for op, n in case[f'{key}s'].items() if n}
    lines = case.get(f'{key}_detail') or [types for _, types, _ in case.get('collective_paths', ())]
    joined = [len(re.findall(r'\w+\[[\d,]*\]', line)) for line in lines]
    return count | ({'arrays': sum(joined)} if sum(joined) > sum(count.values()) else {})


def _values(count: dict[str, int]) -> list[int]:
    return [count['arrays']] if 'arrays' in count else list(count.values())


def _judge_count(case: Case, phase: str, got: dict[str, int], recorded: dict[str, int] | int | None,
                 verdict: Verdict) -> None:
    dead_code = 'source' in case or DIFFERENTIATED.search(case['expr'])
    if recorded is None or (dead_code and not phase.startswith('jit')):
        return
    most = recorded if isinstance(recorded, int) else sum(_values(recorded))
    if sum(got.values()) > most:
        sent = ', '.join(f'{n} {op}' for op, n in sorted(got.items()) if n)
        verdict.because(case, 'collectives', f'{phase}: communicates more than JAX: {sent}; recorded {most}')


# ---- words


def _said(outcome: Outcome) -> str:
    return f"{outcome.error[0]}: {' '.join(outcome.message.split())[:300]}"


def _same_python(got: object, want: object) -> bool:
    if isinstance(want, (bool, int)) or isinstance(got, (bool, int)):
        return got == want
    if isinstance(got, OrderedDict):
        got = f'OrderedDict({dict(got)!r})'  # as Python prints it from 3.12 on
    return _sets_sorted(got if isinstance(got, str) else repr(got)) == _sets_sorted(want)


def _sets_sorted(text: str) -> str:
    """Python prints a set of strings in no fixed order."""
    return re.sub(r"\{('\w+'(?:, '\w+')*)\}", lambda m: '{' + ', '.join(sorted(m[1].split(', '))) + '}', text)
