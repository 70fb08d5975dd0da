"""Batching: what a primitive does when its operands carry one more dimension, and the makers of the common rules.

A rule is `(axis, values, dims, **params) -> (out, dim)`, with lists of both for primitives of several results. `dims[i]` is the
place of the batch dimension in `values[i]`, None where it has none; of the result likewise. `axis` (`transforms.batch.AxisData`)
tells the name and the size of the mapped axis and moves batch dimensions about. A rule calls primitives, so what it makes can be
differentiated and batched again; it never copies a value once for each element unless an op leaves no other way.

Most rules are of four kinds, and a maker writes each:

    vectorized      every element for itself: the batch dimension stays where it is
    broadcasting    elements that meet: an operand without batch gets a dimension of size 1, never a copy
    shifting        parameters that name dimensions: those behind the batch dimension move on by one
    leading         the batch dimension in front, where the op takes any number of leading dimensions
"""

from collections.abc import Callable, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from distad.core.value import typeof

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Maker:
    """A rule that is written for the primitive it stands in."""

    make: Callable[..., Callable]


# ---- places of dimensions

def behind(dims: int | Dims, batch: int):
    """Dimensions of one element as dimensions of the batch: those at or behind the batch dimension move on by one."""
    if isinstance(dims, tuple):
        return tuple(behind(d, batch) for d in dims)
    return dims + (dims >= batch)


def inserted(values, dim: int, value) -> tuple:
    """A tuple with one more entry, for the batch dimension."""
    values = tuple(values)
    return (*values[:dim], value, *values[dim:])


def left_of(dim: int, gone: Dims) -> int:
    """Where a dimension lies when others have gone."""
    return dim - sum(d < dim for d in gone)


# ---- makers

def _vectorized(primitive) -> Callable:
    def rule(axis, values, dims, /, **params):
        values, dim = axis.aligned(values, dims)
        out = primitive(*values, **params)
        return out, [dim] * len(out) if primitive.multiple else dim
    return rule


def _before_last(primitive) -> Callable:
    def rule(axis, values, dims, **params):
        (x,), (d,) = values, dims
        if d == typeof(x).ndim - 1:
            x, d = axis.move(x, d, 0), 0
        return primitive(x, **params), d
    return rule


def _each(primitive) -> Callable:
    def rule(axis, values, dims, /, **params):
        return primitive(*values, **params), list(dims)
    return rule


def _broadcasting(primitive) -> Callable:
    def rule(axis, values, dims, /, **params):
        seen = {(typeof(x).shape, d) for x, d in zip(values, dims, strict=True) if d is not None or typeof(x).ndim}
        if len(seen) == 1:
            return primitive(*values, **params), seen.pop()[1]
        rank = max(typeof(x).ndim - (d is not None) for x, d in zip(values, dims, strict=True))
        return primitive(*(axis.beside(x, d, rank) for x, d in zip(values, dims, strict=True)), **params), 0
    return rule


VECTORIZED = Maker(_vectorized)
BEFORE_LAST = Maker(_before_last)           # of an op on one operand that does something to its last dimension
EACH = Maker(_each)                         # several operands and as many results, none of which meets another
BROADCASTING = Maker(_broadcasting)


def shifting(*names: str, gone: str = '') -> Maker:
    """The rule of an op whose parameters `names` hold dimensions of its operands; `gone` names those that the result has not."""
    def make(primitive) -> Callable:
        def rule(axis, values, dims, /, **params):
            values, dim = axis.aligned(values, dims)
            params = {**params, **{name: behind(params[name], dim) for name in names}}
            out = primitive(*values, **params)
            place = left_of(dim, params[gone]) if gone else dim
            return out, [place] * len(out) if primitive.multiple else place
        return rule
    return Maker(make)


def leading(*names: str) -> Maker:
    """The rule of an op that takes any leading dimensions; its parameters `names` hold dimensions counted from the front."""
    def make(primitive) -> Callable:
        def rule(axis, values, dims, /, **params):
            values = [axis.whole(x, d) for x, d in zip(values, dims, strict=True)]
            out = primitive(*values, **{**params, **{name: behind(params[name], 0) for name in names}})
            return out, [0] * len(out) if primitive.multiple else 0
        return rule
    return Maker(make)


def alike(*names: str) -> Maker:
    """The rule of an op on any number of values that are treated alike: those without batch go along with a dimension of size 1."""
    def make(primitive) -> Callable:
        def rule(axis, values, dims, /, **params):
            values = [axis.front(x, d) for x, d in zip(values, dims, strict=True)]
            outs = primitive(*values, **{**params, **{name: behind(params[name], 0) for name in names}})
            return [axis.single(y) if d is None else y for y, d in zip(outs, dims, strict=True)], [
                None if d is None else 0 for d in dims]
        return rule
    return Maker(make)


# ---- the mapped axes around, by name

_named: ContextVar[tuple[tuple[Hashable, int], ...]] = ContextVar('distad_named_axes', default=())


def named_axes() -> tuple[tuple[Hashable, int], ...]:
    """Names and sizes of the mapped axes around, the innermost last."""
    return _named.get()


@contextmanager
def named_axis(name: Hashable, size: int):
    """Give a mapped axis a name in the body."""
    token = _named.set((*_named.get(), (name, size)))
    try:
        yield
    finally:
        _named.reset(token)


def size_of(name: Hashable) -> int | None:
    """The size of a mapped axis around, None if none has the name; of two the inner one counts."""
    return next((size for other, size in reversed(_named.get()) if other == name), None)
