"""Checkpoints: a tree of arrays on the disk, written by all ranks at once, restored on any number of them in any placement.

    checkpoint.save('run', {'params': params, 'step': 12}, step=12, keep=3)
    state = checkpoint.restore('run', like={'params': params, 'step': 0})       # on other ranks, other shardings, another mesh

    run/step-00000012/manifest.json, params.w.npy, params.b.npy, step.npy

A checkpoint is a folder with a standard .npy file for each leaf, which `np.load` reads, and a manifest. It is written under another
name and renamed when all of it is on the disk: at whatever instant the ranks are killed, the folder of a step is whole or not there.
Whatever fails, fails on all ranks, and the checkpoints before it stay.

JAX calls rematerialization `jax.checkpoint`; so this module can be called, and then is `distad.remat`.
"""

from __future__ import annotations

import atexit
import hashlib
import math
import os
import re
import shutil
import sys
import threading
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from distad import log, tree
from distad.checkpoint import manifest
from distad.checkpoint.manifest import Leaf, Manifest
from distad.control.remat import checkpoint as _remat
from distad.core.eager import frozen
from distad.core.value import Array, Value
from distad.errors import CheckpointError, DisagreementError, ShardingTypeError, TreeMismatchError, UnexpectedTracerError
from distad.lax.placement import concrete_mesh
from distad.runtime import aside, blocks, collectives, files, mpi
from distad.runtime.files import Index, together
from distad.source import boundary
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh, get_mesh
from distad.types.sharding import NamedSharding
from distad.types.struct import ShapeDtypeStruct

__all__ = ['Saving', 'latest_step', 'restore', 'save', 'save_async']

Path = str | os.PathLike[str]
Part = tuple[int, Index, np.ndarray]  # the number of a leaf, where in it, and the block
T = TypeVar('T')
_UNDER_WAY = '.saving-'


@boundary
def save(path: Path, tree: Any, *, step: int | None = None, keep: int | None = None) -> None:
    """Write a tree to the folder `path` as the checkpoint of a step. A collective over all ranks.

    tree: a pytree of arrays (split, replicated or reduced), NumPy arrays and Python numbers, which have to be the same on every
    rank. step: a number from 0 on that has no checkpoint yet; without it, the one after the latest. keep: of the checkpoints in
    `path` only this one and the latest others, `keep` together, stay. Communication: agreements of a few bytes a leaf; of copies
    one rank writes one, and another one for the next leaf.
    Raises ShardingTypeError for unreduced arrays, CheckpointError where a rank cannot write (then nothing has changed).

        checkpoint.save('run', {'w': w, 'epoch': 3}, step=300, keep=2)
    """
    _finish()
    job, collected = _alike('save', lambda: _planned(path, tree, step, keep))
    job.write(_exchange, collected)


@boundary
def save_async(path: Path, tree: Any, *, step: int | None = None, keep: int | None = None) -> Saving:
    """The same as `save`, by a thread that writes copies: the program goes on at once, and may change or drop the arrays.

    Memory: a second copy of what this rank writes. What fails is raised by `wait()` of the result, or by the next call of this
    module: it waits for the one before. A program that ends waits for it too, and ends with status 1 if it failed unheard.

        saving = checkpoint.save_async('run', state, step=300)
        state = train(state)
        saving.wait()
    """
    _finish()
    job, collected = _alike('save', lambda: _planned(path, tree, step, keep))
    comm = aside.communicator()
    collected = [(number, index, block.copy()) for number, index, block in collected]
    saving = Saving(job, lambda: job.write(lambda data: aside.agree(comm, data), collected))
    _running.append(saving)
    return saving


@boundary
def restore(path: Path, like: Any, *, step: int | None = None) -> Any:
    """Read a checkpoint into the placement of `like`, whatever it had when it was saved. A collective over all ranks.

    like: a pytree with the leaves of the saved one: arrays or `ShapeDtypeStruct`s, each with the sharding that the result is to
    have; NumPy arrays and Python numbers, of which the result has the same kind. step: the latest one if not given. Each rank
    reads its own blocks. All pieces are verified by their checksums, each by the ranks that read it; a piece that no rank reads
    whole is read once more by one rank. Communication: agreements of a few bytes a leaf.
    Raises CheckpointError where there is none or a file is missing, truncated or altered, TreeMismatchError where leaves are
    missing or too many, ValueError where shapes or dtypes differ, each naming file or leaf.

        state = checkpoint.restore('run', like=jax.eval_shape(init, key))
    """
    _finish()
    folder, step, wanted, structure = _alike('restore', lambda: _wanted(path, like, step))
    name, text = together(_exchange, files.on_first(lambda: _manifest_text(folder, step)))[0]
    found = manifest.from_text(text, os.path.join(name, manifest.NAME))
    leaves = _matched(found, wanted, name)
    mine: list[Any] = []

    def read() -> None:
        mine.extend(_read(os.path.join(name, leaf.file), number, leaf, want)
                    for number, (leaf, want) in enumerate(zip(leaves, wanted, strict=True)))

    together(_exchange, read)
    return tree.unflatten(structure, mine)


@boundary
def latest_step(path: Path) -> int | None:
    """The latest step of which there is a checkpoint, the same on all ranks; None if there is none. A collective over all ranks.

        start = checkpoint.latest_step('run') or 0
    """
    _finish()
    folder = _alike('latest_step', lambda: (_folder('latest_step', path), [f'path {path}']))
    return together(_exchange, files.on_first(lambda: max(_steps(folder), default=None)))[0]


class Saving:
    """A checkpoint that a thread is writing. `wait()` returns when it is there, and raises what went wrong."""

    def __init__(self, job: _Job, write: Callable[[], None]) -> None:
        self._job = job
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(write,), name=f'distad checkpoint {job.folder}')
        self._thread.start()

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:
            self._error = error

    def done(self) -> bool:
        """Whether the thread has ended, well or not. Another rank's may still be writing."""
        return not self._thread.is_alive()

    @boundary
    def wait(self) -> None:
        """Wait until the checkpoint is on the disk. Raises, on all ranks, what kept it from there."""
        self._thread.join()
        if self in _running:
            _running.remove(self)
        if self._error:
            raise self._error


# The one that is being written, or has been and whose error nobody has heard of.
_running: list[Saving] = []


def _finish() -> None:
    """Two at a time would meet in their agreements and in the folder."""
    for saving in list(_running):
        saving.wait()


@atexit.register
def _last_words() -> None:
    """A program that ends without having heard that its last checkpoint failed does not end well."""
    for saving in list(_running):
        try:
            saving.wait()
        except Exception as error:
            if mpi.rank() == 0:
                sys.stderr.write(f'[rank 0] {error}\n')
                sys.stderr.flush()
                time.sleep(0.1)                                # mpirun forwards nothing once the job is aborted
                mpi.abort(1)


# ---- arguments

def _exchange(data: bytes) -> list[bytes]:
    return collectives.agree(mpi.world(), data)


def _folder(call: str, path: Path) -> str:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise TypeError(f'checkpoint.{call} takes the path of a folder, got {path!r}')
    return os.path.abspath(os.fspath(path))


def _step(call: str, step: int | None) -> int | None:
    if step is None:
        return None
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or step < 0:
        raise ValueError(f'checkpoint.{call}: a step is a whole number from 0 on, got {step!r}')
    return int(step)


def _alike(call: str, read: Callable[[], tuple[T, list[str]]]) -> T:
    """What `read` makes of the arguments, once it is known that no rank refuses its own and that all have the same.

    `read` also gives the arguments in lines; on ranks that differ in one, the others would wait for ever or write nonsense.
    """
    cell: list[tuple[T, list[str]]] = []

    def mine() -> bytes:
        cell.append(read())
        return hashlib.sha256('\n'.join(cell[0][1]).encode()).digest()

    if len(set(together(_exchange, mine))) == 1:
        return cell[0][0]
    every = [text.decode().split('\n') for text in _exchange('\n'.join(cell[0][1]).encode())]
    place = next(i for i in range(max(map(len, every))) if len({tuple(lines[i:i + 1]) for lines in every}) > 1)
    told = '; '.join(f'rank {r}: {lines[place] if place < len(lines) else "no more leaves"}' for r, lines in enumerate(every))
    raise DisagreementError(f'checkpoint.{call} was called with different arguments. {told}. Every rank has to make the same call, '
                            'also for arrays of which it holds a block only.')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Want:
    """A leaf of `like`: what has to be in the checkpoint, and where it is to lie."""

    leaf: Leaf
    type: ArrayType
    mesh: Mesh | None
    host: bool

    @property
    def line(self) -> str:
        return f'leaf {self.leaf.path}: {self.leaf.told}, {self.leaf.type} on {self.mesh}'

    def index(self, rank: int) -> Index | None:
        """The part that a rank is to hold; None if it is not in the mesh."""
        if self.mesh is None:
            return tuple(slice(0, n) for n in self.leaf.shape)
        return blocks.index_of(self.type, self.mesh.coords(rank)) if rank in self.mesh.ranks else None


def _wanted(path: Path, like: Any, step: int | None) -> tuple[tuple[str, int | None, list[_Want], tree.PyTreeDef], list[str]]:
    folder, step = _folder('restore', path), _step('restore', step)
    found, structure = tree.flatten_with_path(like)
    wanted = [_want(tree.keystr(place), x) for place, x in found]
    return (folder, step, wanted, structure), [f'path {folder}', f'step {step}', *(want.line for want in wanted)]


def _want(path: str, x: Any) -> _Want:
    if isinstance(x, (Array, ShapeDtypeStruct)):
        t, mesh = x.type, x.mesh if isinstance(x, Array) else _struct_mesh(x)
        if t.unreduced:
            raise ShardingTypeError(f'checkpoint.restore: leaf {path or "of the tree"} of like has type {t}, but what is read is '
                                    'whole. Restore it replicated or split, and make it unreduced with reshard.')
        leaf = Leaf(path=path, file='', kind='array', shape=t.shape, dtype=t.dtype, type=str(t))
        return _Want(leaf=leaf, type=t if mesh is None else t.update(mesh=mesh), mesh=mesh, host=False)
    leaf, _ = _host_leaf('restore', path, x)
    return _Want(leaf=leaf, type=ArrayType(leaf.shape, leaf.dtype), mesh=None, host=True)


def _struct_mesh(x: ShapeDtypeStruct) -> Mesh | None:
    mesh = get_mesh() if x.sharding is None else concrete_mesh(NamedSharding(x.type.mesh, x.type.spec))
    return None if mesh is None or mesh.empty else mesh


def _host_leaf(call: str, path: str, x: Any) -> tuple[Leaf, np.ndarray]:
    """A NumPy array or a Python number, as array."""
    where = f'leaf {path}' if path else 'the tree'
    if isinstance(x, Value):
        raise UnexpectedTracerError(f'checkpoint.{call}: {where} is a traced value of type {x.type}, which has no data yet. Call it '
                                    'outside of jit, grad and vmap.')
    kind = type(x).__name__ if type(x) in (bool, int, float, complex) else 'array'
    if kind == 'array' and not isinstance(x, (np.ndarray, np.generic)):
        raise TypeError(f'checkpoint.{call}: {where} is a {type(x).__name__}. Leaves are arrays and Python numbers; keep other things '
                        'elsewhere, or make arrays of them.')
    if kind == 'int' and not -2 ** 63 <= x < 2 ** 63:
        raise ValueError(f'checkpoint.{call}: {where} is the number {x}, which has no place in 64 bits. Save it in parts.')
    value = np.asarray(x, manifest.NUMBERS.get(kind))
    if value.dtype.kind not in 'biufc' and value.dtype not in (dtypes.bfloat16, dtypes.KEY):
        raise TypeError(f'checkpoint.{call}: {where} has dtype {dtypes.name(value.dtype)}. Leaves hold booleans, numbers or keys.')
    value = value.astype(value.dtype.newbyteorder('='), copy=False)
    return Leaf(path=path, file='', kind=kind, shape=value.shape, dtype=value.dtype, type=kind), value


# ---- saving

@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A checkpoint that is to be written: all that is the same on every rank."""

    folder: str
    step: int | None
    keep: int | None
    leaves: tuple[Leaf, ...]

    def write(self, exchange: files.Exchange, collected: list[Part]) -> None:
        """Make the files, write the blocks that this rank has `collected`, and put all in place."""
        began = time.perf_counter()
        made: list[str] = []
        try:
            step = together(exchange, files.on_first(lambda: self._begin(made)))[0]
            under_way = os.path.join(self.folder, _name(step, _UNDER_WAY))
            written = together(exchange, lambda: [
                (number, files.write(os.path.join(under_way, self.leaves[number].file), self.leaves[number].shape, index, block))
                for number, index, block in collected])
            together(exchange, files.on_first(lambda: self._end(step, under_way, [w for rank in written for w in rank])))
        except Exception as error:
            for folder in made:
                shutil.rmtree(folder, ignore_errors=True)
            what = 'the next checkpoint' if self.step is None else f'the checkpoint of step {self.step}'
            raise CheckpointError(f'{what} was not saved to {self.folder}, and those before it are as they were: {error}') from error
        log.logger.info('saved step %d to %s in %.3f s', step, self.folder, time.perf_counter() - began)

    def _begin(self, made: list[str]) -> int:
        """A folder with files in their full sizes. What has been left under way by a crash goes first."""
        os.makedirs(self.folder, exist_ok=True)
        for name in os.listdir(self.folder):
            if name.startswith(_UNDER_WAY):
                shutil.rmtree(os.path.join(self.folder, name))
        there = _steps(self.folder)
        step = max(there, default=-1) + 1 if self.step is None else self.step
        if step in there:
            raise FileExistsError(f'step {step} is there already, and could not be replaced without a moment in which there is '
                                  'neither. Remove its folder, or save under another step.')
        made.append(os.path.join(self.folder, _name(step, _UNDER_WAY)))
        os.mkdir(made[0])
        for leaf in self.leaves:
            files.create(os.path.join(made[0], leaf.file), leaf.shape, leaf.dtype)
        return step

    def _end(self, step: int, under_way: str, written: list[tuple[int, list[tuple[Index, int]]]]) -> None:
        pieces: dict[int, list[tuple[Index, int]]] = {}
        for number, parts in written:
            pieces.setdefault(number, []).extend(parts)
        leaves = tuple(replace(leaf, pieces=tuple(pieces.get(i, ()))) for i, leaf in enumerate(self.leaves))
        files.write_text(os.path.join(under_way, manifest.NAME), manifest.to_text(Manifest(step=step, leaves=leaves)))
        files.put_in_place(under_way, os.path.join(self.folder, _name(step)))
        for old in sorted(_steps(self.folder) - {step})[:-(self.keep - 1) or None] if self.keep else ():
            self._remove(old)

    def _remove(self, step: int) -> None:
        """Under the other name first: a folder of a step is whole. What cannot be removed is no fault of the new checkpoint."""
        away = os.path.join(self.folder, _name(step, _UNDER_WAY))
        try:
            os.rename(os.path.join(self.folder, _name(step)), away)
            shutil.rmtree(away)
        except OSError as error:
            log.logger.warning('the checkpoint of step %d could not be removed: %s', step, error)


def _planned(path: Path, x: Any, step: int | None, keep: int | None) -> tuple[tuple[_Job, list[Part]], list[str]]:
    """The checkpoint that all ranks are to write, this rank's part of it, and the lines that have to be the same on all."""
    folder, step = _folder('save', path), _step('save', step)
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise ValueError(f'checkpoint.save: keep is the number of checkpoints that stay, from 1 on, got {keep!r}')
    found, _ = tree.flatten_with_path(x)
    paths = [tree.keystr(p) for p, _ in found]
    leaves, collected, lines = [], [], []
    for number, (path, (_, value), file) in enumerate(zip(paths, found, manifest.file_names(paths), strict=True)):
        if isinstance(value, Array):
            leaf, mesh = _array_leaf(path, value), value.mesh
            lines.append(f'leaf {path}: {leaf.type} on {mesh}')
            index, block = _own(value, number), value.block
        else:
            leaf, block = _host_leaf('save', path, value)
            said = f'with CRC-32 {files.checksum(block):08x}' if leaf.kind == 'array' else repr(value)
            lines.append(f'leaf {path}: {leaf.told} {said}')
            index = tuple(slice(0, n) for n in leaf.shape) if number % mpi.size() == mpi.rank() else None
        leaves.append(replace(leaf, file=file))
        if index is not None:
            collected.append((number, index, block))
    job = _Job(folder=folder, step=step, keep=keep, leaves=tuple(leaves))
    return (job, collected), [f'path {folder}', f'step {step}', f'keep {keep}', *lines]


def _array_leaf(path: str, x: Array) -> Leaf:
    t = x.type
    if t.unreduced:
        axes = ', '.join(t.mesh.in_order(t.unreduced))
        raise ShardingTypeError(f'checkpoint.save: leaf {path or "of the tree"} has type {t}: each rank along {axes} holds a '
                                f'summand, and the {t.kind} is still to come. Reduce it first: reshard(x, P()).')
    if not t.dtype.itemsize:
        raise TypeError(f'checkpoint.save: leaf {path or "of the tree"} has type {t}, which holds nothing.')
    return Leaf(path=path, file='', kind='array', shape=t.shape, dtype=t.dtype, type=str(t))


def _own(x: Array, number: int) -> Index | None:
    """Where the block lies that this rank is to write; None if another one writes it, or this one has none."""
    rank = mpi.rank()
    if x.mesh is None:
        return tuple(slice(0, n) for n in x.shape) if number % mpi.size() == rank else None
    if x.block is None:
        return None
    coords = x.mesh.coords(rank)
    copy, copies = 0, 1
    for axis in x.mesh.axis_names:
        if axis not in x.type.split_axes:
            copy, copies = copy * x.mesh.shape[axis] + coords[axis], copies * x.mesh.shape[axis]
    return blocks.index_of(x.type, coords) if copy == number % copies else None


# ---- restoring

def _name(step: int, prefix: str = '') -> str:
    return f'{prefix}step-{step:08d}'


def _steps(folder: str) -> set[int]:
    """The steps of which there is a whole checkpoint."""
    if not os.path.isdir(folder):
        return set()
    return {int(found[1]) for name in os.listdir(folder) if (found := re.fullmatch(r'step-(\d{8,})', name))}


def _manifest_text(folder: str, step: int | None) -> tuple[str, str]:
    there = _steps(folder)
    if not there:
        raise CheckpointError(f'there is no checkpoint in {folder}')
    if step is not None and step not in there:
        steps = ', '.join(map(str, sorted(there)))
        raise CheckpointError(f'there is no checkpoint of step {step} in {folder}; there are those of {steps}')
    name = os.path.join(folder, _name(max(there) if step is None else step))
    try:
        with open(os.path.join(name, manifest.NAME), encoding='utf-8') as handle:
            return name, handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f'{os.path.join(name, manifest.NAME)} cannot be read: {error}') from error


def _matched(found: Manifest, wanted: list[_Want], name: str) -> list[Leaf]:
    """The leaf of the checkpoint for each wanted one."""
    by_path = {leaf.path: leaf for leaf in found.leaves}
    paths = [want.leaf.path for want in wanted]
    missing, extra = [p for p in paths if p not in by_path], [p for p in by_path if p not in set(paths)]
    if missing or extra:
        told = [f'{what} {", ".join(some[:5])}{", ..." if len(some) > 5 else ""}' for what, some in
                (('it has no', missing), ('like has no', extra)) if some]
        raise TreeMismatchError(f'checkpoint.restore: the leaves of {name} are not those of like: {" and ".join(told)}')
    for want in wanted:
        there = by_path[want.leaf.path]
        if there.told != want.leaf.told:
            raise ValueError(f'checkpoint.restore: leaf {want.leaf.path or "of the tree"} of {name} is {there.told}, that of like is '
                             f'{want.leaf.told}. Restore it as what it is, and convert it then.')
    return [by_path[path] for path in paths]


def _read(path: str, number: int, leaf: Leaf, want: _Want) -> Any:
    """This rank's part of a leaf, verified."""
    rank, size = mpi.rank(), mpi.size()
    try:
        _check_file(path, leaf, number % size == rank)
        index = want.index(rank)
        block = None if index is None else files.read(path, leaf.shape, leaf.dtype, index)
        others = [other for r in range(size) if (other := want.index(r)) is not None]
        for turn, (part, crc) in enumerate(leaf.pieces):
            if index is not None and files.contains(index, part):
                _verify(path, part, crc, block[files.within(part, index)])
            elif turn % size == rank and not any(files.contains(other, part) for other in others):
                _verify(path, part, crc, files.read(path, leaf.shape, leaf.dtype, part))
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f'{path} is missing, truncated or cannot be read: {error}') from error
    if not want.host:
        return Array(want.type, want.mesh, None if block is None else frozen(block))
    return block if leaf.kind == 'array' else block.item()


def _check_file(path: str, leaf: Leaf, whole: bool) -> None:
    """Its size, before MPI reads beyond the end and says nothing; and, of the `whole`, the header."""
    head = files.header(leaf.shape, leaf.dtype)
    size = len(head) + leaf.dtype.itemsize * math.prod(leaf.shape)
    if (there := os.path.getsize(path)) != size:
        what = 'truncated' if there < size else 'altered'
        raise CheckpointError(f'{path} has been {what}: it has {there} bytes and must have {size}')
    if whole:
        with open(path, 'rb') as handle:
            if handle.read(len(head)) != head:
                raise CheckpointError(f'{path} has been altered: its header is not that of {leaf.told}')


def _verify(path: str, part: Index, crc: int, data: np.ndarray) -> None:
    if files.checksum(data) != crc:
        raise CheckpointError(f'{path} has been altered: the CRC-32 of elements [{", ".join(f"{s.start}:{s.stop}" for s in part)}] is '
                              f'{files.checksum(data):08x}, the manifest says {crc:08x}')


# ---- the other meaning of the name

class _Module(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same function, with its intermediate values computed again in the backward pass: `distad.remat`."""
        return _remat(*args, **kwargs)


sys.modules[__name__].__class__ = _Module
