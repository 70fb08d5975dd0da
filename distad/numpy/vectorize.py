"""Functions of small arrays applied to large ones: each call is one program on a batch (`vmap`), never a loop in Python."""

import re
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import Any

from distad.control.vmap import vmap
from distad.core.lift import as_value
from distad.core.value import Value, typeof
from distad.lax import shape as lax_shape
from distad.lax.dims import dim_of
from distad.ops.cast import cast
from distad.source import boundary

Core = tuple[str, ...]                              # the names of an argument's own dimensions, its last ones

_ARGUMENT = r'\(\s*(?:\w+\s*(?:,\s*\w+\s*)*,?\s*)?\)'
_SIDE = rf'\s*(?:{_ARGUMENT}\s*(?:,\s*{_ARGUMENT}\s*)*)?'


def vectorize(pyfunc: Callable, *, excluded: Collection[int | str] = frozenset(), signature: str | None = None) -> Callable:
    """The function on arrays with any dimensions in front of those it knows, which broadcast.

    pyfunc: a function of arrays, which runs once. excluded: numbers and names of arguments that it gets as they are. signature: the
    dimensions that it knows, as in `'(m,k),(k)->(m)'`; without one it is a function of numbers. The result has the broadcast
    dimensions in front, split as they are in the arguments; where one is split and another whole, the whole one is cut, which is
    free. Nothing is communicated but by the function. Raises ValueError for sizes that do not go together and for a signature
    that the results do not have, TypeError for another number of arguments or results.

        jnp.vectorize(jnp.dot, signature='(n),(n)->()')(jnp.ones((4, 3)), jnp.arange(3.))
    """
    for which in excluded:
        if not isinstance(which, (int, str)):
            raise TypeError(f"vectorize excludes arguments by number or name, got excluded={set(excluded)}")
        if isinstance(which, int) and which < 0:
            raise ValueError(f"vectorize: excluded={set(excluded)} contains negative numbers; count arguments from the front")
    cores = None if signature is None else _parsed(signature)

    @boundary
    @wraps(pyfunc)
    def vectorized(*args, **kwargs):
        at = [i for i, x in enumerate(args) if i not in excluded and x is not None]
        by_name = [name for name in kwargs if name not in excluded]
        if cores is not None and (len(cores[0]) != len(args) - len(set(range(len(args))) & set(excluded)) or by_name):
            raise TypeError(f"vectorize: the signature {signature} has {len(cores[0])} arguments, got {len(args)}"
                            + (f" and, by name, {', '.join(by_name)}" if by_name else '') + f", with excluded={set(excluded)}")
        inputs = [()] * (len(at) + len(by_name)) if cores is None else _of_values(cores[0], args, excluded, signature)
        sizes: dict[str, int] = {}

        def one(*values):
            every, rest = list(args), iter(values)
            for i in at:
                every[i] = next(rest)
            out = pyfunc(*every, **{**kwargs, **dict(zip(by_name, rest, strict=True))})
            return out if cores is None else _checked(out, cores[1], sizes, signature)

        values = [as_value(x, 'vectorize') for x in (*(args[i] for i in at), *(kwargs[name] for name in by_name))]
        return _mapped(one, values, inputs, sizes, signature)

    return vectorized


def _parsed(signature: str) -> tuple[list[Core], list[Core]]:
    """The names of the dimensions of arguments and results."""
    if not re.fullmatch(f'{_SIDE}->{_SIDE}', signature):
        raise ValueError(f"vectorize: {signature!r} is no signature. Write one like '(m,k),(k)->(m)'.")
    return tuple([tuple(re.findall(r'\w+', one)) for one in re.findall(_ARGUMENT, side)] for side in signature.split('->'))


def _of_values(cores: list[Core], args: tuple, excluded: Collection, signature: str) -> list[Core]:
    """The dimensions of those arguments that are mapped: None is none."""
    given = [x for i, x in enumerate(args) if i not in excluded]
    for core, x in zip(cores, given, strict=True):
        if x is None and core:
            raise ValueError(f"vectorize: None in place of an array ({','.join(core)}) of the signature {signature}")
    return [core for core, x in zip(cores, given, strict=True) if x is not None]


def _mapped(f: Callable, values: list[Value], cores: Sequence[Core], sizes: dict[str, int], signature: str | None):
    """One map for each dimension in front that an argument has with a size other than 1; f sees neither these nor those of size 1."""
    outer: list[tuple[int, ...]] = []
    for x, core in zip(values, cores, strict=True):
        if x.ndim < len(core):
            raise ValueError(f"vectorize: {x.type} has fewer dimensions than ({','.join(core)}) of the signature {signature}")
        outer.append(x.shape[:x.ndim - len(core)])
        _agree(sizes, core, x.shape[x.ndim - len(core):], signature)
    whole = lax_shape.broadcast_shapes(*outer)
    n = len(whole)
    at = [{n - len(shape) + d: d for d, size in enumerate(shape) if size != 1} for shape in outer]
    values = _split_alike(values, at, n)
    values = [lax_shape.squeeze(x, [d for d, size in enumerate(shape) if size == 1]) for x, shape in zip(values, outer, strict=True)]
    single = [d for d in range(n) if not any(d in places for places in at)]
    for d in reversed(range(n)):
        if d not in single:
            f = vmap(f, in_axes=tuple(0 if d in places else None for places in at))
    out = f(*values)
    if not single:
        return out
    return type(out)(lax_shape.expand_dims(y, single) for y in out) if isinstance(out, (tuple, list)) else lax_shape.expand_dims(
        out, single)


def _split_alike(values: list[Value], at: Sequence[dict[int, int]], n: int) -> list[Value]:
    """A dimension that is split in one argument and whole in another is cut there."""
    for d in range(n):
        there = [(i, places[d]) for i, places in enumerate(at) if d in places]
        axes = next((values[i].type.partitions[k] for i, k in there if values[i].type.partitions[k]), ())
        for i, k in there:
            t = typeof(values[i])
            if axes and not t.partitions[k]:
                mesh = next(values[j].type.mesh for j, _ in there if not values[j].type.mesh.empty)
                values[i] = cast(values[i], t.update(mesh=mesh, reduced=t.reduced.difference(axes),
                                                     partitions=(*t.partitions[:k], axes, *t.partitions[k + 1:])))
    return values


def _agree(sizes: dict[str, int], core: Core, shape: tuple[int, ...], signature: str | None) -> None:
    for name, size in zip(core, shape, strict=True):
        if sizes.setdefault(name, size) != size:
            raise ValueError(f"vectorize: dimension {name} of the signature {signature} has size {sizes[name]} and size {size}")


def _checked(out: Any, cores: list[Core], sizes: dict[str, int], signature: str):
    """The result, which has the dimensions of the signature."""
    if len(cores) > 1 and not isinstance(out, tuple):
        raise TypeError(f"vectorize: by the signature {signature} the function returns a tuple of {len(cores)} arrays, it returned "
                        f"{out!r}")
    found = out if isinstance(out, tuple) else (out,)
    if len(found) != len(cores):
        raise TypeError(f"vectorize: by the signature {signature} the function returns {len(cores)} arrays, it returned {len(found)}")
    known = dict(sizes)
    for y, core in zip(found, cores, strict=True):
        t = typeof(as_value(y, 'vectorize'))
        if t.ndim != len(core):
            raise ValueError(f"vectorize: a result {t} has not the dimensions ({','.join(core)}) of the signature {signature}")
        _agree(known, core, t.shape, signature)
    return out


def apply_along_axis(func1d: Callable, axis: int, arr: Any, *args, **kwargs) -> Any:
    """A function of arrays of one dimension, applied along a dimension for all places of the others.

    func1d: called with an array [n], and `*args, **kwargs`; its results' dimensions take the place of n. arr: [..., n, ...]. The
    other dimensions stay as they are split. Nothing is communicated but by the function. Raises ValueError if there is no such
    dimension.

        jnp.apply_along_axis(jnp.cumsum, 1, jnp.ones((2, 3)))
    """
    x = as_value(arr, 'apply_along_axis')
    d = dim_of('apply_along_axis', axis, x.ndim)

    def f(row):
        return func1d(row, *args, **kwargs)

    for k in range(d + 1, x.ndim):
        f = vmap(f, in_axes=k - d, out_axes=-1)
    for _ in range(d):
        f = vmap(f)
    return f(x)


def apply_over_axes(func: Callable[[Value, int], Any], a: Any, axes: int | Sequence[int]) -> Value:
    """A function `(array, axis)` applied for one axis after the other; a dimension that it takes away comes back with size 1.

    a: [...]. Placement and communication are those of the function. Raises ValueError for a result of another rank.

        jnp.apply_over_axes(jnp.sum, jnp.ones((4, 3, 5)), (0, 2))
    """
    x = as_value(a, 'apply_over_axes')
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        d = dim_of('apply_over_axes', axis, x.ndim)
        y = as_value(func(x, d), 'apply_over_axes')
        if y.ndim not in (x.ndim, x.ndim - 1):
            raise ValueError(f"apply_over_axes: the function makes {typeof(y)} of {typeof(x)} along axis {d}. Its result must have as "
                             "many dimensions, or one less.")
        x = y if y.ndim == x.ndim else lax_shape.expand_dims(y, (d,))
    return x


__all__ = ['apply_along_axis', 'apply_over_axes', 'vectorize']
