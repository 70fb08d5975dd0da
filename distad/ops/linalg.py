"""Linear algebra of the matrices in the last two dimensions, which have to be whole; those before are a batch and may be split.

NumPy and SciPy do the numbers. What has no result (a singular matrix, one that is not positive) is NaN there, on the rank that has
it: an exception on one rank would leave the others waiting. Derivatives are the textbook ones (M. Giles, Collected matrix
derivative results, 2008), written with products, solves and `weighed`, which keeps a triangle and is its own adjoint.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import solve_triangular

from distad.core.primitive import BY_LINEARITY, NoRule, Primitive, by_labels, signature
from distad.core.value import Zero, typeof
from distad.ops.arithmetic import div, mul, neg, sub
from distad.ops.basic import add_any
from distad.ops.broadcast import LATER, expand_dims, reduce_sum
from distad.ops.compare import eq, select_n
from distad.ops.complex import conj, real
from distad.ops.contraction import dot_general
from distad.ops.convert import convert_element_type
from distad.ops.makers import FLOAT, check_dtype, scalar
from distad.ops.shape import transpose
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.inference import ADDITIVE, NONLINEAR, Linearity, infer

LINEAR_IN_SECOND = Linearity(groups=((1,),))


# ---- types: a batch, and a core that is whole

def _labels(name: str, cores: Sequence[int], linearity: Linearity = NONLINEAR) -> Callable:
    """Labels of an op whose results have a core of so many dimensions behind the batch."""
    def labels(*types: ArrayType, **params):
        batch = range(types[0].ndim - 2)
        return signature(name, [[*batch, None, None]] * len(types), [[*batch, *[None] * n] for n in cores], linearity=linearity)
    return labels


def _check(name: str, *types: ArrayType, square: bool = False) -> None:
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


def _one(name: str, impl: Callable, core: int, *, jvp, dtype: Callable = lambda dtype: dtype) -> Primitive:
    """A primitive of square matrices with one result."""
    labels = _labels(name, (core,))

    def shape(x: ArrayType):
        _check(name, x, square=True)
        return x.shape[:x.ndim - 2 + core], dtype(x.dtype)
    return Primitive(name, type=by_labels(labels, shape), labels=labels, jvp=(jvp,), batch=LATER,
                     transpose=NoRule('it is not linear'), impl=lambda x, *, out: _safely(impl, [out], x)[0])


def _several(name: str, impl: Callable, outs: Callable, cores: Sequence[int], *, jvp: Callable, square: bool = False) -> Primitive:
    """A primitive with several results. `outs(type, **params)` gives the shape of each core and its dtype."""
    labels = _labels(name, cores)

    def rule(x: ArrayType, **params) -> list[ArrayType]:
        _check(name, x, square=square)
        agreement = infer(labels(x), (x,))
        return [agreement.out(i, (*x.shape[:-2], *core), dtype) for i, (core, dtype) in enumerate(outs(x, **params))]

    def forward(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        ys = made(x, **params)
        return ys, [Zero(typeof(y).tangent()) for y in ys] if t.__class__ is Zero else jvp(t, ys, x, **params)

    made = Primitive(name, type=rule, labels=labels, jvp=forward, batch=LATER, transpose=NoRule('it is not linear'), multiple=True,
                     impl=lambda x, *, out, **params: _safely(lambda x: impl(x, **params), out, x))
    return made


def _safely(f: Callable, outs, *xs) -> list[np.ndarray]:
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
                for y, one in zip(made, _safely(f, [_Core(y[i]) for y in made], *(x[i] for x in xs)), strict=True):
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


def _real(x):
    return real(x) if typeof(x).dtype.kind == 'c' else x


def _real_dtype(x: ArrayType) -> np.dtype:
    return x.dtype.type(0).real.dtype


def _like(x, y):
    """A real value in the dtype of y."""
    dtype = typeof(y).dtype
    return x if typeof(x).dtype == dtype else convert_element_type(x, new_dtype=dtype, weak_type=False)


def _trace(x):
    n = typeof(x).ndim
    return reduce_sum(weighed(x, below=0.0, diagonal=1.0, above=0.0), axes=(n - 2, n - 1))


def _in_columns(w):
    """[..., n] as [..., 1, n]."""
    return expand_dims(w, (typeof(w).ndim - 1,))


def _in_rows(w):
    """[..., n] as [..., n, 1]."""
    return expand_dims(w, (typeof(w).ndim,))


def _inverse_gaps(w):
    """1 / (w[j] - w[i]) at [i, j]; 0 where they are equal, as they are on the diagonal."""
    gap = sub(_in_columns(w), _in_rows(w))
    same = eq(gap, scalar(0, gap))
    return select_n(same, div(scalar(1, gap), select_n(same, gap, scalar(1, gap))), scalar(0, gap))


def _hermitian(t):
    """The change of a Hermitian matrix of which the lower triangle counts."""
    half = weighed(t, below=1.0, diagonal=0.5, above=0.0)
    return add_any(half, adjoint(half))


# ---- weighed: triangles and diagonal times numbers. It is its own adjoint.

def _weighed_impl(x, *, out, below: float, diagonal: float, above: float):
    weights = np.tri(*x.shape[-2:], -1) * below + np.eye(*x.shape[-2:]) * diagonal + np.tri(*x.shape[:-3:-1], -1).T * above
    return np.where(weights == 0, out.dtype.type(0), x * weights.astype(out.dtype))


def _weighed_shape(x: ArrayType, **weights):
    _check('weighed', x)
    return x.shape, x.dtype


weighed = Primitive(
    'weighed',
    type=by_labels(_labels('weighed', (2,), ADDITIVE), _weighed_shape),
    labels=_labels('weighed', (2,), ADDITIVE),
    impl=_weighed_impl,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, **weights: weighed(ct, **weights),),
    batch=LATER,
    linearity=ADDITIVE)


# ---- solves: a^-1 b, or a^-T b. Linear in b.

def _solve(name: str, impl: Callable) -> Primitive:
    def shape(a: ArrayType, b: ArrayType, **params):
        _check(name, a, b, square=True)
        return b.shape, b.dtype

    def in_matrix(t, y, a, b, *, transposed: bool, **params):
        t = _part(t, **params)
        return neg(made(a, product(turned(t) if transposed else t, y), transposed=transposed, **params))

    def back(ct, a, b, *, transposed: bool, **params):
        return made(a, ct, transposed=not transposed, **params)

    labels = _labels(name, (2,), LINEAR_IN_SECOND)
    made = Primitive(
        name, type=by_labels(labels, shape), labels=labels, linearity=LINEAR_IN_SECOND, batch=LATER,
        impl=lambda a, b, *, out, **params: _safely(lambda a, b: impl(a, b, **params), [out], a, b)[0],
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
    return [mul(sign, sub(change, _like(real(change), change))), real(change)]


det = _one('det', np.linalg.det, 0, jvp=_det_tangent)
slogdet = _several('slogdet', lambda x: tuple(np.linalg.slogdet(x)), lambda x: [((), x.dtype), ((), _real_dtype(x))], (0, 0),
                   jvp=_slogdet_tangents, square=True)


# ---- factors

def _cholesky_tangent(t, y, x):
    left = triangular_solve(y, _hermitian(t), transposed=False, lower=True, unit_diagonal=False)
    both = adjoint(triangular_solve(y, adjoint(left), transposed=False, lower=True, unit_diagonal=False))
    return product(y, weighed(both, below=1.0, diagonal=0.5, above=0.0))


cholesky = _one('cholesky', np.linalg.cholesky, 2, jvp=_cholesky_tangent)


def _qr_tangents(t, ys, x, *, full: bool):
    q, r = ys
    m, n = typeof(x).shape[-2:]
    if m < n or full and m != n:
        raise NotImplementedError(f"qr of {typeof(x)} has no derivative, for it has more columns than rows, or its q is square. Use "
                                  "mode='reduced', on matrices with as many rows as columns or more.")
    change = turned(triangular_solve(r, turned(t), transposed=True, lower=False, unit_diagonal=False))         # t r^-1
    inside = product(adjoint(q), change)
    low = weighed(inside, below=1.0, diagonal=0.0, above=0.0)
    turn = sub(low, adjoint(low))
    if typeof(x).dtype.kind == 'c':
        diagonal = weighed(inside, below=0.0, diagonal=1.0, above=0.0)
        turn = add_any(turn, sub(diagonal, _like(real(diagonal), diagonal)))
    rest = sub(inside, turn)
    return [sub(change, product(q, rest)), product(rest, r)]


def _qr_shapes(x: ArrayType, *, full: bool):
    m, n = x.shape[-2:]
    k = m if full else min(m, n)
    return [((m, k), x.dtype), ((k, n), x.dtype)]


qr = _several('qr', lambda x, *, full: tuple(np.linalg.qr(x, 'complete' if full else 'reduced')), _qr_shapes, (2, 2),
              jvp=_qr_tangents)


def _eigh_tangents(t, ys, x):
    w, v = ys
    moved = product(_hermitian(t), v)
    change = _real(reduce_sum(mul(conj(v) if typeof(v).dtype.kind == 'c' else v, moved), axes=(typeof(v).ndim - 2,)))
    return [change, product(v, mul(_like(_inverse_gaps(w), v), product(adjoint(v), moved)))]


eigh = _several('eigh', lambda x: tuple(np.linalg.eigh(x)), lambda x: [(x.shape[-1:], _real_dtype(x)), (x.shape[-2:], x.dtype)],
                (1, 2), jvp=_eigh_tangents, square=True)


def _svd_tangents(t, ys, x, *, full: bool):
    u, s, vh = ys
    m, n = typeof(x).shape[-2:]
    if typeof(x).dtype.kind == 'c' or full and m != n:
        raise NotImplementedError(f"svd of {typeof(x)} has no derivative, for it is complex, or has square factors. Use "
                                  "full_matrices=False.")
    moved = product(t, adjoint(vh))
    inside = product(adjoint(u), moved)
    columns, rows = mul(inside, _in_columns(s)), mul(inside, _in_rows(s))
    gaps = _inverse_gaps(mul(s, s))
    du = product(u, mul(gaps, add_any(columns, turned(columns))))
    dv = product(turned(vh), mul(gaps, add_any(rows, turned(rows))))
    if m > n:
        du = add_any(du, div(sub(moved, product(u, inside)), _in_columns(s)))
    if n > m:
        back = product(turned(t), u)
        dv = add_any(dv, div(sub(back, product(turned(vh), product(vh, back))), _in_columns(s)))
    return [du, reduce_sum(mul(u, moved), axes=(typeof(u).ndim - 2,)), turned(dv)]


def _svd_shapes(x: ArrayType, *, full: bool):
    m, n = x.shape[-2:]
    k = min(m, n)
    return [((m, m if full else k), x.dtype), ((k,), _real_dtype(x)), ((n if full else k, n), x.dtype)]


svd = _several('svd', lambda x, *, full: tuple(np.linalg.svd(x, full_matrices=full)), _svd_shapes, (2, 1, 2), jvp=_svd_tangents)
