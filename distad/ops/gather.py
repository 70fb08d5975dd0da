"""gather and scatter: lookups in an array and their adjoints.

A lookup contracts the dimension it picks from: it is the product with rows of the identity. So where that dimension is split, each
rank looks up what it has, and the result is unreduced; nothing is gathered. The adjoint, scatter_add, adds each update on the
rank whose row it is. Where the updates are split instead, each rank adds its own, and the result is unreduced again: that is
the gradient of a table that every rank holds and the batch is split over. All of this follows from the labels below.
"""

from collections.abc import Callable

import numpy as np

from distad.core.batching import Maker
from distad.core.primitive import BY_LINEARITY, Place, Primitive, by_labels, signature
from distad.core.value import Linear, Zero, typeof
from distad.ops.basic import zeros_of
from distad.ops.windows import Dims, Part, Windows, beyond, put, take, take_last
from distad.runtime import mpi
from distad.types.array_type import ArrayType
from distad.types.inference import LINEAR_IN_FIRST, Linearity, Signature

JOINT = Linearity(groups=((0, 2),))


def operand_labels(x: ArrayType, windows: Windows, sizes: Dims) -> list:
    """A dimension that is picked from one by one is looked up in; one that is taken whole is there in the result."""
    labels: list = []
    for d in range(x.ndim):
        if d in windows.operand_batching_dims:
            labels.append(('shared', windows.operand_batching_dims.index(d)))
        elif d in windows.start_index_map:
            labels.append(('table', d) if sizes[d] == 1 else None)
        else:
            labels.append(('whole', d) if sizes[d] == x.shape[d] else None)
    return labels


def index_labels(indices: ArrayType, windows: Windows, summed: bool = True) -> list:
    return [*(('shared', windows.start_indices_batching_dims.index(j)) if j in windows.start_indices_batching_dims
              else ('place', j) if summed else None for j in range(indices.ndim - 1)), None]


def window_labels(x: ArrayType, operand: list, index: list, windows: Windows) -> list:
    """Labels of the result of a gather, which are those of the updates of a scatter."""
    kept = iter(operand[d] if operand[d] and operand[d][0] == 'whole' else None for d in windows.window_dims(x.ndim))
    batch = iter(index[:-1])
    total = len(windows.offset_dims) + len(index) - 1
    return [next(kept) if d in windows.offset_dims else next(batch) for d in range(total)]


def windowed(kinds: str, one_table: bool = False) -> Maker:
    """The batching rule of an op on windows. `kinds` says of each operand what it is: a table (x), indices (i) or updates (u).

    `one_table`: elements may share a table, as those do that only read from it.
    """
    def make(primitive: Primitive) -> Callable:
        def rule(axis, values, dims, *, windows: Windows, slice_sizes: Dims, **params):
            batched = {kind for kind, d in zip(kinds, dims, strict=True) if d is not None}
            table = 'x' in batched or not one_table
            windows, sizes = windows.batched(slice_sizes, axis.size, table, 'i' in batched)
            moved = {'x': table, 'i': 'i' in batched, 'u': True}
            values = [axis.whole(x, d) if moved[kind] else x for kind, x, d in zip(kinds, values, dims, strict=True)]
            return primitive(*values, windows=windows, slice_sizes=sizes, **params), 0
        return rule
    return Maker(make)


# ---- gather

def _gather_labels(x: ArrayType, indices: ArrayType, *, windows: Windows, slice_sizes: Dims, mode: str, fill) -> Signature:
    operand, index = operand_labels(x, windows, slice_sizes), index_labels(indices, windows)
    return signature('gather', [operand, index], [window_labels(x, operand, index, windows)], linearity=LINEAR_IN_FIRST,
                     reducer='sum')


def gather_shape(x: ArrayType, indices: ArrayType, *, windows: Windows, slice_sizes: Dims, mode: str, fill):
    _check(x, indices, windows, slice_sizes)
    kept = iter(slice_sizes[d] for d in windows.window_dims(x.ndim))
    batch = iter(indices.shape[:-1])
    total = len(windows.offset_dims) + indices.ndim - 1
    return tuple(next(kept) if d in windows.offset_dims else next(batch) for d in range(total)), x.dtype


def _check(x: ArrayType, indices: ArrayType, windows: Windows, sizes: Dims) -> None:
    if indices.dtype.kind not in 'iu' or not indices.ndim or indices.shape[-1] != len(windows.start_index_map):
        raise TypeError(f"gather and scatter take integer indices [..., {len(windows.start_index_map)}], got {indices}")
    if len(sizes) != x.ndim or any(not 0 <= s <= n for d, (s, n) in enumerate(zip(sizes, x.shape, strict=True))
                                   if d not in windows.operand_batching_dims):
        raise TypeError(f"gather: windows of sizes {sizes} do not fit in {x}")
    if any(sizes[d] != 1 for d in (*windows.collapsed_slice_dims, *windows.operand_batching_dims)):
        raise TypeError(f"gather: windows must have size 1 in the dimensions that go, {windows.collapsed_slice_dims}, got {sizes}")


def part_of(place: Place, t: ArrayType) -> Part:
    out = place.out(t)
    return Part(whole=t.shape, block=out.shape, starts=out.starts)


def _gather_kernel(place: Place, ins, outs, params) -> Callable:
    """Look up what this rank has. Of a split or unreduced table the first rank alone fills in for what no rank has."""
    part = part_of(place, ins[0])
    windows, sizes, mode, fill = params['windows'], params['slice_sizes'], params['mode'], params['fill']
    picked = windows.start_index_map
    zero, n_dims = outs[0].dtype.type(0), len(outs[0].shape)
    summand = bool(ins[0].unreduced) and any(place.mesh.coords(mpi.rank())[a] for a in ins[0].unreduced)
    if all(part.block[d] == part.whole[d] for d in picked):
        return lambda x, i: take(x, i, windows, sizes, part, mode, zero if summand else fill)
    fills = mode == 'fill' and fill != zero and not summand and not any(part.starts[d] for d in picked)

    def run(x, i):
        y = take(x, i, windows, sizes, part, mode, zero)
        if not fills:
            return y
        outside = beyond(i, windows, sizes, part)
        return np.where(np.expand_dims(outside, [d for d in windows.offset_dims if d < n_dims]), fill, y)
    return run


def _gather_transpose(ct, x, indices, *, windows: Windows, slice_sizes: Dims, mode: str, fill):
    return scatter_add(zeros_of(x.type.dual()), indices, ct, windows=windows, slice_sizes=slice_sizes, mode=mode)


def _gather_jvp(primals, tangents, **params):
    y = gather(*primals, **params)
    t = tangents[0]
    if t.__class__ is Zero:
        return [y], [Zero(typeof(y).tangent())]
    return [y], [gather(t, primals[1], **{**params, 'fill': typeof(t).dtype.type(0)})]


gather = Primitive(
    'gather',
    type=by_labels(_gather_labels, gather_shape),
    labels=_gather_labels,
    kernel=_gather_kernel,
    jvp=_gather_jvp,
    transpose=(_gather_transpose, None),
    batch=windowed('xi', one_table=True),
    linearity=LINEAR_IN_FIRST)


# ---- scatter: one op for each way to combine

def scatter_by(name: str, combine: np.ufunc | None, *, linearity: Linearity, reducer: str | None, jvp, transpose) -> Primitive:
    """A scatter that combines elements with updates by a ufunc, or replaces them. `reducer`: what combines those of several ranks."""
    def labels(x: ArrayType, indices: ArrayType, updates: ArrayType, *, windows: Windows, slice_sizes: Dims, mode: str):
        operand, index = operand_labels(x, windows, slice_sizes), index_labels(indices, windows, reducer is not None)
        return signature(name, [operand, index, window_labels(x, operand, index, windows)], [operand], linearity=linearity,
                         reducer=reducer)

    def shape(x: ArrayType, indices: ArrayType, updates: ArrayType, *, windows: Windows, slice_sizes: Dims, mode: str):
        want, _ = gather_shape(x, indices, windows=windows, slice_sizes=slice_sizes, mode=mode, fill=None)
        if updates.shape != want or updates.dtype != x.dtype:
            raise TypeError(f"{name}: updates of {x} at {indices} must have type {x.dtype.name}{list(want)}, got {updates}")
        return x.shape, x.dtype

    def kernel(place: Place, ins, outs, params) -> Callable:
        part = part_of(place, ins[0])
        windows, sizes, mode = params['windows'], params['slice_sizes'], params['mode']
        return lambda x, i, u: put(x, i, u, windows, sizes, part, mode, combine)

    return Primitive(name, type=by_labels(labels, shape), labels=labels, kernel=kernel, jvp=jvp, transpose=transpose,
                     batch=windowed('xiu'),
                     linearity=linearity)


def _add_transpose(ct, x, indices, updates, *, windows: Windows, slice_sizes: Dims, mode: str):
    ct_updates = None
    if updates.__class__ is Linear:
        ct_updates = gather(ct, indices, windows=windows, slice_sizes=slice_sizes, mode=mode, fill=typeof(ct).dtype.type(0))
    return [ct if x.__class__ is Linear else None, None, ct_updates]


scatter_add = scatter_by('scatter-add', np.add, linearity=JOINT, reducer='sum', jvp=BY_LINEARITY, transpose=_add_transpose)


def _set_transpose(ct, x, indices, updates, *, windows: Windows, slice_sizes: Dims, mode: str):
    """What was overwritten gets nothing; of updates of one place the last one gets all."""
    params = {'windows': windows, 'slice_sizes': slice_sizes, 'mode': mode}
    ct_x = None
    if x.__class__ is Linear:
        u, split = typeof(updates), x.type.split_axes            # zeros are whole where the table is split, as updates are
        zeros = zeros_of(u.update(unreduced=u.reduced - split, reduced=u.unreduced | u.reduced & split))
        ct_x = scatter(ct, indices, zeros, **params)
    return [ct_x, None, gather_last(ct, indices, **params) if updates.__class__ is Linear else None]


scatter = scatter_by('scatter', None, linearity=JOINT, reducer=None, jvp=BY_LINEARITY, transpose=_set_transpose)


# ---- gather_last: the adjoint of a scatter that replaces

def _last_labels(x: ArrayType, indices: ArrayType, *, windows: Windows, slice_sizes: Dims, mode: str) -> Signature:
    operand, index = operand_labels(x, windows, slice_sizes), index_labels(indices, windows, summed=False)
    return signature('gather-last', [operand, index], [window_labels(x, operand, index, windows)], linearity=LINEAR_IN_FIRST,
                     reducer='sum')


def _last_kernel(place: Place, ins, outs, params) -> Callable:
    part = part_of(place, ins[0])
    windows, sizes, mode = params['windows'], params['slice_sizes'], params['mode']
    return lambda x, i: take_last(x, i, windows, sizes, part, mode)


gather_last = Primitive(
    'gather-last',
    type=by_labels(_last_labels, lambda x, indices, **params: gather_shape(x, indices, **params, fill=None)),
    labels=_last_labels,
    kernel=_last_kernel,
    jvp=BY_LINEARITY,
    transpose=(lambda ct, x, indices, **params: scatter(zeros_of(x.type.dual()), indices, ct, **params), None),
    batch=windowed('xi'),
    linearity=LINEAR_IN_FIRST)
