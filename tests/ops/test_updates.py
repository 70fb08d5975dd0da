"""x.at[...] and segments: NumPy's result on every placement, the adjoint, and what is sent."""

from collections.abc import Callable

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.errors import ShardingTypeError
from distad.types.array_type import ArrayType
from tests.ops.arrays import counted, get, numbers, placements, put, some

P = jax.P
M, N = 12, 6
A = np.array([5, 0, 5, -1, 3, 0])

INDICES = [
    0, (2, 3), slice(2, 8), (slice(None), 1), (slice(1, None, 3), slice(None, None, -2)), A, (slice(None), A % N), (A, A % N),
    (A, slice(1, 4)), (None, A), (A, None, slice(2)), (np.array([[1], [2]]), A), ..., (..., slice(0, 2)), np.arange(M) % 3 == 0,
    (slice(9, 2, -2), A % N), (slice(0, 0), 1), ([], 0)]


def reference(name: str, x: np.ndarray, index, values) -> np.ndarray:
    y = np.array(x)
    if name == 'set':
        y[index] = values
    else:
        ufunc = {'add': np.add, 'subtract': np.subtract, 'multiply': np.multiply, 'min': np.minimum, 'max': np.maximum}[name]
        ufunc.at(y, index, values)
    return y


def is_adjoint(f: Callable, args: list, mesh) -> None:
    """<ct, f(x, u)> = <x, ct_x> + <u, ct_u>, for a linear f of values that are whole numbers."""
    out, back = jax.vjp(f, *args)
    ct = numbers(out.shape, 7)
    cts = back(put(ct, out.type.dual().update(weak_type=False), mesh))
    assert [c.type for c in cts] == [a.type.dual() for a in args]
    assert np.sum(ct * get(out, mesh)) == sum(np.sum(get(c, mesh) * get(a, mesh)) for c, a in zip(cts, args, strict=True))


def shapes_of(index) -> tuple[int, ...]:
    return np.zeros((M, N))[index].shape


@pytest.mark.meshes((2,), (2, 2), (3,), (1, 2))
def test_every_update_on_every_placement(mesh):
    """The result lies as the array; values on every placement that goes with it."""
    done = 0
    for t, index, name in some([placements((M, N), mesh), INDICES, ('set', 'add', 'subtract', 'multiply', 'min', 'max')], 150):
        shape = shapes_of(index)
        for u in some([placements(shape, mesh)], 2):
            x, values = put(numbers((M, N), 0), t, mesh), put(numbers(shape, 1), u[0], mesh)

            def f(x, v, index=index, name=name):
                return getattr(x.at[index], name)(v)
            try:
                y = f(x, values)
            except ShardingTypeError:
                assert u[0].split_axes or t.unreduced and (name not in ('add', 'subtract') or u[0].split_axes)
                continue
            done += 1
            assert y.type == t
            np.testing.assert_array_equal(get(y, mesh), reference(name, numbers((M, N), 0), index, numbers(shape, 1)))
            if name in ('set', 'add', 'subtract'):
                is_adjoint(f, [x, values], mesh)
    assert done > 100


@pytest.mark.meshes((2,), (3,))
def test_numbers_and_modes(mesh):
    i = np.array([9, -9, -1, 2], np.int32)
    for t in placements((6,), mesh):
        x = put(np.arange(6), t, mesh)
        ways = [(x.at[i].add(1.), [0, 1, 3, 3, 4, 6]), (x.at[i].add(1., mode='clip'), [1, 1, 3, 3, 4, 7])]
        if not t.unreduced:
            ways += [(x.at[i].set(9.), [0, 1, 9, 3, 4, 9]), (x.at[i].set(9., mode='clip'), [9, 1, 9, 3, 4, 9]),
                     (x.at[[1, 1]].power(2.), [0, 1, 2, 3, 4, 5]), (x.at[7].set(1.), [0, 1, 2, 3, 4, 5]),
                     (x.at[[3, 3, 4]].apply(lambda v: v + 1), [0, 1, 2, 5, 5, 5]),
                     (x.at[1:3].apply(jnp.negative), [0, -1, -2, 3, 4, 5]),
                     (x.at[[2, 2]].min(1), [0, 1, 1, 3, 4, 5]), (x.at[0].set(2.7), [2.7, 1, 2, 3, 4, 5])]
        ways += [(x.at[[4, 4]].divide(2.), [0, 1, 2, 3, 1, 5]), (x.at[[1, 4]].mul(2.), [0, 2, 2, 3, 8, 5])]
        for y, want in ways:
            assert y.type.update(weak_type=False) == t
            np.testing.assert_allclose(get(y, mesh), np.float32(want), err_msg=str(t))
    assert np.asarray(jnp.arange(3).at[0].add(2.7)).tolist() == [2, 1, 2]


@pytest.mark.meshes((2,))
def test_a_sum_takes_a_value_once(mesh):
    """Added to a sum a whole value counts once, not once per rank; what would replace a sum is refused."""
    u = put(np.zeros(4), ArrayType((4,), 'float32', sharding=jax.NamedSharding(mesh, P(unreduced={'X'}))), mesh)
    assert get(u.at[1].add(1.), mesh).tolist() == [0, 1, 0, 0]
    assert get(u.at[np.array([1, 1])].add(jnp.ones(2)), mesh).tolist() == [0, 2, 0, 0]
    for refused in (lambda: u.at[1].set(1.), lambda: u.at[1].set(jnp.float32(1)), lambda: u.at[1].max(1.)):
        with pytest.raises(ShardingTypeError, match='unreduced'):
            refused()
    assert get(u.at[1].set(u[0] + u[1]), mesh).tolist() == [0, 0, 0, 0]


@pytest.mark.meshes((2,))
def test_updates_that_are_split_are_summed_once(mesh):
    x, ids, rows = (put(v, ArrayType(v.shape, d, sharding=jax.NamedSharding(mesh, s)), mesh) for v, d, s in (
        (np.zeros((8, 2)), 'float32', P()), (np.array([1, 1, 7, 1]), 'int32', P('X')), (np.ones((4, 2)), 'float32', P('X'))))
    assert counted(lambda: x.at[ids].add(rows)) == ({'all-reduce': 1}, 64)
    assert get(x.at[ids].add(rows), mesh)[:, 0].tolist() == [0, 3, 0, 0, 0, 0, 0, 1]
    later = x.at[ids].add(rows, out_sharding=P(unreduced={'X'}))
    assert str(later.type) == 'float32[8,2]{U:X}'
    assert counted(lambda: x.at[ids].add(rows, out_sharding=P(unreduced={'X'})))[0] == {}
    # where rows of the array are split too, each rank needs all updates, which are gathered
    mine = jax.reshard(x, P('X'))
    assert counted(lambda: mine.at[ids].add(rows)) == ({'all-gather': 2}, 2 * 4 + 2 * 2 * 4)
    assert mine.at[ids].add(rows).type == mine.type
    with pytest.raises(ShardingTypeError, match='needs the whole of dimension 0, which is split over X'):
        x.at[ids].set(rows)


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_segments_on_every_placement(mesh):
    ids = np.array([0, 2, 2, 9, -1, 5, 5, 5, 1, 0, 2, 3], np.int32)
    inside = (ids >= 0) & (ids < 6)
    for t in placements((M, N), mesh):
        x = put(numbers((M, N), 0), t, mesh)
        want = np.zeros((6, N), np.float32)
        np.add.at(want, ids[inside], numbers((M, N), 0)[inside])
        y = jax.ops.segment_sum(x, ids, 6)
        np.testing.assert_array_equal(get(y, mesh), want)
        assert y.type.partitions[1] == t.partitions[1] and not y.type.unreduced - t.unreduced
        is_adjoint(lambda x: jax.ops.segment_sum(x, ids, 6), [x], mesh)
    x = jnp.arange(1., 5.)
    assert np.asarray(jax.ops.segment_prod(x, np.array([0, 0, 2, 2]))).tolist() == [2, 1, 12]
    with pytest.raises(TypeError, match='num_segments=n'):
        jax.jit(lambda i: jax.ops.segment_sum(x, i))(np.array([0, 0, 2, 2]))


def segments(ufunc: np.ufunc, start: float, x: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of each segment put together, and how the sum of all depends on each element: ties share alike."""
    y, inside = np.full((6, N), start, np.float32), (ids >= 0) & (ids < 6)
    ufunc.at(y, ids[inside], x[inside])
    mine = y[ids * inside]
    if ufunc is np.multiply:
        return y, mine / x * inside[:, None]
    wins, count = (x == mine) * inside[:, None], np.zeros((6, N))
    np.add.at(count, ids[inside], wins[inside])
    return y, wins / np.maximum(count, 1)[ids * inside]


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_extrema_and_products_of_segments(mesh):
    ids = np.array([0, 2, 2, 9, -1, 5, 5, 5, 1, 0, 2, 3], np.int32)
    whole = numbers((M, N), 0) % 3 + 1
    for f, ufunc, start in ((jax.ops.segment_max, np.maximum, -np.inf), (jax.ops.segment_min, np.minimum, np.inf),
                            (jax.ops.segment_prod, np.multiply, 1)):
        want, slopes = segments(ufunc, start, whole, ids)
        for t in placements((M, N), mesh):
            x = put(whole, t, mesh)
            if t.unreduced:
                with pytest.raises(ShardingTypeError):
                    f(x, ids, 6)
                continue
            y = f(x, ids, 6)
            np.testing.assert_array_equal(get(y, mesh), want)
            assert y.type.partitions == ((), t.partitions[1])
            assert sum(counted(lambda f=f, x=x: f(x, ids, 6))[0].values()) == bool(t.partitions[0])
            ct = jax.grad(lambda x, f=f: jnp.sum(jnp.nan_to_num(f(x, ids, 6), posinf=0, neginf=0)))(x)
            assert ct.type == t.dual()
            np.testing.assert_allclose(get(ct, mesh), slopes, rtol=1e-5)


@pytest.mark.meshes((2,))
def test_the_extremum_of_updates_that_are_split(mesh):
    x, ids, rows = jnp.asarray(numbers((4, 2), 0)), np.array([1, 3, 1, 3], np.int32), numbers((4, 2), 1) + 5
    want = np.array(numbers((4, 2), 0))
    np.maximum.at(want, ids, rows)
    split = jax.reshard(jnp.asarray(rows), P('X'))
    assert counted(lambda: x.at[ids].max(split)) == ({'all-reduce': 1}, 4 * 2 * 4)
    np.testing.assert_array_equal(np.asarray(x.at[ids].max(split)), want)
    whole, apart = (jax.grad(lambda x, v: jnp.sum(x.at[ids].max(v) * np.arange(8.).reshape(4, 2)), (0, 1))(x, v)
                    for v in (jnp.asarray(rows), split))
    for a, b in zip(whole, apart, strict=True):
        np.testing.assert_allclose(get(a, mesh), get(b, mesh))


@pytest.mark.meshes((2,), (2, 2))
def test_dynamic_updates_on_every_placement(mesh):
    for t, ((start, sizes), traced) in some([placements((M, N), mesh), [(c, traced) for traced in (False, True) for c in (
            ((2, 0), (6, 6)), ((0, 3), (12, 2)), ((11, -1), (6, 1)), ((4, 4), (1, 1)))]], 60):
        u = t if all(n % t.mesh.axis_size(axes) == 0 for n, axes in zip(sizes, t.partitions, strict=True)) else \
            t.update(partitions=((), ()))
        starts = [jnp.int32(s) for s in start] if traced else start
        at = [min(max(s + n if s < 0 else s, 0), n - k) for s, n, k in zip(start, (M, N), sizes, strict=True)]
        want = numbers((M, N), 0)
        want[tuple(slice(a, a + k) for a, k in zip(at, sizes, strict=True))] = numbers(sizes, 1)
        args = [put(numbers((M, N), 0), t, mesh), put(numbers(sizes, 1), u.update(shape=sizes), mesh)]
        y = lax.dynamic_update_slice(*args, starts)
        assert y.type == t
        np.testing.assert_array_equal(get(y, mesh), want)
        is_adjoint(lambda x, u, starts=starts: lax.dynamic_update_slice(x, u, starts), args, mesh)


@pytest.mark.meshes((2,))
def test_put_and_lax_scatter(mesh):
    y = numbers((2, 3), 0)
    got = jnp.put_along_axis(y, np.array([[0], [2]]), 9., 1, inplace=False)
    want = y.copy()
    np.put_along_axis(want, np.array([[0], [2]]), 9., 1)
    np.testing.assert_array_equal(np.asarray(got), want)
    assert np.asarray(jnp.put(y, np.array([0, 4]), [7., 8.], inplace=False)).reshape(-1)[[0, 4]].tolist() == [7, 8]
    rows = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    for f, want in ((lax.scatter_add, [3, 1]), (lax.scatter_mul, [1, 1]), (lax.scatter_max, [1, 1]), (lax.scatter_sub, [-1, 1])):
        assert np.asarray(f(jnp.ones((2, 1)), [[0], [0], [5]], jnp.ones((3, 1)), rows))[:, 0].tolist() == want
    with pytest.raises(ValueError, match='inplace=False'):
        jnp.put(y, 0, 1.)


@pytest.mark.meshes((2,), (2, 2), (3,))
def test_functions_applied_by_indices(mesh):
    a, at = numbers((M, N), 1), np.array([[5], [0], [5], [7]])
    numbers_ = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    want = np.array(a)
    for i in at[:, 0]:
        want[i] = 2 * want[i] + 1
    for t in placements((M, N), mesh):
        x = put(a, t, mesh)
        run = lambda f, x=x: lax.scatter_apply(x, at, f, numbers_, update_shape=(4, N))  # noqa: E731
        if t.unreduced:
            with pytest.raises(ShardingTypeError):
                run(lambda v: v * v)
            np.testing.assert_array_equal(get(run(lambda v: -v), mesh)[[5, 0, 1]], a[[5, 0, 1]] * [[1], [-1], [1]])
            continue
        by_op, _ = counted(lambda run=run: run(lambda v: 2 * v + 1))
        assert sum(by_op.values()) <= bool(t.split_axes)
        y = run(lambda v: 2 * v + 1)
        assert y.type == t
        np.testing.assert_array_equal(get(y, mesh), want)
