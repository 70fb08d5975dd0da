"""Moves: every pair of types keeps the global value, obeys the adjoint law and sends no more than needed."""

import itertools
import json
import random
import re
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from distad.errors import ShardingTypeError
from distad.runtime import blocks, collectives, moves, mpi, recorder
from distad.types.array_type import ArrayType
from distad.types.dtypes import KEY, float0
from distad.types.mesh import AbstractMesh
from distad.types.sharding import NamedSharding
from distad.types.spec import P
from tests.runtime.meshes import mesh_of, types_on
from tests.runtime.threads import Ranks

SHAPES = {(2,): (2, 4), (2, 2): (4, 8), (4,): (4, 8), (3,): (3, 6), (1, 2): (2, 4), (2, 2, 2): (8, 16), (2, 3): (6, 12),
          (3, 2, 2): (12, 24)}
HAS_SUM = [np.float32, np.int32, np.bool_, np.complex64, np.float16, ml_dtypes.bfloat16]


def random_block(t: ArrayType, mesh, rank: int, seed: int) -> np.ndarray:
    """This rank's block of a random value: copies are equal, summands are not zero anywhere."""
    coords = mesh.coords(rank)
    place = [coords[name] for name in sorted(t.split_axes | t.unreduced)]
    return np.random.default_rng([seed, *place]).integers(1, 9, t.local_shape).astype(t.dtype)


def exchange(mesh, block: np.ndarray) -> dict[int, np.ndarray]:
    """The blocks of all ranks of the mesh."""
    parts = collectives.agree(mpi.group(mesh, mesh.axis_names), np.ascontiguousarray(block).tobytes())
    return {r: np.frombuffer(p, block.dtype).reshape(block.shape) for r, p in zip(mesh.ranks, parts)}


def check_pair(src: ArrayType, dst: ArrayType, mesh, given: dict, taken: dict) -> None:
    whole = blocks.assemble(given, src, mesh)
    np.testing.assert_array_equal(blocks.assemble(taken, dst, mesh), whole, err_msg=f'{moves.plan(src, dst)}')
    assert all(b.shape == dst.local_shape and b.dtype == dst.dtype for b in taken.values())
    for rank in mesh.ranks:  # copies are copies
        first = next(r for r in mesh.ranks if all(mesh.coords(r)[n] == mesh.coords(rank)[n]
                                                  for n in dst.split_axes | dst.unreduced))
        np.testing.assert_array_equal(taken[rank], taken[first])


@pytest.mark.meshes((2,), (2, 2), (4,), (3,), (1, 2))
def test_every_pair_keeps_the_value(mesh):
    types = list(types_on(mesh.abstract_mesh, SHAPES[mesh.axis_sizes]))
    for i, (src, dst) in enumerate(itertools.product(types, types)):
        block = random_block(src, mesh, mpi.rank(), i)
        before = block.copy()
        steps = moves.plan(src, dst)
        with recorder.count() as c:
            out = moves.run(steps, mesh, block)
        assert c.total == len(moves.messages(steps))
        np.testing.assert_array_equal(block, before)
        if i % 7 == mpi.size() % 7:  # the others are compared in threads, below, where it costs nothing
            check_pair(src, dst, mesh, exchange(mesh, block), exchange(mesh, out))


@pytest.mark.ranks(1)
@pytest.mark.parametrize('sizes, most', [
    ((2, 2), None), ((2, 3), None), ((1, 2), None), ((2, 2, 2), 600), ((3, 2, 2), 300)])
def test_every_pair_keeps_the_value_in_threads(sizes, most, monkeypatch):
    mesh = mesh_of(sizes)
    ranks = Ranks(mesh.size, monkeypatch)
    types = list(types_on(mesh.abstract_mesh, SHAPES[sizes], np.int32))
    pairs = list(itertools.product(types, types))
    if most:
        pairs = random.Random(0).sample(pairs, most)
    given = [{r: random_block(src, mesh, r, i) for r in mesh.ranks} for i, (src, _) in enumerate(pairs)]
    taken = ranks.each(lambda r: [moves.run(moves.plan(*pair), mesh, given[i][r]) for i, pair in enumerate(pairs)])
    for i, (src, dst) in enumerate(pairs):
        check_pair(src, dst, mesh, given[i], {r: taken[r][i] for r in mesh.ranks})


@pytest.mark.ranks(1)
@pytest.mark.parametrize('sizes', [(2,), (2, 2), (2, 3)])
def test_adjoint_law(sizes, monkeypatch):
    """<A x, y> = <x, A^T y>, where a pair of a summand and a copy counts on every rank, a pair of copies once."""
    mesh = mesh_of(sizes)
    ranks = Ranks(mesh.size, monkeypatch)
    pairs = list(itertools.product(types_on(mesh.abstract_mesh, SHAPES[sizes], np.float64), repeat=2))
    xs = [{r: random_block(src, mesh, r, i) for r in mesh.ranks} for i, (src, _) in enumerate(pairs)]
    ys = [{r: random_block(dst.dual(), mesh, r, i + 10000) for r in mesh.ranks} for i, (_, dst) in enumerate(pairs)]
    ax = ranks.each(lambda r: [moves.run(moves.plan(s, d), mesh, x[r]) for (s, d), x in zip(pairs, xs)])
    aty = ranks.each(lambda r: [moves.run(moves.plan(d.dual(), s.dual()), mesh, y[r]) for (s, d), y in zip(pairs, ys)])
    for i, (src, dst) in enumerate(pairs):
        left = inner({r: ax[r][i] for r in mesh.ranks}, ys[i], dst, mesh)
        right = inner(xs[i], {r: aty[r][i] for r in mesh.ranks}, src, mesh)
        assert left == right, (src, dst, moves.plan(src, dst))


def inner(xs: dict, ys: dict, t: ArrayType, mesh) -> float:
    """The pairing of a value of type t with one of its dual type, from the blocks of the ranks alone."""
    copies = [n for n in mesh.axis_names if n not in t.split_axes | t.unreduced | t.reduced]
    return sum(float((xs[r] * ys[r]).sum()) for r in mesh.ranks if not any(mesh.coords(r)[n] for n in copies))


@pytest.mark.parametrize('dtype', HAS_SUM)
@pytest.mark.meshes((2,), (2, 2), (3,))
def test_dtypes(mesh, dtype):
    types = list(types_on(mesh.abstract_mesh, SHAPES[mesh.axis_sizes], dtype))
    for i, (src, dst) in enumerate(random.Random(3).sample(list(itertools.product(types, types)), 25)):
        block = random_block(src, mesh, mpi.rank(), i)
        out = moves.run(moves.plan(src, dst), mesh, block)
        check_pair(src, dst, mesh, exchange(mesh, block), exchange(mesh, out))


@pytest.mark.meshes((2,))
def test_keys_move_as_bytes(mesh):
    types = [t for t in types_on(mesh.abstract_mesh, (2, 4), KEY) if not t.unreduced]
    for src, dst in itertools.product(types, types):
        words = np.arange(16, dtype=np.uint32).reshape(2, 4, 2)
        value = words.view(KEY)[..., 0]
        out = moves.run(moves.plan(src, dst), mesh, blocks.cut(value, src, mesh, mpi.rank()))
        np.testing.assert_array_equal(out, blocks.cut(value, dst, mesh, mpi.rank()))


@pytest.mark.ranks(4)
def test_ranks_in_another_order():
    mesh = mesh_of((2, 2), [3, 1, 0, 2])
    types = list(types_on(mesh.abstract_mesh, (4, 8)))
    for i, (src, dst) in enumerate(random.Random(1).sample(list(itertools.product(types, types)), 60)):
        block = random_block(src, mesh, mpi.rank(), i)
        out = moves.run(moves.plan(src, dst), mesh, block)
        check_pair(src, dst, mesh, exchange(mesh, block), exchange(mesh, out))


# ---- plans, which need no ranks

XY = mesh_of((2, 2)).abstract_mesh
WHOLE = ArrayType((4, 8), np.float32).update(mesh=XY)


def kinds(src: ArrayType, dst: ArrayType) -> list[tuple[str, str]]:
    return [(s.kind, ''.join(s.axes)) for s in moves.plan(src, dst)]


@pytest.mark.parametrize('src, dst, expected', [
    ({}, {'reduced': 'X'}, []),
    ({'unreduced': 'X'}, {'unreduced': 'X'}, []),
    ({}, {'partitions': (('X', 'Y'), ())}, [('local', '')]),
    ({}, {'unreduced': 'X'}, [('local', '')]),
    ({'partitions': (('X',), ())}, {'unreduced': 'X'}, [('local', '')]),
    ({'partitions': (('X',), ())}, {'partitions': (('Y',), ()), 'unreduced': 'X'}, [('local', '')]),
    ({'unreduced': 'XY'}, {}, [('all-reduce', 'XY')]),
    ({'unreduced': 'XY'}, {'reduced': 'XY'}, [('all-reduce', 'XY')]),
    ({'unreduced': 'X'}, {'partitions': ((), ('Y',))}, [('local', ''), ('all-reduce', 'X')]),
    ({'unreduced': 'XY'}, {'partitions': (('X',), ('Y',))}, [('reduce-scatter', 'XY')]),
    ({'unreduced': 'XY'}, {'partitions': (('Y', 'X'), ())}, [('reduce-scatter', 'YX')]),
    ({'unreduced': 'XY'}, {'partitions': (('X',), ())}, [('all-reduce', 'XY'), ('local', '')]),
    ({'unreduced': 'X'}, {'partitions': (('Y', 'X'), ())}, [('reduce-scatter', 'X')]),
    ({'unreduced': 'X'}, {'unreduced': 'Y'}, [('all-reduce', 'X'), ('local', '')]),
    ({'partitions': (('Y',), ()), 'unreduced': 'X'}, {'partitions': (('X',), ()), 'unreduced': 'Y'},
     [('all-reduce', 'X'), ('local', '')]),
    ({'partitions': (('X',), ('Y',))}, {}, [('all-gather', 'XY')]),
    ({'partitions': (('X', 'Y'), ())}, {'partitions': (('X',), ()), 'reduced': 'Y'}, [('all-gather', 'Y')]),
    ({'partitions': (('X',), ())}, {'partitions': ((), ('Y',))}, [('all-gather', 'X')]),
    ({'partitions': (('X',), ())}, {'partitions': ((), ('X',))}, [('all-to-all', 'X')]),
    ({'partitions': (('X', 'Y'), ())}, {'partitions': (('X',), ('Y',))}, [('all-to-all', 'Y')]),
    ({'partitions': (('X', 'Y'), ())}, {'partitions': ((), ('Y', 'X'))}, [('all-to-all', 'XY')]),
    ({'partitions': (('X', 'Y'), ())}, {'partitions': (('Y', 'X'), ())}, [('collective-permute', 'XY')]),
    ({'partitions': (('X',), ('Y',))}, {'partitions': (('Y',), ('X',))}, [('collective-permute', 'XY')]),
    ({'partitions': (('X',), ())}, {'partitions': (('Y',), ())}, [('collective-permute', 'X')]),
    ({'partitions': (('Y',), ()), 'unreduced': 'X'}, {}, [('all-reduce', 'X'), ('all-gather', 'Y')]),
])
def test_plans(src, dst, expected):
    assert kinds(WHOLE.update(**src), WHOLE.update(**dst)) == expected


RECORDED = Path(__file__).parents[1] / 'conformance' / 'data' / 'explicit.jsonl'


def recorded_moves():
    """The recorded reshards and device_puts of one array: its type, the type it goes to, the collectives counted."""
    for case in map(json.loads, RECORDED.read_text().splitlines()):
        call = re.fullmatch(r'jax\.(?:reshard|device_put)\(a, (jax\.P\(.*\))\)', case['expr'])
        if case['group'] in ('reshard', 'device_put') and call and 'collectives' in case:
            mesh = AbstractMesh([n for _, n in case['mesh']], [name for name, _ in case['mesh']])
            arg, = case['args']
            spec = P(*arg['spec'], unreduced=set(arg['unreduced']), reduced=set(arg['reduced']))
            dtype = getattr(ml_dtypes, arg['dtype'], arg['dtype'])
            src, dst = (ArrayType(arg['shape'], dtype, sharding=NamedSharding(mesh, p))
                        for p in (spec, eval(call[1], {'jax': SimpleNamespace(P=P)})))
            yield case['id'], src, dst, *(sum(case[key].values()) if key in case else None
                                          for key in ('collectives', 'grad_collectives'))


def test_no_more_messages_than_recorded():
    count = 0
    for name, src, dst, forward, backward in recorded_moves():
        count += 1
        assert len(moves.messages(moves.plan(src, dst))) <= forward, (name, moves.plan(src, dst))
        if backward is not None:
            back = moves.plan(dst.dual(), src.dual())
            assert len(moves.messages(back)) <= backward, (name, back)
    assert count > 400


def test_large_sums_are_scattered_before_the_rest_is_summed():
    mesh = mesh_of((2, 2)).abstract_mesh
    for rows, sent in ((8, [('all-reduce', 'XY'), ('local', '')]), (1 << 16, [('reduce-scatter', 'X'), ('all-reduce', 'Y')])):
        t = ArrayType((rows, 8), np.float32).update(mesh=mesh)
        summands, split = t.update(unreduced={'X', 'Y'}), t.update(partitions=(('X',), ()))
        assert kinds(summands, split) == sent
    assert kinds(summands, t.update(partitions=((), ('X',)), unreduced={'Y'})) == [('reduce-scatter', 'X')]
    assert kinds(summands.update(kind='max'), split) == [('all-reduce', 'XY'), ('local', '')]


@pytest.mark.meshes((2, 2))
def test_values_of_large_sums(mesh):
    t = ArrayType((1 << 16, 8), np.float32).update(mesh=mesh.abstract_mesh)
    src, dst = t.update(unreduced={'X', 'Y'}), t.update(partitions=(('X',), ()))
    whole = (np.arange(t.size) % 7).astype('f4').reshape(t.shape)
    block = moves.run(moves.plan(src, dst), mesh, whole * (1 + mpi.rank()))
    np.testing.assert_array_equal(block, np.split(whole * 10, 2)[mesh.coords(mpi.rank())['X']])


def test_axes_of_size_one_never_send():
    mesh = mesh_of((1, 2)).abstract_mesh
    t = ArrayType((2, 4), np.float32).update(mesh=mesh)
    assert moves.plan(t.update(unreduced={'X'}), t.update(partitions=((), ('X',)))) == ()
    assert kinds(t.update(partitions=(('X', 'Y'), ())), t) == [('all-gather', 'Y')]


def test_what_holds_nothing_is_never_sent():
    for t in (ArrayType((0, 8), np.float32), ArrayType((4, 8), float0)):
        t = t.update(mesh=XY)
        assert not moves.messages(moves.plan(t.update(unreduced={'X'}), t))
        assert not moves.messages(moves.plan(t.update(partitions=((), ('X',))), t))


def test_a_plan_can_be_read():
    a, b = WHOLE.update(unreduced={'X', 'Y'}), WHOLE.update(partitions=(('X', 'Y'), ()))
    assert repr(moves.plan(a, b)[0]) == 'reduce-scatter over X,Y, 128 B: float32[4,8]{U:(X,Y)} -> float32[4@(X,Y),8]'
    assert repr(moves.plan(b, WHOLE)[0]) == 'all-gather over X,Y, 32 B: float32[4@(X,Y),8] -> float32[4,8]'
    assert repr(moves.plan(WHOLE, b)[0]) == 'local: float32[4,8] -> float32[4@(X,Y),8]'
    half = a.update(dtype=np.float16)  # travels as float32
    assert moves.plan(half, half.update(unreduced=()))[0].bytes == 128


def test_max_and_min_to_come():
    peak = WHOLE.update(unreduced={'X'}, kind='max')
    assert kinds(peak, WHOLE) == [('all-reduce', 'X')]
    assert kinds(WHOLE, peak) == []  # copies are their own max
    with pytest.raises(ShardingTypeError, match='gather these axes first'):
        moves.plan(WHOLE.update(partitions=(('X',), ())), peak)
    with pytest.raises(ShardingTypeError, match='reduce the max first'):
        moves.plan(peak, peak.update(kind='sum'))


def test_a_relabel_is_the_same_block_and_a_slice_is_a_view():
    mesh = mesh_of((1,), [mpi.rank()])
    t = ArrayType((2, 4), np.float32).update(mesh=mesh.abstract_mesh)
    block = np.ones((2, 4), np.float32)
    assert moves.run(moves.plan(t, t.update(reduced={'X'})), mesh, block) is block
    assert moves.run(moves.plan(t, t.update(unreduced={'X'})), mesh, block) is block


@pytest.mark.meshes((2,))
def test_alike_messages_travel_as_one(mesh):
    me = mpi.rank()
    f = ArrayType((2, 4), np.float32).update(mesh=mesh.abstract_mesh)
    i = f.update(dtype=np.int32)
    g = ArrayType((6,), np.float32).update(mesh=mesh.abstract_mesh)
    u, s, s1 = {'unreduced': {'X'}}, {'partitions': (('X',), ())}, {'partitions': ((), ('X',))}
    split = g.update(partitions=(('X',),))
    ins = [f.update(**u), g.update(**u), i.update(**u), f, f.update(**s), f.update(**s1), split, f.update(**u),
           g.update(**u), f.update(**s), f.update(**s1)]
    outs = [f, g, i, f.update(**s), f, f, g, f.update(**s1), split, f.update(**s1), f.update(**s)]
    wholes = [np.arange(t.size).reshape(t.shape).astype(t.dtype) + n for n, t in enumerate(ins)]
    place = SimpleNamespace(mesh=mesh, path='jit(step)/reshard', source='train.py:1')
    with recorder.count() as c:
        results = moves.mover(place, ins, outs)(*(blocks.cut(w, t, mesh, me) for w, t in zip(wholes, ins)))
    assert c.by_op == {'all-reduce': 2, 'all-gather': 1, 'reduce-scatter': 1, 'all-to-all': 1}
    for whole, t, block in zip(wholes, outs, results):
        np.testing.assert_array_equal(block, blocks.cut(whole, t, mesh, me))

