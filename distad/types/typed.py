"""What is said of anything that has a type: shape, dtype and the numbers that follow from them."""

import numpy as np

from distad.types.array_type import ArrayType


class Typed:
    """A thing with a `type`: an array, a tracer, or a description of one."""

    __slots__ = ()
    type: ArrayType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return self.type.ndim

    @property
    def size(self) -> int:
        return self.type.size

    @property
    def weak_type(self) -> bool:
        return self.type.weak_type
