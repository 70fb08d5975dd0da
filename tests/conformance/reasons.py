"""Where the library answers otherwise than the record, and why.

The record is JAX's.  The library refuses what has a wrong value, refuses what is a choice of the user's, and accepts
what JAX refuses only because it lacks a rule or is strict, where a free cast gives the one meaning.  A reason lets an
answer differ in one way:

    accepts    gives a value where JAX raises            (the value and the gradient are checked by the reference)
    refuses    raises where JAX gives a value
    class      raises another class than JAX
    type       gives another type than JAX               (the value is checked)
    python     gives another Python value than JAX
    collectives  sends more than JAX
    undefined  gives another value on another placement, as the operands are none that the function is for

No other reason lets a wrong value pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.cases import Case
from tests.conformance.harness import Outcome

# A refusal is one of these, with a sentence.
CLEAN = ('ShardingTypeError', 'DuplicateSpecError', 'ForbiddenCollectiveError', 'ValueError', 'TypeError',
         'NotImplementedError', 'RuntimeError')


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    text: str
    allows: tuple[str, ...]
    applies: Callable[[Case], bool]


def kinds(*names: str) -> Callable[[Case], bool]:
    """The case, or its gradient, was refused by JAX for one of these reasons."""
    return lambda case: case.get('error_kind') in names


def ids(*names: str) -> Callable[[Case], bool]:
    return lambda case: case['id'] in names


def group(name: str) -> Callable[[Case], bool]:
    return lambda case: case['group'] == name


def expr(pattern: str) -> Callable[[Case], bool]:
    return lambda case: re.search(pattern, case.get('expr', '')) is not None


def both(*conditions: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: all(condition(case) for condition in conditions)


def either(*conditions: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: any(condition(case) for condition in conditions)


def one_unreduced(case: Case) -> bool:
    """Exactly one operand is unreduced: with the others cast to reduced, a product is linear in it."""
    return sum(bool(arg['unreduced']) for arg in case['args']) == 1


def unreduced_apart(case: Case) -> bool:
    """No axis over which two operands are unreduced."""
    axes = [axis for arg in case['args'] for axis in arg['unreduced']]
    return len(axes) == len(set(axes))


def replicated_beside(case: Case) -> bool:
    """The operands agree per dimension but for replicated ones, and all are unreduced over the same axes."""
    used = [arg for arg in case['args'] if arg['dtype'] != 'bool' and not arg['dtype'].startswith('int')]
    return len({tuple(sorted(arg['unreduced'])) for arg in used}) <= 1 and not _unlike(used)


def _unlike(args: list[Case]) -> bool:
    rank = max((len(arg['spec']) for arg in args), default=0)
    padded = [[None] * (rank - len(arg['spec'])) + arg['spec'] for arg in args]
    return any(len({tuple(axes) for axes in dim if axes}) > 1 for dim in zip(*padded))


REASONS = (
    Reason(
        text='JAX lacks a rule: the right value, or a refusal of any class',
        allows=('accepts', 'class'),
        applies=lambda case: case.get('error') == 'NotImplementedError' or kinds(
            'ur-rule-missing', 'jax-internal-cannot-handle-ur', 'jax-internal-assert', 'read-of-unreduced', 'other',
            'cotangent-type-mismatch')(case),
    ),
    Reason(
        text='replicated casts to reduced for free, and a slice of a reduced array is sharded for free',
        allows=('accepts',),
        applies=kinds('replicated-with-reduced', 'sharded-with-reduced', 'reduced-axes-differ'),
    ),
    Reason(
        text='a product with one unreduced operand is linear in it: the other operands cast to reduced for free',
        allows=('accepts',),
        applies=both(kinds('unreduced-times-not-reduced', 'dot-of-unreduced', 'sharded-with-reduced'), one_unreduced),
    ),
    Reason(
        text='operands unreduced over different axes: on each axis one is a summand and the other casts to reduced',
        allows=('accepts',),
        applies=both(kinds('mul-both-unreduced', 'dot-of-unreduced'), unreduced_apart),
    ),
    Reason(
        text='real, imag, conj and complex are linear, so they pass unreduced arrays through',
        allows=('accepts',),
        applies=both(kinds('nonlinear-of-unreduced'), expr(r'\b(real|imag|conj|conjugate|complex)\b')),
    ),
    Reason(
        text='a replicated operand beside a sharded or reduced one is sliced or cast for free',
        allows=('accepts',),
        applies=both(kinds('concat-spec-mismatch', 'select-case-spec-mismatch', 'select-which-spec-mismatch',
                           'dus-spec-mismatch', 'dot-batch-spec-mismatch', 'index-ur'), replicated_beside),
    ),
    Reason(
        text='asking for an unreduced product where one side is whole on the axis: the whole side is sliced for free',
        allows=('accepts',),
        applies=kinds('dot-unreduced-out-needs-equal-contraction-specs',
                      'dot-unreduced-out-axes-differ-from-contraction'),
    ),
    Reason(
        text='with out_sharding a product takes operands of any sharding; matmul too, where JAX broadcasts first and refuses',
        allows=('accepts',),
        applies=ids('dot-363'),
    ),
    Reason(
        text='a product split along k in one operand adds up its parts; XLA gathers an operand instead where that is less',
        allows=('collectives',),
        applies=ids('grad-156'),
    ),
    Reason(
        text='the cotangents of a branch are made and summed also where they are zero',
        allows=('collectives',),
        applies=ids('grad-131'),
    ),
    Reason(
        text='outside of jit a function is also evaluated whose derivative alone is asked for',
        allows=('collectives',),
        applies=ids('grad-107'),
    ),
    Reason(
        text='asking for a reduced result is a free cast of the replicated one',
        allows=('accepts',),
        applies=kinds('out-sharding-reduced', 'reshape-out-sharding-ur-mismatch'),
    ),
    Reason(
        text='a lookup in a split dimension is a local one and a sum of its results; updates go to the rank that has their row, and '
             'those that are split add up: what is refused as ambiguous has one meaning',
        allows=('accepts',),
        applies=kinds('gather-scatter-ambiguous'),
    ),
    Reason(
        text='a lookup in a reduced table, or an addition to an unreduced one, by a batch that is split',
        allows=('accepts', 'class'),
        applies=both(kinds('spec-overlap', 'spec-repeats-mesh-axis'), lambda case: case['group'] in ('gather', 'scatter', 'grad')),
    ),
    Reason(
        text='the gradient of a lookup whose indices were gathered takes them gathered',
        allows=('collectives',),
        applies=ids('gather-009', 'gather-029', 'gather-039', 'grad-144'),
    ),
    Reason(
        text='one_hot of split ids with the classes split over the same axis, as asked: the result is exchanged',
        allows=('accepts',),
        applies=both(kinds('one-hot-spec'), lambda case: case['group'] == 'gather'),
    ),
    Reason(
        text='one element of a split dimension is whole, and read where it is',
        allows=('accepts',),
        applies=both(kinds('slice-not-divisible'), expr(r'dynamic_(slice|index)|x\[0\]')),
    ),
    Reason(
        text="a refusal for reasons of sharding is a ShardingTypeError, also where JAX's comes from deeper down",
        allows=('class',),
        applies=kinds('div-by-unreduced', 'unreduced-kind', 'unreduced-times-not-reduced', 'sharding-assert',
                      'broadcast-out-sharding-mismatch', 'reshape-out-sharding-ur-mismatch', 'out-sharding-reduced',
                      'dot-batch-spec-mismatch', 'repeat-ambiguous', 'scan-xs-leading-sharded'),
    ),
    Reason(
        text='the body casts a replicated operand to reduced; then the carry does not keep its type',
        allows=('class',),
        applies=both(kinds('replicated-with-reduced', 'sharded-with-reduced'), expr('scan|loop')),
    ),
    Reason(
        text="JAX's value is wrong, or can't be had: the right one, or a refusal",
        allows=('refuses',),
        applies=lambda case: any(flag in case for flag in ('jax_wrong_value', 'run_error', 'eager_error')),
    ),
    Reason(
        text="ones and full of an unreduced type lie on one rank, not on each (JAX's value is n times too large)",
        allows=('python', 'refuses'),
        applies=ids('pieces-025', 'pieces-026'),
    ),
    Reason(
        text="printing does not communicate: a split or unreduced array shows its type and this rank's part",
        allows=('python',),
        applies=both(group('typeof'), expr(r'^(str|repr)\(a\)$')),
    ),
    Reason(
        text='reading does not communicate: the whole of a split or unreduced array is asked for by name',
        allows=('refuses',),
        applies=both(group('typeof'), expr(r'np\.asarray\(a\)|\.item\(\)|tolist|float\(|bool\(')),
    ),
    Reason(
        text='a bool is never weak; JAX compares a bool with a number as weak bools',
        allows=('type',),
        applies=ids('dtype-003'),
    ),
    Reason(
        text="the exponent of frexp lies as its operand does, as in JAX's results; JAX's traced type forgets the split",
        allows=('type',),
        applies=ids('unary-253'),
    ),
    Reason(
        text='zeros_like with another shape has no sharding to keep; JAX keeps the reduced part alone',
        allows=('type',),
        applies=ids('creation-085'),
    ),
    Reason(
        text='the axes of a mesh have different names',
        allows=('refuses',),
        applies=ids('pspec-077'),
    ),
    Reason(
        text='an element of a split vector is read by a slice, as JAX does under jit',
        allows=('accepts',),
        applies=ids('typeof-162'),
    ),
    Reason(
        text='the whole operand of a split contraction is cut, so that each rank multiplies its part; its gradient is gathered',
        allows=('collectives',),
        applies=ids('grad-156'),
    ),
    Reason(
        text='no axis is Auto: every type says how its value lies',
        allows=('refuses', 'class'),
        applies=expr('auto_axes'),
    ),
    Reason(
        text='out_shardings is a reshard in the program, so the traced type tells it, and its gradient sums where it must',
        allows=('type', 'collectives'),
        applies=both(group('jit'), expr('out_shardings')),
    ),
    Reason(
        text='reading never communicates: a part has no value on one rank',
        allows=('refuses',),
        applies=expr('device_get'),
    ),
    Reason(
        text='to repeat the edge along a whole dimension does not concern the split ones',
        allows=('accepts',),
        applies=ids('shape_ops-020'),
    ),
    Reason(
        text='elements repeated in place stay on their rank, and a split dimension is rolled by an exchange between neighbours',
        allows=('accepts',),
        applies=kinds('repeat-ambiguous', 'roll-sharded'),
    ),
    Reason(
        text='each rank factors and inverts the matrices of its part of a batch',
        allows=('accepts',),
        applies=both(kinds('vmap-spec-mismatch', 'linalg-batch-spec-mismatch', 'select-which-spec-mismatch'), expr('linalg')),
    ),
    Reason(
        text='along a split dimension each rank accumulates its block, and the totals of blocks are gathered',
        allows=('accepts',),
        applies=either(kinds('cumulative-along-sharded'), ids('cumsum-020')),
    ),
    Reason(
        text='a split dimension is sorted by a sample sort, or where another one is split instead: by all-to-alls',
        allows=('accepts',),
        applies=kinds('sort-spec'),
    ),
    Reason(
        text='places in a sorted array are counted by each rank in its block, and added up',
        allows=('accepts',),
        applies=both(kinds('gather-scatter-ambiguous'), expr('searchsorted|digitize|interp')),
    ),
    Reason(
        text='the array that is searched is not sorted',
        allows=('accepts', 'undefined'),
        applies=ids('sort-033'),
    ),
)


def clean(outcome: Outcome) -> bool:
    """Whether an exception is a refusal and not an accident."""
    return bool(set(outcome.error) & set(CLEAN)) and len(outcome.message.split()) > 2


def find(case: Case, way: str) -> str | None:
    """The text of the first reason that lets this case differ in this way."""
    return next((reason.text for reason in REASONS if way in reason.allows and reason.applies(case)), None)
