"""Polynomials by their coefficients, the highest power first."""

from distad.core.lift import as_value
from distad.core.value import Value
from distad.numpy.indexing import getitem
from distad.numpy.promotion import ArrayLike, promoted


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Value:
    """The value of a polynomial at each element, by Horner's rule.

    p: [n], or [n, ...] that broadcasts to x; x: [...]; unroll: accepted for its name. The result is split as x. Nothing is
    communicated unless p is split. Raises ShardingTypeError for unreduced arrays.

        jnp.polyval(jnp.array([1., 0., 2.]), jnp.array([1., 3.]))         # 3., 11.
    """
    p, x = (as_value(v, 'polyval') for v in promoted('polyval', as_value(p, 'polyval'), as_value(x, 'polyval')))
    if not p.ndim:
        raise ValueError(f"polyval takes a vector of coefficients, got {p.type}")
    y = x * 0
    for i in range(p.shape[0]):
        y = y * x + getitem(p, i)
    return y


__all__ = ['polyval']
