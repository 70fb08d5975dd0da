"""Windows along split dimensions: each rank gets from its neighbours the elements that its windows reach beyond its block.

A split dimension becomes (ranks, rest). Where each rank's windows begin in its own block, what they lack is at most one block away:
the last elements of the block before and the first ones of the block after, one message each, of the size of the border. The ends of
the whole dimension get padding instead. These are ordinary equations, so derivatives send borders back and add them up.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from distad.core.value import typeof
from distad.lax import slicing
from distad.lax.cumulative import in_parts, ranks_along
from distad.lax.kind import kindly, whole_along
from distad.lax.reduction import numbers_along
from distad.ops.basic import zero_scalar
from distad.ops.cast import cast
from distad.ops.compare import eq, select_n
from distad.ops.reshape import reshape
from distad.ops.roll import roll
from distad.ops.strided import Along, dilated
from distad.types.array_type import ArrayType


def bordered(x, alongs: Mapping[int, Along], fill):
    """An array whose blocks hold all that their windows reach.

    `alongs`: the windows along some of its dimensions. `fill`: the element that pads.
    Returns the array, in which a dimension of ranks stands before each split one; the windows along the rest, by the dimensions that x
    had; and the dimensions that were split. Others are gathered: where blocks and windows do not begin together, or where a border is
    larger than a block.
    """
    t, after, borders = typeof(x), dict(alongs), {}
    for d, along in alongs.items():
        ranks = ranks_along(t, d)
        if not t.partitions[d]:
            continue
        border = _border(along, t.shape[d], ranks) if ranks > 1 else None
        if border is None:
            x = whole_along(x, (d,))
        else:
            borders[d] = border
    for d in sorted(borders, reverse=True):
        x, after[d] = _with_border(x, d, alongs[d], *borders[d], fill)
    return x, after, tuple(sorted(borders))


def _border(along: Along, size: int, ranks: int) -> tuple[int, int] | None:
    """How many elements are needed from the block before and from the one after; None where these do not have them."""
    count, step, low = along.count(size), along.base_dilation, along.padding[0]
    if not count or count % ranks or count * along.stride != size * step:
        return None
    block = size // ranks
    before = low // step
    after = (along.extent(count // ranks) - 1 - low) // step - block + 1
    return (max(before, 0), max(after, 0)) if max(before, after) <= block else None


def _with_border(x, d: int, along: Along, before: int, after: int, fill):
    ranks, size = ranks_along(typeof(x), d), typeof(x).shape[d]
    block, step = size // ranks, along.base_dilation
    x = in_parts(x, d)
    parts = [x]
    if before:
        parts.insert(0, _from_neighbour(slicing.slice_in_dim(x, block - before, block, axis=d + 1), d, 1, fill))
    if after:
        parts.append(_from_neighbour(slicing.slice_in_dim(x, 0, after, axis=d + 1), d, -1, fill))
    low = along.padding[0] - before * step
    high = along.extent(along.count(size) // ranks) - low - dilated(before + block + after, step)
    return slicing.concatenate(parts, d + 1), replace(along, padding=(low, high))


def _from_neighbour(x, d: int, step: int, fill):
    """What the rank before (step 1) or after (-1) has; on the first or last rank padding."""
    y = roll(x, shift=step, axis=d)
    end = np.int32(0 if step > 0 else typeof(x).shape[d] - 1)
    at_end = kindly(eq, numbers_along(x, d, np.dtype(np.int32)), end)
    return kindly(select_n, at_end, y, fill if fill else zero_scalar(typeof(y)))


def together(y, goal: ArrayType):
    """The result on blocks as a whole: dimensions of ranks are merged with those behind them."""
    return cast(y if typeof(y).shape == goal.shape else reshape(y, new_sizes=goal.shape), goal)
