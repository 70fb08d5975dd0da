"""dot_general: batched contraction. It is linear in each operand, and its two transposes are dots again.

A contracted dimension that both operands hold split stays unsummed between the ranks: the result is unreduced. An unreduced
operand contracts with a reduced one. Nothing of this is written here: it follows from the labels.
"""

import numpy as np

from distad.core.primitive import BY_LINEARITY, Primitive, by_labels, signature
from distad.core.value import typeof
from distad.ops.broadcast import LATER
from distad.ops.convert import convert_element_type
from distad.ops.shape import transpose
from distad.types.array_type import ArrayType
from distad.types.inference import BILINEAR, show

# ((contracting of x, contracting of y), (batch of x, batch of y))
DimensionNumbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def dot_labels(x: ArrayType, y: ArrayType, dimension_numbers: DimensionNumbers):
    """Einsum labels of operands and result: batch, then the rest of x, then the rest of y."""
    (cx, cy), (bx, by) = dimension_numbers
    xl: list = [('x', d) for d in range(x.ndim)]
    yl: list = [('y', d) for d in range(y.ndim)]
    for k, (i, j) in enumerate(zip(cx, cy, strict=True)):
        xl[i] = yl[j] = ('c', k)
    for k, (i, j) in enumerate(zip(bx, by, strict=True)):
        xl[i] = yl[j] = ('b', k)
    out = [('b', k) for k in range(len(bx))] + [v for v in xl if v[0] == 'x'] + [v for v in yl if v[0] == 'y']
    return xl, yl, out


def _labels(x: ArrayType, y: ArrayType, *, dimension_numbers, preferred_element_type):
    xl, yl, out = dot_labels(x, y, dimension_numbers)
    return signature('dot_general', [xl, yl], [out], linearity=BILINEAR, reducer='sum')


def _shape(x: ArrayType, y: ArrayType, *, dimension_numbers, preferred_element_type):
    if x.dtype != y.dtype:
        raise TypeError(f"dot_general requires arguments to have the same dtypes, got {show((x, y))}. "
                        "Convert one with astype.")
    xl, yl, out = dot_labels(x, y, dimension_numbers)
    size: dict = {}
    for labels, t in ((xl, x), (yl, y)):
        for label, n in zip(labels, t.shape, strict=True):
            if size.setdefault(label, n) != n:
                what = 'contracting' if label[0] == 'c' else 'batch'
                raise TypeError(f"dot_general requires {what} dimensions to have the same size, got {size[label]} and {n} "
                                f"in {show((x, y))}")
    return tuple(size[label] for label in out), x.dtype if preferred_element_type is None else preferred_element_type


def _impl(x, y, *, out, dimension_numbers, preferred_element_type):
    return contract(x, y, dimension_numbers, out.dtype)


def contract(x: np.ndarray, y: np.ndarray, dimension_numbers: DimensionNumbers, dtype) -> np.ndarray:
    """The product of two blocks, by GEMM: batch dimensions in front, the others merged into rows, columns and one sum.

    Merging dimensions copies only where strides do not allow a view, and transposed operands reach BLAS as they are.
    """
    (cx, cy), (bx, by) = dimension_numbers
    work = _work_dtype(x.dtype, dtype)
    fx = [d for d in range(x.ndim) if d not in cx and d not in bx]
    fy = [d for d in range(y.ndim) if d not in cy and d not in by]
    batch = [x.shape[d] for d in bx]
    m, n = [x.shape[d] for d in fx], [y.shape[d] for d in fy]
    k = int(np.prod([x.shape[d] for d in cx]))
    a = x.transpose([*bx, *fx, *cx]).reshape([*batch, int(np.prod(m)), k]).astype(work, copy=False)
    b = y.transpose([*by, *cy, *fy]).reshape([*batch, k, int(np.prod(n))]).astype(work, copy=False)
    return np.matmul(a, b).reshape([*batch, *m, *n]).astype(dtype, copy=False)


def _work_dtype(operand: np.dtype, result: np.dtype) -> np.dtype:
    """The dtype to multiply in: half types in float32 (BLAS has no other), int8 products in the result's dtype."""
    if operand.itemsize == 2 and operand.kind in 'fV':
        return np.dtype(np.float32)
    return np.promote_types(operand, result) if operand != bool else np.dtype(bool)


def _operand_ct(ct, mine: ArrayType, other, my_dims, other_dims, *, mine_first: bool):
    """The cotangent of one operand: contract the result's cotangent with the other operand over the other's free dims.

    What comes out has the batch dimensions, then my free ones, then my contracted ones in the order of the other's; a
    transpose brings them to my order.
    """
    (my_c, my_b), (other_c, other_b) = my_dims, other_dims
    t = typeof(other)
    my_free = [d for d in range(mine.ndim) if d not in my_c and d not in my_b]
    other_free = tuple(d for d in range(t.ndim) if d not in other_c and d not in other_b)
    batch = tuple(range(len(my_b)))
    first = len(batch) + (len(my_free) if mine_first else 0)
    summed = tuple(range(first, first + len(other_free)))
    dims = ((summed, other_free), (batch, tuple(other_b)))
    y = dot_general(ct, other, dimension_numbers=dims, preferred_element_type=mine.dtype)
    in_order_of_other = [my_c[i] for i in np.argsort(other_c)]
    have = [*my_b, *my_free, *in_order_of_other]
    permutation = tuple(int(d) for d in np.argsort(have))
    return y if permutation == tuple(range(mine.ndim)) else transpose(y, permutation=permutation)


def _transpose_x(ct, x, y, *, dimension_numbers, preferred_element_type):
    (cx, cy), (bx, by) = dimension_numbers
    return _operand_ct(_match(ct, y), x.type, y, (cx, bx), (cy, by), mine_first=True)


def _transpose_y(ct, x, y, *, dimension_numbers, preferred_element_type):
    (cx, cy), (bx, by) = dimension_numbers
    return _operand_ct(_match(ct, x), y.type, x, (cy, by), (cx, bx), mine_first=False)


def _match(ct, operand):
    """The cotangent in the operand's dtype: the two differ where a wider result was asked for."""
    dtype = typeof(operand).dtype
    if typeof(ct).dtype == dtype:
        return ct
    return convert_element_type(ct, new_dtype=dtype, weak_type=False)


dot_general = Primitive(
    'dot_general',
    type=by_labels(_labels, _shape),
    labels=_labels,
    impl=_impl,
    jvp=BY_LINEARITY,
    transpose=(_transpose_x, _transpose_y),
    batch=LATER,
    linearity=BILINEAR)
