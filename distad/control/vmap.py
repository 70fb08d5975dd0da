"""vmap: a function written for one example, run on a batch of them."""

from collections.abc import Callable, Hashable
from contextlib import nullcontext
from functools import wraps
from typing import Any

from distad import tree
from distad.core.batching import named_axis
from distad.core.lift import as_value
from distad.core.trace import current_trace, use_trace
from distad.core.value import Value, is_scalar, typeof
from distad.ops.broadcast import reduce_sum
from distad.source import boundary
from distad.transforms.batch import AxisData, BatchTrace, check_free
from distad.types.mesh import EMPTY_MESH


def vmap(fun: Callable, in_axes: Any = 0, out_axes: Any = 0, axis_name: Hashable = None, axis_size: int | None = None,
         spmd_axis_name: Hashable = None, sum_match: bool = False) -> Callable:
    """The function on batches: `fun` sees one element of each mapped argument, and runs once.

    in_axes: for each positional argument (or all of them) the dimension to map over, an int that may count from the end, or None for
    an argument that `fun` gets as it is; or a tree of these that is a prefix of the argument. Keyword arguments are mapped over
    dimension 0. out_axes: where the results get the batch, an int, or None for a result that does not depend on it, or a tree
    prefix; with `sum_match` a result that does is summed. axis_name: a name for collectives over the batch (`lax.psum(x, name)`).
    axis_size: the size of the batch, needed where no argument is mapped.

    The mapped dimension may be split over mesh axes, alike in all mapped arguments: the results are split likewise, and these mesh
    axes are out of sight inside (`spmd_axis_name`, if given, has to name them). Communication: none but that of `fun`.
    Raises ValueError for arguments whose mapped sizes differ, naming each; NotImplementedError with the name of a primitive that has
    no batching rule.

        per_example = vmap(grad(loss), in_axes=(None, 0, 0))(w, xs, ys)
    """
    _check_axes('in_axes', in_axes)
    _check_axes('out_axes', out_axes)
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes

    @boundary
    @wraps(fun)
    def mapped(*args, **kwargs):
        leaves, structure, places, labels = _arguments(in_axes, args, kwargs)
        axis = _axis(leaves, places, labels, axis_name, axis_size, spmd_axis_name)
        trace = BatchTrace(current_trace(), axis)
        with use_trace(trace.inner):
            inside = [_entering(trace, x, d, label) for x, d, label in zip(leaves, places, labels, strict=True)]
        positional, named = tree.unflatten(structure, inside)
        rest = iter(positional)
        positional = [_as_it_is(trace, x, f"argument {i}") if _untouched(in_axes, i) else next(rest) for i, x in enumerate(args)]
        with use_trace(trace), named_axis(axis_name, axis.size) if axis_name is not None else nullcontext():
            out = fun(*positional, **named)
        outs, out_structure = tree.flatten(out)
        targets = tree.broadcast_prefix(out_axes, out, is_leaf=lambda x: x is None, what='the result')
        if len(targets) != len(outs):
            raise ValueError(f"vmap: out_axes {out_axes} does not fit a result of structure {out_structure}")
        with use_trace(trace.inner):
            return tree.unflatten(out_structure, [_leaving(trace, y, to, sum_match) for y, to in zip(outs, targets, strict=True)])

    return mapped


def _check_axes(what: str, axes: Any) -> None:
    """Axes are ints and None, in tuples (or containers inside of them)."""
    if axes is None or isinstance(axes, int) and not isinstance(axes, bool):
        return
    if what == 'in_axes' and not isinstance(axes, (tuple, list)):
        raise TypeError(f"vmap: in_axes is an int, None, or a tuple with an entry for each positional argument, got {axes!r}")
    for leaf in tree.leaves(axes):
        if isinstance(leaf, bool) or not isinstance(leaf, int):
            raise TypeError(f"vmap: {what} holds ints and None, got {leaf!r} in {axes!r}")


def _untouched(in_axes: Any, i: int) -> bool:
    """Whether a positional argument is handed on as it is, whatever it is."""
    return in_axes is None or isinstance(in_axes, tuple) and in_axes[i] is None


def _arguments(in_axes: Any, args: tuple, kwargs: dict) -> tuple[list, Any, list[int | None], list[str]]:
    """The leaves of the mapped arguments, their structure, the dimension of each that is mapped, and how to call it."""
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(f"vmap: in_axes has {len(in_axes)} entries, {in_axes}, and the function got {len(args)} positional arguments. "
                         "Give one entry for each; keyword arguments are mapped over dimension 0.")
    at = [i for i in range(len(args)) if not _untouched(in_axes, i)]
    axes = [in_axes[i] if isinstance(in_axes, tuple) else in_axes for i in at]
    dynamic = ([args[i] for i in at], kwargs)
    found, structure = tree.flatten_with_path(dynamic)
    try:
        places = tree.broadcast_prefix((axes, dict.fromkeys(kwargs, 0)), dynamic, is_leaf=lambda x: x is None, what='the arguments')
    except ValueError as error:
        raise ValueError(f"vmap: in_axes {in_axes} does not fit the arguments: {error}") from None
    labels = []
    for path, _ in found:
        which = f"argument {at[path[1].idx]}" if path[0].idx == 0 else f"keyword argument {path[1].key!r}"
        labels.append(which + tree.keystr(path[2:]))
    return [x for _, x in found], structure, places, labels


def _axis(leaves: list, places: list[int | None], labels: list[str], name: Hashable, size: int | None,
          spmd_axis_name: Hashable) -> AxisData:
    """The mapped axis, on whose size and place all mapped arguments have to agree."""
    sizes: dict[str, int] = {} if size is None else {'axis_size': size}
    splits: dict[str, tuple[str, ...]] = {}
    mesh = EMPTY_MESH
    for i, (x, d, label) in enumerate(zip(leaves, places, labels, strict=True)):
        if d is None:
            continue
        x = leaves[i] = as_value(x, f"vmap, {label},")
        t = typeof(x)
        if not -t.ndim <= d < t.ndim:
            raise ValueError(f"vmap: {label} has type {t} and no dimension {d} to map over. Give in_axes=None for it, or another "
                             "dimension.")
        places[i] = d = d % t.ndim
        sizes[label], splits[label] = t.shape[d], t.partitions[d]
        mesh = mesh if t.mesh.empty else t.mesh
    if not sizes:
        raise ValueError("vmap: no argument is mapped, so the batch has no size. Give axis_size=, or map an argument.")
    if len(set(sizes.values())) > 1:
        raise ValueError("vmap got inconsistent sizes for the axis to be mapped: "
                         + ', '.join(f"{label} has {n}" for label, n in sizes.items()))
    if len(set(splits.values())) > 1:
        raise ValueError("vmap: the mapped dimension must be split alike in all mapped arguments, got "
                         + ', '.join(f"{label} {'split over ' + ', '.join(a) if a else 'whole'}" for label, a in splits.items())
                         + ". Reshard so that they agree.")
    axes = next(iter(splits.values()), ())
    asked = () if spmd_axis_name is None else spmd_axis_name if isinstance(spmd_axis_name, tuple) else (spmd_axis_name,)
    if asked and asked != axes:
        raise ValueError(f"vmap: spmd_axis_name puts the batch over {', '.join(map(str, asked))}, and the mapped arguments are "
                         f"{'split over ' + ', '.join(axes) if axes else 'whole'} there. Reshard them, or leave spmd_axis_name out.")
    return AxisData(size=next(iter(sizes.values())), name=name, axes=axes, mesh=mesh if axes else EMPTY_MESH)


def _as_it_is(trace: BatchTrace, x, label: str):
    """An argument that is not mapped: the same object, unless arrays in it have a state that a split batch hides."""
    if not trace.axis.axes:
        return x
    leaves, structure = tree.flatten(x)
    inside = [_entering(trace, leaf, None, label) for leaf in leaves]
    return x if all(a is b for a, b in zip(inside, leaves, strict=True)) else tree.unflatten(structure, inside)


def _entering(trace: BatchTrace, x, dim: int | None, label: str):
    if dim is not None:
        return trace.wrap(x, dim)
    if trace.axis.axes and isinstance(x, Value):
        check_free(trace.axis, typeof(x), label)
        return trace.wrap(x, None)
    return x


def _leaving(trace: BatchTrace, y, to: int | None, sum_match: bool):
    """A result with its batch where it was asked for."""
    if not isinstance(y, Value) and not is_scalar(y) and not hasattr(y, '__array__'):
        raise TypeError(f"vmap: the mapped function must return arrays, got {y!r} of type {type(y).__name__}")
    y, dim = trace.parts(y if is_scalar(y) else as_value(y, 'the result of vmap'))
    if to is None:
        if dim is None:
            return as_value(y, 'the result of vmap')
        if sum_match:
            return trace.axis.settled(reduce_sum(y, axes=(dim,)))
        raise ValueError(f"vmap has mapped output but out_axes is None: a result of type {trace.axis.hidden(typeof(y), dim)} differs "
                         "from element to element. Give the dimension that the batch shall have in it.")
    n = typeof(y).ndim + (dim is None)
    if not -n <= to < n:
        raise ValueError(f"vmap: out_axes {to} is out of range for a result of {n} dimensions with the batch")
    return trace.axis.whole(y, dim, to % n)


__all__ = ['vmap']
