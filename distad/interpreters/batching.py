"""Batching of primitives of your own, under the names of jax.interpreters.batching.

There is one table of rules, `rule(axis_data, values, dims, **params) -> (result, dim)`, with lists of both for a primitive of several
results. `primitive_batchers` is a view of it for rules that do not want the axis.
"""

from collections.abc import Callable

from distad.core.batching import BROADCASTING, VECTORIZED, shifting
from distad.core.primitive import Primitive
from distad.core.value import typeof
from distad.interpreters.tables import Table
from distad.ops.broadcast import broadcast_in_dim
from distad.ops.shape import transpose
from distad.transforms.batch import AxisData, BatchTracer


def defvectorized(primitive: Primitive) -> None:
    """An op that treats every element alike: the batch dimension stays where it is."""
    primitive.batch = VECTORIZED.make(primitive)


def defbroadcasting(primitive: Primitive) -> None:
    """An op whose operands' elements meet: an operand without batch gets a dimension of size 1, never a copy."""
    primitive.batch = BROADCASTING.make(primitive)


def defreducer(primitive: Primitive) -> None:
    """An op over the dimensions in its parameter `axes`, which the result has not."""
    primitive.batch = shifting('axes', gone='axes').make(primitive)


def moveaxis(x, source: int, destination: int):
    """The value with one dimension at another place."""
    n = typeof(x).ndim
    order = [d for d in range(n) if d != source % n]
    order.insert(destination % n, source % n)
    return x if order == list(range(n)) else transpose(x, permutation=tuple(order))


def broadcast(x, size: int, dim: int):
    """The value with one more dimension, of this size, at `dim`."""
    t = typeof(x)
    return broadcast_in_dim(x, shape=(*t.shape[:dim], size, *t.shape[dim:]), sharding=None,
                            broadcast_dimensions=tuple(d for d in range(t.ndim + 1) if d != dim))


def bdim_at_front(x, dim: int | None, size: int):
    """The batch dimension in front; a value without one gets one of this size."""
    return broadcast(x, size, 0) if dim is None else moveaxis(x, dim, 0)


def _set_with_axis(primitive: Primitive, rule: Callable) -> None:
    primitive.batch, primitive.always_batched = rule, True


def _set_without_axis(primitive: Primitive, rule: Callable) -> None:
    primitive.batch = lambda axis, values, dims, **params: rule(values, dims, **params)


fancy_primitive_batchers = Table('batch', _set_with_axis)
primitive_batchers = Table('batch', _set_without_axis)

__all__ = ['AxisData', 'BatchTracer', 'bdim_at_front', 'broadcast', 'defbroadcasting', 'defreducer', 'defvectorized',
           'fancy_primitive_batchers', 'moveaxis', 'primitive_batchers']
