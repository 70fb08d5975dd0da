"""expm: the exponential of square matrices and, given directions as further operands, its derivative in them.

The exponential of the block matrix [[a, e], [0, a]] has the derivative at a in the direction e as its upper right block; the same block
of the exponential of a matrix twice as large has the second derivative, and so on (R. Mathias, A chain rule for matrix functions and
applications, 1996). Derivatives are linear in each direction, and symmetric. A product under a trace may be turned round, so the
adjoint in a direction is the derivative at the transpose of a. Thus one primitive has derivatives of all orders.
"""

import numpy as np

from distad.core.batching import leading
from distad.core.primitive import Primitive, by_labels, signature
from distad.core.value import Linear, Zero, typeof
from distad.late import Late
from distad.ops.basic import add_any
from distad.ops.linalg import check_matrices, safely, turned
from distad.types.array_type import ArrayType
from distad.types.inference import Linearity

linalg = Late('scipy.linalg')


def _labels(a: ArrayType, *directions: ArrayType):
    labels = [*range(a.ndim - 2), None, None]
    linearity = Linearity(groups=tuple((i + 1,) for i in range(len(directions))))
    return signature('expm', [labels] * (1 + len(directions)), [labels], linearity=linearity)


def _shape(a: ArrayType, *directions: ArrayType):
    for e in directions:
        check_matrices('expm', a, e, square=True)
        if a.shape != e.shape:
            raise ValueError(f"expm takes directions of the matrix's shape, got {a} and {e}")
    check_matrices('expm', a, square=True)
    return a.shape, a.dtype


def _impl(a, *directions, out):
    n, size, x = a.shape[-1], 1, a
    for e in directions:                # scaled, as their sizes should not decide how the exponential is computed
        scale = np.abs(e).max(axis=(-2, -1), keepdims=True, initial=0)
        scale = np.where(scale > 0, scale, 1).astype(scale.dtype)
        corner = np.kron(np.eye(x.shape[-1] // n), e / scale)
        x, size = np.concatenate([np.concatenate([x, corner], -1), np.concatenate([np.zeros_like(x), x], -1)], -2), size * scale
    return safely(lambda x: linalg.expm(x)[..., :n, x.shape[-1] - n:] * size, [out], x.astype(out.dtype, copy=False))[0]


def _jvp(primals, tangents):
    a, *directions = primals
    y, total = expm(*primals), None
    for i, t in enumerate(tangents):
        if t.__class__ is Zero:
            continue
        term = expm(*primals, t) if not i else expm(a, *directions[:i - 1], t, *directions[i:])
        total = term if total is None else add_any(total, term)
    return [y], [Zero(typeof(y).tangent()) if total is None else total]


def _transpose(ct, a, *directions):
    def back(i: int):
        return expm(turned(a), *(turned(e) for j, e in enumerate(directions) if j != i), ct)
    return [None, *(back(i) if e.__class__ is Linear else None for i, e in enumerate(directions))]


expm = Primitive(
    'expm',
    type=by_labels(_labels, _shape),
    labels=_labels,
    impl=_impl,
    jvp=_jvp,
    transpose=_transpose,
    batch=leading(),
    linearity=Linearity(groups=tuple((i,) for i in range(1, 9))))
