"""Contractions: dot_general, and where its communication is decided.

Without `out_sharding` the operands decide, by one rule:

    the contracted dimension is split in one operand    the other is cut, each rank multiplies its part, the products are
                                                        added up by one all-reduce (or, where its axis already splits the
                                                        result, the operand is gathered)
    ... in both operands                                several answers are possible: an error that lists them

With `out_sharding` the result is given and any operands are. Each dimension may then be split as in an operand, as in the
result, or not at all; of all these ways the one with the fewest messages is taken, then the one in which a rank computes least,
then the one that sends least.
"""

from enum import Enum
from functools import lru_cache

from distad.core.lift import as_value
from distad.core.value import typeof
from distad.lax.kind import kindly, named, placed, settle
from distad.lax.shape import Sharding
from distad.lax.ways import cheapest, refuse_choice
from distad.ops.cast import cast
from distad.ops.contraction import dot_general as dot_p
from distad.ops.contraction import dot_shape
from distad.ops.gemm import DimensionNumbers
from distad.ops.shape import transpose
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import common_mesh, show
from distad.types.sharding import NamedSharding

__all__ = ['DotDimensionNumbers', 'Precision', 'PrecisionLike', 'batch_matmul', 'dot', 'dot_general']


class Precision(Enum):
    """How well products are computed. All come to the same: in the precision of the operands or a better one."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


PrecisionLike = None | str | Precision | tuple[str, str] | tuple[Precision, Precision]
DotDimensionNumbers = DimensionNumbers



def dot_general(lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None, *, out_sharding: Sharding = None):
    """Contract dimensions of two arrays, along common batch dimensions.

    Args:
      lhs, rhs: arrays of one dtype.
      dimension_numbers: ((contracted of lhs, contracted of rhs), (batch of lhs, batch of rhs)).
      precision: accepted and without effect; products are computed in the operands' precision or a better one.
      preferred_element_type: the dtype of the result, in which half types and small integers are added up.
      out_sharding: where the result lies. With `unreduced={'X'}` the sum over X stays to come. Its `reduced` is ignored.
    Returns: [batch..., rest of lhs..., rest of rhs...], each dimension split as in its operand.
    Communication: one all-reduce of the result where one operand is split along a contracted dimension; with `out_sharding`
      as few messages as lead there.
    Raises: ShardingTypeError where both operands are split along a contracted dimension and there is no `out_sharding`. The
      message lists the possible answers and what each of them sends.

    >>> dot_general(np.ones((2, 3), np.float32), np.ones((3, 1), np.float32), (((1,), (0,)), ((), ())))
    Array([[3.],
           [3.]], dtype=float32)
    """
    x, y = as_value(lhs, 'dot_general'), as_value(rhs, 'dot_general')
    return contraction('dot_general', x, y, _canonical(dimension_numbers, x, y), preferred_element_type, out_sharding)


def dot(lhs, rhs, *, dimension_numbers=None, precision=None, preferred_element_type=None, out_sharding: Sharding = None):
    """The product of vectors or matrices, or with `dimension_numbers` what `dot_general` does.

    Args:
      lhs: [k] or [m, k]. rhs: [k] or [k, n].
    All else as `dot_general`.

    >>> dot(np.ones(3, np.float32), np.ones(3, np.float32))
    Array(3., dtype=float32)
    """
    x, y = as_value(lhs, 'dot'), as_value(rhs, 'dot')
    if dimension_numbers is None:
        if not (1 <= typeof(x).ndim <= 2 and 1 <= typeof(y).ndim <= 2):
            raise TypeError(f"dot takes vectors and matrices, got {show((typeof(x), typeof(y)))}. Use dot_general.")
        dimension_numbers = (((typeof(x).ndim - 1,), (0,)), ((), ()))
    return contraction('dot', x, y, _canonical(dimension_numbers, x, y), preferred_element_type, out_sharding)


def batch_matmul(lhs, rhs, precision=None):
    """The products of matrices along equal leading dimensions: [..., m, k] times [..., k, n].

    All else as `dot_general`.

    >>> batch_matmul(np.ones((2, 1, 3), np.float32), np.ones((2, 3, 1), np.float32))
    Array([[[3.]],
    <BLANKLINE>
           [[3.]]], dtype=float32)
    """
    x, y = as_value(lhs, 'batch_matmul'), as_value(rhs, 'batch_matmul')
    n = typeof(x).ndim
    if n < 2 or typeof(y).ndim != n:
        raise ValueError(f"batch_matmul takes arrays of one rank, 2 or more, got {show((typeof(x), typeof(y)))}")
    batch = tuple(range(n - 2))
    return contraction('batch_matmul', x, y, (((n - 1,), (n - 2,)), (batch, batch)), None, None)


def _canonical(numbers, x, y) -> DimensionNumbers:
    """Dimension numbers as tuples of ints; wrong ones raise TypeError."""
    (cx, cy), (bx, by) = numbers
    for value, contracted, batch in ((x, cx, bx), (y, cy, by)):
        used = [*contracted, *batch]
        if len(set(used)) != len(used) or not all(0 <= d < typeof(value).ndim for d in used):
            raise TypeError(f"dot_general: {numbers} does not name distinct dimensions of {show((typeof(x), typeof(y)))}")
    if len(cx) != len(cy) or len(bx) != len(by):
        raise TypeError(f"dot_general: {numbers} must name as many dimensions of one operand as of the other")
    return tuple(tuple(tuple(int(d) for d in dims) for dims in pair) for pair in numbers)


# ---- binding

def contraction(name: str, x, y, dimension_numbers: DimensionNumbers, preferred_element_type, out_sharding: Sharding,
                order: tuple[int, ...] | None = None, keep: bool = False):
    """A dot whose result may have its dimensions in another order: dimension i is number `order[i]` of dot_general's.

    `name` is the function that the user called. With `keep` sums over ranks stay to come.
    """
    tx, ty = typeof(x), typeof(y)
    dtype = tx.dtype if preferred_element_type is None else dtypes.canonical(preferred_element_type)
    params = {'dimension_numbers': dimension_numbers, 'preferred_element_type': dtype}
    if out_sharding is None:
        if not keep:
            refuse_choice(name, tx, ty, dimension_numbers, dtype, order)
        z = kindly(dot_p, x, y, mixed='N', **params)
        z = z if keep else settle(z, x, y)
    else:
        sharding = named(out_sharding, common_mesh(name, (tx, ty)))
        target = _wanted(name, tx, ty, dimension_numbers, dtype, sharding, order)
        way = cheapest(tx, ty, dimension_numbers, target)
        z = dot_p(placed(x, way.x), placed(y, way.y), **params)
        z = cast(z, target.update(weak_type=typeof(z).weak_type))
    return z if order is None else transpose(z, permutation=order)


@lru_cache(maxsize=4096)
def _wanted(name: str, x: ArrayType, y: ArrayType, dimension_numbers: DimensionNumbers, dtype, sharding: NamedSharding,
            order: tuple[int, ...] | None) -> ArrayType:
    """The type that the user wants the result in, its dimensions in the order of dot_general."""
    if sharding.spec.unreduced and sharding.spec.unreduced_kind.name != 'sum':
        raise ValueError(f"{name} adds up: its result can be unreduced of kind sum, got out_sharding={sharding.spec}")
    shape, _ = dot_shape(x, y, dimension_numbers=dimension_numbers, preferred_element_type=dtype)
    order = range(len(shape)) if order is None else order
    t = ArrayType([shape[d] for d in order], dtype, sharding=sharding)
    back = sorted(range(len(shape)), key=order.__getitem__)
    return t.update(shape=shape, partitions=tuple(t.partitions[d] for d in back), reduced=frozenset(),
                    varying=x.varying | y.varying)
