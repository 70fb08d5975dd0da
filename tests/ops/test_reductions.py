"""Reductions: NumPy's values on every placement, derivatives, what is sent, and what is refused."""

import itertools
import warnings

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.config import config
from distad.errors import ShardingTypeError
from tests.ops.arrays import counted, get, gradients, numbers, placements, put, some

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
M, N, K = 12, 24, 6                          # all different; each divides by 2 and 3, M and N by 4

# name: (function, NumPy's, whether it is linear)
FUNCTIONS = {
    'sum': (jnp.sum, np.sum, True), 'mean': (jnp.mean, np.mean, True), 'max': (jnp.max, np.max, False),
    'min': (jnp.min, np.min, False), 'prod': (jnp.prod, np.prod, False), 'ptp': (jnp.ptp, np.ptp, False),
    'any': (jnp.any, np.any, False), 'all': (jnp.all, np.all, False), 'var': (jnp.var, np.var, False),
    'std': (jnp.std, np.std, False), 'count_nonzero': (jnp.count_nonzero, np.count_nonzero, False),
    'average': (jnp.average, np.average, True), 'nansum': (jnp.nansum, np.nansum, False),
    'nanmean': (jnp.nanmean, np.nanmean, False), 'nanmax': (jnp.nanmax, np.nanmax, False),
    'nanmin': (jnp.nanmin, np.nanmin, False), 'nanprod': (jnp.nanprod, np.nanprod, False),
    'nanvar': (jnp.nanvar, np.nanvar, False), 'nanstd': (jnp.nanstd, np.nanstd, False),
    'logsumexp': (jax.nn.logsumexp, scipy.special.logsumexp, False)}
INDICES = {'argmax': (jnp.argmax, np.argmax, 1), 'argmin': (jnp.argmin, np.argmin, -1),
           'nanargmax': (jnp.nanargmax, np.argmax, 1), 'nanargmin': (jnp.nanargmin, np.argmin, -1)}
AXES = [None, 0, 1, -1, (0, 2), (2, 0, 1), ()]


def kept(t, axis, keepdims: bool):
    """How the dimensions that stay are split."""
    gone = range(t.ndim) if axis is None else [d % t.ndim for d in (axis if isinstance(axis, tuple) else (axis,))]
    return tuple(() if d in gone else names for d, names in enumerate(t.partitions) if keepdims or d not in gone)


@pytest.mark.parametrize('name', FUNCTIONS)
@MESHES
def test_reductions_on_every_placement(mesh, name):
    f, reference, linear = FUNCTIONS[name]
    value = numbers((M, N, K), 1)
    if name.startswith('nan'):
        value[:, ::3] = np.nan
    if 'prod' in name:
        value = np.where(value == 0, 1, np.sign(value)).astype('f4')
    for t, axis, keepdims in some([placements((M, N, K), mesh), AXES, [False, True]], 35):
        x = put(value, t, mesh)
        if t.unreduced and not linear:
            with pytest.raises(ShardingTypeError, match='unreduced'):
                f(x, axis=axis, keepdims=keepdims)
            continue
        if t.unreduced and np.isnan(value).any():
            continue
        y = f(x, axis=axis, keepdims=keepdims)
        assert y.type.partitions == kept(t, axis, keepdims), f'{t} over {axis} gives {y.type}'
        assert y.type.unreduced == t.unreduced and (y.type.reduced == t.reduced)
        with warnings.catch_warnings(action='ignore'):
            want = reference(value, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(get(y, mesh), want, rtol=1e-5, atol=1e-5, err_msg=f'{t} over {axis}')


@pytest.mark.parametrize('name', INDICES)
@MESHES
def test_indices_on_every_placement(mesh, name):
    f, reference, sign = INDICES[name]
    value = numbers((M, N), 1)
    if name.startswith('nan'):
        value[::3] = np.nan
    for t, axis, keepdims in some([placements((M, N), mesh), [None, 0, -1], [False, True]], 40):
        x = put(value, t, mesh)
        if t.unreduced:
            with pytest.raises(ShardingTypeError, match='unreduced'):
                f(x, axis=axis)
            continue
        y = f(x, axis=axis, keepdims=keepdims)
        gone = np.isnan(value).all(axis=axis, keepdims=keepdims)
        assert y.type.partitions == kept(t, axis, keepdims) and y.dtype == np.int32
        want = reference(np.where(np.isnan(value), -sign * 9, value), axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(get(y, mesh), np.where(gone, -1, want), err_msg=f'{t} over {axis}')


# ---- derivatives

def differences(f, x: np.ndarray, ct: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient of <ct, f(x)> by central differences."""
    out = np.zeros(x.shape)
    for i in np.ndindex(*x.shape):
        e = np.zeros(x.shape)
        e[i] = step
        out[i] = np.sum(ct * (f(x + e) - f(x - e))) / (2 * step)
    return out


def standardized(x, axis):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


DERIVATIVES = {
    'sum': (jnp.sum, np.sum), 'mean': (jnp.mean, np.mean), 'max': (jnp.max, np.max), 'min': (jnp.min, np.min),
    'prod': (jnp.prod, np.prod), 'ptp': (jnp.ptp, np.ptp), 'var': (jnp.var, np.var), 'std': (jnp.std, np.std),
    'logsumexp': (lambda x, axis: jax.nn.logsumexp(x, axis), lambda x, axis: scipy.special.logsumexp(x, axis)),
    'softmax': (jax.nn.softmax, scipy.special.softmax), 'log_softmax': (jax.nn.log_softmax, scipy.special.log_softmax),
    'standardize': (jax.nn.standardize, standardized),
    'norm': (lambda x, axis: jnp.linalg.norm(x, axis=axis), lambda x, axis: np.sqrt(np.sum(x * x, axis))),
    'norm 3': (lambda x, axis: jnp.linalg.norm(x, 3, axis), lambda x, axis: np.sum(np.abs(x)**3, axis)**(1 / 3)),
    'nanmean': (jnp.nanmean, np.nanmean), 'nanmax': (jnp.nanmax, np.nanmax)}


@pytest.mark.parametrize('name', DERIVATIVES)
@MESHES
def test_gradients_by_differences(mesh, name):
    f, reference = DERIVATIVES[name]
    with config.override(enable_x64=True):
        rng = np.random.default_rng(0)
        value = rng.permutation(12 * 4).reshape(12, 4) / 17 - 1.2           # no ties, nothing near zero
        for axis in (0, 1) if name.startswith('norm') else (0, 1, (0, 1)):
            ct = rng.standard_normal(np.shape(reference(value, axis=axis)))
            want = differences(lambda x, axis=axis: reference(x, axis=axis), value, ct)
            for (t,) in some([[t for t in placements(value.shape, mesh, 'float64') if not t.unreduced]], 5):
                (got,) = gradients(lambda x, axis=axis: f(x, axis=axis), [put(value, t, mesh)], ct, mesh)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7, err_msg=f'{t} over {axis}')


@MESHES
def test_equal_maxima_share_the_gradient_also_across_ranks(mesh):
    value = np.array([[3, 1], [3, 1], [0, 1], [3, 0], [2, 1], [3, 1]] * 2, 'f4')
    for t in placements(value.shape, mesh):
        if not t.unreduced:
            (got,) = gradients(lambda x: jnp.max(x, axis=0), [put(value, t, mesh)], np.ones(2, 'f4'), mesh)
            np.testing.assert_allclose(got, (value == value.max(0)) / (value == value.max(0)).sum(0), 1e-5, err_msg=str(t))


@MESHES
def test_products_with_zeros_have_gradients(mesh):
    for zeros in ([], [3], [3, 7]):
        value = np.arange(1, 13, dtype='f4') / 6
        value[zeros] = 0
        want = [np.prod(np.delete(value, i)) for i in range(12)]
        for t in placements(value.shape, mesh):
            if not t.unreduced:
                (got,) = gradients(jnp.prod, [put(value, t, mesh)], np.ones((), 'f4'), mesh)
                np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=f'{t} zeros at {zeros}')


@pytest.mark.meshes((2,))
def test_second_derivatives_over_a_split_dimension(mesh):
    with config.override(enable_x64=True):
        value = np.random.default_rng(1).standard_normal(8)
        v = np.random.default_rng(2).standard_normal(8)
        for f in (jnp.var, jnp.prod, jax.nn.logsumexp, lambda x: jnp.sum(jax.nn.softmax(x)[..., None] ** 2), jnp.std):
            whole, split = jnp.asarray(value), jax.device_put(jnp.asarray(value), P('X'))

            def along(x, f=f):
                w = jax.reshard(jnp.asarray(v), x.type.sharding)
                return jax.grad(lambda x: jnp.sum(jax.grad(f)(x) * w))(x)

            np.testing.assert_allclose(get(along(split), mesh), get(along(whole), mesh), rtol=1e-8)


# ---- what is sent: a function, how x[m, n] is split, collectives forward and in all with the gradient

def over_rows(f):
    return lambda x: f(x, axis=0)


SENT = {
    'sum': (over_rows(jnp.sum), {'all-reduce': 1}, {'all-reduce': 1}),
    'sum of the whole': (over_rows(lambda x, axis: jnp.sum(x, 1)), {}, {}),
    'mean': (over_rows(jnp.mean), {'all-reduce': 1}, {'all-reduce': 1}),
    'max': (over_rows(jnp.max), {'all-reduce': 1}, {'all-reduce': 2}),
    'any': (over_rows(jnp.any), {'all-reduce': 1}, None),
    'prod': (over_rows(jnp.prod), {'all-gather': 1}, {'all-gather': 1}),
    'argmax': (over_rows(jnp.argmax), {'all-gather': 2}, None),
    'var': (over_rows(jnp.var), {'all-reduce': 2}, {'all-reduce': 3}),
    'std': (over_rows(jnp.std), {'all-reduce': 2}, {'all-reduce': 3}),
    'norm': (over_rows(lambda x, axis: jnp.linalg.norm(x, axis=axis)), {'all-reduce': 1}, {'all-reduce': 1}),
    'logsumexp': (over_rows(jax.nn.logsumexp), {'all-reduce': 2}, {'all-reduce': 2}),
    'softmax': (over_rows(jax.nn.softmax), {'all-reduce': 2}, {'all-reduce': 3}),
    'log_softmax': (over_rows(jax.nn.log_softmax), {'all-reduce': 2}, {'all-reduce': 3}),
    'standardize': (over_rows(jax.nn.standardize), {'all-reduce': 2}, {'all-reduce': 4}),
}


@pytest.mark.parametrize('name', SENT)
@pytest.mark.meshes((2,), (3,))
def test_what_a_reduction_sends(mesh, name):
    f, forward, both = SENT[name]
    x = jax.device_put(jnp.asarray(numbers((M, N), 1) / 4), P('X'))
    assert counted(lambda: f(x))[0] == forward
    if both is not None:
        (there, _), (y, back) = counted(lambda: jax.vjp(f, x)), jax.vjp(f, x)
        ct = put(numbers(y.shape, 2), y.type.dual(), mesh)
        sent = counted(lambda: back(ct))[0]
        assert {op: there.get(op, 0) + sent.get(op, 0) for op in {*there, *sent}} == both


@pytest.mark.meshes((2, 2))
def test_a_dimension_split_over_two_axes_takes_one_message(mesh):
    x = jax.device_put(jnp.asarray(numbers((M, N), 1)), P(('X', 'Y')))
    y = jax.device_put(jnp.asarray(numbers((M, N), 1)), P('X', 'Y'))
    for value in (x, y):
        assert counted(lambda value=value: jnp.sum(value)) == ({'all-reduce': 1}, 4)


# ---- lax.reduce_* with out_sharding

@pytest.mark.meshes((2, 2))
def test_reduce_sum_to_every_sharding(mesh):
    value = numbers((M, N), 1)
    right = 0
    for t, want in some([placements((M, N), mesh), placements((N,), mesh)], 150):
        x = put(value, t, mesh)
        summed = t.unreduced | set(t.partitions[0])
        stays = (want.unreduced or t.unreduced) | t.reduced
        try:
            y = lax.reduce_sum(x, (0,), out_sharding=want.spec)
        except (ShardingTypeError, ValueError) as error:
            assert want.unreduced - summed or stays & want.split_axes or want.reduced & stays, f'{t} to {want}: {error}'
            continue
        right += 1
        assert y.type.partitions == want.partitions and y.type.unreduced == (want.unreduced or t.unreduced)
        np.testing.assert_array_equal(get(y, mesh), value.sum(0), err_msg=f'{t} to {want}')
        (dx,) = gradients(lambda x, want=want: lax.reduce_sum(x, (0,), out_sharding=want.spec), [x], numbers((N,), 2), mesh)
        np.testing.assert_array_equal(dx, np.broadcast_to(numbers((N,), 2), (M, N)), err_msg=f'{t} to {want}')
    assert right > 40


@pytest.mark.meshes((2,), (3,))
def test_a_maximum_to_come(mesh):
    value = numbers((M, N), 1)
    x = jax.device_put(jnp.asarray(value), P('X'))
    later = P(None, unreduced={'X'}, unreduced_kind=jax.sharding.UnreducedKind.max)
    sent, y = counted(lambda: lax.reduce_max(x, (0,), out_sharding=later))[0], lax.reduce_max(x, (0,), out_sharding=later)
    assert sent == {} and str(y.type) == 'float32[24]{U_max:X}'
    np.testing.assert_array_equal(get(jax.reshard(y, P('X')), mesh), value.max(0))
    with pytest.raises(NotImplementedError, match='no derivative while its max over the ranks is still to come'):
        jax.vjp(lambda x: lax.reduce_max(x, (0,), out_sharding=later), x)
    for f, spec, match in ((lax.reduce_max, P(None, unreduced={'X'}), "can leave a max to come, not a sum"),
                           (lax.reduce_sum, later, 'can leave a sum to come, not a max')):
        with pytest.raises(ShardingTypeError, match=match):
            f(x, (0,), out_sharding=spec)


@pytest.mark.meshes((2,))
def test_what_out_sharding_cannot_give(mesh):
    x = jax.device_put(jnp.asarray(numbers((M, N), 1)), P(None, 'X'))
    with pytest.raises(ShardingTypeError, match=r"unreduced over X, but no sum over it is left to do, got float32\[12,24@X\]"):
        lax.reduce_sum(x, (0,), out_sharding=P(unreduced={'X'}))
    assert str(lax.reduce_sum(x, (1,), out_sharding=P(unreduced={'X'})).type) == 'float32[12]{U:X}'
    u = jax.reshard(x, P(unreduced={'X'}))
    with pytest.raises(ValueError, match='splits a dimension over X, but the operand is unreduced or reduced over it'):
        lax.reduce_sum(u, (0,), out_sharding=P('X'))
    np.testing.assert_array_equal(get(lax.reduce_sum(jax.reshard(u, P()), (0,), out_sharding=P('X')), mesh),
                                  numbers((M, N), 1).sum(0))


FOLDS = {'reduce_prod': np.multiply, 'reduce_and': np.bitwise_and, 'reduce_or': np.bitwise_or, 'reduce_xor': np.bitwise_xor,
         'reduce_max': np.maximum, 'reduce_min': np.minimum}


@pytest.mark.parametrize('name', FOLDS)
@pytest.mark.meshes((2, 2), (3,), (1, 2))
def test_other_folds(mesh, name):
    for dtype in ('int32', 'uint8', 'bool')[:2 if name == 'reduce_prod' else 3]:
        value = np.abs(numbers((M, N), 1)).astype(dtype) + np.array(name == 'reduce_prod', dtype)
        for t, axes in some([placements((M, N), mesh, dtype), [(0,), (1,), (0, 1)]], 25):
            if not t.unreduced:
                y = getattr(lax, name)(put(value, t, mesh), axes)
                assert y.dtype == value.dtype
                want = FOLDS[name].reduce(value, axis=axes, dtype=dtype)
                np.testing.assert_array_equal(get(y, mesh), want, err_msg=f'{t} over {axes}')


def test_reduce_by_a_function():
    x = numbers((3, 4), 1)
    for f, reference, start in ((lambda a, b: a + b, np.add, 2.0), (lax.max, np.maximum, 0.0),
                                (lambda a, b: a * b, np.multiply, 1.0)):
        want = reference.reduce(x, axis=0, initial=start)
        np.testing.assert_array_equal(np.asarray(lax.reduce(jnp.asarray(x), start, f, (0,))), want)
    with pytest.raises(NotImplementedError, match='takes add, mul, max'):
        lax.reduce(jnp.asarray(x), 0.0, lambda a, b: a - b, (0,))


# ---- masks, starts, dtypes, nothing

MASKED = [
    (jnp.sum, np.sum, {'initial': 3.0}), (jnp.max, np.max, {'initial': -1.0}), (jnp.prod, np.prod, {'initial': 0.5}),
    (jnp.mean, np.mean, {}), (jnp.var, np.var, {'ddof': 1}), (jnp.any, np.any, {}), (jnp.nanmax, np.nanmax, {'initial': -1.0})]


@MESHES
def test_masks_and_starts(mesh):
    value, mask = numbers((M, N), 1), numbers((M, 1), 2) > 0
    types = [t for t in placements((M, N), mesh) if not t.unreduced]
    for t, axis, (f, reference, more) in some([types, (None, 0, 1), MASKED], 60):
        x = put(value, t, mesh)
        with np.errstate(all='ignore'), warnings.catch_warnings(action='ignore'):
            want = reference(value, axis=axis, where=mask, **more)
        got = get(f(x, axis=axis, where=jnp.asarray(mask), **more), mesh)
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=f'{reference.__name__} of {t} over {axis}')


@pytest.mark.meshes((2,))
def test_masks_of_unreduced_arrays(mesh):
    value, mask = numbers((M, N), 1), numbers((M, 1), 2) > 0
    u = put(value, placements((M, N), mesh)[-1], mesh)
    assert u.type.unreduced
    for f, reference in ((jnp.sum, np.sum), (jnp.mean, np.mean)):
        y = f(u, axis=0, where=jnp.asarray(mask))
        assert y.type.unreduced == {'X'}
        np.testing.assert_allclose(get(y, mesh), reference(value, axis=0, where=mask), rtol=1e-5)


def test_softmax_of_some():
    x, some = jnp.asarray(numbers((M, N), 1)), numbers((N,), 5) > 0
    y = np.asarray(jax.nn.softmax(x, where=jnp.asarray(some)))
    np.testing.assert_allclose(y[:, some], scipy.special.softmax(np.asarray(x)[:, some], 1), rtol=1e-5)
    assert not y[:, ~some].any()


def test_dtypes_of_results():
    for dtype, of_sum, of_mean in (('bool', 'int32', 'float32'), ('int8', 'int32', 'float32'), ('int32', 'int32', 'float32'),
                                   ('uint8', 'uint32', 'float32'), ('float16', 'float16', 'float16'),
                                   ('float32', 'float32', 'float32'), ('complex64', 'complex64', 'complex64')):
        x = jnp.asarray(numbers((4,), 1).astype(dtype))
        assert jnp.sum(x).dtype == jnp.prod(x).dtype == of_sum and jnp.mean(x).dtype == of_mean
        assert jnp.var(x).dtype == np.zeros((), of_mean).real.dtype
    assert jnp.sum(jnp.asarray(np.ones(3, 'i1')), dtype=jnp.float32).dtype == np.float32
    assert jnp.sum(jnp.asarray(np.ones(3, 'i1')), promote_integers=False).dtype == np.int8


@pytest.mark.meshes((2,), (3,))
def test_half_types_are_rounded_once(mesh):
    value = np.ones((3 * 4096, 2), ml_dtypes.bfloat16)
    for spec in (P(), P('X')):
        x = jax.device_put(jnp.asarray(value), spec)
        assert np.all(get(jnp.sum(x, 0), mesh) == 3 * 4096) and np.all(get(jnp.mean(x, 0), mesh) == 1)


def test_nothing_to_reduce():
    x = jnp.asarray(np.ones((0, 3), 'f4'))
    assert np.array_equal(jnp.sum(x, 0), np.zeros(3)) and np.array_equal(jnp.prod(x, 0), np.ones(3))
    assert np.array_equal(lax.reduce_max(x, (0,)), np.full(3, -np.inf)) and np.isnan(np.asarray(jnp.mean(x, 0))).all()
    assert float(jax.nn.logsumexp(x)) == -np.inf
    for f in (jnp.max, jnp.min, jnp.argmax):
        with pytest.raises(ValueError, match='zero-size|empty'):
            f(x, 0)


@pytest.mark.filterwarnings('error')
def test_no_warnings():
    x = jnp.asarray(np.array([np.nan, np.inf, -np.inf, 0, 3e38, 3e38], 'f4'))
    for f in (jnp.sum, jnp.mean, jnp.var, jnp.std, jnp.max, jnp.prod, jnp.nanmean, jnp.nanvar, jax.nn.softmax, jax.nn.logsumexp,
              jax.nn.log_softmax, lambda x: x @ x, lambda x: jnp.outer(x, x), lambda x: jnp.mean(x[:0])):
        np.asarray(f(x))


def test_logsumexp_of_extremes():
    inf = np.inf
    for row in ([1000., 1000.], [-inf, -inf], [inf, 0.], [-1000., -1001.], [-inf, 3.]):
        x = jnp.asarray(np.float32(row))
        np.testing.assert_allclose(float(jax.nn.logsumexp(x)), scipy.special.logsumexp(row), rtol=1e-6)
        with np.errstate(all='ignore'):
            np.testing.assert_allclose(np.asarray(jax.nn.softmax(x)), scipy.special.softmax(row), rtol=1e-6)
    y, sign = jax.nn.logsumexp(jnp.asarray(np.float32([1, 2])), b=jnp.asarray(np.float32([1, -1])), return_sign=True)
    np.testing.assert_allclose([float(y), float(sign)], [np.log(np.e**2 - np.e), -1], rtol=1e-6)
    assert np.isnan(float(jax.nn.logsumexp(jnp.asarray(np.float32([1, 2])), b=jnp.asarray(np.float32([1, -1])))))
    assert jax.grad(jax.nn.logsumexp)(jnp.asarray(np.float32([-inf, 3.]))).tolist() == [0, 1]


def test_averages():
    x, w = numbers((3, 4), 1), np.float32([1, 2, 0, 4])
    np.testing.assert_allclose(np.asarray(jnp.average(jnp.asarray(x), 1, jnp.asarray(w))), np.average(x, 1, w), rtol=1e-6)
    y, total = jnp.average(jnp.asarray(x), 1, jnp.asarray(w), returned=True)
    assert y.shape == total.shape == (3,) and float(total[0]) == 7
    with pytest.raises(ValueError, match='weights'):
        jnp.average(jnp.asarray(x), 0, jnp.asarray(w))


@pytest.mark.meshes((2,), (3,))
def test_one_hot(mesh):
    value = np.array([2, 0, 5, -1, 7, 1])
    for t in placements((6,), mesh, 'int32'):
        if t.unreduced:
            continue
        x = put(value, t, mesh)
        for axis in (0, -1):
            want = np.moveaxis((value[:, None] == np.arange(6)).astype('f4'), -1, axis)
            y = jax.nn.one_hot(x, 6, axis=axis)
            assert y.type.reduced == t.reduced
            assert y.type.partitions == (((), *t.partitions) if axis == 0 else (*t.partitions, ()))
            np.testing.assert_array_equal(get(y, mesh), want)
        split = jax.nn.one_hot(x, 6, out_sharding=P(None, 'X'))
        assert split.type.partitions == ((), ('X',))
        np.testing.assert_array_equal(get(split, mesh), want)


@pytest.mark.meshes((2,), (3,))
def test_norms(mesh):
    x = numbers((M, N), 1)
    split = jax.device_put(jnp.asarray(x), P('X'))
    for ord in (None, 'fro', 1, -1, np.inf, -np.inf):
        np.testing.assert_allclose(get(jnp.linalg.norm(split, ord), mesh), np.linalg.norm(x, ord), rtol=1e-5)
    for ord, axis in itertools.product((None, 0, 1, 2, 3, np.inf, -np.inf), (0, 1)):
        np.testing.assert_allclose(get(jnp.linalg.norm(split, ord, axis), mesh), np.linalg.norm(x, ord, axis), rtol=1e-5)
    for ord in (2, -2, 'nuc'):
        with pytest.raises(ShardingTypeError, match=r'svd needs the whole of dimension 0.*first: reshard\(x, P\(None, None\)\)'):
            jnp.linalg.norm(split, ord)
        whole = jax.reshard(split, P(None, None))
        np.testing.assert_allclose(get(jnp.linalg.norm(whole, ord), mesh), np.linalg.norm(x, ord), rtol=1e-4)


def test_axes_are_checked():
    x = jnp.asarray(numbers((3, 4), 1))
    for axis, match in ((2, 'out of bounds'), ((0, 0), 'repeated|duplicate'), ((0, -2), 'repeated|duplicate')):
        with pytest.raises(ValueError, match=match):
            jnp.sum(x, axis)
    with pytest.raises(NotImplementedError, match='immutable'):
        jnp.sum(x, out=x)
    with pytest.raises(ValueError, match='initial'):
        jnp.max(x, where=x > 0)
    with pytest.raises(ValueError, match='does not broadcast'):
        jnp.sum(x, where=np.ones((2, 3, 4), bool))
