"""Where arrays lie: devices, meshes, putting values on a mesh, moving and reading them.

Only `reshard`, `device_put` of an array and `process_allgather` may communicate; making an array and reading one never do.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distad import tree
from distad.config import config
from distad.core.alike import check_alike
from distad.core.eager import frozen
from distad.core.lift import as_value, read
from distad.core.value import Array, Value, is_scalar, typeof
from distad.ops.reshard import reshard as reshard_p
from distad.runtime import agreement, blocks, mpi
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.asked import is_sharding, named, wanted
from distad.types.mesh import AbstractMesh, AxisType, Device, Mesh, get_mesh
from distad.types.sharding import NamedSharding


def process_index() -> int:
    """This process's rank. Starts MPI."""
    return mpi.rank()


def process_count() -> int:
    """The number of ranks. Starts MPI."""
    return mpi.size()


def devices() -> list[Device]:
    """All devices: one for each rank."""
    return [Device(id=r, process_index=r) for r in range(mpi.size())]


def local_devices() -> list[Device]:
    """This rank's device, as a list."""
    return [devices()[mpi.rank()]]


def default_backend() -> str:
    """'cpu', the one platform there is."""
    return 'cpu'


def device_count() -> int:
    """The number of devices, which is the number of ranks."""
    return mpi.size()


def local_device_count() -> int:
    """1: a rank is a device."""
    return 1


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Sequence[AxisType] | None = None, *,
              devices: Sequence[Device] | None = None) -> Mesh:
    """A mesh of ranks: the first `prod(axis_shapes)` ones in row-major order, or the given `devices`.

    Nothing is communicated. Raises ValueError when there are fewer ranks than the mesh needs.

        mesh = make_mesh((2, 2), ('X', 'Y'))      # under mpirun -n 4
    """
    if axis_types is not None and AxisType.Auto in axis_types:
        raise NotImplementedError('make_mesh: distad has no Auto axes, on which a compiler would choose shardings. Leave '
                                  'axis_types out: axes are Explicit, and the types of arrays say how they lie.')
    sizes = AbstractMesh(axis_shapes, axis_names, axis_types).axis_sizes
    need = math.prod(sizes)
    have = globals()['devices']() if devices is None else list(devices)
    if len(have) < need or (devices is not None and len(have) != need):
        raise ValueError(
            f"a mesh of shape {sizes} needs {need} ranks, there {'is' if len(have) == 1 else 'are'} {len(have)}. Start the "
            f"program with `mpirun -n {need} python ...`" + (', or hand as many devices as the mesh has places.' if devices
                                                             is not None else '.'))
    grid = np.empty(need, object)
    grid[:] = have[:need]
    return Mesh(grid.reshape(sizes), tuple(axis_names), axis_types)


# ---- moving

def reshard(x: Any, sharding: Any, *, exact: bool = False) -> Any:
    """Bring arrays to another sharding: the one function of explicit mode that communicates.

    x: a pytree of arrays. sharding: a P (on the array's mesh, else the current one) or NamedSharding, or a tree of them
    (a prefix of x). Communication along each mesh axis, from the state that is there to the one asked for: replicated to
    reduced, to a part, or to unreduced: none; unreduced to replicated or reduced: an all-reduce, to split: a
    reduce-scatter; split to replicated: an all-gather; split otherwise: an all-to-all. What all arrays of the call send
    alike travels in one message. exact: what is unreduced is summed exactly and rounded once (see lax.psum), and never in one
    message with other sums. Raises ValueError for sizes that do not divide and unknown axes.

        grads = reshard(grads, P())          # one all-reduce for the whole tree
    """
    flat, structure = tree.flatten(x)
    specs = tree.broadcast_prefix(sharding, x, is_leaf=is_sharding)
    if any(s is None for s in specs):
        raise ValueError('reshard needs a sharding for every array, got None')
    values = [as_value(v, 'reshard') for v in flat]
    values = [_put(v, s) if _unplaced(v) else v for v, s in zip(values, specs, strict=True)]
    want = [wanted(typeof(v), s) for v, s in zip(values, specs, strict=True)]
    return tree.unflatten(structure, _move(values, want, exact))


def _move(values: list, want: list[ArrayType], exact: bool = False) -> list:
    """All values that change, by one equation."""
    changing = [i for i, (x, t) in enumerate(zip(values, want, strict=True)) if typeof(x) != t]
    if changing:
        moved = reshard_p(*(values[i] for i in changing), to=tuple(want[i] for i in changing), **({'exact': True} if exact else {}))
        for i, y in zip(changing, moved, strict=True):
            values[i] = y
    return values


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: bool | None = None) -> Any:
    """Put values on a mesh.

    x: a pytree of NumPy arrays, numbers (the same on every rank) or arrays. device: a P on the current mesh, a
    NamedSharding, or a prefix tree of them. NumPy values are copied, each rank keeps its block, and nothing is
    communicated; unreduced ones lie on the first rank along the axis, with zeros elsewhere. Arrays move as by `reshard`.
    """
    flat, structure = tree.flatten(x)
    specs = tree.broadcast_prefix(device, x, is_leaf=is_sharding) if device is not None else [None] * len(flat)
    return tree.unflatten(structure, [_put(v, s) for v, s in zip(flat, specs, strict=True)])


def _put(x, sharding):
    if isinstance(sharding, Device) or sharding is None:
        return as_value(x, 'device_put')
    if isinstance(x, Value) and not _unplaced(x):
        if config.check_comm and isinstance(x, Array):
            check_alike('device_put', ('the value',), (x,), x.mesh)
        target = named(sharding, x.type.mesh)
        if isinstance(x, Array) and isinstance(target.mesh, Mesh) and x.mesh != target.mesh:
            return _to_other_mesh(x, target)
        return _move([x], [wanted(x.type, target)])[0]
    value, t = (x.block, x.type) if isinstance(x, Array) else (_host(x), typeof(x))
    return _cut(value, t, named(sharding))


def _unplaced(x) -> bool:
    return isinstance(x, Array) and x.mesh is None


def _host(x) -> np.ndarray:
    """A host value in a dtype that arrays have."""
    if not is_scalar(x) and not isinstance(x, np.ndarray):
        raise TypeError(f"device_put takes arrays and numbers, got {type(x).__name__}. Convert lists with np.asarray.")
    return np.asarray(x, typeof(x).dtype)


def _cut(value: np.ndarray, t: ArrayType, sharding: NamedSharding) -> Array:
    """A value that every rank has, on a mesh: each rank takes its block."""
    mesh = concrete_mesh(sharding)
    t = wanted(t, sharding)
    if mesh is None:
        return Array(t, None, frozen(np.array(value)))
    if mpi.rank() not in mesh.ranks:
        return Array(t, mesh, None)
    if config.check_comm:
        agreement.same_values(mesh, 'device_put', [('the value', mesh.axis_names, value)])
    return Array(t, mesh, frozen(np.array(blocks.cut(value, t, mesh, mpi.rank()))))


def concrete_mesh(sharding: NamedSharding) -> Mesh | None:
    """The mesh of ranks that a sharding speaks of; None for the empty one."""
    if sharding.mesh.empty:
        return None
    if isinstance(sharding.mesh, Mesh):
        return sharding.mesh
    mesh = get_mesh()
    if mesh.abstract_mesh != sharding.mesh:
        raise ValueError(f"{sharding} is on an abstract mesh, and the current mesh is {mesh}. Make the mesh current with "
                         "set_mesh, or hand a NamedSharding on a mesh of ranks.")
    return mesh


def _to_other_mesh(x: Array, target: NamedSharding) -> Array:
    """From one mesh to another: gathered on the first, cut on the second. The second must lie within the first."""
    missing = sorted(set(target.mesh.ranks) - set(x.mesh.ranks))
    if missing:
        raise ValueError(f"device_put of {x.type} to another mesh: ranks {missing} of {target.mesh} are not in {x.mesh} and "
                         "have no copy. Put the value on a mesh of all these ranks first.")
    whole = _move([x], [x.type.update(partitions=((),) * x.ndim, unreduced=(), reduced=(), kind='sum')])[0]
    if mpi.rank() not in target.mesh.ranks:
        return Array(wanted(x.type.update(mesh=target.mesh, partitions=((),) * x.ndim, unreduced=(), reduced=()), target),
                     target.mesh, None)
    return _cut(whole.block, ArrayType(x.shape, x.dtype, weak_type=x.weak_type), target)


# ---- making arrays from parts

def make_array_from_callback(shape: Sequence[int], sharding: NamedSharding, data_callback: Callable[[tuple], Any], *,
                             dtype: Any = None) -> Array:
    """An array each rank makes its own block of: `data_callback(index)` gives the block at `index`, a tuple of slices.

    Nothing is communicated. The dtype is that of the block, the same on all ranks, or `dtype`.

        make_array_from_callback((8, 4), NamedSharding(mesh, P('X')), lambda index: data[index])
    """
    mesh = concrete_mesh(sharding)
    if sharding.spec.unreduced:
        raise ValueError('make_array_from_callback cannot know the summands of an unreduced array; hand them to '
                         'make_array_from_single_device_arrays, or put the value with device_put')
    if mesh is not None and mpi.rank() not in mesh.ranks:
        if dtype is None:
            raise ValueError('make_array_from_callback needs dtype= on a mesh that does not hold all ranks')
        return Array(ArrayType(shape, dtypes.canonical(dtype), sharding=sharding), mesh, None)
    t = ArrayType(tuple(shape), np.float32, sharding=sharding)
    index = tuple(slice(0, n) for n in shape) if mesh is None else blocks.index_of(t, mesh.coords(mpi.rank()))
    block = _own_block(data_callback(index), dtype)
    return _from_block(tuple(shape), sharding, block)


def make_array_from_process_local_data(sharding: NamedSharding, local_data: Any,
                                       global_shape: Sequence[int] | None = None) -> Array:
    """An array of which each rank hands its own block, `local_data`; or, with its shape as `global_shape`, the whole.

    Nothing is communicated. Without `global_shape` each split dimension is as many times longer as it has parts.
    """
    block = _own_block(local_data, None)
    parts = [int(np.prod([sharding.mesh.shape[a] for a in axes], dtype=int)) for axes in sharding.spec.axes]
    parts += [1] * (block.ndim - len(parts))
    shape = tuple(n * k for n, k in zip(block.shape, parts, strict=True)) if global_shape is None else tuple(global_shape)
    if block.shape == shape and any(k > 1 for k in parts):
        return _cut(block, ArrayType(shape, block.dtype), sharding)
    return _from_block(shape, sharding, block)


def make_array_from_single_device_arrays(shape: Sequence[int], sharding: NamedSharding, arrays: Sequence[Any], *,
                                         dtype: Any = None) -> Array:
    """An array from the raw blocks of the ranks: `arrays` holds this rank's one (none on a rank outside the mesh).

    For unreduced arrays the block is this rank's summand. Nothing is communicated.
    """
    mesh = concrete_mesh(sharding)
    if mesh is not None and mpi.rank() not in mesh.ranks:
        known = dtype if dtype is not None else arrays[0].dtype if arrays else None
        if known is None:
            raise ValueError('make_array_from_single_device_arrays needs dtype= on a rank that has no block')
        return Array(ArrayType(tuple(shape), dtypes.canonical(known), sharding=sharding), mesh, None)
    if len(arrays) != 1:
        raise ValueError(f"each rank has one device and hands one block, got {len(arrays)}")
    return _from_block(tuple(shape), sharding, _own_block(arrays[0], dtype))


def _own_block(data, dtype) -> np.ndarray:
    value = read(data) if isinstance(data, Array) else np.asarray(data)
    return np.array(value, dtypes.canonical(value.dtype if dtype is None else dtype))


def _from_block(shape: tuple[int, ...], sharding: NamedSharding, block: np.ndarray) -> Array:
    t = ArrayType(shape, block.dtype, sharding=sharding)
    if block.shape != t.local_shape:
        raise ValueError(f"an array of type {t} has blocks of shape {t.local_shape}, got one of shape {block.shape}")
    return Array(t, concrete_mesh(sharding), frozen(block))


# ---- reading

@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One rank's part of an array: its device, where it lies in the whole, and the block (read-only)."""

    device: Device
    index: tuple[slice, ...]
    data: np.ndarray
    replica_id: int


def addressable_shards(x: Array) -> list[Shard]:
    """This rank's block of an array, as a list of one (of none on a rank outside the mesh). Nothing is communicated."""
    if x.block is None:
        return []
    rank = mpi.rank()
    coords = {} if x.mesh is None else x.mesh.coords(rank)
    replica = 0
    for axis, place in coords.items():
        if axis not in x.type.split_axes:
            replica = replica * x.mesh.shape[axis] + place
    index = tuple(slice(None) if not axes else s for s, axes in
                  zip(blocks.index_of(x.type, coords), x.type.partitions, strict=True))
    view = x.block.view()
    view.flags.writeable = False
    return [Shard(device=Device(id=rank, process_index=rank), index=index, data=view, replica_id=replica)]


def process_allgather(x: Any, tiled: bool = True) -> Any:
    """The global value of arrays as NumPy arrays, on every rank of their mesh.

    x: a pytree of arrays. Communication: an all-gather of split dimensions, an all-reduce of unreduced values; none where the
    value is replicated.
    """
    flat, structure = tree.flatten(x)
    values = [as_value(v, 'process_allgather') for v in flat]
    want = [v.type.update(partitions=((),) * v.ndim, unreduced=(), reduced=(), kind='sum') for v in values]
    return tree.unflatten(structure, [read(v) for v in _move(values, want)])


def device_get(x: Any) -> Any:
    """The values of arrays as NumPy arrays, where every rank holds them whole. Nothing is communicated.

    Raises ValueError for split and unreduced arrays; ask for the whole of these with process_allgather.
    """
    return tree.map(lambda v: read(v) if isinstance(v, Array) else np.asarray(v), x)


def block_until_ready(x: Any) -> Any:
    """The same: distad's arrays are ready when they are there."""
    return x
