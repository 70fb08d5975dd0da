"""dot_general: batched contraction. It is linear in each operand, and its two transposes are dots again.

A contracted dimension that both operands hold split stays unsummed between the ranks: the result is unreduced. An unreduced
operand contracts with a reduced one. Nothing of this is written here: it follows from the labels.
"""

import numpy as np

from distad.core.batching import behind, left_of
from distad.core.primitive import BY_LINEARITY, Place, Primitive, by_labels, signature
from distad.core.value import typeof
from distad.ops.convert import convert_element_type
from distad.ops.gemm import DimensionNumbers, product
from distad.ops.makers import ANY, check_dtype
from distad.ops.shape import transpose
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import BILINEAR, Signature, show


def dot_labels(x: ArrayType, y: ArrayType, *, dimension_numbers: DimensionNumbers,
               preferred_element_type: np.dtype | None) -> Signature:
    """Einsum labels of operands and result: batch, then the rest of x, then the rest of y."""
    (cx, cy), (bx, by) = dimension_numbers
    xl: list = [('x', d) for d in range(x.ndim)]
    yl: list = [('y', d) for d in range(y.ndim)]
    for letter, dx, dy in (('c', cx, cy), ('b', bx, by)):
        for k, (i, j) in enumerate(zip(dx, dy, strict=True)):
            xl[i] = yl[j] = (letter, k)
    out = [('b', k) for k in range(len(bx))] + [v for v in xl if v[0] == 'x'] + [v for v in yl if v[0] == 'y']
    return signature('dot_general', [xl, yl], [out], linearity=BILINEAR, reducer='sum')


def dot_shape(x: ArrayType, y: ArrayType, *, dimension_numbers: DimensionNumbers,
              preferred_element_type: np.dtype | None) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of the result; wrong sizes and dtypes raise TypeError."""
    check_dtype('dot_general', ANY, x, y)
    for what, dx, dy in zip(('contracting', 'batch'), *zip(*dimension_numbers, strict=True), strict=True):
        if [x.shape[d] for d in dx] != [y.shape[d] for d in dy]:
            raise TypeError(f"dot_general requires {what} dimensions to have the same size, got dimensions {list(dx)} of "
                            f"{x} and {list(dy)} of {y}")
    sig = dot_labels(x, y, dimension_numbers=dimension_numbers, preferred_element_type=None)
    size = dict(zip((*sig.ins[0], *sig.ins[1]), (*x.shape, *y.shape), strict=True))
    dtype = x.dtype if preferred_element_type is None else preferred_element_type
    if dtype.kind in 'biu' and x.dtype.kind not in 'biu' or x.dtype.kind == 'c' and dtype.kind != 'c':
        raise TypeError(f"dot_general cannot give {dtypes.name(dtype)} as asked for by preferred_element_type, got "
                        f"{show((x, y))}")
    return tuple(size[label] for label in sig.outs[0]), dtype


def _kernel(place: Place, ins, outs, params):
    (x, y), (z,) = map(place.out, ins), map(place.out, outs)
    return product(x.shape, y.shape, params['dimension_numbers'], x.dtype, z.dtype)


# ---- transpose

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
    ct, other = widened(ct, other)
    y = dot_general(ct, other, dimension_numbers=dims, preferred_element_type=mine.dtype)
    in_order_of_other = [my_c[i] for i in np.argsort(other_c)]
    permutation = tuple(int(d) for d in np.argsort([*my_b, *my_free, *in_order_of_other]))
    return y if permutation == tuple(range(mine.ndim)) else transpose(y, permutation=permutation)


def widened(ct, other):
    """Both in the wider of their dtypes: they differ where a preferred_element_type was asked for."""
    dtype, _ = dtypes.promote((typeof(ct).dtype, False), (typeof(other).dtype, False))
    return tuple(x if typeof(x).dtype == dtype else convert_element_type(x, new_dtype=dtype, weak_type=False)
                 for x in (ct, other))


def _transpose_x(ct, x, y, *, dimension_numbers, preferred_element_type):
    (cx, cy), (bx, by) = dimension_numbers
    return _operand_ct(ct, x.type, y, (cx, bx), (cy, by), mine_first=True)


def _transpose_y(ct, x, y, *, dimension_numbers, preferred_element_type):
    (cx, cy), (bx, by) = dimension_numbers
    return _operand_ct(ct, y.type, x, (cy, by), (cx, bx), mine_first=False)


def _batch(axis, values, dims, *, dimension_numbers: DimensionNumbers, preferred_element_type):
    """Two batches are one more batch dimension; one is a free dimension. Nothing is transposed or copied."""
    (x, y), (dx, dy) = values, dims
    (cx, cy), (bx, by) = dimension_numbers
    if dx is not None:
        cx, bx = behind(cx, dx), behind(bx, dx)
    if dy is not None:
        cy, by = behind(cy, dy), behind(by, dy)
    if dx is not None and dy is not None:
        bx, by, place = (dx, *bx), (dy, *by), 0
    elif dx is not None:
        place = len(bx) + left_of(dx, (*cx, *bx))
    else:
        place = typeof(x).ndim - len(cx) + left_of(dy, (*cy, *by))
    return dot_general(x, y, dimension_numbers=((cx, cy), (bx, by)), preferred_element_type=preferred_element_type), place


def _shown(params: dict) -> dict:
    (cx, cy), (bx, by) = params['dimension_numbers']
    return {**params, 'dimension_numbers': ((list(cx), list(cy)), (list(bx), list(by)))}


dot_general = Primitive(
    'dot_general',
    type=by_labels(dot_labels, dot_shape),
    labels=dot_labels,
    kernel=_kernel,
    jvp=BY_LINEARITY,
    transpose=(_transpose_x, _transpose_y),
    batch=_batch,
    linearity=BILINEAR,
    show=_shown)
