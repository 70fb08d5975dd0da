"""Example calls: what operands a primitive is tried on, and what NumPy says the result is."""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from distad.core.value import typeof
from distad.types import dtypes
from distad.types.array_type import ArrayType
from distad.types.mesh import AbstractMesh

# Sizes of dimensions: all different, and split by axes of 2, 3 and 4 ranks.
M, N, K = 12, 24, 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An array of a shape and dtype with random elements between two bounds; or, given a `number`, that literal."""

    shape: tuple[int, ...] = ()
    dtype: np.dtype = np.dtype(np.float64)
    low: float = -2.0
    high: float = 2.0
    number: Any = None

    @property
    def literal(self) -> bool:
        return self.number is not None

    @property
    def type(self) -> ArrayType:
        return typeof(self.number) if self.literal else ArrayType(self.shape, self.dtype)

    @property
    def active(self) -> bool:
        """Whether there are derivatives with respect to it."""
        return not self.literal and dtypes.is_float(self.dtype)

    def value(self, seed: int) -> Any:
        return self.number if self.literal else random_value(self.shape, self.dtype, seed, self.low, self.high)


@lru_cache(maxsize=2048)
def random_value(shape: tuple[int, ...], dtype: np.dtype, seed: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """Random elements, the same on every rank; a read-only array."""
    x = _random(shape, dtype, seed, low, high)
    x.flags.writeable = False
    return x


def _random(shape: tuple[int, ...], dtype: np.dtype, seed: int, low: float, high: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == dtypes.KEY:
        return rng.integers(0, 2**32, (*shape, 2), np.uint32).view(dtypes.KEY)[..., 0]
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in 'iu':
        return rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    x = rng.uniform(low, high, shape)
    return np.asarray(x + 1j * rng.uniform(low, high, shape) if dtype.kind == 'c' else x).astype(dtype)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    """float64, the dtype in which derivatives are compared with differences"""
    return Operand(shape=shape, low=low, high=high)


def f32(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    return Operand(shape=shape, dtype=np.dtype(np.float32), low=low, high=high)


def bf16(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    return Operand(shape=shape, dtype=np.dtype(ml_dtypes.bfloat16), low=low, high=high)


def f16(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    return Operand(shape=shape, dtype=np.dtype(np.float16), low=low, high=high)


def c(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    return Operand(shape=shape, dtype=np.dtype(np.complex128), low=low, high=high)


def i32(*shape: int, low: int = -9, high: int = 9) -> Operand:
    return Operand(shape=shape, dtype=np.dtype(np.int32), low=low, high=high)


def u32(*shape: int, low: int = 0, high: int = 9) -> Operand:
    return Operand(shape=shape, dtype=np.dtype(np.uint32), low=low, high=high)


def boolean(*shape: int) -> Operand:
    return Operand(shape=shape, dtype=np.dtype(bool))


def key(*shape: int) -> Operand:
    return Operand(shape=shape, dtype=dtypes.KEY)


def number(x: Any) -> Operand:
    """A literal: a NumPy number."""
    return Operand(number=x)


Types = tuple[ArrayType, ...]
# Parameters that speak of types: all choices of them for operands of these types on this mesh. On the empty mesh the first
# choice is the one that the reference is computed with; all choices mean the same value.
ParamsOf = Callable[[Types, AbstractMesh], Iterable[dict]]


@lru_cache(maxsize=2048)
def _seed(operands: tuple[Operand, ...]) -> int:
    return zlib.crc32(' '.join(f'{x.type} {x.low} {x.high}' for x in operands).encode())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """Operands and parameters, and the NumPy function `reference(*operands)` of the same result or list of results.

    `orders`: of derivatives that exist (0, 1 or 2); `forward`, `transposes`: whether there is forward and reverse mode;
    `communicates`: whether the call may send; `tolerance`: relative error in float64; `places`: how many placements are tried
    (half of them on a mesh of one axis, or beside a manual one); `refuses`: for which types derivatives are refused, by
    NotImplementedError; `stacked`: the reference is a function of stacks (`exchanges`); `untracked`: over axes that types do not
    tell of.
    """

    operands: tuple[Operand, ...]
    params: dict | ParamsOf
    reference: Callable[..., Any]
    orders: int = 2
    forward: bool = True
    transposes: bool = True
    communicates: bool = False
    tolerance: float = 1e-9
    places: int = 6
    refuses: Callable[[Types], bool] = lambda types: False
    stacked: bool = False
    untracked: bool = False

    @property
    def types(self) -> Types:
        return tuple(x.type for x in self.operands)

    @property
    def seed(self) -> int:
        return _seed(self.operands)

    def value(self, i: int, version: int) -> np.ndarray:
        """A value of an operand. Its versions are those that ranks hold where it varies."""
        return self.operands[i].value(self.seed + i + 7919 * version)

    def direction(self, i: int, order: int, version: int) -> np.ndarray | None:
        """The tangent of an operand for the first or second derivative; None if it has none."""
        x = self.operands[i]
        return random_value(x.shape, x.dtype, self.seed + 100 * order + i + 7919 * version) if x.active else None

    def cotangent(self, i: int, t: ArrayType, version: int) -> np.ndarray | None:
        """The cotangent of a result of type `t`."""
        return random_value(t.shape, t.dtype, self.seed + 1000 + i + 7919 * version) if dtypes.is_float(t.dtype) else None

    def params_on(self, types: Types, mesh: AbstractMesh) -> list[dict]:
        """Raises what staging a parameter that is a program raises: so types are rejected too."""
        return [self.params] if isinstance(self.params, dict) else list(self.params(types, mesh))

    def but(self, **fields: Any) -> 'Call':
        return replace(self, **fields)


def call(reference: Callable[..., Any], *operands: Operand, **params: Any) -> Call:
    """A call with parameters that hold for all placements."""
    return Call(operands=operands, params=params, reference=reference)


def call_on(params: ParamsOf, reference: Callable[..., Any], *operands: Operand) -> Call:
    """A call with parameters that depend on types or mesh."""
    return Call(operands=operands, params=params, reference=reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A primitive that never stands alone: `call` is a call of another one whose derivative has it."""

    by: str
    why: str


Table = dict[str, list[Call] | Elsewhere]
