"""From text to a function: compiled once for each structure, kept in memory and on disk.

A kernel is called as a builtin of Python, without ctypes: its wrapper, in LLVM too, takes the data pointers out of NumPy's arrays.
Operands have to be contiguous arrays; anything else goes to a Python function that makes them so and calls again.

Object code lies in `$XDG_CACHE_HOME/distad/kernels`, under a digest of its text, the processor and the version of LLVM. Of the
ranks of a node the first that comes compiles; the others wait for its file.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from distad import log
from distad.compiler.llvm.loops import kernel_text
from distad.config import config
from distad.core.jaxpr import Jaxpr, Literal

_alive: list[Any] = []         # engines that own code, and what Python keeps pointers to
_turn = ctypes.c_int64(1)      # 1 or -1: which way the last pass over much memory went (see `loops`)
PATIENCE = 30.0                # seconds to wait for the rank that compiles, before doing it oneself
_HEAD = object.__basicsize__   # of a Python object; NumPy's fields follow: data, nd, dimensions, strides, base, descr, flags
DATA, FLAGS = _HEAD, _HEAD + 48
CONTIGUOUS_AND_ALIGNED = 0x101


def available() -> bool:
    """Whether kernels are to be compiled."""
    return config.llvm and _possible()


@functools.cache
def _possible() -> bool:
    """llvmlite is installed, and Python's objects lie in memory as we know them."""
    return (importlib.util.find_spec('llvmlite') is not None and _HEAD == 16
            and not sysconfig.get_config_var('Py_GIL_DISABLED'))


def kernel(jaxpr: Jaxpr, space: tuple[int, ...], rows: int | None) -> Callable | None:
    """`f(*operands, *results)` for a group; None where its loop nest is refused (see `loops`)."""
    return _remembered(_Structure(jaxpr, space, rows))


class _Structure:
    """A group up to names: what decides its machine code."""

    def __init__(self, jaxpr: Jaxpr, space: tuple[int, ...], rows: int | None):
        self.jaxpr, self.space, self.rows = jaxpr, space, rows
        number = {v: i for i, v in enumerate((*jaxpr.ins, *(v for eqn in jaxpr.equations for v in eqn.outs)))}

        def told(a):
            return ('literal', a.type.dtype.str, a.type.dtype.type(a.value).tobytes()) if a.__class__ is Literal else number[a]

        self.key = (space, rows, tuple((v.type.local_shape, v.type.dtype.str) for v in jaxpr.ins),
                    tuple((eqn.primitive, tuple(map(told, eqn.ins)), tuple((v.type.local_shape, v.type.dtype.str) for v in eqn.outs),
                           tuple(eqn.params.items())) for eqn in jaxpr.equations), tuple(map(told, jaxpr.outs)))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other) -> bool:
        return self.key == other.key


@functools.lru_cache(maxsize=4096)
def _remembered(structure: _Structure) -> Callable | None:
    jaxpr = structure.jaxpr
    features = _llvm().get_host_cpu_features()
    try:
        text = kernel_text(jaxpr, structure.space, structure.rows, bool(features.get('avx512f')))
        if ' half' in text and not features.get('f16c', True):
            raise NotImplementedError('a processor without conversions of float16')
    except NotImplementedError as refused:
        log.logger.debug('NumPy runs a group over %s: %s', structure.space, refused)
        return None
    count = len(jaxpr.ins) + len(jaxpr.outs)
    digest = hashlib.sha256(f'{_machine()}\n{count}\n{text}'.encode()).hexdigest()[:32]
    name = f'distad_{digest}'
    code = _object_code(digest, lambda: _compiled(text + _wrapper(name, count)))
    return _builtin(_address(code, name), len(jaxpr.ins), name)


# ---- compiling

@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm  # noqa: PLC0415 (an optional extra, and slow to import)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.add_symbol('distad_turn', ctypes.addressof(_turn))
    return llvm


@functools.cache
def _machine() -> str:
    llvm = _llvm()
    return f'{llvm.llvm_version_info} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}'


@functools.cache
def _target() -> Any:
    llvm = _llvm()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, reloc='pic', codemodel='large')


def _compiled(text: str) -> bytes:
    """Object code for this processor."""
    llvm, start = _llvm(), time.perf_counter()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = _target().triple, str(_target().target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = False          # it is vectors already
    builder = llvm.create_pass_builder(_target(), tuning)
    builder.getModulePassManager().run(module, builder)
    code = _target().emit_object(module)
    log.logger.debug('compiled a kernel of %d lines in %.0f ms', text.count('\n'), 1e3 * (time.perf_counter() - start))
    return code


def _engine() -> Any:
    llvm = _llvm()
    empty = llvm.parse_assembly('')
    empty.triple = _target().triple
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3, reloc='pic', codemodel='large')
    return llvm.create_mcjit_compiler(empty, machine)


def _address(code: bytes, name: str) -> int:
    engine = _engine()
    _alive.append(engine)
    engine.add_object_file(_llvm().object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine.get_function_address(name)


# ---- on disk

def _object_code(digest: str, make: Callable[[], bytes]) -> bytes:
    """The code under a digest, made by the first process of a node that asks."""
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return make()
    path, lock = folder / f'{digest}.o', folder / f'{digest}.lock'
    if path.exists():
        return path.read_bytes()
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    except OSError:
        found = _waited(path, lock)
        if found is not None:
            return found
    try:
        code = make()
        _written(path, code)
    finally:
        lock.unlink(missing_ok=True)
    return code


def _folder() -> Path:
    return Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'distad' / 'kernels'


def _waited(path: Path, lock: Path) -> bytes | None:
    """The file that another process is making; None where it takes too long, or has died of it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if path.exists():
            return path.read_bytes()
        try:
            if time.time() - lock.stat().st_mtime > PATIENCE:
                return None
        except OSError:
            return path.read_bytes() if path.exists() else None
        time.sleep(0.002)
    return None


def _written(path: Path, code: bytes) -> None:
    """In one step, so that nobody reads half a file. A full disk is no reason to stop."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(code)
        os.replace(file.name, path)
    except OSError as error:
        log.logger.debug('the kernel cache %s: %s', path.parent, error)


# ---- calling

class _MethodDef(ctypes.Structure):
    _fields_ = [('name', ctypes.c_char_p), ('function', ctypes.c_void_p), ('flags', ctypes.c_int), ('doc', ctypes.c_char_p)]


_FASTCALL = 0x80



def _builtin(address: int, count: int, name: str) -> Callable:
    def contiguous(*arrays):
        """The same call with operands as the kernel wants them."""
        operands = [np.require(x, requirements='CA') for x in arrays[:count]]
        results = [np.require(x, requirements='CA') for x in arrays[count:]]
        native(*operands, *results)
        for given, made in zip(arrays[count:], results, strict=True):
            if given is not made:
                given[...] = made
        return arrays[-1]

    definition = _MethodDef(name.encode(), address, _FASTCALL, None)
    _alive.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    native = make(ctypes.addressof(definition), (np.ndarray, contiguous), None)
    return native


def _wrapper(name: str, count: int) -> str:
    """`PyObject *f(PyObject *self, PyObject *const *args, Py_ssize_t n)`; self is the pair of ndarray and what to do else."""
    lines = [f'define ptr @{name}(ptr %self, ptr %args, i64 %n) nounwind {{',
             f'  %kind_ = getelementptr i8, ptr %self, i64 {_HEAD + 8}', '  %kind = load ptr, ptr %kind_',
             f'  %else_ = getelementptr i8, ptr %self, i64 {_HEAD + 16}', f'  %n_ = icmp eq i64 %n, {count}',
             '  br i1 %n_, label %check0, label %other']
    for i in range(count):
        lines += [f'check{i}:',
                  f'  %a{i}_ = getelementptr ptr, ptr %args, i64 {i}', f'  %a{i} = load ptr, ptr %a{i}_',
                  f'  %t{i}_ = getelementptr i8, ptr %a{i}, i64 8', f'  %t{i} = load ptr, ptr %t{i}_',
                  f'  %is{i} = icmp eq ptr %t{i}, %kind', f'  br i1 %is{i}, label %flags{i}, label %other', f'flags{i}:',
                  f'  %f{i}_ = getelementptr i8, ptr %a{i}, i64 {FLAGS}', f'  %f{i} = load i32, ptr %f{i}_',
                  f'  %m{i} = and i32 %f{i}, {CONTIGUOUS_AND_ALIGNED}', f'  %ok{i} = icmp eq i32 %m{i}, {CONTIGUOUS_AND_ALIGNED}',
                  f'  %d{i}_ = getelementptr i8, ptr %a{i}, i64 {DATA}', f'  %d{i} = load ptr, ptr %d{i}_',
                  f'  br i1 %ok{i}, label %check{i + 1}, label %other']
    pointers = ', '.join(f'ptr %d{i}' for i in range(count))
    lines += [f'check{count}:', f'  call void @body({pointers})', f'  call void @Py_IncRef(ptr %a{count - 1})',
              f'  ret ptr %a{count - 1}', 'other:', '  %else = load ptr, ptr %else_',
              '  %made = call ptr @PyObject_Vectorcall(ptr %else, ptr %args, i64 %n, ptr null)', '  ret ptr %made', '}',
              'declare void @Py_IncRef(ptr)', 'declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)']
    return '\n'.join(lines) + '\n'
