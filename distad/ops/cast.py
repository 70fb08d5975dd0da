"""A value in the states of a type: reshard along explicit axes, casts along manual ones."""

from distad.core.value import typeof
from distad.ops.casts import cast_manual
from distad.ops.reshard import reshard
from distad.types.array_type import ArrayType


def cast(x, want: ArrayType):
    """One value brought to a type of its shape and dtype; itself when nothing changes."""
    t = typeof(x)
    if t == want:
        return x
    if want.mesh.manual_axes:
        if t.mesh.empty:                                   # a value that was never placed is the same on every rank
            x = reshard(x, to=(t.update(mesh=want.mesh),))[0]
        x = cast_manual(x, want)
        if typeof(x) == want:
            return x
    return reshard(x, to=(want,))[0]
