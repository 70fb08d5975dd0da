"""The eager trace: compute on blocks now.

A call is looked up by primitive, operand types, parameters and mesh; what is found is the result types and a kernel, a
Python function on blocks with everything else bound. Ranks outside the mesh know the types and hold nothing.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context

import numpy as np

from distad.config import config
from distad.core import trace as traces
from distad.core.forbid import check_allowed, forbidden_axes
from distad.core.primitive import Place, Primitive
from distad.core.trace import Trace
from distad.core.value import Array, check_concrete, is_scalar, typeof
from distad.runtime import mpi, values
from distad.types.array_type import ArrayType
from distad.types.mesh import AbstractMesh, Mesh, get_mesh

_LIMIT, _PROGRAMS = 8192, 256


class EagerTrace(Trace):
    """The bottom of every tower of traces."""

    __slots__ = ('calls', 'programs', 'meshes')

    def __init__(self) -> None:
        self.calls: dict = {}
        self.programs: OrderedDict = OrderedDict()                # calls that run programs: the last ones used
        self.meshes: dict[AbstractMesh, Mesh | None] = {}         # the mesh of ranks behind an abstract one; None: several

    def process(self, primitive: Primitive, args: tuple, params: dict) -> list:
        types, mesh = read_types(args, primitive.name)
        outs, mesh, kernel = self.find(primitive, types, mesh, params)
        if forbidden_axes():
            check_allowed(primitive, types, outs, params)
        if kernel is None:
            return [Array(t, mesh, None) for t in outs]
        made = kernel(*[x.block if x.__class__ is Array else block_of(x, t) for x, t in zip(args, types)])
        if not primitive.multiple:
            made = (made,)
        return [Array(t, None if t.mesh.empty else mesh, frozen(b)) for t, b in zip(outs, made, strict=True)]

    def find(self, primitive: Primitive, types: tuple[ArrayType, ...], mesh: Mesh | None, params: dict) -> tuple:
        """The result types of a call, the mesh of the results and the function on blocks that makes them."""
        key = (primitive, types, get_mesh() if mesh is None else mesh, tuple(params.items()), config.mode)
        found = self.calls.get(key)
        if found is None:
            found = self.programs.get(key)
            if found is None:
                found = self.remember(primitive, key, self.prepare(primitive, types, mesh, params))
            else:
                self.programs.move_to_end(key)
        return found

    def remember(self, primitive: Primitive, key: tuple, found: tuple) -> tuple:
        """Keep what was found. Of calls that run programs few are kept: a loop that is traced anew each time makes them anew."""
        if primitive.fleeting:
            self.programs[key] = found
            if len(self.programs) > _PROGRAMS:
                self.programs.popitem(last=False)
            return found
        if len(self.calls) >= _LIMIT:
            self.calls.clear()
        self.calls[key] = found
        return found

    def prepare(self, primitive: Primitive, types: tuple[ArrayType, ...], mesh: Mesh | None, params: dict):
        outs = primitive.infer(types, params)
        if mesh is not None:
            known = self.meshes.setdefault(mesh.abstract_mesh, mesh)
            self.meshes[mesh.abstract_mesh] = mesh if known == mesh else None
        elif any(not t.mesh.empty for t in outs):
            mesh = self.concrete(next(t for t in outs if not t.mesh.empty))
        if mesh is not None and mpi.rank() not in mesh.ranks:
            return outs, mesh, None
        kernel = primitive.kernel(Place(mesh=mesh, types=types), types, outs, params)
        if config.check_values:
            kernel = values.watched(kernel, primitive.name, None, primitive.multiple)
        return outs, mesh, _quiet(kernel)

    def concrete(self, t: ArrayType) -> Mesh:
        """The mesh of ranks for a value made from nothing: the current one, or the only one in use that looks like it."""
        mesh = get_mesh()
        if not mesh.empty and (mesh.axis_names, mesh.axis_sizes) == (t.mesh.axis_names, t.mesh.axis_sizes):
            return mesh
        found = self.meshes.get(t.mesh)
        if found is None:
            raise ValueError(f"a value of type {t} needs the mesh {t.mesh} as current mesh: use set_mesh(mesh), or hand a "
                             "NamedSharding with that mesh.")
        return found


def _error_state() -> tuple[ContextVar, object]:
    """Where NumPy keeps what it does about infinities and NaN, and the value that says: nothing."""
    before, after = copy_context(), copy_context()
    after.run(np.seterr, all='ignore')
    return next((variable, value) for variable, value in after.items() if before.get(variable) is not value)


_NUMPY_ERRORS, _IGNORED = _error_state()


def _quiet(kernel: Callable) -> Callable:
    """Infinities and NaN are values here. This is the one door through which kernels run, compiled programs too.

    It does what np.errstate does, in a third of its time: half a microsecond of the three that an eager call takes.
    """
    def run(*blocks):
        token = _NUMPY_ERRORS.set(_IGNORED)
        try:
            return kernel(*blocks)
        finally:
            _NUMPY_ERRORS.reset(token)
    return run


def read_types(args: tuple, name: str) -> tuple[tuple[ArrayType, ...], Mesh | None]:
    """The types of concrete operands, and the mesh they lie on."""
    types, mesh = [], None
    for x in args:
        if x.__class__ is not Array:
            check_concrete((x,), name)
            types.append(typeof(x))
            continue
        types.append(x.type)
        if x.mesh is not mesh and x.mesh is not None:
            mesh = x.mesh if mesh is None else mesh_of(args)
    return tuple(types), mesh


def mesh_of(args) -> Mesh | None:
    """The mesh that the operands lie on. Two meshes in one call are refused by the types, or here if they look alike."""
    mesh = None
    for x in args:
        here = getattr(x, 'mesh', None)
        if here is None or here is mesh:
            continue
        if mesh is not None and here != mesh:
            raise ValueError(f"operands live on different meshes: {mesh} and {here}. Bring them to one with device_put.")
        mesh = here
    return mesh


def block_of(x, t: ArrayType) -> np.ndarray | None:
    """This rank's block of an operand. Numbers and NumPy arrays that were never placed are whole on every rank."""
    if isinstance(x, Array):
        return x.block
    if is_scalar(x):
        return literal_block(x, t)
    return np.asarray(x, t.dtype)


def literal_block(x, t: ArrayType) -> np.generic:
    """A number as a kernel gets it: a NumPy scalar of its type's dtype."""
    return t.dtype.type(x)


def frozen(block) -> np.ndarray:
    """A block as arrays keep it: a NumPy array nobody writes to."""
    if block.__class__ is not np.ndarray:
        block = np.asarray(block)
    block.setflags(False)
    return block


EAGER = EagerTrace()
traces.start(EAGER)


def ensure_compile_time_eval() -> AbstractContextManager[None]:
    """What is known is computed now in a `with` block, also while a function is traced; traced values may not be used in it.

        with ensure_compile_time_eval():
            n = int(jnp.sum(mask))                # a number for shapes, of a mask that is no traced value
    """
    return traces.use_trace(EAGER)
