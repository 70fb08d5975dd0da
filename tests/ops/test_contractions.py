"""Products: every placement gives NumPy's value or is refused for a reason; what they send; what the refusals propose."""

import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import lax
from distad.errors import ShardingTypeError
from distad.ops.gemm import product
from tests.ops.arrays import counted, get, gradients, numbers, placements, put, some

P = jax.P
MESHES = pytest.mark.meshes((2,), (2, 2), (3,))
M, K, N, B = 12, 24, 36, 48                  # all different; each divides by 2, 3 and 4


# ---- the local product

DIMENSIONS = [
    ((4, 5), (5, 6), ((1,), (0,)), ((), ())),
    ((5, 4), (6, 5), ((0,), (1,)), ((), ())),
    ((3, 4, 5), (3, 5, 6), ((2,), (1,)), ((0,), (0,))),
    ((4, 3, 5), (5, 6, 3), ((2,), (0,)), ((1,), (2,))),
    ((2, 3, 4, 5), (3, 6, 2, 5), ((3,), (3,)), ((0, 1), (2, 0))),
    ((3, 4, 5), (5, 6, 4), ((1, 2), (2, 0)), ((), ())),
    ((3, 4, 5), (4, 6, 3), ((0,), (2,)), ((), ())),
    ((4, 5), (5,), ((1,), (0,)), ((), ())),
    ((3, 5), (3, 5), ((1,), (1,)), ((0,), (0,))),
    ((5, 3), (3, 5), ((0,), (1,)), ((1,), (0,))),
    ((5,), (5,), ((0,), (0,)), ((), ())),
    ((3, 5), (5, 3), ((0, 1), (1, 0)), ((), ())),
    ((4,), (5,), ((), ()), ((), ())),
    ((3, 4), (5, 3), ((), ()), ((0,), (1,))),
    ((3, 4), (3,), ((), ()), ((0,), (0,))),
    ((), (3,), ((), ()), ((), ())),
    ((4, 0), (0, 6), ((1,), (0,)), ((), ())),
    ((0, 5), (5, 6), ((1,), (0,)), ((), ())),
    ((1, 5), (5, 1), ((1,), (0,)), ((), ())),
]


def by_einsum(x, y, contracting, batch):
    (cx, cy), (bx, by) = contracting, batch
    xl, yl = list(range(x.ndim)), list(range(10, 10 + y.ndim))
    for i, j in zip((*cx, *bx), (*cy, *by), strict=True):
        yl[j] = xl[i]
    rest = [d for d in range(x.ndim) if d not in (*cx, *bx)], [yl[d] for d in range(y.ndim) if d not in (*cy, *by)]
    return np.einsum(x, xl, y, yl, [*bx, *rest[0], *rest[1]])


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'int32', 'complex64', 'bool', 'float16', 'bfloat16'])
@pytest.mark.parametrize('case', DIMENSIONS, ids=str)
def test_the_local_product(case, dtype):
    x_shape, y_shape, contracting, batch = case
    dtype = np.dtype(ml_dtypes.bfloat16 if dtype == 'bfloat16' else dtype)
    x, y = numbers(x_shape, 1).astype(dtype), numbers(y_shape, 2).astype(dtype)
    for a, b in ((x, y), (x.T.copy().T, y.T.copy().T), (np.repeat(x[..., None], 2, -1)[..., 1], y)):
        z = product(a.shape, b.shape, (contracting, batch), dtype, dtype)(a, b)
        wide = np.float64 if dtype.itemsize == 2 else dtype
        want = by_einsum(x.astype(wide), y.astype(wide), contracting, batch)
        assert z.dtype == dtype and z.shape == want.shape
        np.testing.assert_array_equal(z, want.astype(dtype))


def test_half_types_and_small_integers_add_up_in_a_wider_type():
    ones = jnp.asarray(np.ones(4096, ml_dtypes.bfloat16))
    assert float(jnp.dot(ones, ones)) == 4096                  # in bfloat16 the sum would stop at 256
    bytes_ = jnp.asarray(np.full(100, 100, np.int8))
    y = jnp.dot(bytes_, bytes_, preferred_element_type=jnp.int32)
    assert y.dtype == np.int32 and int(y) == 10**6
    x = jnp.asarray(np.ones((2, 3), np.float16))
    (ct,) = jax.vjp(lambda x: jnp.matmul(x, x.T, preferred_element_type=jnp.float32), x)[1](jnp.asarray(np.eye(2, dtype='f4')))
    assert ct.dtype == np.float16


# ---- every placement of matmul, against a second statement of the rules

def verdict(x, y) -> str:
    """What becomes of x[m, k] @ y[k, n]. An operand is gathered along k where its axes split the result too."""
    (m, k_of_x), (k_of_y, n) = map(map_set, (x.partitions, y.partitions))
    if k_of_x and k_of_y:
        return 'sum' if x.unreduced & y.unreduced else 'choice'
    if m & n:
        return 'twice'
    split = m | n | ((k_of_x | k_of_y) if not (k_of_x | k_of_y) & (m | n) else set())
    return 'sum' if x.unreduced & y.unreduced or (x.unreduced | y.unreduced) & split else 'right'


def map_set(partitions):
    return [set(names) for names in partitions]


WORDS = {'choice': 'out_sharding=P', 'twice': 'two dimensions', 'sum': 'unreduced'}


def result(x, y):
    return (x.partitions[0], y.partitions[1]), x.unreduced | y.unreduced


@MESHES
def test_matmul_on_every_placement(mesh):
    a, b, ct = numbers((M, K), 1), numbers((K, N), 2), numbers((M, N), 3)
    seen = set()
    for s, t in some([placements((M, K), mesh), placements((K, N), mesh)], 120):
        x, y = put(a, s, mesh), put(b, t, mesh)
        expect = verdict(s, t)
        seen.add(expect)
        if expect != 'right':
            with pytest.raises(ShardingTypeError, match=WORDS[expect]):
                x @ y
            continue
        z = x @ y
        assert (z.type.partitions, z.type.unreduced) == result(s, t) and not z.type.reduced, f'{s} @ {t} gives {z.type}'
        np.testing.assert_array_equal(get(z, mesh), a @ b, err_msg=f'{s} @ {t}')
        dx, dy = gradients(jnp.matmul, (x, y), ct, mesh)
        np.testing.assert_array_equal(dx, ct @ b.T, err_msg=f'{s} @ {t}')
        np.testing.assert_array_equal(dy, a.T @ ct, err_msg=f'{s} @ {t}')
    assert seen == {'right', 'choice', 'twice', 'sum'}


@MESHES
def test_out_sharding_takes_any_operands(mesh):
    """Only a product of two unreduced values has no meaning."""
    a, b, ct = numbers((M, K), 1), numbers((K, N), 2), numbers((M, N), 3)
    targets = [t for t in placements((M, N), mesh) if not t.reduced]
    for s, t, want in some([placements((M, K), mesh), placements((K, N), mesh), targets], 80):
        x, y = put(a, s, mesh), put(b, t, mesh)

        def f(x, y, want=want):
            return jnp.matmul(x, y, out_sharding=want.spec)

        if s.unreduced & t.unreduced:
            with pytest.raises(ShardingTypeError, match='product of their sums'):
                f(x, y)
            continue
        z = f(x, y)
        assert z.type == want, f'{s} @ {t} gives {z.type}, not {want}'
        np.testing.assert_array_equal(get(z, mesh), a @ b, err_msg=f'{s} @ {t} to {want}')
        dx, dy = gradients(f, (x, y), ct, mesh)
        np.testing.assert_array_equal(dx, ct @ b.T, err_msg=f'{s} @ {t} to {want}')
        np.testing.assert_array_equal(dy, a.T @ ct, err_msg=f'{s} @ {t} to {want}')


@pytest.mark.meshes((2, 2), (3,))
def test_reduced_weights_have_gradients_for_every_placement_of_the_batch(mesh):
    a, w, ct = numbers((B, K), 1), numbers((K, N), 2), numbers((B, N), 3)
    weights = [t for t in placements((K, N), mesh) if t.reduced and not t.split_axes and not t.unreduced]
    batches = [t for t in placements((B, K), mesh) if not t.partitions[1] and not t.unreduced]
    for s, t in itertools.product(batches, weights):
        _, dw = gradients(jnp.matmul, (put(a, s, mesh), put(w, t, mesh)), ct, mesh)
        np.testing.assert_array_equal(dw, a.T @ ct, err_msg=f'{s} @ {t}')


# ---- what is sent

# spec of x[m, k], of y[k, n], of the result (None: not given); collectives forward, and in all with the gradient
SENT = [
    (P('X'), P(), None, {}, {'all-reduce': 1}),
    (P('X'), P(reduced={'X'}), None, {}, {}),
    (P(), P(None, 'X'), None, {}, {'all-reduce': 1}),
    (P(None, 'X'), P(), None, {'all-reduce': 1}, {'all-reduce': 1, 'all-gather': 1}),
    (P(None, 'X'), P(reduced={'X'}), None, {'all-reduce': 1}, {'all-reduce': 1}),
    (P('X'), P('X'), None, {'all-gather': 1}, {'all-gather': 1, 'reduce-scatter': 1}),
    (P(None, 'X'), P('X'), P(), {'all-reduce': 1}, {'all-reduce': 1}),
    (P(None, 'X'), P('X'), P('X'), {'reduce-scatter': 1}, {'reduce-scatter': 1, 'all-gather': 1}),
    (P(None, 'X'), P('X'), P(unreduced={'X'}), {}, {}),
    (P(None, 'X'), P(reduced={'X'}), P(unreduced={'X'}), {}, {}),
    (P(), P(), P(unreduced={'X'}), {}, None),
    (P(), P(), P('X'), {}, {'all-gather': 1}),
    (P(reduced={'X'}), P(unreduced={'X'}), None, {}, {}),
    (P(unreduced={'X'}), P(), None, {}, {'all-reduce': 1}),
    (P(unreduced={'X'}), P(reduced={'X'}), P(), {'all-reduce': 1}, {'all-reduce': 1}),
]


@pytest.mark.parametrize('x, y, out, forward, both', SENT, ids=lambda v: str(v).replace(' ', ''))
@pytest.mark.meshes((2,), (3,))
def test_what_a_product_sends(mesh, x, y, out, forward, both):
    a = jax.device_put(jnp.asarray(numbers((M, K), 1)), x)
    b = jax.device_put(jnp.asarray(numbers((K, N), 2)), y)

    def f(a, b):
        return jnp.matmul(a, b, out_sharding=out)

    assert counted(lambda: f(a, b))[0] == forward
    z, back = jax.vjp(f, a, b)
    ct = put(numbers((M, N), 3), z.type.dual(), mesh)
    if both is not None:
        sent = counted(lambda: back(ct))[0]
        assert {op: forward.get(op, 0) + sent.get(op, 0) for op in {*forward, *sent}} == both


# ---- refusals and what they propose

@pytest.mark.parametrize('x, y, count', [(P(None, 'X'), P('X'), 4), (P(None, 'X'), P('Y'), 4), (P('X', 'Y'), P('Y'), 3),
                                         (P(None, ('X', 'Y')), P('X'), 4)], ids=str)
@pytest.mark.meshes((2, 2))
def test_every_answer_that_a_refusal_lists_works_and_costs_what_it_says(mesh, x, y, count):
    a, b = (jax.device_put(jnp.asarray(numbers(shape, 1)), spec) for shape, spec in (((M, K), x), ((K, N), y)))
    with pytest.raises(ShardingTypeError) as refusal:
        a @ b
    text = str(refusal.value)
    assert text.startswith('matmul: the operands are split along a contracted dimension, over ')
    assert f'got {a.type}, {b.type}' in text
    answers = re.findall(r'^    out_sharding=(P\(.*\))  (.*)$', text, re.MULTILINE)
    assert len(answers) == count
    for spec, price in answers:
        spec = eval(spec, {'P': P})
        z = jnp.matmul(a, b, out_sharding=spec)
        sent, size = counted(lambda spec=spec: jnp.matmul(a, b, out_sharding=spec))
        assert z.type.unreduced == spec.unreduced
        np.testing.assert_array_equal(get(z, mesh), numbers((M, K), 1) @ numbers((K, N), 1))
        messages = re.findall(r'one (\S+) over (?:\w+|\([\w, ]+\)) of (?:up to )?(\d+) bytes', price)
        assert sorted(op for op, _ in messages) == sorted(op for op, n in sent.items() for _ in range(n)), price
        most = sum(int(n) for _, n in messages)
        assert most == size or size < most and 'up to' in price, price
    assert (jnp.matmul(a, b, out_sharding=P(unreduced=refused_over(text))).type.unreduced) == refused_over(text)


def refused_over(text: str) -> set[str]:
    return eval(re.search(r'unreduced=(\{.*?\})', text)[1])


@pytest.mark.meshes((2,))
def test_the_words_of_a_refusal(mesh):
    x = jax.device_put(jnp.asarray(numbers((4, 8), 1)), P(None, 'X'))
    with pytest.raises(ShardingTypeError) as refusal:
        jnp.einsum('ij,kj->ki', x, x)
    assert str(refusal.value).split('\n') == [
        'einsum: the operands are split along a contracted dimension, over X in both, got float32[4,8@X], float32[4,8@X]. So '
        'each rank has a part of the sum, and it is for you to say what becomes of it. The answers, and what a rank sends for '
        'each:',
        '    out_sharding=P(None, None)  one all-reduce over X of 64 bytes',
        "    out_sharding=P(None, None, unreduced={'X'})  nothing",
        "    out_sharding=P('X', None)  one reduce-scatter over X of 64 bytes",
        "    out_sharding=P(None, 'X')  one reduce-scatter over X of 64 bytes"]


def test_wrong_shapes_are_named():
    x, y = jnp.asarray(np.ones((2, 3), 'f4')), jnp.asarray(np.ones((4, 5), 'f4'))
    for f, match in ((lambda: x @ y, r'sizes 3 and 4 .*float32\[2,3\], float32\[4,5\]'),
                     (lambda: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), 'contracting dimensions'),
                     (lambda: jnp.tensordot(x, y, 3), 'not 3 dimensions'),
                     (lambda: lax.dot_general(x, y, (((7,), (0,)), ((), ()))), 'distinct dimensions'),
                     (lambda: lax.dot_general(x, y.astype(np.int32), (((1,), (0,)), ((), ()))), 'same dtypes')):
        with pytest.raises(TypeError, match=match):
            f()
    with pytest.raises(ValueError, match='one dimension or more'):
        jnp.matmul(x, 2.0)


# ---- the other products

PRODUCTS = {
    'dot 3-d': (jnp.dot, np.dot, (2, M, K), (K, N)),
    'matmul broadcasts': (jnp.matmul, np.matmul, (2, 1, M, K), (3, K, 4)),
    'matmul of a size 1': (jnp.matmul, np.matmul, (1, M, K), (2, K, 4)),
    'matmul of a vector': (jnp.matmul, np.matmul, (K,), (2, K, N)),
    'inner': (jnp.inner, np.inner, (M, K), (N, K)),
    'outer': (jnp.outer, np.outer, (M,), (2, N)),
    'vdot': (jnp.vdot, np.vdot, (M, K), (M, K)),
    'vdot of shapes': (jnp.vdot, np.vdot, (M, 4), (4, M)),
    'tensordot': (lambda x, y: jnp.tensordot(x, y, ((0, 2), (1, 0))), lambda x, y: np.tensordot(x, y, ((0, 2), (1, 0))),
                  (M, 3, 4), (4, M)),
    'tensordot 0': (lambda x, y: jnp.tensordot(x, y, 0), lambda x, y: np.tensordot(x, y, 0), (M,), (N,)),
    'vecdot': (jnp.vecdot, np.vecdot, (M, K), (K,)),
    'vecdot axis': (lambda x, y: jnp.vecdot(x, y, axis=0), lambda x, y: np.vecdot(x, y, axis=0), (K, M), (K, 1)),
    'matvec': (jnp.matvec, lambda x, y: (x @ y[..., None])[..., 0], (2, M, K), (K,)),
    'vecmat': (jnp.vecmat, lambda x, y: (x.conj()[..., None, :] @ y)[..., 0, :], (2, K), (K, N)),
    'kron': (jnp.kron, np.kron, (M,), (2, 4)),
}


@pytest.mark.parametrize('name', PRODUCTS)
@pytest.mark.meshes((2,), (3,))
def test_products_have_numpys_values(mesh, name):
    f, reference, *shapes = PRODUCTS[name]
    done = 0
    for dtype in ('float32', 'complex64'):
        a, b = (numbers(shape, i, dtype) for i, shape in enumerate(shapes))
        want = reference(a, b)
        for types in some([placements(shape, mesh, dtype) for shape in shapes], 25):
            try:
                z = f(*(put(v, t, mesh) for v, t in zip((a, b), types, strict=True)))
            except ShardingTypeError:
                continue
            done += 1
            np.testing.assert_array_equal(get(z, mesh), want, err_msg=str(types))
    assert done >= 8


EINSUMS = ['ij,jk->ki', 'ij->ji', 'ij->', 'ii->i', 'iij->j', 'ij,ij->i', 'ij,ij', 'i,j->ij', 'bij,bjk->bik', '...ij,jk->...ik',
           'bqhd,bkhd->bhqk', 'bd,d->bd', 'bd,->bd', 'ij,jk,kl->il', 'ij,jk,kl,li->', 'ij,j,j->i', 'aij,ji->a', 'ij,kl->il',
           'ii,i->i', 'ij,ik,il->jkl']
SIZES = {letter: 6 if letter in 'bjk' else 12 if letter in 'ia' else 2 for letter in 'abcdefghijklmnopq'}


def operands_of(spec: str) -> list[np.ndarray]:
    inputs = spec.split('->')[0].replace('...', 'a').split(',')
    return [numbers([SIZES[v] for v in labels], i) for i, labels in enumerate(inputs)]


@pytest.mark.parametrize('spec', EINSUMS)
@pytest.mark.meshes((2,), (3,))
def test_einsum_on_every_placement(mesh, spec):
    values = operands_of(spec)
    want = np.einsum(spec, *values)
    ct = numbers(want.shape, 9)
    right = refused = 0
    for types in some([placements(v.shape, mesh) for v in values], 25):
        args = [put(v, t, mesh) for v, t in zip(values, types, strict=True)]
        try:
            z = jnp.einsum(spec, *args)
        except ShardingTypeError as error:
            refused += 1
            assert 'got ' in str(error)
            continue
        right += 1
        np.testing.assert_array_equal(get(z, mesh), want, err_msg=str(types))
        cts = gradients(lambda *xs: jnp.einsum(spec, *xs), args, ct, mesh)
        for i, c in enumerate(cts):                                # it is linear in each operand: <ct, f(v)> = <f'(ct), v>
            v = numbers(values[i].shape, 20 + i)
            there = np.einsum(spec, *values[:i], v, *values[i + 1:])
            assert np.sum(ct * there, dtype=float) == np.sum(c * v, dtype=float), f'{types}, operand {i}'
    assert right >= 2


@pytest.mark.parametrize('spec', [s for s in EINSUMS if '->' in s and '.' not in s])
@pytest.mark.meshes((2,), (3,))
def test_einsum_with_out_sharding(mesh, spec):
    values = operands_of(spec)
    want = np.einsum(spec, *values)
    targets = [t for t in placements(want.shape, mesh) if not t.reduced]
    right = 0
    for *types, target in some([*(placements(v.shape, mesh) for v in values), targets], 40):
        if len(values) == 1 and (target.unreduced or types[0].unreduced or types[0].reduced):
            continue                                               # one operand follows the rules of reduce_sum
        args = [put(v, t, mesh) for v, t in zip(values, types, strict=True)]
        try:
            z = jnp.einsum(spec, *args, out_sharding=target.spec)
        except ShardingTypeError:
            assert sum(map(bool, (t.unreduced for t in types))) > 1 or len(values) > 2 or len(set(spec.split('->')[0])) < len(
                spec.split('->')[0]), f'{types} to {target}'
            continue
        right += 1
        assert z.type == target, f'{types} to {target} gave {z.type}'
        np.testing.assert_array_equal(get(z, mesh), want, err_msg=f'{types} to {target}')
    assert right >= 2


@pytest.mark.meshes((2,))
def test_a_chain_with_out_sharding_adds_up_once(mesh):
    x = jax.device_put(jnp.asarray(numbers((12, 6), 1)), P(None, 'X'))
    y = jax.device_put(jnp.asarray(numbers((6, 6), 2)), P('X'))
    z = jnp.asarray(numbers((6, 2), 3))
    assert counted(lambda: jnp.einsum('ij,jk,kl->il', x, y, z, out_sharding=P()))[0] == {'all-reduce': 1}
    assert counted(lambda: jnp.einsum('ij,jk,kl->il', x, y, z, out_sharding=P(unreduced={'X'})))[0] == {}


def test_einsum_takes_lists_of_labels_and_makes_paths():
    x, y = numbers((3, 4), 1), numbers((4, 5), 2)
    np.testing.assert_array_equal(np.asarray(jnp.einsum(x, [0, 1], y, [1, 2], [2, 0])), (x @ y).T)
    np.testing.assert_array_equal(np.asarray(jnp.einsum(x, [0, 1], y, [1, 2])), x @ y)
    assert len(jnp.einsum_path('ij,jk,kl->il', x, y, np.ones((5, 2)))[0]) == 2
    np.testing.assert_array_equal(np.asarray(jnp.einsum('ij,jk,kl->il', x, y, np.ones((5, 2), 'f4'), optimize=False)),
                                  x @ y @ np.ones((5, 2)))
    with pytest.raises(ValueError, match='sizes|size'):
        jnp.einsum('ii->i', x)
