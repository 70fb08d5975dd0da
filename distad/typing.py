"""Types for annotations, under the names of jax.typing."""

from distad.numpy.promotion import ArrayLike
from distad.numpy.scalars import DTypeLike

__all__ = ['ArrayLike', 'DTypeLike']
