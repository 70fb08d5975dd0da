"""Attention: each query's mean of values, weighed by how well their keys fit (Vaswani and others 2017, arXiv:1706.03762).

It is two contractions and a softmax, and where it lies follows from theirs. Split batches and heads stay as they are, and nothing is
sent. Queries may be split along their sequence beside whole keys. Keys and values split along theirs take the all-reduces of a split
softmax and of a split contraction. Both sequences split over one axis are refused: gather the keys, or pass them round in a ring.
"""

from collections.abc import Iterator
from math import sqrt

import numpy as np

from distad import numpy as jnp
from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax.contraction import contraction
from distad.lax.kind import settle
from distad.nn.normalization import logsumexp, softmax
from distad.numpy.promotion import ArrayLike
from distad.types import dtypes
from distad.types.inference import show

# What masked places have instead of a logit: finite, so that a query that may see nothing gets the mean of all values, not NaN.
LEAST = -0.7 * float(np.finfo(np.float32).max)

NAME = 'dot_product_attention'


def dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None,
                          mask: ArrayLike | None = None, *, scale: float | None = None, is_causal: bool = False,
                          query_seq_lengths: ArrayLike | None = None, key_value_seq_lengths: ArrayLike | None = None,
                          local_window_size: int | tuple[int, int] | None = None, implementation: str | None = None,
                          return_residual: bool = False) -> Value | tuple[Value, Value]:
    """softmax(scale * query key^T + bias) value, for each head.

    Args:
      query: [B@X, T, N@Y, H] or [T, N, H], float. key, value: [B, S, K, H] or [S, K, H], where K divides N: each N/K heads of the
        query share one of these (arXiv:2305.13245).
      bias, mask: [B, N, T, S] or of sizes 1 (or without B, if the others have none); False in the mask hides a key from a query.
      scale: 1/sqrt(H) unless given. is_causal: whether query t sees the keys up to t only.
      query_seq_lengths, key_value_seq_lengths: int[B], how many of the sequence count; what is beyond gives 0, or is hidden.
      local_window_size: how many keys before and after its own place a query sees, one number for both or two.
      implementation: None or 'xla'; return_residual: whether the logsumexp of the logits [B, T, N] is returned as well.
    Returns: [B, T, N, H] or [T, N, H], of the query's dtype, split as the query. Logits and softmax are float32.
    Communication: none where batches and heads are split; where S is split two all-reduces of [B, N, T] and one of the result.
    Raises: ShardingTypeError for unreduced logits, and where T and S are split over one axis. ValueError for sizes.

    >>> dot_product_attention(np.ones((2, 1, 4), np.float32), np.ones((3, 1, 4), np.float32), np.ones((3, 1, 4), np.float32)).shape
    (2, 1, 4)
    """
    if implementation not in (None, 'xla'):
        raise ValueError(f"{NAME}: there is one implementation, named None or 'xla', got {implementation!r}")
    q, k, v = (as_value(x, NAME) for x in (query, key, value))
    _check(q, k, v)
    single = q.ndim == 3
    q, k, v = (x[None] if single else x for x in (q, k, v))
    (_, t, n, h), (_, s, heads, _) = q.shape, k.shape
    grouped = jnp.reshape(q, (*q.shape[:2], heads, n // heads, h))
    logits = jnp.einsum('btkgd,bskd->bkgts', grouped, k, preferred_element_type=np.float32)
    logits = logits * np.float32(1 / sqrt(h) if scale is None else scale)
    if bias is not None:
        logits = logits + _of_heads('bias', bias, heads).astype(np.float32)
    for seen in _visible(mask, heads, is_causal, local_window_size, key_value_seq_lengths, t, s):
        logits = jnp.where(seen, logits, np.float32(LEAST))
    weights = softmax(logits).astype(q.dtype)
    y = contraction(NAME, weights, v, (((4,), (1,)), ((0, 1), (0, 2))), None, None, order=(0, 3, 1, 2, 4), keep=True)
    y = jnp.reshape(settle(y, weights, v), q.shape)
    if query_seq_lengths is not None:
        y = jnp.where(jnp.reshape(jnp.arange(t) < jnp.reshape(query_seq_lengths, (-1, 1)), (-1, t, 1, 1)), y, 0)
    found = [y]
    if return_residual:
        total = logsumexp(logits, -1)                                        # [B, K, G, T]
        found.append(jnp.swapaxes(jnp.reshape(total, (total.shape[0], n, t)), 1, 2))
    found = tuple(x[0] for x in found) if single else tuple(found)
    return found if return_residual else found[0]


def _check(q: Value, k: Value, v: Value) -> None:
    types = show([typeof(x) for x in (q, k, v)])
    if any(x.dtype != q.dtype or not dtypes.is_float(x.dtype) or x.dtype.kind == 'c' for x in (q, k, v)):
        raise ValueError(f"{NAME} takes query, key and value of one real float dtype, got {types}")
    if q.ndim not in (3, 4) or k.ndim != q.ndim or k.shape != v.shape:
        raise ValueError(f"{NAME} takes query [B, T, N, H] or [T, N, H], and key and value [B, S, K, H] or [S, K, H], got {types}")
    if q.shape[:-3] != k.shape[:-3] or q.shape[-1] != k.shape[-1] or not k.shape[-2] or q.shape[-2] % k.shape[-2]:
        raise ValueError(f"{NAME}: batch and head sizes must agree, and the number of key heads must divide that of query heads, "
                         f"got {types}")


def _of_heads(what: str, x: ArrayLike, heads: int) -> Value:
    """[B, N, T, S] as [B, K, G, T, S], where N may be 1 and dimensions may be missing in front."""
    x = as_value(x, NAME)
    if x.ndim > 4:
        raise ValueError(f"{NAME}: {what} broadcasts to [B, N, T, S], got {x.type}")
    x = jnp.reshape(x, (1,) * (4 - x.ndim) + x.shape)
    n = x.shape[1]
    return jnp.reshape(x, (x.shape[0], *((1, 1) if n == 1 else (heads, n // heads)), *x.shape[2:]))


def _visible(mask: ArrayLike | None, heads: int, is_causal: bool, window: int | tuple[int, int] | None, lengths: ArrayLike | None,
             t: int, s: int) -> Iterator[Value]:
    """Masks that say which keys a query sees: all of them have to hold."""
    if mask is not None:
        mask = as_value(mask, NAME)
        if mask.dtype != bool:
            raise ValueError(f"{NAME}: a mask is of dtype bool, got {mask.type}; what is added to the logits is the bias")
        yield _of_heads('mask', mask, heads)
    ahead = np.arange(s) - np.arange(t)[:, None]                             # how far keys are ahead of the query
    if is_causal:
        yield as_value(ahead <= 0, NAME)
    if window is not None:
        before, after = (window, window) if isinstance(window, int) else window
        yield as_value((ahead >= -before) & (ahead <= after), NAME)
    if lengths is not None:
        yield jnp.reshape(jnp.arange(s) < jnp.reshape(lengths, (-1, 1)), (-1, 1, 1, 1, s))


__all__ = ['dot_product_attention']
