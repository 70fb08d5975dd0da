"""ShapeDtypeStruct: what a user hands, or gets, in place of an array of which only the type matters."""

from typing import Any

from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.sharding import NamedSharding
from distad.types.typed import Typed


class ShapeDtypeStruct(Typed):
    """The shape, dtype and sharding of an array that need not exist."""

    __slots__ = ('type',)

    def __init__(self, shape: tuple[int, ...], dtype: Any, *, sharding: NamedSharding | None = None, weak_type: bool = False):
        self.type = ArrayType(tuple(shape), dtypes.canonical(dtype), sharding=sharding, weak_type=weak_type)

    @property
    def sharding(self) -> NamedSharding | None:
        return None if self.type.mesh.empty else self.type.sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        rest = '' if self.sharding is None else f", sharding={self.sharding}"
        rest += ', weak_type=True' if self.weak_type else ''
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={dtypes.name(self.dtype)}{rest})"


def struct_of(t: ArrayType) -> ShapeDtypeStruct:
    """The struct that says what a type says."""
    return ShapeDtypeStruct(t.shape, t.dtype, sharding=None if t.mesh.empty else t.sharding, weak_type=t.weak_type)
