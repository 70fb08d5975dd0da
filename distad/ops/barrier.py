"""optimization_barrier: its operands as they are, all of them computed before any result is used."""

from distad.core.batching import EACH
from distad.core.primitive import Primitive
from distad.core.value import Zero
from distad.types.inference import STRUCTURAL


def _jvp(primals, tangents):
    live = [i for i, t in enumerate(tangents) if t.__class__ is not Zero]
    moved = dict(zip(live, optimization_barrier(*(tangents[i] for i in live)), strict=True))
    return optimization_barrier(*primals), [moved.get(i, t) for i, t in enumerate(tangents)]


def _transpose(cts, *operands):
    live = [i for i, ct in enumerate(cts) if ct.__class__ is not Zero]
    moved = dict(zip(live, optimization_barrier(*(cts[i] for i in live)), strict=True))
    return [moved.get(i, ct) for i, ct in enumerate(cts)]


optimization_barrier = Primitive(
    'optimization_barrier',
    type=lambda *types: types,
    impl=lambda *blocks, out: blocks,
    jvp=_jvp,
    transpose=_transpose,
    batch=EACH,
    linearity=STRUCTURAL,
    multiple=True)
