"""Elementwise functions on every placement; derivatives, at corners too; what an unreduced operand may meet."""


import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax, nn
from distad.config import config
from distad.core.lift import host
from distad.errors import ShardingTypeError
from distad.numpy import elementwise, equality, logic
from tests.ops import documents
from tests.ops.arrays import counted, get, gradients, numbers, placements, put, some

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
M, N = 12, 24

# Functions of several primitives: of one operand, and NumPy's or a formula
ONE = {
    'sinc': (jnp.sinc, np.sinc), 'modf': (lambda x: jnp.modf(x / 4)[0], lambda x: np.modf(x / 4)[0]),
    'frexp': (lambda x: jnp.frexp(x)[0], lambda x: np.frexp(x)[0]), 'nan_to_num': (jnp.nan_to_num, np.nan_to_num),
    'round': (lambda x: jnp.round(x / 3, 1), lambda x: np.round(x / 3, 1)), 'isinf': (jnp.isinf, np.isinf),
    'where': (lambda x: jnp.where(x > 0, x, 0.0), lambda x: np.where(x > 0, x, 0)),
    'select': (lambda x: jnp.select([x < 0, x > 1], [-x, 2 * x], 5.0), lambda x: np.select([x < 0, x > 1], [-x, 2 * x], 5)),
    'piecewise': (lambda x: jnp.piecewise(x, [x > 0], [lambda v: v, 7.0]), lambda x: np.where(x > 0, x, 7)),
    'clip': (lambda x: jnp.clip(x, -1, 2), lambda x: np.clip(x, -1, 2)), 'x**3': (lambda x: x**3, lambda x: x**3),
    '2/(x+5)': (lambda x: 2 / (x + 5), lambda x: 2 / (x + 5)), 'angle': (jnp.angle, np.angle),
    'logical_not': (jnp.logical_not, np.logical_not), 'relu': (nn.relu, lambda x: np.maximum(x, 0)),
    'elu': (nn.elu, lambda x: np.where(x > 0, x, np.expm1(x))), 'hard_tanh': (nn.hard_tanh, lambda x: np.clip(x, -1, 1)),
    'leaky_relu': (nn.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)), 'soft_sign': (nn.soft_sign, lambda x: x / (1 + abs(x))),
    'glu': (lambda x: nn.glu(x, 1), lambda x: x[:, :N // 2] / (1 + np.exp(-x[:, N // 2:])))}

# ... and of two
TWO = {
    'heaviside': (jnp.heaviside, np.heaviside), 'fmax': (jnp.fmax, np.fmax), 'logaddexp2': (jnp.logaddexp2, np.logaddexp2),
    'isclose': (jnp.isclose, np.isclose), 'where': (lambda x, y: jnp.where(x > y, x, y), np.maximum),
    'clip': (lambda x, y: jnp.clip(x, y, 2), lambda x, y: np.minimum(np.maximum(x, y), 2)),
    'logical_xor': (jnp.logical_xor, np.logical_xor), 'add': (jnp.add, np.add), 'multiply': (jnp.multiply, np.multiply)}


@pytest.mark.parametrize('name', ONE)
@MESHES
def test_functions_of_one_operand_on_every_placement(mesh, name):
    f, reference = ONE[name]
    value = numbers((M, N), 1)
    for t in placements((M, N), mesh):
        x = put(value, t, mesh)
        if t.unreduced:
            with pytest.raises(ShardingTypeError, match='unreduced'):
                f(x)
            continue
        y = f(x)
        assert not y.type.unreduced and y.type.reduced == t.reduced
        if name != 'glu':
            assert y.type.partitions == t.partitions
            assert not counted(lambda f=f, x=x: f(x))[0]
        np.testing.assert_allclose(get(y, mesh), reference(value), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('name', TWO)
@MESHES
def test_functions_of_two_operands_on_every_placement(mesh, name):
    f, reference = TWO[name]
    a, b = numbers((M, N), 1), numbers((1, N), 2)
    accepted = 0
    for t, u in some([placements((M, N), mesh), placements((1, N), mesh)], 60):
        x, y = put(a, t, mesh), put(b, u, mesh)
        try:
            z = f(x, y)
        except ShardingTypeError:
            continue
        accepted += 1
        assert not counted(lambda f=f, x=x, y=y: f(x, y))[0]
        np.testing.assert_allclose(get(z, mesh), reference(a, b), rtol=1e-5, atol=1e-6)
    assert accepted > 5


@pytest.mark.parametrize('name', ['x**3', 'where', 'select', 'elu', 'glu', 'sinc', 'clip'])
@MESHES
def test_gradients_on_every_placement(mesh, name):
    f, _ = ONE[name]
    value, ct = numbers((M, N), 1) + np.float32(0.25), numbers((M, N // 2 if name == 'glu' else N), 5)
    want = None
    for t in placements((M, N), mesh):
        if not t.unreduced:
            got, = gradients(f, [put(value, t, mesh)], ct, mesh)
            want = got if want is None else want
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


# ---- corners: as JAX, but for those marked, where JAX has NaN (or e, for a derivative that is zero)

CORNERS = [
    (jnp.abs, 0.0, 1), (jnp.abs, -1.0, -1), (lambda x: jnp.maximum(x, 0), 0.0, 0.5), (lambda x: jnp.minimum(x, x * x), 1.0, 1.5),
    (nn.relu, 0.0, 0), (nn.relu6, 6.0, 0), (nn.hard_tanh, 1.0, 1), (nn.leaky_relu, 0.0, 1), (nn.elu, 0.0, 1), (nn.celu, 0.0, 1),
    (nn.selu, 0.0, 1.7580993), (nn.sparse_plus, 1.0, 1), (nn.softplus, -1000.0, 0), (nn.softplus, 1000.0, 1),
    (lambda x: jnp.clip(x, 0, 1), 1.0, 0.5), (lambda x: lax.clamp(0.0, x, 1.0), 1.0, 0), (lambda x: lax.clamp(x, 0.0, 1.0), 0.0, 0),
    (lambda x: lax.clamp(x, 0.5, 1.0), 2.0, 0), (lambda x: lax.clamp(0.0, 3.0, x), 1.0, 1), (jnp.sign, 0.0, 0),
    (lambda x: x**0, 0.0, 0), (lambda x: x**1, 0.0, 1), (lambda x: x**2, 0.0, 0), (lambda x: x**-1, 0.0, -np.inf),
    (lambda x: x**0.5, 0.0, np.inf), (lambda x: jnp.power(x, jnp.asarray(1.0)), 0.0, 1), (lambda x: x**2.0, -3.0, -6),
    (lambda x: jnp.power(0.0, x), 0.0, 0), (lambda x: jnp.power(jnp.asarray(0.0), x), 1.0, 0),
    (lambda x: jnp.power(x, jnp.asarray(0.0)), 0.0, 0), (lambda x: jnp.power(2.0, x), 1.0, 2 * np.log(2)),
    (lambda x: jnp.power(x, np.array(2)), 3.0, 6), (jnp.sqrt, 0.0, np.inf), (jnp.cbrt, 0.0, np.inf), (jnp.cbrt, -8.0, 1 / 12),
    (lambda x: jnp.hypot(x, 4.0), 3.0, 0.6), (lambda x: jnp.hypot(x, 0.0), 0.0, 0),                      # JAX: NaN
    (lambda x: jnp.logaddexp(x, 1.0), 1.0, 0.5), (lambda x: jnp.logaddexp(x, -np.inf), -np.inf, 0.5),    # JAX: NaN
    (lambda x: jnp.logaddexp(np.inf, x), 1.0, 0),                                                        # JAX: e
    (lambda x: jnp.logaddexp2(x, 3.0), 3.0, 0.5), (lambda x: jnp.copysign(x, -1.0), 0.0, -1),
    (lambda x: jnp.copysign(x, -0.0), -2.0, 1), (lambda x: jnp.nextafter(x, 2.0), 1.0, 1), (lambda x: jnp.arctan2(x, 0.0), 1.0, 0),
    (lambda x: jnp.remainder(x, 3.0), -5.0, 1), (lambda x: jnp.remainder(-5.0, x), 3.0, 2), (lambda x: jnp.fmod(-5.0, x), 3.0, 1),
    (lambda x: x // 3, 5.0, 0), (lambda x: jnp.frexp(x)[0], 3.0, 0.25), (lambda x: jnp.frexp(x)[0], 0.0, 1),
    (lambda x: jnp.ldexp(x, 2), 3.0, 4), (lambda x: jnp.modf(x)[0], 3.5, 1), (lambda x: jnp.modf(x)[1], 3.5, 0),
    (jnp.nan_to_num, np.nan, 0), (jnp.nan_to_num, 2.0, 1), (lambda x: jnp.heaviside(0.0, x), 2.0, 1), (jnp.sinc, 0.0, 0),
    (lambda x: jnp.fmax(x, np.nan), 1.0, 1), (lambda x: jnp.fmax(x, 1.0), 1.0, 0), (jnp.i0, 0.0, 0), (lax.bessel_i0e, 0.0, 0),
    (lax.bessel_i1e, 0.0, 0.5), (lambda x: lax.igamma(2.0, x), 0.0, 0), (lambda x: lax.igamma(x, 1.0), 2.0, -0.27619603),
    (lambda x: lax.zeta(3.0, x), 1.5, -0.70455), (lambda x: lax.polygamma(1.0, x), 1.5, -0.8287969),
    (lambda x: lax.betainc(2.0, 3.0, x), 0.5, 1.5), (lambda x: lax.reduce_precision(x, 5, 3), 1.1, 1), (lax.round, 1.1, 0),
    (lambda x: jnp.where(x == 0, 0.0, jnp.log(x)), 1.0, 1), (lambda x: x / (1 + x), 1.0, 0.25)]


@pytest.mark.parametrize('i', range(len(CORNERS)))
def test_derivatives_at_corners(i):
    f, x, want = CORNERS[i]
    np.testing.assert_allclose(host(jax.jvp(f, (jnp.asarray(x),), (jnp.asarray(1.0),))[1]), want, rtol=2e-5)
    np.testing.assert_allclose(host(jax.grad(f)(x)), want, rtol=2e-5)


def differences(f, x, h=1e-5):
    return (host(f(x + h)) - host(f(x - h))) / (2 * h)


SMOOTH = {
    'sinc': (jnp.sinc, [0.0, 0.03, 0.032, 0.7]), 'logaddexp': (lambda x: jnp.logaddexp(x, 0.5), [0.5, -2.0, 3.0]),
    'i0': (jnp.i0, [0.0, -1.5]), 'gelu': (nn.gelu, [-1.0, 0.0, 2.0]), 'exact gelu': (lambda x: nn.gelu(x, False), [-1.0, 0.0, 2.0]),
    'silu': (nn.silu, [-1.0, 0.0]), 'mish': (nn.mish, [-1.0, 0.5]), 'softplus': (nn.softplus, [0.0, 1.0]),
    'squareplus': (nn.squareplus, [0.0, 1.0]), 'log_sigmoid': (nn.log_sigmoid, [0.0, 2.0]), 'elu': (nn.elu, [-1.0, 1.0]),
    'log1mexp': (nn.log1mexp, [0.2, 1.5]), 'pow': (lambda x: x**2.5, [0.7]), '2**x': (lambda x: 2**x, [0.7]),
    'x**x': (lambda x: x**x, [0.7]), 'x**-3': (lambda x: x**-3, [0.7]), 'hypot': (lambda x: jnp.hypot(x, 2 * x + 1), [0.7]),
    'arctan2': (lambda x: jnp.arctan2(x, 1 + x * x), [0.7]), 'remainder': (lambda x: jnp.remainder(3 * x, x * x), [0.7]),
    'digamma': (lax.digamma, [0.7]), 'erf_inv': (lax.erf_inv, [0.3]), 'complex': (lambda x: jnp.abs(jnp.exp(x * (1 + 2j))), [0.3]),
    'angle': (lambda x: jnp.angle(jnp.sin(x + 1j)), [0.4]), 'sign of complex': (lambda x: jnp.real(jnp.sign(x + 1j)), [0.4])}


@pytest.mark.parametrize('name', SMOOTH)
def test_derivatives_of_orders_one_and_two_against_differences(name):
    f, points = SMOOTH[name]
    with config.override(enable_x64=True):
        for x in points:
            first, second = jax.grad(f), jax.grad(jax.grad(f))
            np.testing.assert_allclose(host(first(x)), differences(f, x), rtol=1e-7, atol=1e-8)
            np.testing.assert_allclose(host(second(x)), differences(first, x), rtol=1e-6, atol=1e-7)


def test_what_has_no_derivative_says_so():
    for f in (lambda x: lax.zeta(x, 1.5), lambda x: lax.polygamma(x, 1.5), lambda x: lax.betainc(x, 2.0, 0.5),
              jax.grad(lambda x: lax.igamma(x, 1.5))):
        with pytest.raises(NotImplementedError, match='cannot be differentiated'):
            jax.grad(f)(2.0)


def test_a_lone_tangent_makes_no_zeros():
    text = str(jax.make_jaxpr(lambda x, y, t: jax.jvp(lambda x: jnp.where(x > y, x + y, 0), (x,), (t,)))(*3 * [jnp.ones((2, 3))]))
    assert 'zeros' not in text and text.count(' add ') == 1


# ---- unreduced values

@MESHES
def test_what_an_unreduced_value_may_meet(mesh):
    t = placements((M, N), mesh)[0].update(unreduced={'X'})
    value, factor = numbers((M, N), 1), numbers((M, N), 2)
    u, n = put(value, t, mesh), put(factor, t.update(unreduced=()), mesh)
    mask = put(factor > 0, t.update(unreduced=(), dtype=np.dtype(bool)), mesh)
    for f, want in [
            (lambda: u * 2, value * 2), (lambda: 2.5 * u, value * 2.5), (lambda: u / 4, value / 4), (lambda: -u, -value),
            (lambda: u * n, value * factor), (lambda: n * u, value * factor), (lambda: u / (n + 8), value / (factor + 8)),
            (lambda: u + u, value * 2), (lambda: u - u * 3, value * -2),
            (lambda: jnp.where(mask, u, 0.0), np.where(factor > 0, value, 0)),
            (lambda: jnp.where(mask, 0, u), np.where(factor > 0, 0, value)),
            (lambda: jnp.where(mask, u, -u), np.where(factor > 0, value, -value)),
            (lambda: jnp.select([mask, ~mask], [u, 2 * u]), np.where(factor > 0, value, 2 * value)),
            (lambda: jnp.real(u), value), (lambda: jnp.imag(u), value * 0), (lambda: jnp.ldexp(u, 2), value * 4),
            (lambda: jnp.deg2rad(u), np.deg2rad(value)), (lambda: jnp.positive(u), value),
            (lambda: lax.optimization_barrier(u), value), (lambda: u.astype(jnp.bfloat16), value)]:
        y = f()
        assert y.type.unreduced == {'X'} and not y.type.reduced
        np.testing.assert_allclose(get(y, mesh).astype(np.float32), want, rtol=1e-2 if y.dtype != np.float32 else 1e-6,
                                   atol=1e-6)
        assert not counted(f)[0]


@MESHES
def test_what_an_unreduced_value_may_not_meet(mesh):
    t = placements((M, N), mesh)[0].update(unreduced={'X'})
    u, n = put(numbers((M, N), 1), t, mesh), put(numbers((M, N), 2), t.update(unreduced=()), mesh)
    i = put(numbers((M, N), 1, 'int32'), t.update(dtype=np.dtype('int32')), mesh)
    for f in (lambda: u + 1, lambda: u + n, lambda: u * u, lambda: n / u, lambda: u**2, lambda: jnp.exp(u), lambda: jnp.abs(u),
              lambda: jnp.where(n > 0, u, 1.0), lambda: jnp.where(n > 0, u, n), lambda: jnp.where(u > 0, n, n),
              lambda: jnp.maximum(u, 0), lambda: u == 0, lambda: u.astype(int), lambda: lax.div(i, jnp.ones((M, N), 'int32')),
              lambda: jnp.isfinite(i), lambda: jnp.floor_divide(u, 2.0)):
        with pytest.raises(ShardingTypeError, match='unreduced'):
            f()


@MESHES
def test_the_gradient_of_where_beside_a_zero(mesh):
    t = placements((M, N), mesh)[0].update(reduced={'X'})
    value, mask = numbers((M, N), 1), numbers((M, N), 2) > 0
    ct, = gradients(lambda x: jnp.where(mask, 2 * x, 0.0), [put(value, t, mesh)], np.ones((M, N), np.float32), mesh)
    np.testing.assert_array_equal(ct, 2 * mask)


# ---- documentation

def examples():
    for module, prefix in ((elementwise, 'jnp'), (logic, 'jnp'), (equality, 'jnp'), (lax.elementwise, 'lax'),
                           (nn.activations, 'nn')):
        for name in module.__all__:
            for line in (line for line in documents.examples(getattr(module, name)) if line.startswith(f'{prefix}.')):
                yield name, line


def test_examples_in_docstrings_run():
    found = list(examples())
    for _, line in found:
        eval(line.split('#')[0], {'jnp': jnp, 'lax': lax, 'nn': nn, 'x': jnp.linspace(-2, 2, 5)})
    documented = {name for name, _ in found}
    for module in (elementwise, logic, equality, lax.elementwise, nn.activations):
        for name in module.__all__:
            assert name in documented or getattr(module, name).__name__ in documented or name == 'RoundingMethod', name
