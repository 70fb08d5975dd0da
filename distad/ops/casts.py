"""Manual mode: the free casts between states, and the sums that they transpose to.

    pvary               I -> V   <->   V -> I    psum_invariant       an all-reduce
    preduced            I -> R   <->   U -> I    unreduced_psum       an all-reduce
    vary_unreduced_cast V -> U   <->   R -> V    reduced_vary_cast    both free

A type along an axis says everything: so each of these is a change of state, linear, and the adjoint of its neighbour.
"""

import math
from collections.abc import Callable

from distad.core.batching import EACH, VECTORIZED
from distad.core.primitive import BY_LINEARITY, Message, Place, Primitive
from distad.core.value import Zero, typeof
from distad.errors import ShardingTypeError
from distad.runtime import collectives
from distad.runtime.packing import together
from distad.types.array_type import ArrayType, axis_state
from distad.types.inference import ADDITIVE

Axes = tuple[str, ...]
UNTRACKED = '*'       # along an axis of a map with check_vma=False: any state will do, and none is written down
NAMES = {UNTRACKED: 'untracked', 'N': 'invarying', 'V': 'varying', 'U': 'unreduced', 'R': 'reduced', 'S': 'sharded'}


def manual_state(name: str, x: ArrayType, axes: Axes) -> str:
    """The one state that a value is in along some manual axes."""
    tracked = x.mesh.manual_axes
    for axis in axes:
        if axis not in tracked and axis not in x.mesh.auto_axes:
            raise NameError(f"unbound axis name: {axis}. {name} works over the manual axes of a shard_map, here "
                            f"{x.mesh.manual_axes or 'none'}, on a value of type {x}.")
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: an axis stands twice in {axes}")
    states = {axis_state(x, axis) if axis in tracked else UNTRACKED for axis in axes}
    if len(states) > 1:
        told = ', '.join(f"{NAMES[axis_state(x, a)]} over {a}" for a in axes)
        raise ValueError(f"{name} takes a value in one state over all its axes, got {x}: {told}. Use pcast to bring it there.")
    return states.pop()


def changed(x: ArrayType, axes: Axes, to: str) -> ArrayType:
    """The type with its state along some axes set to N, V, U or R."""
    gone = frozenset(axes) & frozenset(x.mesh.manual_axes)
    new = {s: getattr(x, field) - gone | (gone if s == to else frozenset())
           for s, field in (('V', 'varying'), ('U', 'unreduced'), ('R', 'reduced'))}
    return x.update(varying=new['V'], unreduced=new['U'], reduced=new['R'], kind=x.kind if new['U'] else 'sum')


def check_sum(name: str, x: ArrayType) -> None:
    """What adds over ranks cannot take a value whose max or min over others is still to come: the two do not commute."""
    if x.kind != 'sum':
        raise ShardingTypeError(f"{name} adds over ranks, and the {x.kind} of a value of type {x} is still to come. Reduce it "
                                f"first, with p{x.kind} or reshard.")


def _change(name: str, source: str, target: str) -> Callable:
    def rule(*types: ArrayType, axes: Axes, exact: bool = False):
        for x in types:
            state = manual_state(name, x, axes)
            if source != 'N' and target in ('N', 'U'):
                check_sum(name, x)
            if state not in (source, UNTRACKED):
                raise ValueError(f"{name} takes a value {NAMES[source]} over {', '.join(axes)}, got {x}, which is "
                                 f"{NAMES[state]}.")
        return tuple(changed(x, axes, target) for x in types)
    return rule


def _cast(name: str, source: str, target: str, adjoint: Callable[[], Primitive]) -> Primitive:
    change = _change(name, source, target)
    return Primitive(
        name,
        type=lambda x, *, axes: change(x, axes=axes)[0],
        impl=lambda x, *, out, axes: x,
        jvp=BY_LINEARITY,
        transpose=(lambda ct, x, *, axes: _first(adjoint()(ct, axes=axes)),),
        batch=VECTORIZED,
        linearity=ADDITIVE)


def _first(y):
    return y[0] if isinstance(y, list) else y


pvary = _cast('pvary', 'N', 'V', lambda: psum_invariant)
preduced = _cast('preduced', 'N', 'R', lambda: unreduced_psum)
vary_unreduced_cast = _cast('vary_unreduced_cast', 'V', 'U', lambda: reduced_vary_cast)
reduced_vary_cast = _cast('reduced_vary_cast', 'R', 'V', lambda: vary_unreduced_cast)


# ---- sums: any number of values in one message. A parameter `exact=True` says that the sum is rounded once.

def _sum_kernel(place: Place, ins, outs, params) -> Callable:
    return together(collectives.reducer(place.mesh, params['axes'], reduction(params), place))


def reduction(params: dict) -> str:
    return 'exact' if params.get('exact') else 'sum'


def sends(kind: str) -> Callable:
    """The messages of an op that makes one collective of a kind over its axes for each dtype."""
    def told(ins, outs, params) -> list[Message]:
        def sent(t: ArrayType) -> int:
            dtype = collectives.wire_dtype(t.dtype) if kind in ('all-reduce', 'reduce-scatter') else t.dtype
            return math.prod(t.local_shape) * dtype.itemsize
        return [Message(kind, params['axes'], sum(sent(t) for t in ins if t.dtype == dtype))
                for dtype in dict.fromkeys(t.dtype for t in ins)]
    return told


def n_ary(one: Callable) -> Callable:
    """The transpose or jvp of an op on any number of values, from that on those which are not zero."""
    def rule(cts, *operands, **params):
        live = [i for i, ct in enumerate(cts) if ct.__class__ is not Zero]
        made = dict(zip(live, one([cts[i] for i in live], [operands[i] for i in live], **params), strict=True))
        return [made.get(i) for i in range(len(operands))]
    return rule


def n_ary_jvp(primitive: Callable[[], Primitive]) -> Callable:
    """The jvp of a linear op on any number of values: itself, on the tangents that are not zero."""
    def rule(primals, tangents, **params):
        outs = primitive()(*primals, **params)
        live = [i for i, t in enumerate(tangents) if t.__class__ is not Zero]
        made = dict(zip(live, primitive()(*(tangents[i] for i in live), **params), strict=True)) if live else {}
        return outs, [made.get(i, Zero(typeof(y).tangent())) for i, y in enumerate(outs)]
    return rule


# Where states are not tracked, nothing tells a sum of copies from a sum of parts: the sum is its own transpose.
psum = Primitive(
    'psum',
    type=_change('psum', UNTRACKED, 'N'),
    kernel=_sum_kernel,
    jvp=n_ary_jvp(lambda: psum),
    transpose=n_ary(lambda cts, xs, **params: psum(*cts, **params)),
    batch=EACH, linearity=ADDITIVE, multiple=True, messages=sends('all-reduce'))

psum_invariant = Primitive(
    'psum_invariant',
    type=_change('psum', 'V', 'N'),
    kernel=_sum_kernel,
    jvp=n_ary_jvp(lambda: psum_invariant),
    transpose=n_ary(lambda cts, xs, *, axes, exact=False: [pvary(ct, axes=axes) for ct in cts]),
    batch=EACH, linearity=ADDITIVE, multiple=True, messages=sends('all-reduce'))

unreduced_psum = Primitive(
    'unreduced_psum',
    type=_change('psum', 'U', 'N'),
    kernel=_sum_kernel,
    jvp=n_ary_jvp(lambda: unreduced_psum),
    transpose=n_ary(lambda cts, xs, *, axes, exact=False: [preduced(ct, axes=axes) for ct in cts]),
    batch=EACH, linearity=ADDITIVE, multiple=True, messages=sends('all-reduce'))


def cast_manual(x, want: ArrayType):
    """A value in the manual states of a type, by free casts; refused where only communication could do it."""
    for axis in typeof(x).mesh.manual_axes:
        have, need = axis_state(typeof(x), axis), axis_state(want, axis)
        if have == need:
            continue
        step = {('N', 'V'): pvary, ('N', 'R'): preduced, ('R', 'V'): reduced_vary_cast}.get((have, need))
        if step is None:
            raise ShardingTypeError(
                f"a value of type {typeof(x)} is {NAMES[have]} over {axis} and would have to be {NAMES[need]} there, which "
                f"takes communication. Use psum to sum it, or pcast to say what is meant.")
        x = step(x, axes=(axis,))
    return x
