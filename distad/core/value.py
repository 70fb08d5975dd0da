"""What programs compute with: arrays and tracers are both a `Value` with a type."""

from functools import lru_cache

import numpy as np

from distad.config import config
from distad.errors import UnexpectedTracerError
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.mesh import Mesh
from distad.types.typed import Typed


class Value(Typed):
    """A value with a type. The numpy layer gives it operators and methods (`distad.numpy.methods`)."""

    __slots__ = ('__weakref__',)
    __array_priority__ = 1000

    @property
    def itemsize(self) -> int:
        return self.type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.type.size * self.type.dtype.itemsize

    @property
    def aval(self) -> ArrayType:
        return self.type

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError('len() of unsized object')
        return self.shape[0]


class Zero:
    """A tangent or cotangent known to be zero, of a type but without an array."""

    __slots__ = ('type',)

    def __init__(self, type: ArrayType):
        self.type = type

    def __repr__(self) -> str:
        return f"Zero({self.type})"


class Linear:
    """Stands for an operand in a transpose rule: it has a type and no value."""

    __slots__ = ('type',)

    def __init__(self, type: ArrayType):
        self.type = type

    @property
    def aval(self) -> ArrayType:
        return self.type


def typeof(x) -> ArrayType:
    """The type of a value: of an array or tracer its own, of a NumPy array or Python number one without a mesh."""
    t = getattr(x, 'type', None)
    if t.__class__ is ArrayType:
        return t
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return _type_of_number(x.dtype if isinstance(x, np.generic) else x.__class__, config.enable_x64)
    if isinstance(x, np.ndarray):
        return ArrayType(x.shape, dtypes.canonical(x.dtype))
    if isinstance(x, ArrayType):
        return x
    raise TypeError(f"expected an array, got {x!r} of Python type {type(x).__name__}")


@lru_cache(maxsize=256)
def _type_of_number(kind: np.dtype | type, x64: bool) -> ArrayType:
    """The type of numbers of a dtype, or of a Python class. It is asked for several times in every operation."""
    if isinstance(kind, np.dtype):
        return ArrayType((), dtypes.canonical(kind))
    dtype, weak = dtypes.of_scalar(next(c for c in (bool, int, float, complex) if issubclass(kind, c))(0))
    return ArrayType((), dtype, weak_type=weak)


def is_scalar(x) -> bool:
    """A number without a place: takes any state, and becomes a literal in a jaxpr."""
    return isinstance(x, (bool, int, float, complex, np.generic))


class Array(Value):
    """An array: a type, the mesh it lies on, and this rank's block of it.

    `block` is this rank's part as NumPy array (read-only), or None on a rank outside the mesh. `mesh` is None for a value
    that was never placed; every rank then holds the whole.
    """

    __slots__ = ('type', 'mesh', 'block')

    def __init__(self, type: ArrayType, mesh: Mesh | None, block: np.ndarray | None):
        self.type = type
        self.mesh = mesh
        self.block = block

    def is_deleted(self) -> bool:
        """Whether the array was donated or deleted: then it has a type, and no value."""
        return False

    def delete(self) -> None:
        """Give up the memory now, though there are references to the array. Using it later is a RuntimeError."""
        delete(self, 'delete() was called')


class Deleted(Array):
    """What an array becomes when its memory is given up. Its slot for the block holds what became of it."""

    __slots__ = ()

    @property
    def block(self) -> np.ndarray:
        raise RuntimeError(f"Array has been deleted with shape={self.type}: {Array.block.__get__(self)}.")

    def is_deleted(self) -> bool:
        return True

    def delete(self) -> None:
        pass


def delete(x: Array, fate: object) -> None:
    """Let go of the memory of an array; `fate`, as text, says why."""
    x.block = fate
    x.__class__ = Deleted


def check_concrete(values, what: str) -> None:
    """Tracers that outlive their transformation are the one way to smuggle a value past the types."""
    for x in values:
        if isinstance(x, Value) and not isinstance(x, Array):
            raise UnexpectedTracerError(
                f"{what} got a traced value of type {x.type} outside of the transformation that made it. Return it from "
                "the transformed function instead of storing it.")
