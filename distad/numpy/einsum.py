"""einsum, of any number of operands.

opt_einsum finds the order of the contractions; each of them is one dot_general of two operands. Before it a label that only one
operand has is summed there, and a label that one operand has twice (a diagonal) is made one by a mask and a sum.
"""

from collections.abc import Sequence

import numpy as np

from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.late import Late
from distad.lax.kind import kindly, named, with_sharding
from distad.lax.reduction import numbers_along, reduce_sum
from distad.lax.shape import Sharding
from distad.numpy.linear import contracted, layout
from distad.numpy.promotion import converted, promoted
from distad.ops.basic import zero_scalar
from distad.ops.cast import cast
from distad.ops.compare import eq, select_n
from distad.ops.shape import transpose
from distad.types import dtypes
from distad.types.sharding import NamedSharding

contract_path = Late('opt_einsum').contract_path
parse_einsum_input = Late('opt_einsum.parser').parse_einsum_input

__all__ = ['einsum', 'einsum_path']


def einsum(subscripts, /, *operands, out: None = None, optimize: str | bool | Sequence = 'auto', precision=None,
           preferred_element_type=None, out_sharding: Sharding = None):
    """Sums of products, in Einstein's notation.

    Args:
      subscripts: 'ij,jk->ik', '...ij,jk->...ik'; or operands and lists of labels in turn. Without '->' labels that stand
        once are kept, in alphabetical order.
      operands: arrays; a size of 1 goes with any other.
      optimize: how opt_einsum looks for the order of contractions, or the order itself.
      precision: accepted and without effect. preferred_element_type: the dtype of the result.
      out_sharding: where the result lies. With `unreduced={'X'}` the sum over X stays to come.
    Returns: the dimensions right of '->', each split as in its operand.
    Communication: that of the contractions: see `matmul`. With `out_sharding` sums between them stay to come where that is
      possible, so that there is one all-reduce at the end.
    Raises: ShardingTypeError where both operands of a contraction are split along a summed dimension and there is no
      `out_sharding`: the message lists the answers and what each sends.

    >>> einsum('ij,jk->ki', np.ones((2, 3), np.float32), np.ones((3, 1), np.float32))
    Array([[3., 3.]], dtype=float32)
    """
    if out is not None:
        raise NotImplementedError("einsum: arrays are immutable, so there is no out=. Use the result.")
    inputs, output, values = _parsed(subscripts, operands)
    values = [as_value(x, 'einsum') for x in promoted('einsum', *values)]
    if len(values) == 1:
        return _one(values[0], inputs[0], output, preferred_element_type, out_sharding)
    todo = list(zip(values, inputs, [False] * len(values), strict=True))
    for step in _path(inputs, output, values, optimize):
        factors = [todo.pop(i) for i in sorted(step, reverse=True)][::-1]
        product = factors.pop(0)
        while factors:
            factor = factors.pop(0)
            kept = ''.join([output, *(labels for _, labels, _ in (*todo, *factors))])
            last = not todo and not factors
            product = _two(product, factor, kept, output if last else None, preferred_element_type, out_sharding)
        todo.append(product)
    return todo[0][0]


def einsum_path(subscripts, /, *operands, optimize: str | bool | Sequence = 'auto'):
    """The order of contractions that `einsum` takes, and a table of what they cost; nothing is computed.

    >>> einsum_path('ij,jk,kl->il', np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 1)))[0]
    [(1, 2), (0, 1)]
    """
    inputs, output, values = _parsed(subscripts, operands)
    return contract_path(f"{','.join(inputs)}->{output}", *(typeof(x).shape for x in values), shapes=True, optimize=optimize)


def _parsed(subscripts, operands) -> tuple[list[str], str, list]:
    """Labels of the operands and of the result, ellipses written out; and the operands."""
    if isinstance(subscripts, str):
        values = list(operands)
        given = [subscripts, *(np.shape(x) for x in operands)]
    else:                                                   # x, labels of x, y, labels of y, ..., perhaps labels of the result
        every = [subscripts, *operands]
        values = every[:len(every) // 2 * 2:2]
        given = [np.shape(x) if i % 2 == 0 and i < 2 * len(values) else list(x) for i, x in enumerate(every)]
    inputs, output, _ = parse_einsum_input(given, shapes=True)
    return inputs.split(','), output, values


def _path(inputs: Sequence[str], output: str, values: Sequence, optimize) -> Sequence[tuple[int, ...]]:
    if len(values) <= 2:
        return [tuple(range(len(values)))]
    optimize = 'optimal' if optimize is True else optimize
    return contract_path(f"{','.join(inputs)}->{output}", *(x.shape for x in values), shapes=True, optimize=optimize)[0]


# ---- one and two operands

def _one(x, labels: str, output: str, preferred, out_sharding: Sharding):
    """Diagonals, sums and a transpose of one operand."""
    x, labels = _distinct(x, labels)
    if preferred is not None:
        x = converted(x, dtypes.canonical(preferred), False)
    gone = tuple(d for d, v in enumerate(labels) if v not in output)
    kept = [v for v in labels if v in output]
    order = tuple(kept.index(v) for v in output)
    if not gone:
        return with_sharding(_transposed(x, order), out_sharding)
    if out_sharding is not None:
        s = named(out_sharding, typeof(x).mesh)
        parts = [*s.spec.partitions, *[None] * (len(output) - len(s.spec.partitions))]
        out_sharding = NamedSharding(s.mesh, s.spec.update(partitions=tuple(parts[output.index(v)] for v in kept)))
    return _transposed(reduce_sum(x, gone, out_sharding=out_sharding), order)


def _transposed(x, order: tuple[int, ...]):
    return x if order == tuple(range(len(order))) else transpose(x, permutation=order)


# An array, its labels, and whether it is a product whose sums over ranks were left to come.
Factor = tuple[Value, str, bool]


def _two(a: Factor, b: Factor, kept: str, output: str | None, preferred, out_sharding: Sharding) -> Factor:
    """The product of two operands: of labels in `kept`, and in the order of `output` if it is the last one."""
    (x, xl, x_waits), (y, yl, y_waits) = a, b
    x, xl = _distinct(x, xl)
    y, yl = _distinct(y, yl)
    sizes = [dict(zip(labels, v.shape, strict=True)) for v, labels in ((x, xl), (y, yl))]
    x, xl = _summed(x, xl, kept, sizes[1])
    y, yl = _summed(y, yl, kept, sizes[0])
    x, y = _reduced_beside(x, y) if x_waits else x, _reduced_beside(y, x) if y_waits else y
    last = output is not None
    if not last:
        output = ''.join([*(v for v in xl if v in yl and v in kept), *(v for v in xl if v not in yl),
                          *(v for v in yl if v not in xl)])
    made = layout(x.shape, tuple(xl), y.shape, tuple(yl), tuple(output))
    keep = out_sharding is not None and not last
    return contracted('einsum', x, y, made, preferred, out_sharding if last else None, keep), output, keep


def _summed(x, labels: Sequence[str], kept: str, other: dict[str, int]):
    """An operand without the labels that only it has (or has longer than 1), and that are not kept."""
    gone = tuple(d for d, v in enumerate(labels) if v not in kept and other.get(v, 1) == 1)
    return (reduce_sum(x, gone), [v for d, v in enumerate(labels) if d not in gone]) if gone else (x, labels)


def _distinct(x, labels: Sequence[str]):
    """A repeated label made one: zeros beside the diagonal, then a sum, if possible over a dimension that is not split."""
    labels = list(labels)
    while repeated := [v for d, v in enumerate(labels) if v in labels[:d]]:
        i, j = [d for d, v in enumerate(labels) if v == repeated[0]][:2]
        t = typeof(x)
        if t.shape[i] != t.shape[j]:
            raise ValueError(f"einsum: label {labels[i]} stands for sizes {t.shape[i]} and {t.shape[j]} in {t}")
        diagonal = kindly(eq, *(numbers_along(x, d, np.dtype(np.int32)) for d in (i, j)))
        x = kindly(select_n, diagonal, zero_scalar(t), x)
        gone = i if t.partitions[j] and not t.partitions[i] else j
        x = reduce_sum(x, (gone,))
        del labels[gone]
    return x, labels


def _reduced_beside(x, y):
    """A product whose sum over an axis is to come, reduced where the other operand cannot wait for that."""
    t, other = typeof(x), typeof(y)
    return cast(x, t.update(unreduced=t.unreduced - other.unreduced - other.split_axes))
