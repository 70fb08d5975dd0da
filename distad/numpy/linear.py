"""Products of arrays under NumPy's names. Each becomes a dot_general, or for outer products a multiplication.

Where both operands are split along a dimension that is summed, the user decides by `out_sharding` what becomes of the sum; see
`distad.lax.contraction`. `precision` is accepted everywhere and without effect: products are computed in the precision of the
operands or a better one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from distad.core.lift import as_value
from distad.core.value import typeof
from distad.lax.contraction import contraction
from distad.lax.dims import dim_of, dims_of
from distad.lax.kind import kindly, whole_along, with_sharding
from distad.lax.shape import Sharding
from distad.numpy.joining import stack, unstack
from distad.numpy.promotion import operands, promoted
from distad.ops import arithmetic
from distad.ops.broadcast import expand_dims
from distad.ops.complex import conj
from distad.ops.gemm import DimensionNumbers
from distad.ops.reshape import reshape
from distad.ops.shape import squeeze, transpose
from distad.types.array_type import ArrayType
from distad.types.inference import show

__all__ = ['cross', 'dot', 'inner', 'kron', 'matmul', 'matvec', 'outer', 'tensordot', 'vdot', 'vecdot', 'vecmat']


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a product of labelled dimensions is a dot_general.

    Dimensions of size 1 that leave first (the other operand has them longer, and they repeat without a copy), the dimension
    numbers, and the order of the result's dimensions (None if they stand right).
    """

    ones: tuple[tuple[int, ...], tuple[int, ...]]
    numbers: DimensionNumbers
    order: tuple[int, ...] | None


@lru_cache(maxsize=4096)
def layout(x: tuple[int, ...], xl: tuple, y: tuple[int, ...], yl: tuple, out: tuple) -> Layout:
    """The layout for shapes x and y with labels xl and yl. A label in both and not in `out` is summed over."""
    long = {v for shape, labels in ((x, xl), (y, yl)) for v, n in zip(labels, shape, strict=True) if n != 1}
    gone = {v for v in xl if v in yl and v in long and 1 in (x[xl.index(v)], y[yl.index(v)])}
    ones = tuple(tuple(d for d, v in enumerate(labels) if v in gone and shape[d] == 1) for shape, labels in ((x, xl), (y, yl)))
    xl, yl = ([v for d, v in enumerate(labels) if d not in dims] for labels, dims in zip((xl, yl), ones, strict=True))
    both = [v for v in xl if v in yl]
    groups = [v for v in both if v not in out], [v for v in both if v in out]
    numbers = tuple(tuple(tuple(labels.index(v) for v in group) for labels in (xl, yl)) for group in groups)
    have = [*groups[1], *(v for v in xl if v not in both), *(v for v in yl if v not in both)]
    order = tuple(have.index(v) for v in out)
    return Layout(ones=ones, numbers=numbers, order=None if order == tuple(range(len(order))) else order)


def contracted(name: str, x, y, made: Layout, preferred=None, out_sharding: Sharding = None, keep: bool = False):
    """The product of two arrays of one dtype. With `keep` sums over ranks stay to come."""
    x, y = (squeeze(v, dimensions=ones) if ones else v for v, ones in zip((x, y), made.ones, strict=True))
    return contraction(name, x, y, made.numbers, preferred, out_sharding, made.order, keep)


@lru_cache(maxsize=4096)
def _vector_layout(name: str, x: ArrayType, y: ArrayType, form: str) -> Layout:
    """The layout of a product in the last dimensions, named in `form` as in 'mk,kn->mn'; those before broadcast."""
    inputs, core = form.split('->')
    cores = inputs.split(',')
    if any(t.ndim < len(letters) for t, letters in zip((x, y), cores, strict=True)):
        raise ValueError(f"{name}: the operands must have {' and '.join(str(len(c)) for c in cores)} dimensions or more, got "
                         f"{show((x, y))}")
    xl, yl = ((*range(len(c) - t.ndim, 0), *c) for t, c in zip((x, y), cores, strict=True))
    sizes: dict = {}
    for v, n in (*zip(xl, x.shape, strict=True), *zip(yl, y.shape, strict=True)):
        m = sizes.setdefault(v, n)
        if m != n and (isinstance(v, str) or 1 not in (m, n)):
            raise TypeError(f"{name}: dimensions of sizes {m} and {n} do not go together, got {show((x, y))}")
    batch = sorted({v for v in (*xl, *yl) if not isinstance(v, str)})
    return layout(x.shape, xl, y.shape, yl, (*batch, *core))


def _vectorized(name: str, x, y, form: str, preferred=None, out_sharding: Sharding = None):
    """A product of vectors and matrices in the last dimensions of two arrays."""
    return contracted(name, x, y, _vector_layout(name, typeof(x), typeof(y), form), preferred, out_sharding)


def matmul(a, b, *, precision=None, preferred_element_type=None, out_sharding: Sharding = None):
    """Matrix product, `a @ b`.

    Args:
      a: [..., m, k] or [k]. b: [..., k, n] or [k]. Leading dimensions broadcast; sizes of 1 are repeated without copies.
      preferred_element_type: the dtype of the result, in which half types and small integers are added up.
      out_sharding: where the result lies. With `unreduced={'X'}` the sum over X stays to come.
    Returns: [..., m, n], each dimension split as in its operand. What is reduced (R) gives a replicated result.
    Communication: none if k is whole. One all-reduce of the result where one operand is split along k. With `out_sharding` as
      few messages as lead there.
    Raises: ShardingTypeError where both operands are split along k and there is no `out_sharding`: the message lists the
      answers and what each sends. TypeError for sizes that do not fit, ValueError for numbers.

    >>> matmul(np.ones((2, 3), np.float32), np.ones(3, np.float32))
    Array([3., 3.], dtype=float32)
    """
    x, y = promoted('matmul', a, b)
    if not (typeof(x).ndim and typeof(y).ndim):
        raise ValueError(f"matmul takes arrays with one dimension or more, got {show((typeof(x), typeof(y)))}. Multiply by a "
                         "number with *.")
    m, n = 'm' * (x.ndim > 1), 'n' * (y.ndim > 1)
    return _vectorized('matmul', x, y, f"{m}k,k{n}->{m}{n}", preferred_element_type, out_sharding)


def dot(a, b, *, precision=None, preferred_element_type=None, out_sharding: Sharding = None):
    """Sum over the last dimension of a and the last but one of b; a product of numbers where one is a number.

    Args:
      a: [..., k]. b: [..., k, n] or [k]. All else as `matmul`, but leading dimensions do not go together.
    Returns: [... of a, ... of b, n].

    >>> dot(np.ones((2, 3), np.float32), np.ones(3, np.float32))
    Array([3., 3.], dtype=float32)
    """
    x, y = promoted('dot', a, b)
    if not (typeof(x).ndim and typeof(y).ndim):
        return with_sharding(kindly(arithmetic.mul, *operands('dot', a, b)), out_sharding)
    return _along('dot', x, (x.ndim - 1,), y, (max(y.ndim - 2, 0),), preferred_element_type, out_sharding)


def _along(name: str, x, x_dims: Sequence[int], y, y_dims: Sequence[int], preferred=None, out_sharding: Sharding = None):
    """Contract dimensions of x with dimensions of y; the others follow one another."""
    return contraction(name, x, y, ((tuple(x_dims), tuple(y_dims)), ((), ())), preferred, out_sharding)


def tensordot(a, b, axes: int | Sequence = 2, *, precision=None, preferred_element_type=None, out_sharding: Sharding = None):
    """Sum over several dimensions of both arrays.

    Args:
      a, b: arrays. axes: how many of the last of a and the first of b; or those of a and those of b.
    Returns: [rest of a, rest of b]. All else as `matmul`.

    >>> tensordot(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32), axes=((0, 1), (0, 1)))
    Array(6., dtype=float32)
    """
    x, y = promoted('tensordot', a, b)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise TypeError(f"tensordot: axes is a number or a pair (those of a, those of b), got {axes!r}")
        of_x, of_y = dims_of('tensordot', axes[0], x.ndim), dims_of('tensordot', axes[1], y.ndim)
    else:
        if not 0 <= axes <= min(x.ndim, y.ndim):
            raise TypeError(f"tensordot: there are not {axes} dimensions to sum over in each of {show((typeof(x), typeof(y)))}")
        of_x, of_y = range(x.ndim - axes, x.ndim), range(axes)
    if len(of_x) != len(of_y):
        raise TypeError(f"tensordot: axes must name as many dimensions of a as of b, got {axes!r}")
    return _along('tensordot', x, of_x, y, of_y, preferred_element_type, out_sharding)


def inner(a, b, *, precision=None, preferred_element_type=None):
    """Sum over the last dimension of both arrays.

    Args:
      a: [..., k]. b: [..., k].
    Returns: [... of a, ... of b]. All else as `matmul`.

    >>> inner(np.ones(3, np.float32), np.ones((2, 3), np.float32))
    Array([3., 3.], dtype=float32)
    """
    x, y = promoted('inner', a, b)
    if not (typeof(x).ndim and typeof(y).ndim):
        return kindly(arithmetic.mul, *operands('inner', a, b))
    return _along('inner', x, (x.ndim - 1,), y, (y.ndim - 1,), preferred_element_type)


def vdot(a, b, *, precision=None, preferred_element_type=None):
    """Sum of the products of all elements, those of a conjugated.

    Args:
      a, b: arrays of one size, which are made flat; a split dimension behind another is gathered for that.
    Returns: a number. All else as `matmul`.

    >>> vdot(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    Array(6., dtype=float32)
    """
    x, y = (as_value(v, 'vdot') for v in promoted('vdot', a, b))
    if typeof(x).shape == typeof(y).shape:
        every = tuple(range(typeof(x).ndim))
        return _along('vdot', _conj(x), every, y, every, preferred_element_type)
    x, y = (reshape(whole_along(v, range(1, v.ndim)), new_sizes=(v.size,)) for v in (x, y))
    return _along('vdot', _conj(x), (0,), y, (0,), preferred_element_type)


def _conj(x):
    return kindly(conj, x) if typeof(x).dtype.kind == 'c' else x


def vecdot(x1, x2, /, *, axis: int = -1, precision=None, preferred_element_type=None):
    """Sum of products along a dimension, elements of x1 conjugated; the other dimensions broadcast.

    Args:
      x1: [..., k]. x2: [..., k]. axis: the dimension of both that goes.
    Returns: [...]. All else as `matmul`.

    >>> vecdot(np.ones((2, 3), np.float32), np.ones(3, np.float32))
    Array([3., 3.], dtype=float32)
    """
    x, y = promoted('vecdot', x1, x2)
    dims = [dim_of('vecdot', axis, v.ndim) for v in (x, y)]
    x, y = (v if d == v.ndim - 1 else transpose(v, permutation=(*range(d), *range(d + 1, v.ndim), d))
            for v, d in zip((x, y), dims, strict=True))
    return _vectorized('vecdot', _conj(x), y, 'k,k->', preferred_element_type)


def matvec(x1, x2, /):
    """Matrices times vectors, the dimensions before them broadcast.

    Args:
      x1: [..., m, k]. x2: [..., k].
    Returns: [..., m]. All else as `matmul`.

    >>> matvec(np.ones((2, 3), np.float32), np.ones(3, np.float32))
    Array([3., 3.], dtype=float32)
    """
    x, y = promoted('matvec', x1, x2)
    return _vectorized('matvec', x, y, 'mk,k->m')


def vecmat(x1, x2, /):
    """Conjugated vectors times matrices, the dimensions before them broadcast.

    Args:
      x1: [..., k]. x2: [..., k, n].
    Returns: [..., n]. All else as `matmul`.

    >>> vecmat(np.ones(2, np.float32), np.ones((2, 3), np.float32))
    Array([2., 2., 2.], dtype=float32)
    """
    x, y = promoted('vecmat', x1, x2)
    return _vectorized('vecmat', _conj(x), y, 'k,kn->n')


def outer(a, b, out: None = None):
    """All products of an element of a and one of b.

    Args:
      a: [m] or any shape, made flat. b: [n] or any shape, made flat.
    Returns: [m, n], each dimension split as in its operand. Two reduced arrays give a reduced one.
    Communication: none, but for arrays of several dimensions that are split behind the first: those are gathered.
    Raises: ShardingTypeError where both are split over one mesh axis.

    >>> outer(np.float32([1, 2]), np.float32([3, 4]))
    Array([[3., 4.],
           [6., 8.]], dtype=float32)
    """
    if out is not None:
        raise NotImplementedError("outer: arrays are immutable, so there is no out=. Use the result.")
    x, y = (_flat(as_value(v, 'outer')) for v in (a, b))
    x, y = promoted('outer', x, y)
    return kindly(arithmetic.mul, expand_dims(x, (1,)), expand_dims(y, (0,)))


def _flat(x):
    if x.ndim == 1:
        return x
    return reshape(whole_along(x, range(1, x.ndim)), new_sizes=(x.size,))


def cross(a, b, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None):
    """Cross products of vectors of three components (or two, where the third is 0; of two such the third component alone).

    Args:
      a, b: [..., 3] or [..., 2], with the components in dimension `axisa` and `axisb`; axis: stands for all three.
    Returns: [..., 3], with the components in dimension `axisc`; other dimensions broadcast, and are split where an operand's are.
    Communication: components that are split are gathered.

    >>> cross(np.float32([1, 0, 0]), np.float32([0, 1, 0]))
    Array([0., 0., 1.], dtype=float32)
    """
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    x, y = (_components(v, d) for v, d in zip(promoted('cross', a, b), (axisa, axisb), strict=True))
    if len(x) == len(y) == 2:
        return x[0] * y[1] - x[1] * y[0]
    (x0, x1, x2), (y0, y1, y2) = ((*v, v[0] * 0)[:3] for v in (x, y))
    return stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axisc)


def _components(v, axis: int) -> list:
    v = as_value(v, 'cross')
    d = dim_of('cross', axis, v.ndim)
    if v.shape[d] not in (2, 3):
        raise ValueError(f"cross takes vectors of two or three components, got {v.type} with {v.shape[d]} in dimension {d}")
    return unstack(whole_along(v, (d,)), axis=d)


def kron(a, b):
    """Kronecker product: every element of a times the whole of b.

    Args:
      a: [m, ...]. b: [n, ...]; missing dimensions have size 1 in front.
    Returns: [m*n, ...]. b is gathered where it is split, a stays split.

    >>> kron(np.float32([1, 2]), np.float32([3, 4]))
    Array([3., 4., 6., 8.], dtype=float32)
    """
    x, y = (as_value(v, 'kron') for v in promoted('kron', a, b))
    n = max(x.ndim, y.ndim)
    x, y = (expand_dims(v, tuple(range(n - v.ndim))) if v.ndim < n else v for v in (x, y))
    y = whole_along(y, range(n))
    sizes = tuple(p * q for p, q in zip(x.shape, y.shape, strict=True))
    x, y = expand_dims(x, tuple(range(1, 2 * n, 2))), expand_dims(y, tuple(range(0, 2 * n, 2)))
    return reshape(kindly(arithmetic.mul, x, y), new_sizes=sizes)
