"""Malformed calls, each with the class and the text of the one error that it gives: the table of test_bad_input.py.

A call is made on all ranks; `n` in it is the number of ranks, and the mesh is X. A case that needs two ranks says so.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import distad as jax
import distad.numpy as jnp
from distad import checkpoint, errors, lax, log, tree
from distad.config import Config, config
from distad.runtime import mpi, waiting
from distad.types.spec import UnreducedKind

P = jax.P
S, V, T = errors.ShardingTypeError, ValueError, TypeError


@dataclass(frozen=True, slots=True)
class Case:
    family: str
    call: Callable[[], Any]
    error: type[Exception]
    text: str
    ranks: int = 1


@dataclass(slots=True)
class Table:
    family: str = ''
    cases: list[Case] = field(default_factory=list)

    def __call__(self, call: Callable[[], Any], error: type[Exception], text: str, ranks: int = 1) -> None:
        self.cases.append(Case(self.family, call, error, text, ranks))


def table(mesh: jax.Mesh, folder: str) -> list[Case]:
    add = Table()
    for family in (specs, meshes, placing, shapes, dtypes, arithmetic, indexing, manual, control, derivatives, trees, keys,
                   configuration):
        add.family = family.__name__
        family(add, mesh)
    add.family = 'checkpoints'
    checkpoints(add, mesh, folder)
    add.family = 'ranks'
    ranks(add, folder)
    return add.cases


def values(mesh):
    n = mesh.size
    return (jax.device_put(np.ones((2 * n, 4), 'f4'), P('X')), jax.device_put(np.ones(4, 'f4'), P()),
            jax.device_put(np.ones(4, 'f4'), P(unreduced={'X'})), jax.device_put(np.ones(4, 'f4'), P(reduced={'X'})))


def specs(add, mesh):
    x, r, u, d = values(mesh)
    add(lambda: P(unreduced='X'), T, r"P\(unreduced=\.\.\.\) takes a set of axis names, not 'X'")
    add(lambda: P(reduced=['X']), T, r"P\(reduced=\.\.\.\) takes a set of axis names")
    add(lambda: P(unreduced={None}), V, 'names of mesh axes, and None is none')
    add(lambda: P('X', unreduced={'X'}), V, 'a mesh axis is in one state.*partitions and unreduced')
    add(lambda: P('X', reduced={'X'}), V, 'a mesh axis is in one state.*partitions and reduced')
    add(lambda: P(unreduced={'X'}, reduced={'X'}), V, 'a mesh axis is in one state.*unreduced and reduced')
    add(lambda: P((('X', 'Y'), 'Z')), V, 'None, a name or a flat tuple of names')
    add(lambda: P(unreduced_kind=UnreducedKind.max), V, 'needs unreduced axes')
    add(lambda: P(unreduced={'X'}, unreduced_kind='max'), T, 'unreduced_kind is an UnreducedKind')
    add(lambda: setattr(P('X'), 'unreduced', {'X'}), AttributeError, r'does not change; use \.update')
    add(lambda: tuple(P('X', unreduced={'Y'})), V, r'more than a sequence of partitions')
    add(lambda: P('X', reduced={'Y'}) + ('Z',), T, 'has no unreduced or reduced axes')
    add(lambda: jax.NamedSharding(mesh, 'X'), T, r"takes a PartitionSpec, such as P\('X'\)")
    add(lambda: jax.NamedSharding('X', P('X')), T, "takes a mesh, not 'X'")
    add(lambda: jax.NamedSharding(mesh, P('Q')), V, r"mesh axis 'Q', which is not found in the mesh; its axes are 'X'")
    add(lambda: jax.NamedSharding(mesh, P('X', 'X')), errors.DuplicateSpecError, r"'X' stands twice in P\('X', 'X'\)")
    add(lambda: jax.NamedSharding(mesh, P(unreduced={'Q'})), V, "'Q', which is not found")
    add(lambda: jax.NamedSharding(mesh, P('X')).shard_shape((3 * mesh.size + 1, 2)), errors.IndivisibleError, 'not evenly divisible', 2)
    add(lambda: jax.ShapeDtypeStruct((2,), 'f4', sharding=jax.NamedSharding(mesh, P(None, 'X'))), V, 'has 2 entries.*1 dimension')
    add(lambda: jax.ShapeDtypeStruct((-1,), 'f4'), V, 'sizes of zero or more')
    add(lambda: jax.ShapeDtypeStruct((2,), 'datetime64[s]'), T, 'arrays hold booleans, integers, floats, complex numbers or keys')
    add(lambda: jax.ShapeDtypeStruct((2.5,), 'f4'), T, 'integer')


def meshes(add, mesh):
    n = mesh.size
    add(lambda: jax.make_mesh((n + 1,), ('X',)), V, rf'needs {n + 1} ranks, there (is|are) {n}. Start the .* `mpirun -n {n + 1}')
    add(lambda: jax.make_mesh((n,), ('X', 'Y')), V, 'one name per axis')
    add(lambda: jax.make_mesh((n, 1), ('X', 'X')), V, 'distinct axis names')
    add(lambda: jax.make_mesh((n,), ('X',), devices=[]), V, 'as many devices')
    add(lambda: jax.make_mesh((n,), ('X',), axis_types=(jax.AxisType.Auto,)), NotImplementedError, 'no Auto axes')
    add(lambda: jax.make_mesh((n,), ('X',), axis_types=(jax.AxisType.Explicit,) * 2), V, 'one axis type per axis')
    add(lambda: jax.make_mesh(('n',), ('X',)), V, 'sizes from 1 on')
    add(lambda: jax.make_mesh((0,), ('X',)), V, r'sizes from 1 on, not \(0,\)')
    add(lambda: jax.make_mesh((-n,), ('X',)), V, 'sizes from 1 on')
    add(lambda: jax.Mesh(np.array(jax.devices()), ('X', 'Y')), V, 'one name per axis')
    add(lambda: jax.Mesh(np.array(jax.devices()[:1] * 2), ('X',)), V, 'holds each device once')
    add(lambda: jax.Mesh(['cpu'], ('X',)), T, 'a mesh is a grid of devices')
    add(lambda: jax.set_mesh('X'), V, 'set_mesh takes a Mesh')
    add(lambda: jax.set_mesh(None), V, 'set_mesh takes a Mesh')
    add(lambda: setattr(mesh, 'axis_names', ('Y',)), AttributeError, 'does not change')
    add(lambda: jax.AbstractMesh((2, 2), ('A',)), V, 'one name per axis')


def placing(add, mesh):
    x, r, u, d = values(mesh)
    n = mesh.size
    other = jax.make_mesh((n,), ('Y',))
    elsewhere = jax.device_put(np.ones(n, 'f4'), jax.NamedSharding(other, P('Y')))
    add(lambda: jax.device_put('text', P()), T, 'device_put takes arrays and numbers, got str')
    add(lambda: jax.device_put(np.array(['a']), P()), T, 'arrays hold booleans')
    add(lambda: jax.device_put(np.ones(3 * n + 1), P('X')), errors.IndivisibleError, 'dimension 0 of shape .* not evenly divisible', 2)
    add(lambda: jax.device_put(np.ones(2), P(None, 'X')), V, 'has 2 entries, but the shape')
    add(lambda: jax.device_put(np.ones(2 * n), P('Q')), V, "'Q', which is not found")
    add(lambda: jax.device_put(np.ones(2), 'X'), T, 'PartitionSpec|P\\(|sharding')
    add(lambda: jax.device_put({'a': np.ones(2)}, {'b': P()}), errors.TreeMismatchError, "'[ab]'")
    add(lambda: jax.reshard(x, None), V, 'needs a sharding for every array')
    add(lambda: jax.reshard(x, P('Q')), V, "'Q', which is not found")
    add(lambda: jax.reshard(r, P('X', 'X')), errors.DuplicateSpecError, 'stands twice')
    add(lambda: jax.reshard(np.ones(3 * n + 1, 'f4'), P('X')), errors.IndivisibleError, 'not evenly divisible', 2)
    add(lambda: jax.reshard(x, P(None, None, 'X')), V, '3 entries')
    add(lambda: jax.reshard(elsewhere, jax.NamedSharding(mesh, P('X'))), V, 'reshard stays on one mesh')
    add(lambda: jax.reshard({'a': x}, {'b': P()}), errors.TreeMismatchError, "'[ab]'")
    add(lambda: jax.reshard('x', P()), T, "reshard takes arrays and numbers, got 'x'")
    add(lambda: np.asarray(u), V, r'has no value on one rank: this rank holds a summand')
    add(lambda: np.asarray(x), V, r'has no value on one rank: this rank holds a block')
    add(lambda: float(u), T, r'float takes an array of one element, got float32\[4\]\{U:X\}')
    add(lambda: bool(x), V, 'bool takes an array of one element')
    add(lambda: jax.device_get(x), V, 'process_allgather')
    add(lambda: x + elsewhere[0], V, 'mesh')
    add(lambda: jax.make_array_from_callback((2 * n,), jax.NamedSharding(mesh, P('X')), lambda i: np.ones(3)), V, 'has blocks of shape')
    add(lambda: jax.make_array_from_callback((2,), jax.NamedSharding(mesh, P(unreduced={'X'})), lambda i: np.ones(2)), V, 'summands')
    add(lambda: jax.make_array_from_single_device_arrays((2,), jax.NamedSharding(mesh, P()), []), V, 'hands one block, got 0')
    add(lambda: jax.make_array_from_single_device_arrays((2,), jax.NamedSharding(mesh, P()), [np.ones(3)]), V, 'has blocks of shape')
    add(lambda: jax.make_array_from_process_local_data(jax.NamedSharding(mesh, P('X')), np.ones(2), (3,)), V, 'shape')
    add(lambda: jax.process_allgather('x'), T, 'process_allgather takes arrays and numbers')
    add(lambda: jax.reshard(u, P(unreduced={'X'}, unreduced_kind=UnreducedKind.max)), V, 'unreduced of kind max')


def shapes(add, mesh):
    x, r, u, d = values(mesh)
    add(lambda: r + jnp.ones(3), (errors.ShapeError), r'broadcast')
    add(lambda: x @ jnp.ones((3, 2)), T, 'matmul|dot|contract')
    add(lambda: jnp.dot(jnp.ones((2, 3)), jnp.ones((2, 3))), T, 'dot|contract')
    add(lambda: jnp.ones((2, 3)).reshape(4), T, 'reshape')
    add(lambda: jnp.ones((2, 3)).reshape(-1, -1), T, 'cannot reshape')
    add(lambda: jnp.ones((2, 3)).reshape(5, -1), T, 'reshape|divis')
    add(lambda: jnp.transpose(jnp.ones((2, 3)), (0, 0)), V, 'transpose|permutation|axes')
    add(lambda: jnp.transpose(jnp.ones((2, 3)), (0, 5)), V, 'transpose|permutation|axis|axes')
    add(lambda: jnp.concatenate([jnp.ones((2, 3)), jnp.ones((2, 4))]), T, 'concatenate')
    add(lambda: jnp.concatenate([]), V, 'concatenate')
    add(lambda: jnp.stack([jnp.ones(2), jnp.ones(3)]), V, r'all input arrays must have the same shape, got \(2,\), \(3,\)')
    add(lambda: jnp.sum(r, axis=3), V, 'axis 3 is out of bounds')
    add(lambda: jnp.sum(r, axis=(0, 0)), V, 'axis|axes|duplicate')
    add(lambda: jnp.argmax(jnp.zeros((0,))), V, 'empty')
    add(lambda: jnp.max(jnp.zeros((0,))), V, 'zero-size|identity|empty')
    add(lambda: jnp.expand_dims(r, 7), V, 'axis 7')
    add(lambda: jnp.squeeze(r, 0), V, 'squeeze')
    add(lambda: jnp.broadcast_to(r, (2, 3)), V, 'broadcast')
    add(lambda: jnp.einsum('ij,jk', jnp.ones((2, 3)), jnp.ones((4, 2))), T, 'contracting dimensions to have the same size')
    add(lambda: jnp.einsum('ij,jk->z', jnp.ones((2, 3)), jnp.ones((3, 2))), V, 'z|output')
    add(lambda: jnp.einsum('i,j', jnp.ones(2)), V, 'operand|einsum')
    add(lambda: jnp.split(jnp.ones(4), 3), V, 'split|divi')
    add(lambda: jnp.where(jnp.ones(3) > 0, jnp.ones(2), 0.), errors.ShapeError, 'broadcast')
    add(lambda: jnp.linalg.inv(jnp.ones((2, 3))), V, 'square')
    add(lambda: jnp.swapaxes(r, 0, 2), V, 'axis 2')
    add(lambda: jnp.zeros((2, -1)), V, 'zero or more|negative')
    add(lambda: jnp.arange(0, 5, 0), V, 'arange: the step must not be zero')
    add(lambda: jnp.linspace(0, 1, -1), V, 'num|samples|negative')
    add(lambda: jnp.eye(-2), V, 'zero or more|negative|size')
    add(lambda: lax.dot_general(r, r, (((0,), (0, 0)), ((), ()))), T, 'dot_general')
    add(lambda: lax.broadcast_in_dim(r, (4, 2), (1,)), T, 'broadcast_in_dim')
    add(lambda: lax.slice(r, (0,), (9,)), T, 'slice')
    add(lambda: lax.dynamic_slice(r, (0,), (9,)), T, 'slice_sizes must fit in the operand')
    add(lambda: lax.pad(r, 0., [(0, 0, -1)]), T, 'pad takes a padding value')
    add(lambda: jnp.tile(r, (2, 'a')), T, '')


def dtypes(add, mesh):
    x, r, u, d = values(mesh)
    add(lambda: jnp.asarray('text'), T, 'text|str')
    add(lambda: jnp.asarray(np.array([None])), T, 'object')
    add(lambda: jnp.zeros(2, 'nothing'), T, "nothing")
    add(lambda: r.astype('S4'), T, 'arrays hold')
    add(lambda: jnp.ones(2, 'i4') << jnp.ones(2), T, 'shift')
    add(lambda: jnp.ones(2) & jnp.ones(2), T, 'and does not accept dtype float32')
    add(lambda: ~jnp.ones(2), T, 'not does not accept dtype float32')
    add(lambda: lax.add(jnp.ones(2), jnp.ones(2, 'i4')), T, 'add requires|dtype')
    add(lambda: lax.sin(jnp.ones(2, 'i4')), T, 'sin')
    add(lambda: lax.select(jnp.ones(2), jnp.ones(2), jnp.ones(2)), T, 'bool')
    add(lambda: jax.grad(lambda x: x)(1), T, 'grad requires real- or complex-valued inputs|int')
    add(lambda: jax.grad(lambda x: x.astype('i4').sum())(jnp.ones(2)), T, 'grad')
    add(lambda: jax.random.key(0) + 1, T, 'key')
    add(lambda: jnp.sin(jax.random.key(0)), T, 'key')
    add(lambda: jnp.linalg.det(jnp.ones((2, 2), bool)) + None, T, 'None')
    add(lambda: jnp.sin('x'), T, "got 'x'")
    add(lambda: jnp.sin(None), T, 'None')
    add(lambda: jnp.sin([1, 2]), T, 'sin')
    add(lambda: jnp.add(r, {'a': 1}), T, 'add')
    add(lambda: lax.convert_element_type(r, 'complex256'), T, 'arrays hold|complex256')
    add(lambda: lax.bitcast_convert_type(jnp.ones(3), 'i1x'), T, 'i1x')


def arithmetic(add, mesh):
    x, r, u, d = values(mesh)
    n = mesh.size
    m = jax.device_put(np.ones((4, 2 * n), 'f4'), P(None, 'X'))
    add(lambda: jnp.cos(u), S, r'cos is a non-linear operation and cannot accept input that is unreduced, got float32\[4\]\{U:X\}')
    add(lambda: u * u, S, 'unreduced')
    add(lambda: u + 1., S, 'unreduced')
    add(lambda: u + r, S, 'unreduced')
    add(lambda: jnp.maximum(u, 0.), S, 'unreduced')
    add(lambda: jnp.abs(u), S, 'unreduced')
    add(lambda: u > 0, S, 'unreduced')
    add(lambda: u ** 2, S, 'unreduced')
    add(lambda: 1. / u, S, 'unreduced')
    add(lambda: jnp.exp(u), S, 'unreduced')
    add(lambda: jnp.max(u), S, 'unreduced')
    add(lambda: jnp.sort(u), S, 'unreduced')
    add(lambda: jnp.argmax(u), S, 'unreduced')
    add(lambda: jnp.prod(u), S, 'unreduced')
    add(lambda: jnp.where(u > 0, 1., 0.), S, 'unreduced')
    add(lambda: jnp.linalg.norm(u), S, 'unreduced')
    add(lambda: jax.nn.relu(u), S, 'unreduced')
    add(lambda: x @ jax.device_put(np.ones((4, 2 * n), 'f4'), P(None, 'X')), S, 'X')
    square = np.ones((2 * n, 2 * n), 'f4')
    add(lambda: jax.device_put(square, P('X')) + jax.device_put(square, P(None, 'X')), S, 'X')
    add(lambda: lax.reduce_sum(x, (0,), out_sharding=P('X', 'X')), errors.DuplicateSpecError, 'twice')
    add(lambda: lax.reduce_sum(x, (0,), out_sharding=P(None, 'X')), V, 'entries')
    add(lambda: jnp.einsum('ij,ik->jk', x, x, out_sharding=P('Q')), V, "'Q'")
    add(lambda: m.reshape(-1, out_sharding=P('Q')), V, "'Q'")
    add(lambda: jnp.cumprod(u), S, 'unreduced')
    add(lambda: u @ u, S, 'unreduced')
    add(lambda: jnp.round(u), S, 'unreduced')
    add(lambda: jnp.isnan(u), S, 'unreduced')
    add(lambda: jnp.median(u), S, 'unreduced')
    add(lambda: u.at[0].set(1.), S, 'unreduced')
    add(lambda: jnp.concatenate([u, jnp.ones(2)]), S, 'unreduced')


def indexing(add, mesh):
    x, r, u, d = values(mesh)
    def assign():
        r[0] = 1
    add(assign, T, r'\.at\[')
    add(lambda: r[1, 2], IndexError, 'indices|index')
    add(lambda: r['a'], (T), 'index|slice')
    add(lambda: r[1.5], (T), 'index|integer')
    add(lambda: r[jnp.ones(3)], T, 'integer|bool')
    add(lambda: r[jnp.ones(3, bool)], IndexError, 'mask|boolean|shape')
    add(lambda: r.at[0].set(jnp.ones(3)), V, 'broadcast|shape')
    add(lambda: r.at['a'].set(1.), T, 'index')
    add(lambda: jax.jit(lambda x, i: x[:i])(r, 2), IndexError, 'static|slice|traced')
    add(lambda: jax.jit(lambda x: x[x > 0])(r), errors.NonConcreteBooleanIndexError, 'mask|boolean')
    add(lambda: r[..., ...], IndexError, 'ellipsis')
    add(lambda: r[::0], V, 'zero')
    add(lambda: jnp.take(r, jnp.ones(2)), T, 'integer')
    add(lambda: jnp.take(r, 0, axis=4), V, 'axis 4')
    add(lambda: jnp.take_along_axis(r, jnp.zeros((2, 2), 'i4'), 0), V, 'dimension|ndim|rank')


def manual(add, mesh):
    x, r, u, d = values(mesh)
    n = mesh.size

    over = P('X')

    def body(f, spec=over, out=over):
        return lambda: jax.shard_map(f, in_specs=spec, out_specs=out)(x)

    add(lambda: lax.psum(x, 'X'), NameError, 'unbound axis name: X. psum works over the manual axes of a shard_map')
    add(lambda: lax.axis_index('Y'), NameError, 'unbound axis name: Y')
    add(lambda: lax.pcast(x, 'X', to='varying'), NameError, 'unbound axis name')
    add(body(lambda x: lax.psum(x, 'Q')), NameError, r'unbound axis name: Q\. psum works .* \(X\)')
    add(body(lambda x: lax.psum(x, ('X', 'X'))), V, 'stands twice')
    add(body(lambda x: lax.psum(x, 3)), T, 'axis_name is a string')
    add(body(lambda x: lax.psum(x, 'X', axis_index_groups=[[0]])), NotImplementedError, 'groups of ranks')
    add(body(lambda x: x, out=P()), V, 'out_specs|varying')
    add(body(lambda x: lax.psum(lax.pcast(lax.psum(x, 'X'), 'X', to='reduced'), 'X'), out=P()), V, 'psum of a reduced value')
    add(body(lambda x: lax.pcast(x, 'X', to='reduced')), V, 'pcast cannot bring')
    add(body(lambda x: lax.pcast(x, 'X', to='sharded')), V, 'to is one of')
    add(body(lambda x: lax.pcast(x, 'X', to='varying')), V, 'It is so already')
    add(body(lambda x: lax.all_gather(x, 'X', axis=5)), V, 'axis 5 is out of bounds')
    add(body(lambda x: lax.all_gather(x, 'X', to='split')), V, 'all_gather: to is one of')
    add(body(lambda x: lax.psum_scatter(x, 'X', scatter_dimension=4)), V, 'axis 4 is out of bounds')
    add(body(lambda x: lax.psum_scatter(x[:1], 'X', tiled=True)), V, 'not divisible', 2)
    add(body(lambda x: lax.psum_scatter(jnp.ones((n + 1, 2)) * x[0, 0], 'X')), V, 'takes a dimension of the size')
    add(body(lambda x: lax.all_to_all(x, 'X', 0, 9)), V, 'axis 9')
    add(body(lambda x: lax.all_to_all(x[:1, :], 'X', 0, 1)), V, 'takes a dimension of the size', 2)
    add(body(lambda x: lax.ppermute(x, 'X', [(0, 0), (0, 0)])), V, 'must be unique')
    add(body(lambda x: lax.ppermute(x, 'X', [(0, n)])), V, 'names ranks outside')
    add(body(lambda x: lax.pshuffle(x, 'X', [0] * (n + 1))), V, 'is not a permutation')
    add(body(lambda x: x, spec=P('Q')), V, "'Q'")
    add(body(lambda x: x, spec=(P('X'), P('X'))), V, 'in_specs')
    add(body(lambda x: (x, x), out=(P('X'),)), V, 'out_specs')
    add(lambda: jax.shard_map(lambda x: x, in_specs=P('X'), out_specs=P('X'))(jnp.ones(3 * n + 1)), errors.IndivisibleError, 'divi', 2)
    add(lambda: jax.shard_map(lambda x: x, in_specs=P(None, 'X'), out_specs=P('X'))(jax.reshard(jnp.ones((n, n)), P('X'))), V,
        'does not lie as in_specs say')
    add(body(lambda x: lax.cond(x[0, 0] > 0, lambda v: lax.psum(v, 'X'), lambda v: lax.psum(2 * v, 'X'), x), out=P()),
        errors.VaryingPredicateError, 'psum')
    add(body(lambda x: lax.while_loop(lambda v: v[0, 0] < 9, lambda v: v + lax.psum(v, 'X'), x)), errors.VaryingPredicateError, 'psum')
    add(body(lambda x: x if x[0, 0] > 0 else -x), errors.TracerBoolConversionError, 'bool')
    add(lambda: jax.shard_map(lambda x: x, mesh='X', in_specs=P('X'), out_specs=P('X'))(x), T, 'mesh')
    add(body(lambda x: jax.reshard(x, P('X'))), V, 'manual|shard_map')
    add(body(lambda x: lax.axis_size('Q')), NameError, 'unbound axis name: Q')
    add(body(lambda x: lax.pmax(lax.pcast(x, 'X', to='unreduced'), 'X'), out=P()), V, 'unreduced')


def control(add, mesh):
    x, r, u, d = values(mesh)
    one = jnp.float32(1)
    add(lambda: lax.scan(lambda c, a: (c + a, None), jnp.zeros(3), jnp.ones((2, 4))), (errors.ShapeError), 'broadcast|carry')
    add(lambda: lax.scan(lambda c, a: (jnp.ones(2), None), one, jnp.ones(3)), T, 'carry')
    add(lambda: lax.scan(lambda c, a: c, one, jnp.ones(3)), T, 'pair|tuple')
    add(lambda: lax.scan(lambda c, a: (c, a), one, (jnp.ones(3), jnp.ones(4))), V, r'leading dimensions of different sizes: \[3, 4\]')
    add(lambda: lax.scan(lambda c, a: (c, a), one, None), V, 'scan needs xs or length: one of them')
    add(lambda: lax.scan(lambda c, a: (c, a), one, jnp.ones(3), length=4), V, 'length')
    add(lambda: lax.while_loop(lambda c: c, lambda c: c, one), T, 'bool')
    add(lambda: lax.while_loop(lambda c: c < 3, lambda c: jnp.ones(2), one), T, 'carry|body')
    add(lambda: lax.fori_loop(0, 3, lambda i, c: jnp.ones(2), one), T, 'carry|body')
    add(lambda: lax.cond(True, lambda v: v, lambda v: (v, v), one), T, 'branch|true|structure')
    add(lambda: lax.cond(True, lambda v: v, lambda v: jnp.ones(2), one), T, 'branch|types')
    add(lambda: lax.cond(jnp.ones(2) > 0, lambda v: v, lambda v: v, one), T, 'scalar|predicate|pred')
    add(lambda: lax.switch(0, [], one), V, 'branch')
    add(lambda: lax.switch(1.5, [lambda v: v, lambda v: v], one), T, 'integer|index')
    add(lambda: jax.jit(lambda x: x if x > 0 else -x)(1.), errors.TracerBoolConversionError, 'bool of a traced value')
    add(lambda: jax.jit(lambda x: range(x))(3), errors.TracerIntegerConversionError, 'integer|int')
    add(lambda: jax.jit(lambda x: np.sin(x))(1.), errors.TracerArrayConversionError, 'NumPy|numpy')
    add(lambda: jax.jit(lambda x: float(x))(1.), errors.ConcretizationTypeError, 'float|traced')
    add(lambda: jax.jit(lambda x: 'text')(1.), T, 'text')
    add(lambda: jax.jit(lambda x: x)('text'), T, 'text')
    add(lambda: jax.jit(3), T, 'jit takes a function, got 3')
    add(lambda: jax.jit(lambda x, n: x, static_argnums=1)(1., [1]), (T, V)[1], 'hashable')
    add(leak, errors.UnexpectedTracerError, 'outside of the transformation')
    add(lambda: jax.jit(lambda x: jnp.zeros(x))(3), T, 'shape|traced|static')
    add(lambda: jax.jit(lambda x: x, in_shardings=P('Q'))(r), V, "'Q'")
    add(lambda: jax.jit(lambda x: x, out_shardings=P('X', 'X'))(x), errors.DuplicateSpecError, 'twice')
    add(lambda: jax.jit(lambda a, b: a)(r), T, 'argument')
    add(lambda: lax.map(lambda v: v, 3.), V, 'scan|map|dimension')


def leak():
    kept = []
    jax.jit(lambda x: kept.append(x) or x)(1.)
    return kept[0] + 1


def derivatives(add, mesh):
    x, r, u, d = values(mesh)
    add(lambda: jax.grad(lambda x: x)(r), T, 'scalar')
    add(lambda: jax.grad(lambda x: (x.sum(), x))(r), T, 'scalar|has_aux')
    add(lambda: jax.grad(lambda x: x.sum(), argnums=3)(r), T, 'with respect to argument 3')
    add(lambda: jax.grad(lambda x: x.sum(), argnums='x')(r), T, 'argnums is an integer')
    add(lambda: jax.grad(3), T, 'grad takes a function, got 3')
    add(lambda: jax.value_and_grad(lambda x: x.sum(), has_aux=True)(r), T, 'pair|has_aux|tuple')
    add(lambda: jax.grad(lambda z: z * z)(1j), T, 'holomorphic')
    add(lambda: jax.grad(lambda x: x, holomorphic=True)(1.), T, 'complex')
    add(lambda: jax.jvp(jnp.sin, (r,), (jnp.ones(3),)), T, 'the tangent of a primal of type')
    add(lambda: jax.jvp(jnp.sin, (r,), (r, r)), T, 'tangents')
    add(lambda: jax.jvp(jnp.sin, r, r), T, 'jvp takes a tuple of primals')
    add(lambda: jax.jvp(jnp.sin, (r,), (jnp.ones(4, 'i4'),)), T, 'dtype|tangent')
    add(lambda: jax.vjp(jnp.sin, r)[1](jnp.ones(3)), V, 'cotangent|shape')
    add(lambda: jax.vjp(jnp.sin, r)[1]((r, r)), V, 'structure|tree|cotangent')
    add(lambda: jax.vjp(lambda r: r, d)[1](r), V, 'cotangent')
    add(lambda: jax.linearize(jnp.sin, r)[1](jnp.ones(3)), T, 'the tangent of a primal of type')
    add(lambda: jax.custom_vjp(lambda x: x)(1.), AttributeError, 'defvjp')
    add(lambda: jax.custom_jvp(lambda x: x)(1.), AttributeError, 'defjvp')
    add(lambda: jax.grad(bad_vjp(lambda g: g))(1.), T, 'tuple')
    add(lambda: jax.grad(bad_vjp(lambda g: (jnp.ones(2),)))(1.), (V), 'shape|float32')
    add(lambda: jax.grad(lambda x: lax.while_loop(lambda v: v < 8., lambda v: v * 2, x))(1.), NotImplementedError, 'Use scan')
    add(lambda: jax.grad(lambda x: np.sin(x))(1.), errors.TracerArrayConversionError, 'NumPy|numpy')
    add(lambda: jax.grad(lambda x: jnp.sum(x))('x'), T, "'x'")
    add(lambda: jax.vmap(lambda a, b: a + b)(jnp.ones(2), jnp.ones(3)), V, 'inconsistent|size')
    add(lambda: jax.vmap(lambda a: a, in_axes=3)(jnp.ones(2)), V, 'in_axes|axis')
    add(lambda: jax.vmap(lambda a: a, in_axes=(0, 0))(jnp.ones(2)), V, 'in_axes')
    add(lambda: jax.vmap(lambda a: a)(3.), V, 'scalar|rank|dimension')
    add(lambda: jax.vmap(lambda a: a, in_axes=None)(jnp.ones(2)), V, 'in_axes|axis')


def bad_vjp(backward):
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda r, g: backward(g))
    return f


def trees(add, mesh):
    add(lambda: tree.map(lambda a, b: a, {'a': 1}, {'b': 1}), errors.TreeMismatchError, "'[ab]'")
    add(lambda: tree.map(lambda a, b: a, [1, 2], [1]), errors.TreeMismatchError, '2|1')
    add(lambda: tree.map(lambda a, b: a, (1, 2), [1, 2]), errors.TreeMismatchError, 'tuple|list')
    add(lambda: tree.unflatten(tree.structure([1, 2]), [1]), V, 'leaves')
    add(lambda: tree.unflatten(tree.structure([1]), [1, 2]), V, 'leaves')
    add(lambda: tree.flatten({1: 1, 'a': 2}) and tree.map(lambda a, b: 0, {'a': [1]}, {'a': {'b': 1}}), errors.TreeMismatchError, "'a'")
    add(lambda: tree.register_pytree_node(list, lambda x: x, lambda a, b: b), V, 'register|already|list')
    add(lambda: tree.register_dataclass(int), T, 'no dataclass')
    add(lambda: tree.register_dataclass(int, data_fields=['a']), T, 'together')
    add(lambda: tree.reduce(lambda a, b: a, []), T, 'empty')


def keys(add, mesh):
    k = jax.random.key(0)
    add(lambda: jax.random.key('seed'), T, 'seed')
    add(lambda: jax.random.key(1.5), T, 'seed|integer')
    add(lambda: jax.random.key(jnp.ones(2, 'i4')), T, 'takes one seed')
    add(lambda: jax.random.uniform(3), T, 'key')
    add(lambda: jax.random.uniform(jnp.ones(3)), T, 'key')
    add(lambda: jax.random.uniform(k, (2, -1)), V, 'zero or more|negative|shape')
    add(lambda: jax.random.uniform(k, (2,), 'i4'), V, 'float')
    add(lambda: jax.random.normal(k, (2,), 'i4'), V, 'float|dtype')
    add(lambda: jax.random.randint(k, (2,), 0, 5, 'f4'), T, 'integer')
    add(lambda: jax.random.bernoulli(k, 0.5, 'a'), T, '')
    add(lambda: jax.random.split(k, -1), V, '-1|negative|zero')
    add(lambda: jax.random.split(3), T, 'key')
    add(lambda: jax.random.fold_in(k, jnp.ones(2, 'i4')), T, 'takes one number')
    add(lambda: jax.random.permutation(k, 'a'), T, '')
    add(lambda: jax.random.choice(k, 5, (7,), replace=False), V, 'replace|more|larger')
    add(lambda: jax.random.choice(k, 0), V, 'empty|positive|greater|0')
    add(lambda: jax.random.uniform(k, (3 * mesh.size + 1,), out_sharding=P('X')), errors.IndivisibleError, 'divisible', 2)
    add(lambda: jax.random.uniform(k, (2,), out_sharding=P('Q')), V, "'Q'")
    add(lambda: jax.random.key_data(jnp.ones(2)), T, 'key')
    add(lambda: jax.random.wrap_key_data(jnp.ones(3)), T, 'uint32|key')
    add(lambda: jax.random.uniform(jax.random.split(k, 2)), V, 'one key|keys|batch')


def with_variable(name, value, action):
    def call():
        before = os.environ.get(name)
        os.environ[name] = value
        try:
            return action()
        finally:
            os.environ.pop(name) if before is None else os.environ.update({name: before})
    return call


def configuration(add, mesh):
    add(with_variable('DISTAD_ENABLE_X64', 'maybe', Config), V, "DISTAD_ENABLE_X64.*on or off.*'maybe'")
    add(with_variable('DISTAD_CHECK', 'all', Config), V, "DISTAD_CHECK=all: .* takes types, comm, values, .*'all'")
    add(with_variable('DISTAD_REPRODUCIBLE', '2', Config), V, "DISTAD_REPRODUCIBLE.*on or off.*'2'")
    add(with_variable('DISTAD_TIMEOUT', 'soon', waiting.timeout), V, "DISTAD_TIMEOUT is a number of seconds.*'soon'")
    add(with_variable('DISTAD_TIMEOUT', '-1', waiting.timeout), V, "DISTAD_TIMEOUT is a number of seconds.*'-1'")
    add(with_variable('DISTAD_TIMEOUT', 'nan', waiting.timeout), V, "DISTAD_TIMEOUT is a number of seconds.*'nan'")
    add(with_variable('DISTAD_LOG', 'loud', lambda: log.start(0, 1)), V, 'DISTAD_LOG is debug, info, warning or unset')
    add(lambda: config.update('jax_nothing', 1), AttributeError, "no switch 'jax_nothing'; it has enable_x64")
    add(lambda: config.nothing, AttributeError, 'no switch')
    add(lambda: setattr(config, 'enable_x64', True), AttributeError, 'set by config.update')
    add(lambda: config.update('jax_platforms', 'gpu'), V, 'runs on the platform cpu')
    add(lambda: config.update('jax_enable_x64', 'perhaps'), V, 'on or off')
    add(lambda: config.update('num_cpu_devices', 'many'), V, "a whole number, not 'many'")


def checkpoints(add, mesh, folder):
    x, r, u, d = values(mesh)
    C = errors.CheckpointError
    state = {'w': x, 'b': r, 'n': 3}
    there = os.path.join(folder, 'there')
    checkpoint.save(there, state, step=5)

    def spoiled(name, change):
        """The checkpoint of step 5 with one file changed, in a folder of its own."""
        where = os.path.join(folder, f'spoiled{len(add.cases)}')

        def call():
            checkpoint.save(where, state, step=5)
            if mpi.rank() == 0:
                path = Path(where, 'step-00000005', name)
                data = change(path.read_bytes())
                path.unlink() if data is None else path.write_bytes(data)
            checkpoint.latest_step(where)                                      # all ranks wait for rank 0
            return checkpoint.restore(where, state)
        return call

    add(lambda: checkpoint.save(3, state), T, r'checkpoint\.save takes the path of a folder, got 3')
    add(lambda: checkpoint.save('', state), T, 'takes the path of a folder')
    add(lambda: checkpoint.restore(None, state), T, r'checkpoint\.restore takes the path of a folder, got None')
    add(lambda: checkpoint.latest_step(b''), T, 'takes the path of a folder')
    add(lambda: checkpoint.save(there, state, step=-1), V, 'a step is a whole number from 0 on, got -1')
    add(lambda: checkpoint.save(there, state, step=1.5), V, 'a step is a whole number from 0 on, got 1.5')
    add(lambda: checkpoint.save(there, state, step=True), V, 'a step is a whole number')
    add(lambda: checkpoint.save(there, state, step='5'), V, 'a step is a whole number')
    add(lambda: checkpoint.save(there, state, keep=0), V, 'keep is the number of checkpoints that stay, from 1 on, got 0')
    add(lambda: checkpoint.save(there, state, keep='all'), V, "got 'all'")
    add(lambda: checkpoint.save(there, state, step=5), C, 'step 5 is there already')
    add(lambda: checkpoint.save(os.path.join(there, 'step-00000005', 'b.npy'), state), C, 'was not saved to')
    add(lambda: checkpoint.save(there, {'u': u}), S, r"leaf \['u'\] has type float32\[4\]\{U:X\}.*reshard\(x, P\(\)\)")
    add(lambda: checkpoint.save(there, {'s': 'text'}), T, r"leaf \['s'\] is a str")
    add(lambda: checkpoint.save(there, {'f': len}), T, r"leaf \['f'\] is a builtin_function_or_method")
    add(lambda: checkpoint.save(there, {'o': np.array([None])}), T, r"leaf \['o'\] has dtype object")
    add(lambda: checkpoint.save(there, {'i': 2 ** 70}), V, 'no place in 64 bits')
    add(lambda: jax.jit(lambda v: checkpoint.save(there, {'v': v}) or v)(r), errors.UnexpectedTracerError, 'outside of jit')
    add(lambda: checkpoint.save_async(there, {'u': u}), S, 'Reduce it first')
    add(lambda: checkpoint.save_async(there, state, step=5).wait(), C, 'step 5 is there already')
    add(lambda: checkpoint.restore(os.path.join(folder, 'none'), state), C, 'there is no checkpoint in .*none')
    add(lambda: checkpoint.restore(there, state, step=4), C, 'no checkpoint of step 4 in .*; there are those of 5')
    add(lambda: checkpoint.restore(there, state, step='latest'), V, 'a step is a whole number')
    add(lambda: checkpoint.restore(there, {'w': x, 'b': r}), errors.TreeMismatchError, r"like has no \['n'\]")
    add(lambda: checkpoint.restore(there, state | {'m': r}), errors.TreeMismatchError, r"it has no \['m'\]")
    add(lambda: checkpoint.restore(there, state | {'b': x}), V, r"leaf \['b'\] of .* is float32\[4\], that of like is float32")
    add(lambda: checkpoint.restore(there, state | {'b': r.astype('i4')}), V, r'is float32\[4\], that of like is int32\[4\]')
    add(lambda: checkpoint.restore(there, state | {'n': 3.}), V, 'is a Python int, that of like is a Python float')
    add(lambda: checkpoint.restore(there, state | {'b': u}), S, 'of like has type')
    add(lambda: checkpoint.restore(there, state | {'b': 'text'}), T, r"leaf \['b'\] is a str")
    add(spoiled('w.npy', lambda b: b[:-1]), C, r'w\.npy has been truncated: it has \d+ bytes and must have \d+')
    add(spoiled('w.npy', lambda b: b''), C, r'w\.npy has been truncated')
    add(spoiled('w.npy', lambda b: b + b'0'), C, r'w\.npy has been altered')
    add(spoiled('w.npy', lambda b: b[:-1] + b'0'), C, r'w\.npy has been altered: the CRC-32 of elements')
    add(spoiled('b.npy', lambda b: b[:130] + b'0' + b[131:]), C, r'b\.npy has been altered: the CRC-32 of elements \[0:4\]')
    add(spoiled('n.npy', lambda b: b[:-1] + b'0'), C, r'n\.npy has been altered')
    add(spoiled('b.npy', lambda b: b'PK' + b[2:]), C, r'b\.npy has been altered: its header')
    add(spoiled('b.npy', lambda b: None), C, r'b\.npy is missing')
    add(spoiled('manifest.json', lambda b: None), C, r'manifest\.json cannot be read')
    add(spoiled('manifest.json', lambda b: b[:100]), C, r'manifest\.json is truncated')
    add(spoiled('manifest.json', lambda b: b''), C, r'manifest\.json is truncated')
    add(spoiled('manifest.json', lambda b: b.replace(b'"step": 5', b'"step": 6')), C, r'manifest\.json has been altered')
    add(spoiled('manifest.json', lambda b: b.replace(b'checkpoint 1', b'checkpoint 9')), C, 'this distad reads')
    add(spoiled('manifest.json', lambda b: b'\xff' + b), C, r'manifest\.json cannot be read')
    add(spoiled('manifest.json', lambda b: b'[]'), C, r'manifest\.json is truncated or no manifest')


def ranks(add, folder):
    """Calls that differ between ranks: the last rank makes another one."""
    D = errors.DisagreementError
    odd = mpi.rank() == mpi.size() - 1
    n = mpi.size()
    where = os.path.join(folder, 'ranks')
    add(lambda: jax.jit(lambda v: jnp.sin(v) if odd else jnp.cos(v))(jnp.ones(3)), D, 'different programs', 2)
    add(lambda: jax.jit(lambda v: v * (2 if odd else 3))(jnp.ones(3)), D, 'different programs', 2)
    add(lambda: jax.jit(lambda v: v + 1)(jnp.ones(3 if odd else 4)), D, 'different programs', 2)
    add(lambda: jax.jit(lambda v: v + 1)(jnp.ones(3, 'i4' if odd else 'f4')), D, 'different programs', 2)
    add(lambda: jax.jit(lambda v: jax.reshard(v, P('X') if odd else P()))(jnp.ones(2 * n)), D, 'different programs', 2)
    add(lambda: jax.jit(lambda v: lax.scan(lambda c, _: (c + 1, None), v, None, length=2 + odd)[0])(1.), D, 'different programs', 2)
    add(lambda: checkpoint.save(where + str(odd), {}), D, r'checkpoint\.save was called with different arguments. rank 0: path', 2)
    add(lambda: checkpoint.save(where, {}, step=int(odd)), D, 'rank 0: step 0; rank 1: step', 2)
    add(lambda: checkpoint.save(where, {}, keep=1 + odd), D, 'rank 0: keep 1; rank 1: keep', 2)
    add(lambda: checkpoint.save(where, {'n': int(odd)}), D, r"leaf \['n'\]: a Python int 0; ", 2)
    add(lambda: checkpoint.save(where, {'n': np.full(3, odd)}), D, r"leaf \['n'\]: bool\[3\] with CRC-32", 2)
    add(lambda: checkpoint.save(where, {'a': 1, 'b': 2} if odd else {'a': 1}), D, "no more leaves", 2)
    add(lambda: checkpoint.save(where, {'b' if odd else 'a': jnp.ones(2)}), D, r"leaf \['a'\]: float32\[2\] on", 2)
    add(lambda: checkpoint.save(where, {'a': jnp.ones(2 + odd)}), D, r"leaf \['a'\]: float32\[2\] on", 2)
    add(lambda: checkpoint.save(where, {'a': 'text' if odd else 1}), T, rf'rank {n - 1}: checkpoint\.save: leaf .* is a str', 2)
    add(lambda: checkpoint.save(where, {}, step=-1 if odd else 1), V, rf'rank {n - 1}: checkpoint\.save: a step', 2)
    add(lambda: checkpoint.restore(where, {'a': jnp.ones(2 + odd)}), D, r"rank 0: leaf \['a'\]: float32\[2\], ", 2)
    add(lambda: checkpoint.restore(where, {}, step=int(odd)), D, 'rank 0: step 0; ', 2)
    add(lambda: checkpoint.latest_step(where + str(odd)), D, 'rank 0: path', 2)


def explained(case: Case, error: BaseException | None) -> str:
    """What is wrong with an answer, or nothing."""
    if error is None:
        return 'no error'
    if not isinstance(error, case.error):
        return f'{type(error).__name__} in place of {case.error.__name__}: {error}'
    return '' if re.search(case.text, str(error), re.S) else f'does not say {case.text!r}: {error}'
