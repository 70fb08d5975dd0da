"""A primitive is one record whose fields are its rules.

    type(*types, **params)         the result type(s); also the type check
    impl(*blocks, out, **params)   the local computation on NumPy blocks (`out`: what the result block must be)
    jvp                            one rule per operand `(t, y, *xs, **params) -> tangent`, or BY_LINEARITY, or a function
                                   `(primals, tangents, **params) -> (outs, tangents)`
    transpose                      one rule per operand `(ct, *xs, **params) -> ct of that operand` (None where it is not
                                   linear), or a function `(cts, *xs, **params) -> cts`; a linear operand arrives as `Linear`
    batch                          `(axis, values, dims, **params) -> (value, dim)`, or a maker of it (`core.batching`)

Ops that run programs (scan, jit) have more to say: `kernel` compiles one instead of `impl`, `split` cuts it in a known and a
linear part, `prune` drops unused results, `emit` writes one into the source of the program around it, `show` picks the
parameters to print. Ops that communicate tell `messages(ins, outs, params) -> [Message]`, a function of types: from it
come plans, counts and the check of control flow. Where their operands belong together (`separate`), two such equations are
never made one. `pointwise` ones compute each element of their result from one element of each operand: the compiler may run
several in one pass.

Rules run as ordinary code that calls primitives, so a derivative can be differentiated. A field that cannot be filled
holds `NoRule(why)`; using it raises with the primitive's name and the reason.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from distad.core.batching import Maker
from distad.core.trace import current_trace
from distad.runtime import blocks, mpi
from distad.types.array_type import ArrayType
from distad.types.inference import NONLINEAR, Agreement, Linearity, Signature, infer
from distad.types.mesh import Mesh


@dataclass(frozen=True, slots=True)
class NoRule:
    """A rule that cannot be given, and why."""

    why: str


BY_LINEARITY = 'by linearity'


@dataclass(frozen=True, slots=True, kw_only=True)
class Out:
    """The block a kernel has to make: its shape and dtype, and where it starts in the whole array."""

    type: ArrayType
    shape: tuple[int, ...]
    dtype: np.dtype
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a kernel will run: the mesh, and for the record the path, source line and operands of its equation."""

    mesh: Mesh | None
    path: str = ''
    source: object = None
    types: tuple[ArrayType, ...] = ()

    def out(self, t: ArrayType) -> Out:
        if self.mesh is None or t.mesh.empty:
            return Out(type=t, shape=t.shape, dtype=t.dtype, starts=(0,) * t.ndim)
        index = blocks.index_of(t, self.mesh.coords(mpi.rank()))
        return Out(type=t, shape=t.local_shape, dtype=t.dtype, starts=tuple(s.start or 0 for s in index))


class Message(NamedTuple):
    """A collective: its kind, the mesh axes, and the bytes that a rank hands to MPI (None where the data decide)."""

    kind: str
    axes: tuple[str, ...]
    nbytes: int | None = None


class Primitive:
    """One operation of the language. Calling it binds it to the current trace."""

    __slots__ = ('name', 'type', 'impl', 'kernel', 'jvp', 'transpose', 'batch', 'split', 'linearity', 'multiple',
                 'labels', 'show', 'prune', 'effect', 'messages', 'separate', 'fleeting', 'pointwise', 'emit', 'always_batched',
                 '_types')

    def __init__(self, name: str, *, type: Callable, impl: Callable | None = None, kernel: Callable | None = None,
                 jvp, transpose, batch, split: Callable | None = None, linearity: Linearity = NONLINEAR,
                 multiple: bool = False, labels: Callable | None = None, show: Callable | None = None,
                 prune: Callable | None = None, effect: bool = False, messages: Callable | None = None, separate: bool = False,
                 fleeting: bool = False, pointwise: bool = False,
                 emit: Callable | None = None):
        self.name, self.type, self.impl = name, type, impl
        self.kernel = kernel or self._plain_kernel
        self.jvp, self.transpose, self.split = jvp, transpose, split
        self.batch = batch.make(self) if isinstance(batch, Maker) else batch
        self.linearity, self.multiple = linearity, multiple
        self.labels = labels
        self.show, self.prune, self.effect, self.messages, self.separate = show, prune, effect, messages, separate
        # Parameters that hold programs or functions are made anew by most calls, so little is remembered of these.
        self.fleeting = fleeting or split is not None
        self.pointwise, self.emit = pointwise, emit
        self.always_batched = False           # whether the batch rule is asked even if no operand has a batch
        self._types: dict = {}
        for field in ('jvp', 'transpose', 'batch'):
            if getattr(self, field) is None:
                raise TypeError(f"primitive {name}: no {field} rule; give one, or NoRule('why')")

    def __call__(self, *args, **params):
        outs = current_trace().process(self, args, params)
        return outs if self.multiple else outs[0]

    bind = __call__

    def __repr__(self) -> str:
        return self.name

    def infer(self, types: tuple[ArrayType, ...], params: dict) -> tuple[ArrayType, ...]:
        """The types of the results, remembered by operand types and parameters."""
        if self.fleeting:
            out = self.type(*types, **params)
            return tuple(out) if self.multiple else (out,)
        key = (types, tuple(params.items()))
        try:
            return self._types[key]
        except KeyError:
            pass
        out = self.type(*types, **params)
        out = tuple(out) if self.multiple else (out,)
        if len(self._types) > 4096:
            self._types.clear()
        self._types[key] = out
        return out

    def _plain_kernel(self, place: Place, ins: tuple[ArrayType, ...], outs: tuple[ArrayType, ...], params: dict):
        """The local function for operands and results of these types: `impl` with everything but the blocks bound."""
        made = tuple(map(place.out, outs))
        impl, out = self.impl, made if self.multiple else made[0]

        ufunc = getattr(impl, 'ufunc', None)
        if ufunc is None or any(t.dtype != out.dtype for t in ins):
            return lambda *blocks: impl(*blocks, out=out, **params)
        if ufunc.resolve_dtypes((out.dtype,) * len(ins) + (None,))[-1] == out.dtype:
            run = partial(ufunc)                       # nothing between the call and NumPy's loop
        else:
            run = partial(impl, out=out, **params)
        run.may_write = lambda *arrays: ufunc(*arrays[:-1], out=arrays[-1])
        return run


def by_labels(labels: Callable, shape: Callable) -> Callable:
    """A type rule from the dimension labels of a call (`-> Signature`) and the shapes of its results.

    `labels(*types, **params)` gives the signature, `shape(*types, **params)` the `(shape, dtype)` of the result, checking
    shapes and dtypes on the way.
    """
    def rule(*types: ArrayType, **params) -> ArrayType:
        dims, dtype = shape(*types, **params)
        return finish(infer(labels(*types, **params), types), dims, dtype, types)
    return rule


def finish(agreement: Agreement, shape: Iterable[int], dtype, types: Iterable[ArrayType]) -> ArrayType:
    """The result type; it is weak when all operands are (a chain of Python numbers stays one)."""
    types = tuple(types)
    weak = bool(types) and all(t.weak_type for t in types)
    return agreement.out(0, tuple(shape), dtype, weak_type=weak)


def signature(primitive_name: str, ins, outs, **options) -> Signature:
    return Signature(name=primitive_name, ins=tuple(map(tuple, ins)), outs=tuple(map(tuple, outs)), **options)
