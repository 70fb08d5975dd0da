"""reshape: row-major order is kept, so what matters is which runs of it a rank holds.

Sizes before and after are matched in groups of equal product, as in (8, 4, 3) -> (32, 3): 8 and 4 with 32, 3 with 3. Within a
group, mesh axes cut the row-major order into equal runs as long as they fill its dimensions from the left: all dimensions
before the last split one are split down to single indices. Then each rank can reshape its own block, and the axes come to lie
on the new dimensions from the left again. That is the whole rule, and it is its own inverse. Where data has to move, the
function above reshards first or afterwards; `meeting` finds the axes on which operand and result can agree.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from distad.core.primitive import BY_LINEARITY, Primitive
from distad.errors import ShardingTypeError
from distad.ops.broadcast import Dims
from distad.ops.cast import cast
from distad.types.array_type import ArrayType, Partitions
from distad.types.inference import STRUCTURAL
from distad.types.mesh import AbstractMesh

Group = tuple[tuple[int, ...], tuple[int, ...]]


def groups(old: Dims, new: Dims) -> list[Group]:
    """The finest cut of two shapes into runs of equal product. Dimensions of size 1 belong to no group."""
    a = tuple(d for d, n in enumerate(old) if n != 1)
    b = tuple(d for d, n in enumerate(new) if n != 1)
    if not math.prod(old):                                   # no elements: sizes say nothing
        return [(a, b)]
    found, i, j = [], 0, 0
    while i < len(a):
        left, right = [a[i]], [b[j]]
        m, n = old[a[i]], new[b[j]]
        i, j = i + 1, j + 1
        while m != n:
            if m < n:
                m, left, i = m * old[a[i]], [*left, a[i]], i + 1
            else:
                n, right, j = n * new[b[j]], [*right, b[j]], j + 1
        found.append((tuple(left), tuple(right)))
    return found


def leading_axes(t: ArrayType, dims: Sequence[int]) -> tuple[str, ...]:
    """The axes that cut the row-major order of these dimensions into runs; axes further right do not."""
    axes: tuple[str, ...] = ()
    for d in dims:
        axes += t.partitions[d]
        if t.local_shape[d] != 1:
            break
    return axes


def laid_out(axes: Sequence[str], sizes: Sequence[int], mesh: AbstractMesh) -> list[tuple[str, ...]] | None:
    """Axes on dimensions of these sizes, filled from the left; None where a size does not divide."""
    left = list(axes)
    out = []
    for i, size in enumerate(sizes):
        mine: list[str] = []
        while left and (size > 1 or i == len(sizes) - 1):
            n = mesh.axis_size(left[0])
            if size % n:
                return None
            size //= n
            mine.append(left.pop(0))
        out.append(tuple(mine))
    return None if left else out


def reshaped(x: ArrayType, new_sizes: Dims) -> Partitions | None:
    """How the result is split when every rank reshapes its own block; None where the blocks are no blocks of the result."""
    out: list[tuple[str, ...]] = [()] * len(new_sizes)
    for old, new in groups(x.shape, new_sizes):
        axes = leading_axes(x, old)
        laid = laid_out(axes, [new_sizes[d] for d in new], x.mesh)
        if laid is None or sum(len(x.partitions[d]) for d in old) != len(axes):
            return None
        for d, mine in zip(new, laid, strict=True):
            out[d] = mine
    return tuple(out)


def meeting(x: ArrayType, sizes: Dims, axes_of: Callable[[Group], tuple[str, ...]]) -> Partitions:
    """Partitions of `x` that each rank can reshape to `sizes`: of `axes_of(group)`, as many axes as divide on both sides."""
    out: list[tuple[str, ...]] = [()] * x.ndim
    for old, new in groups(x.shape, sizes):
        before, after = [x.shape[d] for d in old], [sizes[d] for d in new]
        axes = axes_of((old, new))
        while laid_out(axes, before, x.mesh) is None or laid_out(axes, after, x.mesh) is None:
            axes = axes[:-1]
        for d, mine in zip(old, laid_out(axes, before, x.mesh), strict=True):
            out[d] = mine
    return tuple(out)


def _type(x: ArrayType, *, new_sizes: Dims) -> ArrayType:
    if math.prod(new_sizes) != x.size:
        raise TypeError(f"reshape: {x} has {x.size} elements, {new_sizes} has {math.prod(new_sizes)}")
    partitions = reshaped(x, new_sizes) if any(x.partitions) else ((),) * len(new_sizes)
    if partitions is None:
        raise ShardingTypeError(
            f"reshape of {x} to {new_sizes}: the blocks of its split dimensions are not blocks of the result. Give "
            "out_sharding=, or gather the dimension with reshard first.")
    return x.update(shape=new_sizes, partitions=partitions)


def _transpose(ct, x, *, new_sizes):
    # the way back is the same but for axes of size 1, which may lie on another dimension
    y = reshape(ct, new_sizes=x.type.shape)
    return cast(y, y.type.update(partitions=x.type.partitions))


def _batch(axis, values, dims, *, new_sizes: Dims):
    return reshape(axis.front(values[0], dims[0]), new_sizes=(axis.size, *new_sizes)), 0


reshape = Primitive(
    'reshape',
    type=_type,
    impl=lambda x, *, out, new_sizes: np.reshape(x, out.shape),
    jvp=BY_LINEARITY,
    transpose=(_transpose,),
    batch=_batch,
    linearity=STRUCTURAL)
