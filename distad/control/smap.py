"""smap: shard_map over one axis, in the words of vmap."""

import functools
from collections.abc import Callable
from typing import Any

from distad import tree
from distad.control.shard_map import Infer, shard_map
from distad.types.spec import P


def smap(f: Callable | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: str) -> Callable:
    """shard_map over one axis: `in_axes` and `out_axes` say along which dimension each array is split (None: along none).

    Communication: only what `f` asks for. Without `f` a decorator.

        smap(jnp.sin, in_axes=0, out_axes=0, axis_name='X')(x)
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if not isinstance(axis_name, str):
        raise TypeError(f"smap: axis_name is one mesh axis, got {axis_name!r}")

    def specs(axes: Any) -> Any:
        if axes is Infer:
            return axes
        return tree.map(lambda a: P() if a is None else P(*([None] * a), axis_name), axes, is_leaf=lambda a: a is None)

    return shard_map(f, in_specs=specs(in_axes), out_specs=specs(out_axes), axis_names={axis_name})
