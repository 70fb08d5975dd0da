"""Linear algebra of the matrices in the last two dimensions, which have to be whole; those before are a batch and may be split.

NumPy and SciPy do the numbers. What has no result (a singular matrix, one that is not positive) is NaN there, on the rank that has
it: an exception on one rank would leave the others waiting. Derivatives are the textbook ones (M. Giles, Collected matrix
derivative results, 2008), written with products, solves and `weighed`, which keeps a triangle and is its own adjoint.
"""

from collections.abc import Callable, Sequence

import numpy as np

from distad.core.batching import leading
from distad.core.primitive import BY_LINEARITY, NoRule, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.late import Late
from distad.ops.arithmetic import mul, neg, sub
from distad.ops.broadcast import expand_dims, reduce_sum
from distad.ops.complex import conj, real
from distad.ops.contraction import dot_general
from distad.ops.convert import convert_element_type
from distad.ops.makers import FLOAT, check_dtype
from distad.ops.reshape import reshape
from distad.ops.shape import transpose
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, NONLINEAR, Linearity, infer

solve_triangular = Late('scipy.linalg').solve_triangular
LINEAR_IN_SECOND = Linearity(groups=((1,),))


# ---- types: a batch, and a core that is whole

def batch_labels(name: str, cores: Sequence[int], linearity: Linearity = NONLINEAR) -> Callable:
    """Labels of an op whose results have a core of so many dimensions behind the batch."""
    def labels(*types: ArrayType, **params):
        batch = range(types[0].ndim - 2)
        return signature(name, [[*batch, None, None]] * len(types), [[*batch, *[None] * n] for n in cores], linearity=linearity)
    return labels


def check_matrices(name: str, *types: ArrayType, square: bool = False) -> None:
    check_dtype(name, FLOAT, *types)
    if dtypes.is_half(types[0].dtype):
        raise TypeError(f"{name} does not accept half types, got {types[0]}. Convert it with astype first.")
    if any(t.ndim < 2 or t.ndim != types[0].ndim or t.shape[:-2] != types[0].shape[:-2] for t in types):
        raise ValueError(f"{name} takes matrices in the last two dimensions of equal batches, got {', '.join(map(str, types))}")
    m, n = types[0].shape[-2:]
    if square and m != n:
        raise ValueError(f"{name} takes square matrices, got {types[0]}")
    if len(types) == 2 and types[1].shape[-2] != n:
        raise ValueError(f"{name}: sizes do not go together, got {types[0]} and {types[1]}")


def of_square(name: str, impl: Callable, core: int, *, jvp, dtype: Callable = lambda dtype: dtype) -> Primitive:
    """A primitive of square matrices with one result."""
    labels = batch_labels(name, (core,))

    def shape(x: ArrayType):
        check_matrices(name, x, square=True)
        return x.shape[:x.ndim - 2 + core], dtype(x.dtype)
    return Primitive(name, type=by_labels(labels, shape), labels=labels, jvp=(jvp,), batch=leading(),
                     transpose=NoRule('it is not linear'), impl=lambda x, *, out: safely(impl, [out], x)[0])


def several(name: str, impl: Callable, outs: Callable, cores: Sequence[int], *, jvp: Callable, square: bool = False) -> Primitive:
    """A primitive with several results. `outs(type, **params)` gives the shape of each core and its dtype."""
    labels = batch_labels(name, cores)

    def rule(x: ArrayType, **params) -> list[ArrayType]:
        check_matrices(name, x, square=square)
        agreement = infer(labels(x), (x,))
        return [agreement.out(i, (*x.shape[:-2], *core), dtype) for i, (core, dtype) in enumerate(outs(x, **params))]

    def forward(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        ys = made(x, **params)
        return ys, [Zero(typeof(y).tangent()) for y in ys] if t.__class__ is Zero else jvp(t, ys, x, **params)

    made = Primitive(name, type=rule, labels=labels, jvp=forward, batch=leading(), transpose=NoRule('it is not linear'), multiple=True,
                     impl=lambda x, *, out, **params: safely(lambda x: impl(x, **params), out, x))
    return made


def safely(f: Callable, outs, *xs) -> list[np.ndarray]:
    """The results of a function of stacks of matrices; NaN for those that it has none for."""
    try:
        ys = f(*xs)
        ys = ys if isinstance(ys, tuple) else (ys,)
        return [np.asarray(y).astype(out.dtype, copy=False) for y, out in zip(ys, outs, strict=True)]
    except np.linalg.LinAlgError:
        made = [np.full(out.shape, np.nan, out.dtype) for out in outs]
        batch = xs[0].shape[:-2]
        if batch:
            for i in np.ndindex(*batch):
                for y, one in zip(made, safely(f, [_Core(y[i]) for y in made], *(x[i] for x in xs)), strict=True):
                    y[i] = one
        return made


class _Core:
    """Shape and dtype of one matrix of a result."""

    def __init__(self, y: np.ndarray):
        self.shape, self.dtype = np.shape(y), y.dtype


# ---- words of the rules

def turned(x):
    """The transposes of matrices."""
    n = typeof(x).ndim
    return transpose(x, permutation=(*range(n - 2), n - 1, n - 2))


def adjoint(x):
    """The conjugate transposes."""
    return turned(conj(x) if typeof(x).dtype.kind == 'c' else x)


def product(x, y):
    n = typeof(x).ndim
    batch = tuple(range(n - 2))
    return dot_general(x, y, dimension_numbers=(((n - 1,), (n - 2,)), (batch, batch)), preferred_element_type=typeof(x).dtype)


def real_part(x):
    return real(x) if typeof(x).dtype.kind == 'c' else x


def real_dtype(x: ArrayType) -> np.dtype:
    return x.dtype.type(0).real.dtype


def in_dtype_of(x, y):
    """A real value in the dtype of y."""
    dtype = typeof(y).dtype
    return x if typeof(x).dtype == dtype else convert_element_type(x, new_dtype=dtype, weak_type=False)


def _trace(x):
    n = typeof(x).ndim
    return reduce_sum(weighed(x, below=0.0, diagonal=1.0, above=0.0), axes=(n - 2, n - 1))


def in_columns(w):
    """[..., n] as [..., 1, n]."""
    return expand_dims(w, (typeof(w).ndim - 1,))


# ---- weighed: triangles and diagonal times numbers. It is its own adjoint.

def _weighed_impl(x, *, out, below: float, diagonal: float, above: float):
    weights = np.tri(*x.shape[-2:], -1) * below + np.eye(*x.shape[-2:]) * diagonal + np.tri(*x.shape[:-3:-1], -1).T * above
    return np.where(weights == 0, out.dtype.type(0), x * weights.astype(out.dtype))


def _weighed_shape(x: ArrayType, **weights):
    check_matrices('weighed', x)
    return x.shape, x.dtype


weighed = Primitive(
    'weighed',
    type=by_labels(batch_labels('weighed', (2,), ADDITIVE), _weighed_shape),
    labels=batch_labels('weighed', (2,), ADDITIVE),
    impl=_weighed_impl,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, **weights: weighed(ct, **weights),),
    batch=leading(),
    linearity=ADDITIVE)


# ---- solves: a^-1 b, or a^-T b. Linear in b, of which each column is one for itself and may lie anywhere.

def _solve(name: str, impl: Callable) -> Primitive:
    def shape(a: ArrayType, b: ArrayType, **params):
        check_matrices(name, a, b, square=True)
        return b.shape, b.dtype

    def in_matrix(t, y, a, b, *, transposed: bool, **params):
        t = _part(t, **params)
        return neg(made(a, product(turned(t) if transposed else t, y), transposed=transposed, **params))

    def back(ct, a, b, *, transposed: bool, **params):
        return made(a, ct, transposed=not transposed, **params)

    def labels(a: ArrayType, b: ArrayType, **params):
        batch = range(a.ndim - 2)
        right = [*batch, None, 'columns']
        return signature(name, [[*batch, None, None], right], [right], linearity=LINEAR_IN_SECOND)

    def batch(axis, values, dims, **params):
        """Right sides for one matrix are columns: it is factored once."""
        (a, b), (of_a, of_b) = values, dims
        if of_a is not None or typeof(b).partitions[-1 if of_b < typeof(b).ndim - 1 else -2]:
            return made(*(axis.whole(x, d) for x, d in zip(values, dims, strict=True)), **params), 0
        place = typeof(b).ndim - 2
        b = axis.move(b, of_b, place)
        *before, count, columns = shape = typeof(b).shape
        y = made(a, reshape(b, new_sizes=(*before, count * columns)), **params)
        return reshape(y, new_sizes=shape), place

    made = Primitive(
        name, type=by_labels(labels, shape), labels=labels, linearity=LINEAR_IN_SECOND, batch=batch,
        impl=lambda a, b, *, out, **params: safely(lambda a, b: impl(a, b, **params), [out], a, b)[0],
        jvp=(in_matrix, lambda t, y, a, b, **params: made(a, t, **params)),
        transpose=(NoRule(f"{name} is not linear in the matrix"), back))
    return made


def _part(t, *, lower: bool | None = None, unit_diagonal: bool = False):
    """The triangle that counts."""
    if lower is None:
        return t
    return weighed(t, below=float(lower), diagonal=float(not unit_diagonal), above=float(not lower))


def _triangular(a, b, *, transposed: bool, lower: bool, unit_diagonal: bool):
    y = np.empty(b.shape, b.dtype)
    for i in np.ndindex(*a.shape[:-2]):
        y[i] = solve_triangular(a[i], b[i], trans=int(transposed), lower=lower, unit_diagonal=unit_diagonal, check_finite=False)
    return y


solve = _solve('solve', lambda a, b, *, transposed: np.linalg.solve(np.swapaxes(a, -1, -2) if transposed else a, b))
triangular_solve = _solve('triangular_solve', _triangular)


# ---- determinants

def _det_tangent(t, y, x):
    return mul(y, _trace(solve(x, t, transposed=False)))


def _slogdet_tangents(t, ys, x):
    sign, _ = ys
    change = _trace(solve(x, t, transposed=False))
    if typeof(x).dtype.kind != 'c':
        return [Zero(typeof(sign).tangent()), change]
    return [mul(sign, sub(change, in_dtype_of(real(change), change))), real(change)]


det = of_square('det', np.linalg.det, 0, jvp=_det_tangent)
slogdet = several('slogdet', lambda x: tuple(np.linalg.slogdet(x)), lambda x: [((), x.dtype), ((), real_dtype(x))], (0, 0),
                   jvp=_slogdet_tangents, square=True)
