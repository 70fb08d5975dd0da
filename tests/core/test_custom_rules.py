"""Rules of one's own: batching (custom_vmap), derivatives (custom_jvp, custom_vjp), what is kept (checkpoint), transposes."""

import re
from functools import partial

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.ad_checkpoint import checkpoint_name
from distad.compiler.dce import dce
from distad.custom_batching import custom_vmap, sequential_vmap
from distad.custom_derivatives import SymbolicZero

BOTH = (lambda f: f, jax.jit)
policies = jax.checkpoint_policies


def same(a, b) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-4, atol=1e-5)


# ---- batching

def plain(x, y):
    return jnp.sin(x) * y


@pytest.mark.parametrize('through', BOTH)
def test_custom_vmap(through) -> None:
    """The rule is used under vmap, jvp and grad of it, and vmap of jvp; under vmap of grad values and derivative are right too."""
    used = []

    @custom_vmap
    def f(x, y):
        return plain(x, y)

    @f.def_vmap
    def rule(size, batched, x, y):
        used.append((size, batched))
        return jnp.sin(x) * (y[:, None] if batched[1] else y), True

    x, y, ys = jnp.arange(6.).reshape(3, 2) / 3, jnp.float32(2.), jnp.arange(3.)

    def each(f):
        return jax.vmap(f, in_axes=(0, None))

    pairs = [(lambda f: lambda: each(f)(x, y), [(3, [True, False])]),
             (lambda f: lambda: each(jax.jit(f))(x, y), [(3, [True, False])]),
             (lambda f: lambda: jax.jvp(each(f), (x, y), (x * 2, y)), [(3, [True, False])]),
             (lambda f: lambda: jax.vmap(lambda x, y, t: jax.jvp(f, (x, y), (t, y)))(x, ys, x * x), [(3, [True, True])]),
             (lambda f: lambda: jax.grad(lambda x: each(f)(x, y).sum())(x), [(3, [True, False])]),
             (lambda f: lambda: each(jax.grad(lambda x, y: f(x, y).sum(), (0, 1)))(x, y), []),
             (lambda f: lambda: jax.vmap(lambda x: lax.scan(lambda c, _: (f(c, y), None), x, length=2)[0])(x), [(3, [True, False])])]
    for program, want in pairs:
        used.clear()
        same(through(program(f))(), program(plain)())
        assert used == want
    with pytest.raises(AttributeError, match='def_vmap'):
        custom_vmap(plain)(x, y)
    bad = custom_vmap(plain)
    bad.def_vmap(lambda size, batched, x, y: (x[0], True))
    with pytest.raises(ValueError, match='has the batch in front'):
        each(bad)(x, y)


def test_sequential_vmap_calls_what_has_no_batching_rule() -> None:
    f = sequential_vmap(lambda x, y: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * y)
    x, ys = jnp.arange(6.).reshape(3, 2), jnp.arange(3.)
    same(jax.vmap(f, in_axes=(0, None))(x, 2.), 2 * np.sin(x))
    same(jax.jit(jax.vmap(f, in_axes=(1, 0)))(x.T, ys), np.sin(x) * np.arange(3.)[:, None])
    g = sequential_vmap(jnp.sin)
    same(jax.grad(lambda x: jax.vmap(g)(x).sum())(x), np.cos(x))


# ---- derivatives

def test_arguments_by_name() -> None:
    @jax.custom_jvp
    def f(x, y=2.):
        return x * y
    f.defjvps(lambda t, out, x, y: 10 * t * y, None)
    assert f(3.) == 6. and f(y=4., x=3.) == 12. and jax.grad(lambda x: f(y=3., x=x))(1.) == 30.

    @partial(jax.custom_vjp, nondiff_argnames='n')
    def power(x, n, c):
        return c * x ** n
    power.defvjp(lambda x, n, c: (power(x, n, c), (x, c)), lambda n, r, ct: (ct * r[1] * n * r[0] ** (n - 1), None))
    assert jax.vmap(jax.grad(lambda x: power(x, c=2., n=3)))(jnp.arange(3.)).tolist() == [0., 6., 24.]
    with pytest.raises(jax.errors.UnexpectedTracerError, match='nondiff_argnums is a traced value'):
        jax.jit(lambda n: power(1., n, 1.))(2)

    @partial(jax.custom_jvp, nondiff_argnums=(0,))
    def apply(g, x):
        return g(x)
    apply.defjvp(lambda g, primals, tangents: (g(*primals), 7 * tangents[0]))
    assert jax.jit(jax.vmap(jax.grad(lambda x: apply(jnp.sin, x))))(jnp.arange(3.)).tolist() == [7., 7., 7.]
    with pytest.raises(TypeError, match='keyword-only'):
        g = jax.custom_jvp(lambda x, *, k: x)
        g.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
        g(1., k=2)


@pytest.mark.parametrize('through', BOTH)
def test_symbolic_zeros(through) -> None:
    seen = []

    @jax.custom_jvp
    def f(x, y):
        return x * y

    @partial(f.defjvp, symbolic_zeros=True)
    def rule(primals, tangents):
        seen.append([type(t) is SymbolicZero for t in tangents])
        (x, y), (t, _) = primals, tangents
        return x * y, t if type(t) is SymbolicZero else t * y

    assert through(jax.grad(f))(2., 3.) == 3. and through(jax.grad(f, 1))(2., 3.) == 0.
    assert seen == [[False, True], [True, False]]
    seen.clear()

    @jax.custom_vjp
    def g(x, y):
        return x * y, x + y

    def forward(x, y):
        seen.append((x.perturbed, y.perturbed))
        return g(x.value, y.value), (x.value, y.value)

    def backward(kept, cts):
        seen.append(tuple(type(ct) is SymbolicZero for ct in cts))
        a, b = (0. if type(ct) is SymbolicZero else ct for ct in cts)
        return a * kept[1] + b, a * kept[0] + b

    g.defvjp(forward, backward, symbolic_zeros=True, optimize_remat=True)
    x = jnp.arange(3.)
    for program, want in ((lambda: jax.grad(lambda x: g(x, 3.)[0])(2.), 3.),
                          (lambda: jax.vmap(jax.grad(lambda x: g(x, 3.)[0]))(x), [3., 3., 3.]),
                          (lambda: jax.grad(lambda x: jax.vmap(g, (0, None))(x, 3.)[0].sum())(x), [3., 3., 3.])):
        seen.clear()
        assert np.asarray(through(program)()).tolist() == want
        assert seen == [(True, False), (False, True)]


def test_a_backward_rule_may_communicate_over_the_mapped_axis() -> None:
    """Each element has a cotangent of its own, though the sum is the same for all; and the rule runs when the vmap is over."""
    @jax.custom_vjp
    def total(a):
        return lax.psum(a, 'i')
    total.defvjp(lambda a: (total(a), None), lambda _, ct: (lax.pmean(ct, 'i'),))
    x = jnp.arange(4.)
    for through in BOTH:
        got = through(jax.grad(lambda x: (jax.vmap(total, axis_name='i')(x) * jnp.arange(4.)).sum()))(x)
        assert got.tolist() == [1.5] * 4


def test_closure_convert() -> None:
    @partial(jax.custom_vjp, nondiff_argnums=0)
    def call(f, x, *hoisted):
        return f(x, *hoisted)
    call.defvjp(lambda f, *xs: (f(*xs), xs), lambda f, xs, ct: jax.vjp(f, *xs)[1](ct))

    def outer(y):
        f, hoisted = jax.closure_convert(lambda x: x * jnp.sin(y), 1.)
        return call(f, 2., *hoisted)
    for through in BOTH:
        same(through(jax.grad(outer))(1.), 2 * np.cos(1.))


def test_linear_transpose() -> None:
    x, u = jnp.arange(4.), jnp.ones(2)
    same(jax.linear_transpose(lambda t, u: 3. * t + jnp.sum(u) * x, x, u)(x), (3 * x, np.full(2, 14.)))
    same(jax.vmap(lambda a: jax.linear_transpose(lambda t: t * 3, a)(a)[0])(x), 3 * x)
    loop = jax.jit(lambda t: lax.scan(lambda c, _: (c * 2., None), t, length=3)[0])
    same(jax.linear_transpose(loop, jax.ShapeDtypeStruct((2,), 'float32'))(u), (8 * u,))
    with pytest.raises(NotImplementedError, match='sin has no transpose'):
        jax.linear_transpose(jnp.sin, x)(x)
    with pytest.raises(ValueError, match=r'must have type float32\[4\], got float32\[2\]'):
        jax.linear_transpose(lambda t: 2 * t, x)(u)
    with pytest.raises(TypeError, match='float or complex'):
        jax.linear_transpose(lambda t: 2 * t, jnp.arange(3))


# ---- what is kept for the backward pass

def network(w, x):
    hidden = checkpoint_name(jnp.tanh(x @ w), 'hidden')
    wave = jax.jit(lambda t: checkpoint_name(jnp.sin(t), 'wave'))(hidden @ w)
    return (jnp.exp(wave) * hidden).sum()


# How often each is computed with nothing kept, and what a policy saves of it.
ALL = {'dot_general': 8, 'tanh': 2, 'sin': 2, 'exp': 2}


@pytest.mark.parametrize('policy, saved', [
    (None, {}), (policies.nothing_saveable, {}),
    (policies.everything_saveable, {'dot_general': 2, 'tanh': 1, 'sin': 1, 'exp': 1}),
    (policies.dots_saveable, {'dot_general': 2}),
    (policies.dots_with_no_batch_dims_saveable, {'dot_general': 2}),
    (policies.save_only_these_names('hidden'), {'dot_general': 1, 'tanh': 1}),
    (policies.save_only_these_names('hidden', 'wave'), {'dot_general': 1, 'tanh': 1, 'sin': 1}),
    (policies.save_any_names_but_these('wave'), {'dot_general': 1, 'tanh': 1}),
    (policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names('wave')), {'dot_general': 2, 'sin': 1}),
])
def test_policies(policy, saved: dict) -> None:
    rng = np.random.default_rng(0)
    w, x = (jnp.asarray(rng.normal(size=s).astype(np.float32)) for s in ((4, 4), (3, 4)))
    f = jax.checkpoint(network, policy=policy)
    step = jax.jit(jax.value_and_grad(f, (0, 1)))
    same(step(w, x), jax.value_and_grad(network, (0, 1))(w, x))
    same(jax.jvp(jax.grad(f), (w, x), (w, x)), jax.jvp(jax.grad(network), (w, x), (w, x)))
    text = str(dce(step.trace(w, x).jaxpr))
    counts = {name: len(re.findall(rf'= {name}\b', text)) for name in ALL}
    assert counts == {name: n - saved.get(name, 0) for name, n in ALL.items()}


def test_arguments_of_checkpoint() -> None:
    f = jax.checkpoint(lambda n, x, k=1.: x * n * k, static_argnums=0, prevent_cse=False)
    assert f(3, 2., k=2.) == 12. and jax.grad(f, 1)(3, 2.) == 3.


@pytest.mark.ranks(1)
@pytest.mark.parametrize('found', [(1.,), (1., 2., 3.)])
def test_a_backward_rule_gives_a_cotangent_for_each_argument(found) -> None:
    @jax.custom_vjp
    def f(x, y):
        return x * y
    f.defvjp(lambda x, y: (x * y, None), lambda saved, ct: found)
    with pytest.raises(TypeError, match=f'each of its 2 arguments, got {len(found)}'):
        jax.grad(f)(2., 3.)
