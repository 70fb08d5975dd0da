"""Primitives of your own.

    mystery = Primitive('mystery')
    mystery.def_impl(lambda x: 2 * x)                                  # on this rank's block, a NumPy array
    mystery.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype)) # the type of the result from those of the operands
    mystery.def_dims('... -> ...', linear='each')                      # how it goes with split, unreduced and reduced operands

Rules are added one by one: derivatives with `distad.interpreters.ad`, batching with `distad.interpreters.batching`. What was not given
is refused with the primitive's name, at the moment it is needed. `docs/adding_an_op.md` walks through three examples.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distad.core import primitive as core
from distad.core.primitive import BY_LINEARITY, NoRule, Out
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, NONLINEAR, Linearity, Signature, infer

ShapedArray = ArrayType

_LINEAR = {'not': NONLINEAR, 'together': ADDITIVE}


class Primitive(core.Primitive):
    """`Primitive(name)`: an op with no rules yet. `bind(*operands, **params)` applies it; params have to be hashable.

    Set `multiple_results = True` for an op whose rules give lists. Nothing is communicated: an op is local, and its dimensions say
    where a split operand is welcome. Raises NotImplementedError that names the primitive for a rule that is missing.

        double = Primitive('double')
        double.def_impl(lambda x: 2 * x)
        double.def_abstract_eval(lambda x: x)
        double.bind(jnp.ones(3))
    """

    __slots__ = ('abstract', 'local')

    def __init__(self, name: str):
        super().__init__(
            name, type=self._type, impl=self._run,
            jvp=NoRule('define one with distad.interpreters.ad.defjvp'),
            transpose=NoRule('define one with distad.interpreters.ad.deflinear2, or ad.primitive_transposes'),
            batch=NoRule('define one with distad.interpreters.batching.defvectorized, or batching.primitive_batchers'))
        self.abstract: Callable | None = None
        self.local: Callable | None = None

    @property
    def multiple_results(self) -> bool:
        """Whether the rules give lists of results."""
        return self.multiple

    @multiple_results.setter
    def multiple_results(self, several: bool) -> None:
        self.multiple = several

    def def_impl(self, impl: Callable) -> Callable:
        """What the op does on one rank: `impl(*blocks, **params)`, from NumPy arrays that nobody may write to, to one (or a list)."""
        self.local = impl
        return impl

    def def_abstract_eval(self, rule: Callable) -> Callable:
        """The type of the result: `rule(*types, **params)` gives a `ShapedArray(shape, dtype)`, or a list of them.

        Shape and dtype count; states along mesh axes follow from those of the operands, so that no rule can forget them.
        """
        self.abstract = rule
        return rule

    def def_dims(self, dims: str | Callable, *, linear: str | Sequence[Sequence[int]] = 'not', summed: bool = False) -> None:
        """How the op goes with split, unreduced and reduced operands.

        dims: names of the dimensions of operands and results, as in `'... m k, ... k n -> ... m n'`: equal names are one dimension,
        `...` stands for any leading ones, and `_` for a dimension that the op needs whole; or a function `(*types, **params)` to a pair
        of lists of tuples of names. linear: 'not'; 'together' for an op that is linear in all operands taken together, as a sum is;
        'each' for one that is linear in each with the others fixed, as a product is; or groups of operand numbers. summed: whether a
        dimension that no result has is summed over, so that it may be split (the result is then unreduced).
        Without dims an op works on values that are whole on every rank or varying, and is refused by name on others.
        """
        labels, count = _parsed(dims) if isinstance(dims, str) else (dims, None)
        if linear == 'each' and count is None:
            raise ValueError("with dims as a function say of which operands the op is linear in: linear=[(0,), (1,)]")
        linearity = _linearity(linear, count)

        def signature(*types: ArrayType, **params: Any) -> Signature:
            ins, outs = labels(*types, **params)
            return Signature(name=self.name, ins=tuple(map(tuple, ins)), outs=tuple(map(tuple, outs)),
                             linearity=linearity, reducer='sum' if summed else None)
        self.labels = signature
        self.linearity = linearity
        if linearity is not NONLINEAR and isinstance(self.jvp, NoRule):
            self.jvp = BY_LINEARITY

    def _type(self, *types: ArrayType, **params: Any) -> Any:
        if self.abstract is None:
            raise NotImplementedError(f"Abstract evaluation for '{self.name}' not implemented: give its result type with "
                                      "def_abstract_eval")
        made = self.abstract(*types, **params)
        outs = list(made) if self.multiple else [made]
        agreement = infer(self._signature(types, outs, params), types)
        typed = [agreement.out(i, t.shape, t.dtype, weak_type=t.weak_type) for i, t in enumerate(outs)]
        return typed if self.multiple else typed[0]

    def _signature(self, types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict) -> Signature:
        if self.labels is not None:
            return self.labels(*types, **params)
        return Signature(name=self.name, ins=tuple((None,) * t.ndim for t in types), outs=tuple((None,) * t.ndim for t in outs))

    def _run(self, *blocks: np.ndarray, out: Any, **params: Any) -> Any:
        if self.local is None:
            raise NotImplementedError(f"Evaluation rule for '{self.name}' not implemented: give one with def_impl")
        made = self.local(*blocks, **params)
        if not self.multiple:
            return self._block(made, out)
        if len(made) != len(out):
            raise TypeError(f"the impl of primitive {self.name} gave {len(made)} results, its abstract evaluation says {len(out)}")
        return [self._block(y, one) for y, one in zip(made, out, strict=True)]

    def _block(self, y: Any, out: Out) -> np.ndarray:
        y = np.asarray(y)
        if y.shape != out.shape:
            raise TypeError(f"the impl of primitive {self.name} gave a block of shape {y.shape}; this rank's block of a result of "
                            f"type {out.type} has shape {out.shape}")
        return y.astype(out.dtype, copy=False)


def _linearity(linear: str | Sequence[Sequence[int]], count: int | None) -> Linearity:
    if linear == 'each':
        return Linearity(groups=tuple((i,) for i in range(count or 0)))
    if isinstance(linear, str):
        if linear not in _LINEAR:
            raise ValueError(f"linear is 'not', 'together', 'each', or groups of operand numbers, got {linear!r}")
        return _LINEAR[linear]
    return Linearity(groups=tuple(map(tuple, linear)))


def _parsed(text: str) -> tuple[Callable, int]:
    """Labels of operands and results from their names, and how many operands there are."""
    if text.count('->') != 1:
        raise ValueError(f"dims are written as 'names, names -> names', got {text!r}")
    left, right = text.split('->')
    ins, outs = ([part.split() for part in side.split(',')] for side in (left, right))

    def labels(*types: ArrayType, **params: Any) -> tuple[list, list]:
        if len(types) != len(ins):
            raise TypeError(f"dims {text!r} are of {len(ins)} operands, got {len(types)}")
        leading = max((t.ndim - len(names) + 1 for t, names in zip(types, ins, strict=True) if '...' in names), default=0)
        return ([_named(names, t.ndim - len(names) + 1, text) for t, names in zip(types, ins, strict=True)],
                [_named(names, leading, text) for names in outs])
    return labels, len(ins)


def _named(names: list[str], leading: int, text: str) -> tuple:
    """One operand's labels. Leading dimensions are counted from the right, as in broadcasting."""
    if '...' in names[1:] or '...' not in names and leading != 1 or leading < 0:
        raise TypeError(f"dims {text!r}: {' '.join(names)!r} does not fit its operand ('...' comes first)")
    named = tuple(None if name == '_' else name for name in names if name != '...')
    return (*(('...', leading - i) for i in range(leading)), *named) if '...' in names else named


__all__ = ['Primitive', 'ShapedArray']
