"""Calls of Python functions when a program runs: pure_callback, io_callback, debug.callback and debug.print."""

from collections.abc import Callable, Sequence
from typing import Any

from distad import tree
from distad.control.callback import METHODS, io_call, pure_call, watch
from distad.core.lift import as_value
from distad.core.primitive import Primitive
from distad.lax.kind import kindly, whole_along, with_sharding
from distad.types import dtypes

# ---- the functions

def _flat(name: str, callback: Callable, args: tuple, kwargs: dict, out_tree) -> tuple[list, Callable]:
    """The operands, and the callback as function of blocks to a flat list."""
    leaves, structure = tree.flatten((args, kwargs))

    def function(*blocks):
        given, named = tree.unflatten(structure, blocks)
        outs, made = tree.flatten(callback(*given, **named))
        if made != out_tree:
            raise ValueError(f"{name}: the callback returned a value of structure {made}, and result_shape_dtypes has {out_tree}")
        return outs

    return [as_value(x, name) for x in leaves], function


def _bind(primitive: Primitive, callback: Callable, result_shape_dtypes: Any, args: tuple, kwargs: dict, sharding: Any,
          vmap_method: str | None) -> Any:
    name = primitive.name
    if vmap_method is not None and vmap_method not in METHODS:
        raise ValueError(f"{name}: vmap_method is one of {', '.join(METHODS)} or None, got {vmap_method!r}")
    structs, out_tree = tree.flatten(result_shape_dtypes)
    values, function = _flat(name, callback, args, kwargs, out_tree)
    values = [whole_along(x, range(x.ndim)) for x in values]
    outs = kindly(primitive, *values, function=function, levels=(), vmap_method=vmap_method,
                  structs=tuple((tuple(s.shape), dtypes.canonical(s.dtype)) for s in structs))
    wanted = [sharding if sharding is not None else getattr(s, 'sharding', None) for s in structs]
    return tree.unflatten(out_tree, [with_sharding(y, s) for y, s in zip(outs, wanted, strict=True)])


def pure_callback(callback: Callable, result_shape_dtypes: Any, *args: Any, sharding: Any = None, vmap_method: str | None = None,
                  **kwargs: Any) -> Any:
    """The results of a Python function of NumPy arrays, called when the program runs, by every rank.

    callback: a function without effects that gives the same on every rank for the same operands (nobody checks that); it is called
    as often as it pleases the compiler. result_shape_dtypes: a tree of `ShapeDtypeStruct` (or of anything with shape and dtype), what
    it returns. args, kwargs: trees of arrays; a split one is gathered first, an unreduced one refused. The results are the same on
    all ranks; where an operand varies in a shard_map, each rank calls with its own and the results vary. `sharding`, or that of the
    structs: where the results shall lie. vmap_method: 'sequential' calls for each element, 'expand_dims' and 'broadcast_all' once
    with the batch in front, of size 1 or of full size in what is not mapped. It has no derivative: wrap it in custom_jvp or custom_vjp.
    Communication: an all-gather for each split operand. Raises ValueError where the callback returns something else than announced;
    an exception in it ends the job.

        y = pure_callback(scipy.special.j0, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    """
    return _bind(pure_call, callback, result_shape_dtypes, args, kwargs, sharding, vmap_method)


def io_callback(callback: Callable, result_shape_dtypes: Any, *args: Any, sharding: Any = None, ordered: bool = False,
                **kwargs: Any) -> Any:
    """As `pure_callback`, for a function with effects: it is called exactly once each time the program comes to it, in order.

    Every rank calls it; what it returns has to be the same on all of them. `ordered` says what is so anyhow. Under vmap it is called
    for each element, one after the other.

        batch = io_callback(next_batch, jax.ShapeDtypeStruct((32, 28), 'float32'))
    """
    return _bind(io_call, callback, result_shape_dtypes, args, kwargs, sharding, 'sequential')


def debug_callback(callback: Callable, *args: Any, ordered: bool = False, ranks: str | Sequence[int] | None = None,
                   **kwargs: Any) -> None:
    """Call a Python function with NumPy arrays when the program comes to it; what it returns is not looked at.

    args, kwargs: trees of arrays. A value that is the same on all ranks is handed on by the first one; of a split, unreduced or
    varying one each rank hands on its own block, and nothing is communicated. ranks: 'all', or numbers of ranks, in place of that.
    Under vmap it is called for each element, under grad with the values of the forward pass. Calls keep their order; `ordered` is
    accepted.
    An exception in the callback ends the job.

        debug.callback(lambda loss: history.append(float(loss)), loss)
    """
    _watch(lambda rank, *given, **named: callback(*given, **named), args, kwargs, ranks)


def _watch(callback: Callable, args: tuple, kwargs: dict, ranks: str | Sequence[int] | None) -> None:
    """Bind a callback that is told its rank first."""
    if isinstance(ranks, str) and ranks != 'all':
        raise ValueError(f"debug: ranks is 'all', a sequence of numbers, or None, got {ranks!r}")
    leaves, structure = tree.flatten((args, kwargs))

    def function(rank, *blocks):
        given, named = tree.unflatten(structure, blocks)
        callback(rank, *given, **named)

    watch(*(as_value(x, 'debug') for x in leaves), function=function, levels=(),
          ranks=ranks if ranks is None or ranks == 'all' else tuple(map(int, ranks)))


def debug_print(fmt: str, *args: Any, ordered: bool = False, ranks: str | Sequence[int] | None = None, **kwargs: Any) -> None:
    """Print values when the program comes to them: `fmt.format(*args, **kwargs)`, a line at once. See `callback` for what is shown.

    Where several ranks print, each line says of which it is.

        debug.print('loss {loss:.3f} after step {}', step, loss=loss)
    """
    def show(rank, *given, **named):
        text = fmt.format(*given, **named)
        print(text if rank is None else f"[rank {rank}] {text}", flush=True)

    _watch(show, args, kwargs, ranks)


__all__ = ['debug_callback', 'debug_print', 'io_callback', 'pure_callback']
