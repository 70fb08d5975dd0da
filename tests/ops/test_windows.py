"""Convolutions, reductions over windows and poolings: a loop over windows says what is right, on every placement; what is sent."""

import doctest
import itertools
import math
import random

import ml_dtypes
import numpy as np
import pytest
import scipy.signal

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.errors import ShardingTypeError
from distad.lax import applying, convolution, windows
from distad.nn import pooling
from distad.types.array_type import ArrayType
from tests.ops.arrays import counted, get, gradients, numbers, placements, put, some

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,))


def elements(x, place, sizes, strides, pads, base, dilation):
    """The elements of the window at a place of the last dimensions, as (which of the window, element)."""
    for j in np.ndindex(*sizes):
        at = [a * s + b * w - p[0] for a, s, b, w, p in zip(place, strides, j, dilation, pads, strict=True)]
        if all(0 <= i < n * b and i % b == 0 for i, n, b in zip(at, x.shape[-len(sizes):], base, strict=True)):
            yield j, x[(..., *(i // b for i, b in zip(at, base, strict=True)))]


def counts(shape, sizes, strides, pads, base, dilation):
    return [max(0, ((n - 1) * b + 1 + sum(p) - (k - 1) * w - 1) // s + 1)
            for n, k, s, p, b, w in zip(shape, sizes, strides, pads, base, dilation, strict=True)]


def convolved(x, w, strides, pads, base=None, dilation=None, features=1, batches=1):
    """[n, c, s...] with [o, i, k...] by the definition."""
    ones = (1,) * len(strides)
    base, dilation = base or ones, dilation or ones
    grid = counts(x.shape[2:], w.shape[2:], strides, pads, base, dilation)
    n, o, i = len(x) // batches, len(w), w.shape[1]
    y = np.zeros((n, o, *grid), x.dtype)
    for k, place in itertools.product(range(o), np.ndindex(*grid)):
        own = x[k // (o // batches) * n:][:n, k // (o // features) * i:][:, :i]
        y[:, k][(slice(None), *place)] = sum(np.einsum('ni,i->n', e, w[k][(slice(None), *j)]) for j, e in elements(
            own, place, w.shape[2:], strides, pads, base, dilation))
    return y


def reduced(x, f, sizes, strides, pads, base=None, dilation=None):
    ones = (1,) * x.ndim
    base, dilation = base or ones, dilation or ones
    grid = counts(x.shape, sizes, strides, pads, base, dilation)
    return np.array([f([e for _, e in elements(x, place, sizes, strides, pads, base, dilation)])
                     for place in np.ndindex(*grid)]).reshape(grid)


# ---- convolutions on one rank

WORDS = {1: [('NCH', 'OIH', 'NCH'), ('NHC', 'HIO', 'NHC'), ('CNH', 'IOH', 'HNC')],
         2: [('NCHW', 'OIHW', 'NCHW'), ('NHWC', 'HWIO', 'NHWC'), ('CHNW', 'HIOW', 'HNWC')]}


def arranged(x, word, source):
    return x.transpose([source.index(letter) for letter in word])


@pytest.mark.parametrize('seed', range(30))
def test_convolution_by_its_definition(seed):
    rng = random.Random(seed)
    rank = rng.choice([1, 2, 2])
    features, batches = rng.choice([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2)])
    space = [rng.choice([1, 4, 7]) for _ in range(rank)], [rng.choice([1, 2, 3, 5]) for _ in range(rank)]
    strides, base, dilation = ([rng.choice([1, 1, 2, 3]) for _ in range(rank)] for _ in range(3))
    pads = [(rng.randint(-1 if n > 1 else 0, 3), rng.randint(0, 3)) for n in space[0]]
    i, o, n = rng.choice([1, 2]), rng.choice([1, 2]) * features * batches, rng.choice([1, 2]) * batches
    x, w = numbers((n, i * features, *space[0]), seed), numbers((o, i, *space[1]), seed + 1)
    words, plain = rng.choice(WORDS[rank]), WORDS[rank][0]

    def f(x, w):
        return lax.conv_general_dilated(x, w, strides, pads, base, dilation, words, features, batches)

    a, b = (jnp.asarray(arranged(v, word, p)) for v, word, p in zip((x, w), words, plain, strict=False))
    y, back = jax.vjp(f, a, b)
    np.testing.assert_array_equal(y, arranged(convolved(x, w, strides, pads, base, dilation, features, batches), words[2], plain[2]))
    ct = jnp.asarray(numbers(y.shape, seed + 2))
    for k, other in enumerate((numbers(a.shape, seed + 3), numbers(b.shape, seed + 4))):
        pair = [a, b]
        pair[k] = jnp.asarray(other)
        assert np.vdot(back(ct)[k], other) == np.vdot(ct, f(*pair))
    batch = [jnp.asarray(numbers((3, *v.shape), seed + 5)) for v in (a, b)]
    for axes in ((0, None), (None, 0), (0, 0)):
        args = [v if d == 0 else v[0] for v, d in zip(batch, axes, strict=True)]
        got = jax.vmap(f, axes)(*args)
        for k in range(3):
            np.testing.assert_array_equal(got[k], f(*(v[k] if d == 0 else v for v, d in zip(args, axes, strict=True))))


@pytest.mark.parametrize('words', WORDS[2], ids=str)
def test_large_convolutions_in_parts(words):
    x, w = numbers((3, 8, 66, 60), 1), numbers((5, 8, 3, 3), 2)          # the windows are beyond what is multiplied at once
    y = lax.conv_general_dilated(*(jnp.asarray(arranged(v, word, p)) for v, word, p in zip((x, w), words, WORDS[2][0], strict=False)),
                                 (1, 1), 'SAME', dimension_numbers=words)
    want = np.stack([[sum(scipy.signal.correlate(a, b, 'same', 'direct') for a, b in zip(image, kernel, strict=True)) for kernel in w]
                     for image in x])
    np.testing.assert_array_equal(y, arranged(want, words[2], WORDS[2][0][2]))


@pytest.mark.parametrize('dtype', ['int32', 'int8', 'complex64', 'float16', 'bfloat16'])
def test_dtypes_of_convolutions(dtype):
    dtype = np.dtype(ml_dtypes.bfloat16 if dtype == 'bfloat16' else dtype)
    x, w = numbers((2, 3, 9), 1, 'complex64' if dtype.kind == 'c' else 'float32'), numbers((4, 3, 2), 2)
    y = lax.conv(jnp.asarray(x.astype(dtype)), jnp.asarray(w.astype(dtype)), (2,), 'VALID')
    assert y.dtype == dtype
    np.testing.assert_array_equal(np.asarray(y), convolved(x, w, (2,), [(0, 0)]).astype(dtype))
    wide = lax.conv(jnp.full((1, 1, 300), 100, np.int8), jnp.ones((1, 1, 300), np.int8), (1,), 'VALID', preferred_element_type=np.int32)
    assert wide.dtype == np.int32 and int(wide[0, 0, 0]) == 30000


def test_transposed_convolutions():
    x, w = numbers((2, 5, 3), 1), numbers((4, 3, 2), 2)
    for stride, word, size in ((1, 'SAME', 5), (2, 'SAME', 10), (6, 'SAME', 30), (2, 'VALID', 12), (6, 'VALID', 30)):
        assert lax.conv_transpose(x, w, (stride,), word).shape == (2, size, 2)
    # the transpose of the convolution with the same strides and padding
    big = jnp.asarray(numbers((2, 10, 2), 3))
    words = ('NHC', 'HIO', 'NHC')
    turned = jnp.asarray(w.transpose(0, 2, 1))
    y, back = jax.vjp(lambda v: lax.conv_general_dilated(v, turned, (2,), [(1, 1)], dimension_numbers=words), big)
    np.testing.assert_array_equal(
        lax.conv_transpose(jnp.asarray(x), turned, (2,), [(1, 1)], transpose_kernel=True, use_consistent_padding=True),
        back(jnp.asarray(x))[0])
    assert y.shape == x.shape


def test_a_convolution_prints_as_in_jax():
    text = str(jax.make_jaxpr(lambda x, w: lax.conv(x, w, (1,), 'SAME'))(np.ones((2, 3, 8), 'f4'), np.ones((4, 3, 3), 'f4')))
    for line in ('dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2), out_spec=(0, 1, 2))',
                 'batch_group_count=1', 'feature_group_count=1', 'lhs_dilation=(1,)', 'padding=((1, 1),)', 'rhs_dilation=(1,)',
                 'window_strides=(1,)'):
        assert line in text


def test_what_convolutions_refuse():
    x, w = np.ones((4, 6, 8), np.float32), np.ones((3, 2, 3), np.float32)
    for error, text, call in (
            (ValueError, '6 features and the kernel takes 2 in each of 1', lambda: lax.conv(x, w, (1,), 'SAME')),
            (ValueError, '2 groups do not divide', lambda: lax.conv_general_dilated(x, np.ones((3, 3, 3), 'f4'), (1,), 'SAME',
                                                                                    feature_group_count=2)),
            (ValueError, 'one of them is 1', lambda: lax.conv_general_dilated(x, w, (1,), 'SAME', feature_group_count=3,
                                                                              batch_group_count=2)),
            (ValueError, 'conv_transpose', lambda: lax.conv_general_dilated(x, w, (1,), 'SAME', (2,), feature_group_count=3)),
            (ValueError, "'SAME_LOWER'", lambda: lax.conv(x, w, (1,), 'HALF')),
            (ValueError, 'window_strides', lambda: lax.conv(x, w, (1, 1), 'VALID')),
            (TypeError, 'same dtypes', lambda: lax.conv(x, np.ones((3, 6, 3), np.float16), (1,), 'VALID')),
            (TypeError, 'one rank', lambda: lax.conv(x, w[0], (1,), 'VALID')),
            (ValueError, 'same dimensions of space', lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ('NCH', 'OIW', 'NCH')))):
        with pytest.raises(error, match=text):
            call()


# ---- on every placement

def refused(x: ArrayType, w: ArrayType) -> str:
    """Why a convolution of [n, c, h, w] with [o, c, 3, 3] has no one result on these placements; '' where it has one."""
    (n, c, *space), (o, i, *_) = ([set(p) for p in t.partitions] for t in (x, w))
    if c and i:
        return 'out_sharding=P'
    kept = n | set().union(*space)
    if kept & o:
        return 'two dimensions'
    split = kept | o | (c | i if not (c | i) & (kept | o) else set())        # what would split the result twice is gathered
    if x.unreduced & w.unreduced or (x.unreduced | w.unreduced) & split:
        return 'unreduced'
    return ''


@MESHES
def test_convolution_on_every_placement(mesh):
    a, b, ct = numbers((12, 12, 12, 4), 1), numbers((12, 12, 3, 3), 2), numbers((12, 12, 12, 4), 3)
    want = lax.conv(a, b, (1, 1), 'SAME')
    f = lambda x, w: lax.conv(x, w, (1, 1), 'SAME')  # noqa: E731
    expected = [np.asarray(v) for v in jax.vjp(f, jnp.asarray(a), jnp.asarray(b))[1](jnp.asarray(ct))]
    seen = set()
    for s, t in some([placements(a.shape, mesh), placements(b.shape, mesh)], 40):
        x, w = put(a, s, mesh), put(b, t, mesh)
        why = refused(s, t)
        seen.add(why)
        if why:
            with pytest.raises((ShardingTypeError, ValueError), match=why):
                f(x, w)
            continue
        y = f(x, w)
        np.testing.assert_array_equal(get(y, mesh), want, err_msg=f'{s} with {t}')
        for got, grad in zip(gradients(f, (x, w), ct, mesh), expected, strict=True):
            np.testing.assert_array_equal(got, grad, err_msg=f'{s} with {t}')
    assert '' in seen and len(seen) > 1


@MESHES
def test_groups_on_every_placement(mesh):
    a, b, ct = numbers((4, 12, 9), 1), numbers((24, 1, 3), 2), numbers((4, 24, 7), 3)
    f = lambda x, w: lax.conv_general_dilated(x, w, (1,), 'VALID', feature_group_count=12)  # noqa: E731
    want = convolved(a, b, (1,), [(0, 0)], features=12)
    expected = [np.asarray(v) for v in jax.vjp(f, jnp.asarray(a), jnp.asarray(b))[1](jnp.asarray(ct))]
    right = 0
    for s, t in some([placements(a.shape, mesh)[:9], placements(b.shape, mesh)[:9]], 25):
        try:
            y = f(put(a, s, mesh), put(b, t, mesh))
        except ShardingTypeError as error:
            assert s.unreduced or t.unreduced or 'does not divide' in str(error) or 'two dimensions' in str(error)
            continue
        right += 1
        np.testing.assert_array_equal(get(y, mesh), want, err_msg=f'{s} with {t}')
        for got, grad in zip(gradients(f, (put(a, s, mesh), put(b, t, mesh)), ct, mesh), expected, strict=True):
            np.testing.assert_array_equal(got, grad, err_msg=f'{s} with {t}')
    assert right > 5


@pytest.mark.meshes((2,), (3,))
def test_the_choice_of_a_sum(mesh):
    a, b = numbers((4, 12, 9), 1), numbers((24, 12, 3), 2)
    x, w = (jax.device_put(v, jax.NamedSharding(mesh, P(None, 'X'))) for v in (a, b))
    with pytest.raises(ShardingTypeError, match=r"out_sharding=P\(unreduced=\{'X'\}\)"):
        lax.conv(x, w, (1,), 'VALID')
    for spec, sums in ((P(), 1), (P(unreduced={'X'}), 0), (P(None, 'X'), 1)):
        run = lambda s=spec: lax.conv_general_dilated(x, w, (1,), 'VALID', out_sharding=s)  # noqa: E731
        y = run()
        assert sum(counted(run)[0].values()) == sums and y.type.unreduced == spec.unreduced
        np.testing.assert_array_equal(get(y, mesh), convolved(a, b, (1,), [(0, 0)]))


# ---- borders

@pytest.mark.meshes((2,), (3,), (4,))
def test_borders_go_to_the_neighbours(mesh):
    x = jax.device_put(numbers((1, 2, 24, 5), 1), jax.NamedSharding(mesh, P(None, None, 'X')))
    whole = jnp.asarray(numbers((1, 2, 24, 5), 1))
    border = 4 * 2 * 5                                                   # bytes of one row of two features
    ranks, mine = mesh.size, jax.process_index()
    for size, stride, pads, sends, rows in ((3, 1, 'SAME', 2, 2), (2, 2, 'VALID', 0, 0), (1, 1, 'VALID', 0, 0), (4, 2, 'SAME', 2, 2),
                                            (5, 1, [(4, 0)], 1, 4), (2, 1, [(0, 1)], 1, 1)):
        w = numbers((3, 2, size, 1), 2)
        f = lambda v, w=w, s=stride, p=pads: lax.conv(v, w, (s, 1), p if isinstance(p, str) else [*p, (0, 0)])  # noqa: E731
        by_op, sent = counted(lambda f=f: f(x))
        assert by_op.get('collective-permute', 0) == sends == sum(by_op.values()) and sent <= rows * border, (size, by_op, mine, ranks)
        np.testing.assert_array_equal(get(f(x), mesh), f(whole))
        ct = numbers(f(whole).shape, 3)
        np.testing.assert_array_equal(gradients(f, [x], ct, mesh)[0], jax.vjp(f, whole)[1](jnp.asarray(ct))[0])
        assert sum(counted(lambda f=f: jax.vjp(f, x)[1](f(x)))[0].values()) == 3 * sends
    # a border larger than a block, and blocks that begin between windows: the dimension is gathered
    for size, stride, pads in ((23, 1, 'SAME'), (3, 1, [(0, 2)]) if mesh.size < 3 else (19, 1, 'SAME')):
        w = numbers((3, 2, size, 1), 2)
        f = lambda v, w=w, s=stride, p=pads: lax.conv(v, w, (s, 1), p if isinstance(p, str) else [*p, (0, 0)])  # noqa: E731
        np.testing.assert_array_equal(get(f(x), mesh), f(whole))
    with pytest.raises(ShardingTypeError, match='reshard'):
        lax.conv(x, numbers((3, 2, 2, 1), 2), (1, 1), 'VALID')


# ---- reductions over windows

REDUCERS = {'add': (lax.add, 0.0, np.sum), 'max': (lax.max, -np.inf, np.max), 'min': (lambda a, b: lax.min(b, a), np.inf, np.min),
            'mul': (lax.mul, 1.0, np.prod), 'logaddexp': (jnp.logaddexp, -np.inf, np.logaddexp.reduce)}


@pytest.mark.parametrize('name', REDUCERS)
@MESHES
def test_reductions_over_windows_on_every_placement(name, mesh):
    f, start, g = REDUCERS[name]
    a = numbers((12, 24), 1)
    for sizes, strides, word in (((1, 2), (1, 2), 'VALID'), ((3, 2), (1, 2), 'SAME'), ((2, 9), (1, 1), 'SAME')):
        run = lambda v, k=sizes, s=strides, p=word: lax.reduce_window(v, start, f, k, s, p)  # noqa: E731
        pads = lax.padtype_to_pads(a.shape, sizes, strides, word)
        want = reduced(a, g, sizes, strides, pads)
        grad = None
        for t, in some([placements(a.shape, mesh)], 9):
            x = put(a, t, mesh)
            if t.unreduced and name != 'add':
                with pytest.raises(ShardingTypeError, match='reduce_window_m' if name in ('max', 'min') else None):
                    run(x)
                continue
            y = run(x)
            np.testing.assert_allclose(get(y, mesh), want, rtol=1e-5, err_msg=f'{t} {sizes}')
            ct = numbers(want.shape, 2)
            if grad is None:
                grad = np.asarray(jax.vjp(run, jnp.asarray(a))[1](jnp.asarray(ct))[0])
            np.testing.assert_allclose(gradients(run, [x], ct, mesh)[0], grad, rtol=1e-4, atol=1e-5, err_msg=f'{t} {sizes}')


def test_the_first_of_equals_has_the_derivative():
    x = jnp.asarray(np.float32([1, 3, 3, 0, np.nan, 2]))
    y, back = jax.vjp(lambda v: lax.reduce_window(v, -jnp.inf, lax.max, (3,), (3,)), x)
    np.testing.assert_array_equal(y, [3, np.nan])
    np.testing.assert_array_equal(back(jnp.asarray(np.float32([5, 7])))[0], [0, 5, 0, 0, 7, 0])


@pytest.mark.parametrize('base, dilation', [((1, 1), (2, 1)), ((2, 1), (1, 3)), ((3, 2), (2, 2))])
def test_dilated_windows(base, dilation):
    x = numbers((6, 7), 1)
    for f, start, g in (REDUCERS['add'], REDUCERS['mul']):
        y = lax.reduce_window(x, start, f, (2, 3), (1, 2), [(1, 0), (2, 1)], base, dilation)
        empty = {'sum': 0, 'prod': 1}[g.__name__]
        np.testing.assert_array_equal(y, reduced(x, lambda e, g=g, z=empty: g(e) if e else z, (2, 3), (1, 2), [(1, 0), (2, 1)], base,
                                                 dilation))
    np.testing.assert_array_equal(lax.reduce_window(x, 2.0, lax.add, (2, 3)), reduced(x, np.sum, (2, 3), (1, 1), [(0, 0)] * 2) + 2)


def test_reductions_of_several_arrays_at_once():
    x = numbers((6, 8), 1) + np.arange(48, dtype=np.float32).reshape(6, 8) / 100
    places = np.arange(48, dtype=np.int32).reshape(6, 8)

    def better(a, b):
        first = a[0] >= b[0]
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    value, place = lax.reduce_window((x, places), (-jnp.inf, np.int32(-1)), better, (2, 3), (2, 1))
    np.testing.assert_array_equal(value, reduced(x, np.max, (2, 3), (2, 1), [(0, 0)] * 2))
    np.testing.assert_array_equal(x.ravel()[np.asarray(place)], value)
    with pytest.raises(NotImplementedError, match='element by element'):
        lax.reduce_window(x, 0.0, lambda a, b: jnp.sum(a + b), (2, 2))
    with pytest.raises(ValueError, match='a window, a stride'):
        lax.reduce_window(x, 0.0, lax.add, (2,))


# ---- poolings

@MESHES
def test_poolings_on_every_placement(mesh):
    a = numbers((2, 12, 6, 2), 1)
    image = [(1, 2, 2, 1), (1, 2, 2, 1), [(0, 0)] * 4]
    inside = reduced(np.ones_like(a), np.sum, (1, 3, 3, 1), (1, 1, 1, 1), [(0, 0), (1, 1), (1, 1), (0, 0)])
    total = reduced(a, np.sum, (1, 3, 3, 1), (1, 1, 1, 1), [(0, 0), (1, 1), (1, 1), (0, 0)])
    for f, want in ((lambda v: jax.nn.avg_pool(v, (2, 2), (2, 2)), reduced(a, np.mean, *image)),
                    (lambda v: jax.nn.max_pool(v, (2, 2), (2, 2)), reduced(a, np.max, *image)),
                    (lambda v: jax.nn.min_pool(v, (2, 2), (2, 2)), reduced(a, np.min, *image)),
                    (lambda v: jax.nn.avg_pool(v, (3, 3), padding='SAME'), total / 9),
                    (lambda v: jax.nn.avg_pool(v, (3, 3), padding='SAME', count_include_pad=False), total / inside)):
        for t in some([placements(a.shape, mesh)], 8):
            x = put(a, t[0], mesh)
            try:
                y = f(x)
            except ShardingTypeError as error:
                assert t[0].unreduced or 'does not divide' in str(error)
                continue
            np.testing.assert_allclose(get(y, mesh), want, rtol=1e-6, atol=1e-6, err_msg=str(t[0]))
    assert jax.nn.max_pool(a[0], (2, 2)).shape == (11, 5, 2) and math.isclose(float(jax.nn.avg_pool(np.ones((3, 1)), (3,))[0, 0]), 1)


@pytest.mark.parametrize('module', [convolution, windows, applying, pooling], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    found = doctest.testmod(module, extraglobs={'np': np})
    assert found.attempted and not found.failed
