"""Casts and collectives over manual axes. `rows` are the values of the ranks, `first` is the first dimension of a value."""

import numpy as np

from tests.laws.calls import Call, M, N, Table, f, i32
from tests.laws.exchanges import exchange, over


def same(rows, first):
    return rows


def summed(rows, first):
    return np.broadcast_to(rows.sum(0), rows.shape)


def gathered(rows, first, dimension, tiled):
    d = first - 1 + dimension
    every = np.concatenate(list(rows), d) if tiled else np.stack(list(rows), d)
    return np.broadcast_to(every, (len(rows), *every.shape))


def parts(whole, n, d, tiled):
    """The parts of an array along a dimension, a part for each rank."""
    cut = np.split(whole, n, d)
    return np.stack(cut if tiled else [part.squeeze(d) for part in cut])


def sum_scattered(rows, first, dimension, tiled):
    return parts(rows.sum(0), len(rows), first - 1 + dimension, tiled)


def scattered(rows, first, dimension, tiled):
    """Of what is the same on all ranks, or is their sum."""
    return parts(rows[0], len(rows), first - 1 + dimension, tiled)


def exchanged(rows, first, split_axis, concat_axis):
    pieces = [np.split(row, len(rows), first - 1 + split_axis) for row in rows]
    return np.stack([np.concatenate([piece[j] for piece in pieces], first - 1 + concat_axis) for j in range(len(rows))])


def permuted(rows, first, perm):
    made = np.zeros_like(rows)
    for source, target in perm:
        made[target] = rows[source]
    return made


def rings(n):
    """All one further; the first to the last and no more; nothing."""
    return [{'perm': tuple((i, (i + 1) % n) for i in range(n))}, {'perm': ((0, n - 1),)}, {'perm': ()}]


def along(*dims):
    """Dimensions of the operand to gather or scatter, as parts put together and as a dimension of their own."""
    return lambda n: [{'dimension': d, 'tiled': tiled} for d in dims for tiled in (True, False)]


def exchange_of(operands, function, *dims):
    return [exchange(function, *some, params=along(*dims)) for some in operands]


def index_along(mesh, axes):
    """The number of each rank along some axes, the first of them major."""
    index = np.zeros(mesh.axis_sizes, np.int32)
    for axis in axes:
        place = np.arange(mesh.shape[axis]).reshape([-1 if name == axis else 1 for name in mesh.axis_names])
        index = index * mesh.shape[axis] + place
    return [index]


GATHERED = [(f(M, N),), (f(N), f(M)), (i32(M),)]
SCATTERED = [(f(M, N),), (f(M), f(N)), (i32(M),), (f(2, N),), (f(3, N),), (f(4, N),)]


TABLE: Table = {
    'psum': [exchange(summed, f(M, N)).but(untracked=True), exchange(summed, f(N), i32(), f()).but(untracked=True)],
    'pvary': [exchange(same, f(M, N)), exchange(same, i32())],
    'preduced': [exchange(same, f(M, N))],
    'vary_unreduced_cast': [exchange(summed, f(M, N))],
    'reduced_vary_cast': [exchange(same, f(M, N))],
    'psum_invariant': [exchange(summed, f(M, N)), exchange(summed, f(N), i32(), f()), exchange(summed, f(N), f(M, N))],
    'unreduced_psum': [exchange(same, f(M, N)), exchange(same, f(N), f(M))],
    'all_gather': [*exchange_of(GATHERED, gathered, 0), exchange(gathered, f(M, N), params=along(1)), exchange(
        gathered, f(N), params=lambda n: [{'dimension': 1, 'tiled': False}])],
    'all_gather_reduced': exchange_of(GATHERED, gathered, 0),
    'all_gather_invariant': exchange_of(GATHERED, gathered, 0),
    'reduce_scatter': [*exchange_of(SCATTERED, sum_scattered, 0), exchange(sum_scattered, f(M, N), params=along(1))],
    'unreduced_reduce_scatter': exchange_of(SCATTERED, scattered, 0),
    'own_part': exchange_of(SCATTERED, scattered, 0),
    'all_to_all': [
        exchange(exchanged, f(M, N), params=lambda n: [{'split_axis': a, 'concat_axis': b} for a in (0, 1) for b in (0, 1)]),
        exchange(exchanged, f(M, 2, N), i32(N, 2, M), params=lambda n: [{'split_axis': 0, 'concat_axis': 2}])],
    'ppermute': [exchange(permuted, f(M, N), params=rings), exchange(permuted, f(), i32(N), params=rings)],
    'pmax': [exchange(lambda rows, first: np.broadcast_to(rows.max(0), rows.shape), f(4, 3))],
    'pmin': [exchange(lambda rows, first: np.broadcast_to(rows.min(0), rows.shape), f(4, 3), i32())],
    'unreduced_pmax': [exchange(same, f(M, N))],
    'unreduced_pmin': [exchange(same, f(M, N))],
    'axis_index': [Call(
        operands=(), params=lambda types, mesh: [{'axes': axes, 'mesh': mesh} for axes in over(mesh)], stacked=True,
        reference=lambda mesh, stacks, /, axes, **_: index_along(mesh, axes))],
}
