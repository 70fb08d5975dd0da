"""Order: NumPy's values on every placement, stability, NaN, odd sizes, gradients, what is sent, and what is refused."""

import ml_dtypes
import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.errors import ShardingTypeError
from distad.runtime import collectives
from distad.types.array_type import ArrayType
from tests.ops.arrays import counted, get, gradients, numbers, placements, put, some

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
M, N = 12, 24
SORT = {'all-gather': 2, 'collective-permute': 2}


def with_nan(value):
    value = value.copy()
    value.reshape(-1)[::5] = np.nan
    return value


def split(size: int, mesh, dtype='float32') -> ArrayType:
    """The type of a row that all ranks have a part of."""
    return ArrayType((size,), dtype).update(mesh=mesh.abstract_mesh, partitions=(mesh.axis_names,))


def greatest(value, k, axis):
    n = value.shape[axis]
    at = np.flip(np.argsort(np.flip(value, axis), axis, kind='stable'), axis)
    return n - 1 - np.take(at, range(k), axis)


# ---- on every placement of two dimensions

@MESHES
def test_sort_and_argsort_on_every_placement(mesh):
    value = with_nan(numbers((M, N), 1))
    for t, axis, descending in some([placements((M, N), mesh), [0, 1, -1], [False, True]], 40):
        x = put(np.nan_to_num(value) if t.unreduced else value, t, mesh)
        if t.unreduced:
            for f in (jnp.sort, jnp.argsort, jnp.median):
                with pytest.raises(ShardingTypeError, match='unreduced'):
                    f(x, axis=axis)
            continue
        if not descending:
            sent, _ = counted(lambda: jnp.sort(x, axis=axis))                # noqa: B023
            assert sent == ({'all-to-all': 2} if t.partitions[axis] else {}), f'{t} along {axis} sends {sent}'
        y, at = jnp.sort(x, axis=axis, descending=descending), jnp.argsort(x, axis=axis, descending=descending)
        assert (y.type, at.type) == (t, t.update(dtype=np.int32))
        order = greatest(value, value.shape[axis], axis) if descending else np.argsort(value, axis, kind='stable')
        np.testing.assert_array_equal(get(at, mesh), order, err_msg=f'{t} along {axis}')
        np.testing.assert_array_equal(get(y, mesh), np.take_along_axis(value, order, axis), err_msg=f'{t} along {axis}')


@MESHES
def test_several_operands_in_states_of_their_own(mesh):
    a, b = np.abs(numbers((M, N), 1)), numbers((M, N), 2, 'int32')
    ways = [t for t in placements((M, N), mesh) if not t.unreduced]
    for s, t, num_keys in some([ways, ways, [1, 2]], 30):
        xs = put(a, s, mesh), put(b, t.update(dtype=np.int32), mesh)
        try:
            got = lax.sort(xs, dimension=1, num_keys=num_keys)
        except ShardingTypeError:
            assert any(s.partitions) and any(t.partitions) and s.partitions != t.partitions, f'{s} {t}'
            continue
        order = np.lexsort((b, a) if num_keys == 2 else (a,), axis=1)
        for y, v in zip(got, (a, b), strict=True):
            np.testing.assert_array_equal(get(y, mesh), np.take_along_axis(v, order, 1), err_msg=f'{s} {t}')


@MESHES
def test_top_k_on_every_placement(mesh):
    value = with_nan(numbers((M, N), 1))
    for t, axis, k in some([[t for t in placements((M, N), mesh) if not t.unreduced], [0, 1], [0, 1, 5, 12]], 40):
        x = put(value, t, mesh)
        values, at = lax.top_k(x, k, axis=axis)
        order = greatest(value, k, axis)
        np.testing.assert_array_equal(get(at, mesh), order, err_msg=f'{t} along {axis}')
        np.testing.assert_array_equal(get(values, mesh), np.take_along_axis(value, order, axis))
        kept = tuple(() if d == axis else axes for d, axes in enumerate(t.partitions))
        assert values.type.partitions == at.type.partitions == kept
        sent, bytes_ = counted(lambda: lax.top_k(x, k, axis=axis))           # noqa: B023
        if t.partitions[axis]:
            assert sent == {'all-gather': 2} and bytes_ <= 8 * max(k, 1) * t.local_shape[1 - axis]
        else:
            assert not sent


@MESHES
def test_gradients_are_permutations(mesh):
    value, ct = np.random.default_rng(0).permutation(M * N).reshape(M, N).astype('f4'), numbers((M, N), 5)
    ways = [t for t in placements((M, N), mesh) if not t.unreduced]
    for t, axis in some([ways, [0, 1]], 16):
        back = np.argsort(np.argsort(value, axis), axis)
        got, = gradients(lambda x: jnp.sort(x, axis=axis), [put(value, t, mesh)], ct, mesh)          # noqa: B023
        np.testing.assert_array_equal(got, np.take_along_axis(ct, back, axis), err_msg=f'{t} along {axis}')
        part = np.take(ct, range(3), axis)
        got, = gradients(lambda x: lax.top_k(x, 3, axis=axis)[0], [put(value, t, mesh)], part, mesh)    # noqa: B023
        want = np.zeros_like(value)
        np.put_along_axis(want, greatest(value, 3, axis), part, axis)
        np.testing.assert_array_equal(got, want, err_msg=f'{t} along {axis}')


# ---- rows that are split over all ranks: the sample sort

INPUTS = {
    'random': lambda rng, n: rng.normal(size=n), 'equal': lambda rng, n: np.zeros(n), 'few': lambda rng, n: rng.integers(0, 3, n),
    'in order': lambda rng, n: np.arange(n), 'falling': lambda rng, n: -np.arange(n),
    'uneven': lambda rng, n: rng.lognormal(sigma=9, size=n),
    'infinite': lambda rng, n: rng.choice([-np.inf, np.inf, 0, np.nan], n)}


@pytest.mark.parametrize('name', INPUTS)
@MESHES
def test_a_row_of_any_length_and_kind(mesh, name):
    rng = np.random.default_rng(0)
    for block in (1, 2, 3, 7, 100):
        n = block * len(mesh.ranks)
        value, ct = INPUTS[name](rng, n).astype('f4'), numbers((n,), 6)
        x = put(value, split(n, mesh), mesh)
        order = np.argsort(value, kind='stable')
        np.testing.assert_array_equal(get(jnp.sort(x), mesh), value[order])
        at = jax.jit(jnp.argsort)(x)
        assert at.type == split(n, mesh, 'int32')
        np.testing.assert_array_equal(get(at, mesh), order)
        sent, bytes_ = counted(lambda: jnp.sort(x))                          # noqa: B023
        assert sent == SORT and bytes_ <= 4 * 2 * 2 * block + 32 * len(mesh.ranks)
        got, = gradients(jnp.sort, [x], ct, mesh)
        want = np.empty_like(ct)
        want[order] = ct
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize('dtype', ['bool', 'int8', 'uint32', 'float16', 'bfloat16', 'float32', 'complex64'])
@MESHES
def test_rows_of_every_dtype_by_several_keys(mesh, dtype):
    n = 10 * len(mesh.ranks)
    rng = np.random.default_rng(1)
    key = rng.integers(-2, 3, n).astype(ml_dtypes.bfloat16 if dtype == 'bfloat16' else dtype)
    value = rng.normal(size=n).astype('f4')
    xs = [put(key, split(n, mesh, key.dtype), mesh), put(value, split(n, mesh), mesh)]
    plain = key.astype('f4') if dtype == 'bfloat16' else key
    for num_keys, order in ((1, np.argsort(plain, kind='stable')), (2, np.lexsort((value, plain)))):
        a, b = lax.sort(xs, num_keys=num_keys)
        np.testing.assert_array_equal(get(a, mesh), key[order])
        np.testing.assert_array_equal(get(b, mesh), value[order])
    np.testing.assert_array_equal(get(jnp.lexsort((xs[1], xs[0])), mesh), np.lexsort((value, plain)))


@MESHES
def test_second_derivatives_and_two_sorts_in_one_program(mesh):
    n = 4 * len(mesh.ranks)
    x, y = np.random.default_rng(2).normal(size=(2, n)).astype('f4')
    xs = [put(v, split(n, mesh), mesh) for v in (x, y)]
    both = jax.jit(lambda a, b: (jnp.sort(a), jnp.sort(b)))(*xs)
    for got, v in zip(both, (x, y), strict=True):
        np.testing.assert_array_equal(get(got, mesh), np.sort(v))
    cubes = jax.grad(lambda a: (jnp.sort(a) ** 3).sum())
    got = jax.grad(lambda a: (cubes(a) * xs[1]).sum())(xs[0])
    np.testing.assert_allclose(get(got, mesh), 6 * x * y, rtol=1e-5)
    turned = jnp.sort(xs[0], descending=True)
    np.testing.assert_array_equal(get(turned, mesh), np.sort(x)[::-1])


@pytest.mark.meshes((2,))
def test_no_rank_holds_more_than_a_few_blocks(mesh, monkeypatch):
    """Even where all elements have to go to one rank's run."""
    largest = []
    original = collectives.all_to_all_v

    def watched(group, blocks, shapes, **options):
        out = original(group, blocks, shapes, **options)
        largest.append(sum(b.nbytes for b in out))
        return out
    monkeypatch.setattr(collectives, 'all_to_all_v', watched)
    n = 1000
    for value in (np.zeros(n), np.r_[np.zeros(n // 2), np.arange(n // 2)], np.geomspace(1, 1e30, n)[::-1]):
        jnp.sort(put(value, split(n, mesh), mesh))
    assert max(largest) <= 2 * 4 * n // 2 + 4 * n // 2


# ---- search

@pytest.mark.parametrize('side', ['left', 'right'])
@MESHES
def test_searchsorted_on_every_placement(mesh, side):
    a = np.sort(np.random.default_rng(0).integers(0, 9, N)).astype('f4')
    v = numbers((M, 2), 3) * 2
    a[-1] = v[0, 0] = np.nan
    ways = [[t for t in placements(shape, mesh) if not t.unreduced] for shape in ((N,), (M, 2))]
    for s, t in some(ways, 25):
        x, y = put(a, s, mesh), put(v, t, mesh)
        at = jnp.searchsorted(x, y, side)
        np.testing.assert_array_equal(get(at, mesh), np.searchsorted(a, v, side), err_msg=f'{s} {t}')
        assert at.type.partitions == t.partitions and not at.type.unreduced
        sent, _ = counted(lambda: jnp.searchsorted(x, y, side))              # noqa: B023
        assert bool(sent) == any(s.partitions)


@pytest.mark.meshes((2,))
def test_search_in_bins_and_by_a_sorter(mesh):
    x, bins = jnp.array([0.5, 1.5, 2.0, -1.0, 9.0]), np.float32([0, 1, 2])
    for right in (False, True):
        for b in (bins, bins[::-1]):
            np.testing.assert_array_equal(jnp.digitize(x, b, right), np.digitize(np.asarray(x), b, right))
    a = np.float32([3, 1, 2])
    np.testing.assert_array_equal(jnp.searchsorted(a, x, sorter=np.argsort(a)), np.searchsorted(a, np.asarray(x), sorter=np.argsort(a)))
    with pytest.raises(ValueError, match='side'):
        jnp.searchsorted(a, x, 'middle')
    with pytest.raises(ShardingTypeError, match='unreduced'):
        jnp.searchsorted(a, jax.reshard(x, P(unreduced={'X'})))


# ---- quantiles

@pytest.mark.parametrize('method', ['linear', 'lower', 'higher', 'midpoint', 'inverted_cdf'])
@MESHES
def test_quantiles_on_every_placement(mesh, method):
    clean = numbers((M, N), 1)
    q = np.float32([0.1, 0.5, 1.0])
    ways = [t for t in placements((M, N), mesh) if not t.unreduced]
    for t, axis, keepdims, nan in some([ways, [None, 0, 1, (0, 1)], [False, True], [False, True]], 30):
        value = with_nan(clean) if nan else clean
        x = put(value, t, mesh)
        for ours, numpys in ((jnp.quantile, np.quantile), (jnp.nanquantile, np.nanquantile)):
            got = ours(x, q, axis=axis, method=method, keepdims=keepdims)
            want = numpys(value, q, axis=axis, method=method, keepdims=keepdims)
            np.testing.assert_allclose(get(got, mesh), want, rtol=1e-5, atol=1e-5, err_msg=f'{t} over {axis}')
        gone = range(2) if axis in (None, (0, 1)) else [axis]
        kept = tuple(() if d in gone else axes for d, axes in enumerate(t.partitions) if keepdims or d not in gone)
        assert got.type.partitions == ((), *kept)


@MESHES
def test_medians_percentiles_and_their_gradients(mesh):
    value = np.random.default_rng(4).permutation(M * N).reshape(M, N).astype('f4')
    for t in [t for t in placements((M, N), mesh) if not t.unreduced]:
        x = put(value, t, mesh)
        np.testing.assert_allclose(get(jnp.median(x, axis=0), mesh), np.median(value, axis=0))
        np.testing.assert_allclose(get(jnp.percentile(x, 30, axis=1), mesh), np.percentile(value, 30, axis=1), rtol=1e-5)
        ct = np.ones(N, 'f4')
        got, = gradients(lambda x: jnp.median(x, axis=0), [x], ct, mesh)
        ranks = np.argsort(np.argsort(value, 0), 0)
        np.testing.assert_allclose(got, np.isin(ranks, (M // 2 - 1, M // 2)) / 2, err_msg=str(t))


@pytest.mark.meshes((1,))
def test_of_nothing_and_of_nan_alone(mesh):
    assert np.isnan(jnp.median(jnp.zeros(0))) and np.isnan(jnp.nanmedian(jnp.full(3, np.nan)))
    assert jnp.median(jnp.arange(4)).dtype == np.float32 and jnp.quantile(jnp.ones(3, 'float16'), 0.5).dtype == np.float16
    for call, error in ((lambda: jnp.quantile(jnp.ones(3), np.ones((2, 2))), ValueError),
                        (lambda: jnp.quantile(jnp.ones(3), 0.5, method='best'), ValueError),
                        (lambda: jnp.quantile(jnp.ones(3) * 1j, 0.5), ValueError),
                        (lambda: jnp.quantile(jnp.ones(3), 0.5, weights=jnp.ones(3)), NotImplementedError)):
        with pytest.raises(error):
            call()


# ---- what is refused

@pytest.mark.meshes((2,))
def test_refusals_and_their_repairs(mesh):
    x = put(numbers((4, 3), 1), ArrayType((4, 3), 'float32').update(mesh=mesh.abstract_mesh, partitions=(('X',), ())), mesh)
    with pytest.raises(ShardingTypeError, match=r'sort needs the whole of dimension 0.*reshard\(x, P\(None, None\)\)'):
        jnp.sort(x, axis=0)
    np.testing.assert_array_equal(jnp.sort(jax.reshard(x, P(None, None)), axis=0), np.sort(numbers((4, 3), 1), axis=0))
    three = jnp.ones(3)
    for call, error in ((lambda: lax.sort((three, jnp.ones(4))), TypeError), (lambda: lax.sort(three, num_keys=2), ValueError),
                        (lambda: lax.top_k(three, 4), ValueError), (lambda: lax.sort(three, dimension=1), ValueError),
                        (lambda: jnp.sort(three, order='x'), NotImplementedError), (lambda: jnp.partition(three, 3), ValueError)):
        with pytest.raises(error):
            call()
