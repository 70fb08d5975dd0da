"""Attention: NumPy's values with masks, windows and shared heads; placements, gradients and what is sent."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax

import distad as jax
import distad.numpy as jnp
from distad.errors import ShardingTypeError
from distad.nn import dot_product_attention as attention
from distad.nn.attention import LEAST
from tests.ops.arrays import counted, get, placements, put

B, T, S, N, K, H = 4, 3, 5, 6, 2, 4


def arrays(t: int = T, s: int = S, n: int = N, k: int = K) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=shape).astype('f4') for shape in ((B, t, n, H), (B, s, k, H), (B, s, k, H)))


def reference(q, k, v, *, bias=0, mask=True, scale=H ** -0.5):
    k, v = (np.repeat(x, q.shape[2] // k.shape[2], 2) for x in (k, v))
    logits = np.where(mask, np.einsum('btnh,bsnh->bnts', q, k) * scale + bias, LEAST)
    return np.einsum('bnts,bsnh->btnh', softmax(logits, -1), v), np.swapaxes(logsumexp(logits, -1), 1, 2)


AHEAD = np.arange(S) - np.arange(T)[:, None]
BIAS = np.random.default_rng(1).normal(size=(B, N, T, S)).astype('f4')
OPTIONS = [
    ({}, {}), ({'scale': 0.3}, {'scale': 0.3}), ({'is_causal': True}, {'mask': AHEAD <= 0}),
    ({'local_window_size': (1, 2)}, {'mask': (AHEAD >= -1) & (AHEAD <= 2)}), ({'local_window_size': 1}, {'mask': abs(AHEAD) <= 1}),
    ({'bias': BIAS}, {'bias': BIAS}), ({'bias': BIAS[:1, :1]}, {'bias': BIAS[:1, :1]}),
    ({'mask': BIAS > 0, 'is_causal': True}, {'mask': (BIAS > 0) & (AHEAD <= 0)}),
    ({'key_value_seq_lengths': np.arange(B) + 1}, {'mask': (np.arange(S) < np.arange(1, B + 1)[:, None])[:, None, None]})]


@pytest.mark.parametrize('given, means', OPTIONS)
def test_values(given, means):
    q, k, v = arrays()
    for heads in (K, N, 1):
        k_, v_ = (np.tile(x[:, :, :1], (1, 1, heads, 1)) * np.arange(1, heads + 1)[:, None].astype('f4') for x in (k, v))
        y, residual = attention(q, k_, v_, return_residual=True, **given)
        want, total = reference(q, k_, v_, **means)
        assert_allclose(y, want, atol=1e-5)
        assert_allclose(residual, total, rtol=1e-5, atol=1e-5)
    if not means.keys() & {'mask', 'bias'}:
        assert_allclose(attention(q[0], k[0], v[0], **given), reference(q, k, v, **means)[0][0], atol=1e-5)


def test_what_is_beyond_lengths_is_zero():
    q, k, v = arrays()
    y = attention(q, k, v, query_seq_lengths=np.arange(B))
    assert_allclose(y, reference(q, k, v)[0] * (np.arange(T) < np.arange(B)[:, None])[:, :, None, None], atol=1e-5)
    assert attention(*(jnp.asarray(x, 'bfloat16') for x in (q, k, v))).dtype == 'bfloat16'


def test_what_is_refused():
    q, k, v = arrays()
    for call, words in ((lambda: attention(q, k[..., :3], v[..., :3]), 'head sizes must agree'),
                        (lambda: attention(q, k, v, mask=BIAS), 'dtype bool'), (lambda: attention(q[:, :, :5], k, v), 'divide'),
                        (lambda: attention(q, k.astype('f2'), v), 'of one real float dtype'),
                        (lambda: attention(q, k, v, implementation='cudnn'), 'one implementation')):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_however_operands_lie(mesh):
    q, k, v = arrays(12, 12, 12, 12)
    q, k, v = (np.tile(x, (3, 1, 1, 1)) for x in (q, k, v))
    want = reference(q, k, v)[0]
    weights = np.cos(np.arange(q.size)).reshape(q.shape)

    def loss(q, k, v):
        return jnp.sum(attention(q, k, v) * weights.astype('f4'))

    whole = jax.grad(loss, (0, 1, 2))(q, k, v)
    for t in placements(q.shape, mesh):
        if t.unreduced or t.reduced or t.partitions[3]:
            continue
        args = [put(x, t, mesh) for x in (q, k, v)]
        if t.partitions[1]:
            with pytest.raises(ShardingTypeError):
                attention(*args)
            continue
        y = attention(*args)
        assert y.type == t and not sum(counted(lambda a=args: attention(*a))[0].values())
        assert_allclose(get(y, mesh), want, atol=1e-5)
        for ct, one in zip(jax.grad(loss, (0, 1, 2))(*args), whole, strict=True):
            assert ct.type == t.dual()
            assert_allclose(get(ct, mesh), one, atol=1e-4)
    spec = jax.P(None, mesh.axis_names[0])
    for args, sent in (([jax.device_put(q, spec), k, v], {}),
                       ([q, jax.device_put(k, spec), jax.device_put(v, spec)], {'all-reduce': 3})):
        y, found = attention(*args), counted(lambda a=args: attention(*a))[0]
        assert found == sent
        assert_allclose(get(y, mesh), want, atol=1e-5)
