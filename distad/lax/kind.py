"""Kindness: bring operands to states that go together, then bind the strict primitive.

Everything that a function does on the user's behalf is done here, once for all ops, and each deed is an equation:

- an operand next to a split one is cut (`N -> S`) or cast (`N -> R`), both free; the transposes of these are where the
  backward pass sums and gathers;
- N next to R becomes R;
- what a sum over a split dimension leaves unreduced is reduced, unless the user asked to keep it.
"""

from collections.abc import Sequence
from functools import lru_cache

from distad.core.primitive import Primitive
from distad.core.value import typeof
from distad.ops.cast import cast
from distad.types.array_type import ArrayType
from distad.types.asked import named as named
from distad.types.asked import wanted as wanted
from distad.types.inference import Agreement, agree, common_mesh, is_literal


@lru_cache(maxsize=8192)
def _agreement(primitive: Primitive, types: tuple[ArrayType, ...], params: tuple, mixed: str) -> Agreement:
    common_mesh(primitive.name, types)             # before shapes: those of arrays from another place mean something else
    return agree(primitive.labels(*types, **dict(params)), types, mixed=mixed)


def kindly(primitive: Primitive, *args, mixed: str = 'R', **params):
    """Bind a primitive, its operands moved to the states it takes. The result may be unreduced where it summed."""
    types = tuple(map(typeof, args))
    if all(t.mesh.empty for t in types):
        return primitive(*args, **params)
    need = _agreement(primitive, types, tuple(params.items()), mixed).operands
    return primitive(*(x if t is want else placed(x, want) for x, t, want in zip(args, types, need, strict=True)), **params)


def placed(x, want: ArrayType):
    """A value in the states of a type (its shape and dtype stay)."""
    t = typeof(x)
    return x if is_literal(t) else cast(x, want.update(shape=t.shape, dtype=t.dtype, weak_type=t.weak_type))


def settle(y, *operands):
    """Reduce what an op newly left unreduced: the collective that a sum over a split dimension stands for."""
    t = typeof(y)
    if not t.unreduced:
        return y
    before = frozenset().union(*(typeof(x).unreduced for x in operands))
    new = t.unreduced - before
    return cast(y, t.update(unreduced=before, kind=t.kind if before else 'sum')) if new else y


def with_sharding(y, out_sharding):
    """The value in the sharding that the user asked for, if any."""
    if out_sharding is None:
        return y
    t = typeof(y)
    return cast(y, wanted(t, out_sharding))


def whole_along(x, dims: Sequence[int]):
    """The value with some dimensions gathered: for ops that need the whole of them."""
    t = typeof(x)
    if not any(t.partitions[d] for d in dims):
        return x
    return cast(x, t.update(partitions=tuple(() if d in dims else axes for d, axes in enumerate(t.partitions))))


