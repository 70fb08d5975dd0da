"""Products of arrays under NumPy's names. Each becomes a dot_general, or for outer products a multiplication.

Where both operands are split along a dimension that is summed, the user decides by `out_sharding` what becomes of the sum; see
`distad.lax.contraction`. `precision` is accepted everywhere and without effect: products are computed in the precision of the
operands or a better one.
"""

from collections.abc import Sequence

from distad.core.lift import as_value
from distad.core.value import typeof
from distad.lax.contraction import Sharding, contraction
from distad.lax.dims import dim_of, dims_of
from distad.lax.kind import kindly, whole_along, with_sharding
from distad.numpy.promotion import operands, promoted
from distad.ops import arithmetic
from distad.ops.broadcast import expand_dims
from distad.ops.complex import conj
from distad.ops.reshape import reshape
from distad.ops.shape import squeeze
from distad.types.inference import show

__all__ = ['dot', 'inner', 'kron', 'matmul', 'matvec', 'outer', 'tensordot', 'vdot', 'vecdot', 'vecmat']


def pair(name: str, x, xl: Sequence, y, yl: Sequence, out: Sequence, preferred=None, out_sharding: Sharding = None,
         keep: bool = False):
    """Contract two arrays whose dimensions are labelled, each label once; a label in both and not in `out` is summed over.

    With `keep` sums over ranks stay to come.
    """
    xl, yl, out = list(xl), list(yl), list(out)
    both = [v for v in xl if v in yl]
    summed, batch = [v for v in both if v not in out], [v for v in both if v in out]
    dims = tuple(tuple(tuple(labels.index(v) for v in group) for labels in (xl, yl)) for group in (summed, batch))
    have = [*batch, *(v for v in xl if v not in both), *(v for v in yl if v not in both)]
    return contraction(name, x, y, dims, preferred, out_sharding, tuple(have.index(v) for v in out), keep)


def without_ones(x, y, xl: Sequence, yl: Sequence):
    """The arrays and their labels without dimensions of size 1 that the other has longer: they repeat without a copy."""
    long = {v for t, labels in ((x, xl), (y, yl)) for v, n in zip(labels, typeof(t).shape, strict=True) if n != 1}
    done = []
    for t, labels in ((x, xl), (y, yl)):
        ones = tuple(d for d, v in enumerate(labels) if typeof(t).shape[d] == 1 and v in long and v in xl and v in yl)
        done.append((squeeze(t, dimensions=ones) if ones else t, [v for d, v in enumerate(labels) if d not in ones]))
    (x, xl), (y, yl) = done
    return x, y, xl, yl


def _vectorized(name: str, x, x_core: Sequence[str], y, y_core: Sequence[str], out_core: Sequence[str], preferred=None,
                out_sharding: Sharding = None):
    """A product of vectors and matrices in the last dimensions of two arrays; those before broadcast."""
    for v, core in ((x, x_core), (y, y_core)):
        if v.ndim < len(core):
            raise ValueError(f"{name}: an operand must have {len(core)} dimensions or more, got {show((typeof(x), typeof(y)))}")
    xl = [*range(len(x_core) - x.ndim, 0), *x_core]
    yl = [*range(len(y_core) - y.ndim, 0), *y_core]
    batch = range(min(len(x_core) - x.ndim, len(y_core) - y.ndim), 0)
    for label in {*xl} & {*yl}:
        m, n = x.shape[xl.index(label)], y.shape[yl.index(label)]
        if m != n and (label in x_core or 1 not in (m, n)):
            raise TypeError(f"{name}: dimensions of sizes {m} and {n} do not go together, got {show((typeof(x), typeof(y)))}")
    x, y, xl, yl = without_ones(x, y, xl, yl)
    return pair(name, x, xl, y, yl, [*batch, *out_core], preferred, out_sharding)


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
    m, n = ['m'] * (x.ndim > 1), ['n'] * (y.ndim > 1)
    return _vectorized('matmul', x, [*m, 'k'], y, ['k', *n], [*m, *n], preferred_element_type, out_sharding)


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
    labels = []
    for v in (x, y):
        d = dim_of('vecdot', axis, v.ndim)
        rest = list(range(1 - v.ndim, 0))
        labels.append([*rest[:d], 'k', *rest[d:]])
    if x.shape[labels[0].index('k')] != y.shape[labels[1].index('k')]:
        raise TypeError(f"vecdot: the dimensions that go must have one size, got {show((typeof(x), typeof(y)))}")
    x, y, xl, yl = without_ones(_conj(x), y, *labels)
    return pair('vecdot', x, xl, y, yl, range(1 - max(len(labels[0]), len(labels[1])), 0), preferred_element_type)


def matvec(x1, x2, /):
    """Matrices times vectors, the dimensions before them broadcast.

    Args:
      x1: [..., m, k]. x2: [..., k].
    Returns: [..., m]. All else as `matmul`.

    >>> matvec(np.ones((2, 3), np.float32), np.ones(3, np.float32))
    Array([3., 3.], dtype=float32)
    """
    x, y = promoted('matvec', x1, x2)
    return _vectorized('matvec', x, ['m', 'k'], y, ['k'], ['m'])


def vecmat(x1, x2, /):
    """Conjugated vectors times matrices, the dimensions before them broadcast.

    Args:
      x1: [..., k]. x2: [..., k, n].
    Returns: [..., n]. All else as `matmul`.

    >>> vecmat(np.ones(2, np.float32), np.ones((2, 3), np.float32))
    Array([2., 2., 2.], dtype=float32)
    """
    x, y = promoted('vecmat', x1, x2)
    return _vectorized('vecmat', _conj(x), ['k'], y, ['k', 'n'], ['n'])


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
