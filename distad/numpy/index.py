"""Reading an index as NumPy does: what it takes of each dimension, and where the dimensions of the result come from.

An index is made of slices, None, `...`, True and False, integers, arrays of integers and masks. Arrays of integers, and with them
all integers, name places together: they broadcast to one shape, whose dimensions stand where the first of them is, or in front if
others come between. A mask stands for the arrays of places where it is true, so it has to be known. Integers alone pick from their
dimensions, which go.
"""

import builtins
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from distad.core.lift import read
from distad.core.value import Value, typeof
from distad.errors import NonConcreteBooleanIndexError, ShardingTypeError
from distad.lax.indexing import Indices, wrapped
from distad.numpy.known import known
from distad.types.array_type import ArrayType

Places = Indices


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What an index takes of one dimension: a range with a positive step, perhaps turned round, or one number of it."""

    start: int
    limit: int
    stride: int = 1
    turned: bool = False
    dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An index, read for an array of some type.

    `picks`: for each dimension what is taken of it; dimensions that are looked up in are taken whole. `places`: for each of these
    the positions, negative ones counted from the end; they broadcast to `block`. `layout`: where each dimension of the result comes
    from: a dimension of the array, 'place' (the dimensions of the block, in their order), or True or False for a new one of size 1
    or 0.
    """

    picks: tuple[Pick, ...]
    places: dict[int, Places]
    block: tuple[int, ...]
    layout: tuple[int | str | bool, ...]

    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        block = iter(self.block)
        return tuple(next(block) if o == 'place' else int(o) if isinstance(o, bool) else self.count(o) for o in self.layout)

    def count(self, d: int) -> int:
        """How many elements are taken of a dimension."""
        p = self.picks[d]
        return -(-(p.limit - p.start) // p.stride)


def read_index(t: ArrayType, index: Any, *, strict: bool = True) -> Reading:
    """Read an index. If `strict`, a number out of bounds that Python knows is an error; else it is a place like others."""
    items = [part for item in (index if isinstance(index, tuple) else (index,)) for part in _parts(t, item)]
    items = _with_all_dimensions(t, items)
    arrays = any(_ndim(item) for item in items if _is_place(item))
    picks: list[Pick] = []
    places: dict[int, Places] = {}
    layout: list[Any] = []
    shapes: list[tuple[int, ...]] = []
    first = None
    for item in items:
        d = len(picks)
        if item is None:
            layout.append(True)
        elif isinstance(item, builtins.slice):
            picks.append(_slice(item, t.shape[d]))
            layout.append(d)
        elif item is not Ellipsis:
            first = len(layout) if first is None else first
            if isinstance(item, bool):
                shapes.append((int(item),))
            elif isinstance(item, int) and not arrays and not _elsewhere(t, d) and (strict or -t.shape[d] <= item < t.shape[d]):
                picks.append(_number(t, d, item))
            else:
                if isinstance(item, int) and strict:
                    _number(t, d, item)
                picks.append(Pick(start=0, limit=t.shape[d]))
                places[d] = wrapped('indexing', item, t.shape[d])
                shapes.append(np.shape(places[d]))
    block = _together(shapes)
    if first is not None:
        at = first if _neighbours(items) else 0
        # without arrays the one dimension of True and False is new
        layout[at:at] = ['place'] * len(block) if arrays else [bool(n) for n in block]
    return Reading(picks=tuple(picks), places=places, block=block if arrays else (), layout=tuple(layout))


def _parts(t: ArrayType, item: Any) -> list:
    """An item of an index as Python objects and arrays of integers; a mask gives one for each of its dimensions."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return [bool(item) if isinstance(item, (bool, np.bool_)) else item]
    if isinstance(item, builtins.slice):
        return [_known_slice(item)]
    if isinstance(item, (list, tuple)):
        item = np.asarray(item) if len(item) else np.zeros(0, np.int32)
    if isinstance(item, (np.ndarray, Value)) and item.dtype == bool:
        return [_Mask(shape=item.shape, places=_nonzero(t, item))]
    if isinstance(item, Value) or isinstance(item, np.ndarray) and item.ndim:
        if item.dtype.kind in 'iu':
            return [item]
        raise TypeError(f"an index of {t} is made of integers, truth values, slices, None and ..., got an array of type "
                        f"{typeof(item)}")
    try:
        return [int(operator.index(item))]
    except TypeError:
        raise TypeError(f"an index of {t} is made of integers, slices, None and ..., got {item!r} of type "
                        f"{type(item).__name__}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mask:
    shape: tuple[int, ...]
    places: tuple[np.ndarray, ...]


def _nonzero(t: ArrayType, mask: Any) -> tuple[np.ndarray, ...]:
    if isinstance(mask, Value):
        array = known(mask)
        if array is None:
            raise NonConcreteBooleanIndexError(
                f"an index of {t} is a mask of type {mask.type} that is traced: how many elements it picks is not known while the "
                "program is traced, and shapes must be. Use jnp.where(mask, x, other), which keeps the shape, or "
                "jnp.nonzero(mask, size=n).")
        split = array.type
        if split.unreduced or split.varying or any(split.partitions):
            raise ShardingTypeError(f"an index of {t} is a mask of type {split}, of which each rank knows a part: how many "
                                    "elements it picks is not known. Gather it first: reshard(mask, P()), or use jnp.where.")
        mask = read(array)
    return np.nonzero(mask) if mask.ndim else (np.zeros(int(mask), np.int32),)


def _known_slice(item: builtins.slice) -> builtins.slice:
    for bound in (item.start, item.stop, item.step):
        if isinstance(bound, Value) and known(bound) is None:
            raise IndexError(f"the bounds of a slice decide shapes, so Python has to know them; got one of type {bound.type} that "
                             "is traced. Use lax.dynamic_slice_in_dim(x, start, size), whose start may be traced.")
    return item


def _is_place(item: Any) -> bool:
    return not (item is None or item is Ellipsis or isinstance(item, (bool, builtins.slice)))


def _ndim(item: Any) -> int:
    return getattr(item, 'ndim', 0)


def _with_all_dimensions(t: ArrayType, items: list) -> list:
    """The items with masks as arrays and slices for dimensions not named; the ellipsis stays, for it parts integers."""
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    consumed = sum(len(i.shape) if isinstance(i, _Mask) else _is_place(i) or isinstance(i, builtins.slice) for i in items)
    if consumed > t.ndim:
        raise IndexError(f"too many indices: {t} has {t.ndim} dimensions, but {consumed} were indexed")
    at = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
    items = [*items[:at], *([Ellipsis] if at < len(items) else []), *[builtins.slice(None)] * (t.ndim - consumed), *items[at + 1:]]
    found: list = []
    d = 0
    for item in items:
        if not isinstance(item, _Mask):
            found.append(item)
            d += _is_place(item) or isinstance(item, builtins.slice)
            continue
        if item.shape != t.shape[d:d + len(item.shape)]:
            raise IndexError(f"boolean index did not match shape of indexed array: got a mask of shape {item.shape} for dimensions "
                             f"of sizes {t.shape[d:d + len(item.shape)]} of {t}")
        found.extend(item.places if item.shape else [bool(item.places[0].size)])
        d += len(item.shape)
    return found


def _neighbours(items: list) -> bool:
    """Whether all integers, arrays and truth values stand side by side."""
    at = [k for k, i in enumerate(items) if _is_place(i) or isinstance(i, bool)]
    return at[-1] - at[0] + 1 == len(at)


def _together(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together with shapes "
                         f"{' '.join(map(str, shapes))}") from None


def _elsewhere(t: ArrayType, d: int) -> bool:
    """Whether one rank alone has a certain element of a dimension."""
    return t.mesh.axis_size(t.partitions[d]) > 1


def _slice(item: builtins.slice, n: int) -> Pick:
    if item.step is not None and not operator.index(item.step):
        raise ValueError('slice step cannot be zero')
    start, stop, step = item.indices(n)
    count = len(range(start, stop, step))
    if step > 0:
        return Pick(start=start, limit=max(start, stop), stride=step)
    last = start + (count - 1) * step
    return Pick(start=last if count else 0, limit=start + 1 if count else 0, stride=-step, turned=True)


def _number(t: ArrayType, d: int, item: int) -> Pick:
    n = t.shape[d]
    if not -n <= item < n:
        raise IndexError(f"index {item} is out of bounds for dimension {d} of {t}")
    return Pick(start=item % n, limit=item % n + 1, dropped=True)
