"""Functions of small arrays on large ones, beside NumPy's; and lax.map in batches."""

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.core.value import typeof
from distad.runtime import recorder
from distad.types.spec import P

A = np.arange(24, dtype=np.float32).reshape(4, 1, 6)
B = np.arange(30, dtype=np.float32).reshape(5, 6) / 7


def test_vectorize_is_that_of_numpy():
    for f, signature, args in [
            (lambda x, y: x * y + 1, None, (A, B)),
            (lambda x, y: x @ y, '(n),(n)->()', (A, B)),
            (lambda x: x[:2], '(n)->(k)', (A,)),
            (lambda x, y: (x.sum(), x[:, None] * y), '(m),(n)->(),(m,n)', (A, B)),
            (lambda x: x, ' ( n , ) -> ( n ) ', (B,))]:
        got, want = (library.vectorize(f, signature=signature.replace(' ', '').replace(',)', ')') if signature else None)(*args)
                     for library in (jnp, np))
        for y, z in zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]:
            np.testing.assert_allclose(np.asarray(y), z, rtol=1e-5)
    assert jnp.vectorize(lambda x: x, signature=' ( n , ) -> (n) ')(B).shape == B.shape


def test_vectorize_leaves_what_is_excluded():
    f = jnp.vectorize(lambda x, name, scale=1.0: {'cube': x**3}[name] * scale, excluded={1, 'scale'})
    np.testing.assert_allclose(np.asarray(f(B, 'cube', scale=2.0)), 2 * B**3, rtol=1e-5)
    assert jnp.vectorize(lambda x, y: x + y)(B, y=A).shape == (4, 5, 6)
    assert jnp.vectorize(lambda x, y: x)(B, None).shape == B.shape


def test_vectorize_repeats_nothing():
    program = str(jax.make_jaxpr(jnp.vectorize(jnp.dot, signature='(n),(n)->()'))(A, B))
    assert 'dimension_numbers=(([1], [1]), ([], []))' in program and 'broadcast_in_dim' not in program
    assert jnp.vectorize(jnp.add)(np.ones((1, 3), np.float32), np.ones((1, 1), np.float32)).shape == (1, 3)


@pytest.mark.parametrize('args, kwargs, error, told', [
    (((A, B), '(n)->()'), {}, TypeError, r'the signature \(n\)->\(\) has 1 arguments, got 2'),
    (((A, B[:, :4]), '(n),(n)->()'), {}, ValueError, 'dimension n of the signature .* has size 6 and size 4'),
    (((np.float32(1),), '(n)->()'), {}, ValueError, r'fewer dimensions than \(n\)'),
    (((A,), '(n)->()'), {}, ValueError, r'a result float32\[6\] has not the dimensions \(\)'),
    (((A,), '(n)->(n),(n)'), {}, TypeError, 'returns a tuple of 2 arrays'),
    (((A,), '(n->n'), {}, ValueError, 'is no signature'),
    (((A,), None), {'excluded': {-1}}, ValueError, 'negative'),
    (((A,), None), {'excluded': {1.5}}, TypeError, 'by number or name')])
def test_vectorize_says_what_is_wrong(args, kwargs, error, told):
    values, signature = args
    with pytest.raises(error, match=told):
        jnp.vectorize(lambda *xs: xs[0], signature=signature, **kwargs)(*values)


@pytest.mark.meshes((2,), (2, 2))
def test_vectorize_keeps_what_is_split(mesh):
    x, y = jax.device_put(A[:, 0], P('X')), jax.device_put(B.T[:4], P())
    with recorder.count() as sent:
        z = jnp.vectorize(lambda a, b: a.sum() * b, signature='(m),(n)->(n)')(x, y)
    assert str(typeof(z)) == 'float32[4@X,5]' and not sent.by_op
    np.testing.assert_allclose(jax.process_allgather(z), A.sum(2) * B.T[:4], rtol=1e-5)


def test_apply_along_axis_and_over_axes():
    x = np.random.default_rng(0).normal(size=(4, 3, 5)).astype(np.float32)
    for f, g in [(jnp.cumsum, np.cumsum), (jnp.sum, np.sum), (lambda v: jnp.outer(v, v), lambda v: np.outer(v, v))]:
        for axis in (0, 1, -1):
            got = jnp.apply_along_axis(f, axis, x)
            np.testing.assert_allclose(np.asarray(got), np.apply_along_axis(g, axis, x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(jnp.apply_over_axes(jnp.sum, x, (0, -1))), np.apply_over_axes(np.sum, x, (0, -1)), rtol=1e-4)
    with pytest.raises(ValueError, match=r'makes float32\[\] of float32\[4,3,5\]'):
        jnp.apply_over_axes(lambda v, axis: v.sum(), x, 0)


@pytest.mark.parametrize('size', [0, 1, 3, 7, 9])
def test_map_in_batches(size):
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    out = lax.map(lambda v: {'sum': v['x'].sum(), 'twice': 2 * v['x']}, {'x': x}, batch_size=size)
    np.testing.assert_allclose(np.asarray(out['sum']), x.sum(1))
    np.testing.assert_allclose(np.asarray(out['twice']), 2 * x)
    g = jax.grad(lambda x: lax.map(lambda v: (v * v).sum(), x, batch_size=size).sum())(x)
    np.testing.assert_allclose(np.asarray(g), 2 * x)


def test_scans_and_pieces_of_batches():
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    got = jax.vmap(lambda v: lax.associative_scan(lambda a, b: a * b, v), in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(np.asarray(got), np.cumprod(x, 0), rtol=1e-5)
    got = jax.vmap(lambda v, c: jnp.piecewise(v, [v < c], [lambda u: -u, lambda u: u * u]))(x, x[:, 0])
    np.testing.assert_allclose(np.asarray(got), np.where(x < x[:, :1], -x, x * x), rtol=1e-6)
