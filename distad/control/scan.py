"""lax.scan and its relatives: the kind functions over the primitive loop."""

from collections.abc import Callable
from typing import Any

from distad import tree
from distad.control.conditional import while_loop
from distad.control.loop import same_type, unstacked
from distad.control.loop import scan as scan_p
from distad.control.repair import repair
from distad.control.vmap import vmap
from distad.core.jaxpr import open_consts
from distad.core.lift import as_value, read
from distad.core.value import Array, Value, is_scalar, typeof
from distad.ops.arithmetic import add
from distad.ops.cast import cast
from distad.ops.compare import lt
from distad.ops.convert import convert_element_type
from distad.ops.makers import scalar
from distad.ops.reshape import reshape
from distad.ops.shape import concatenate
from distad.ops.slicing import slice_p
from distad.transforms.stage import stage
from distad.types import dtypes
from distad.types.array_type import ArrayType


def scan(f: Callable, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False, unroll: int = 1) -> tuple:
    """Carry a value through a loop over the leading dimension of arrays: `f(carry, x) -> (carry, y)`.

    init: the first carry, a pytree. xs: a pytree of arrays `[n, ...]`, the leading dimension not split; or None with
    `length=n`. Returns the last carry and the `y`s stacked, `[n, ...]`. Types of the carry, states included, stay equal from
    round to round; so an unreduced carry sums gradients without communication. Communication: that of `f`, n times.
    Raises TypeError when the carry changes its type (naming the carry, both types and the cast), ShardingTypeError when a
    leading dimension is split.

        total, partial_sums = lax.scan(lambda c, x: (c + x, c), 0., jnp.arange(4.))
    """
    carry, carry_tree = tree.flatten(init)
    slices, xs_tree = tree.flatten(xs)
    numbers = list(map(is_scalar, carry))
    carry = [as_value(x, 'scan') for x in carry]
    slices = [as_value(x, 'scan') for x in slices]
    n = _length([typeof(x) for x in slices], length)
    x_types = [unstacked(typeof(x)) for x in slices]
    out_tree: list = []

    def body(*args):
        out = f(tree.unflatten(carry_tree, args[:len(carry)]), tree.unflatten(xs_tree, args[len(carry):]))
        if not isinstance(out, tuple) or len(out) != 2:
            raise TypeError(f"scan: the body must return a pair (carry, y), got {out!r}")
        new, new_tree = tree.flatten(out[0])
        if new_tree != carry_tree:
            raise TypeError(f"scan: the carry enters with structure {carry_tree} and leaves with {new_tree}; they must be "
                            "equal")
        ys, y_tree = tree.flatten(out[1])
        out_tree[:] = [y_tree]
        return [as_value(y, 'the body of scan') for y in (*new, *ys)]

    jaxpr = stage(body, [*map(typeof, carry), *x_types], getattr(f, '__name__', 'body'))
    out_types = jaxpr.out_types[:len(carry)]
    promoted = [_promote(x, got, number) for x, got, number in zip(carry, out_types, numbers, strict=True)]
    if any(a is not b for a, b in zip(carry, promoted, strict=True)):
        carry = promoted
        jaxpr = stage(body, [*map(typeof, carry), *x_types], jaxpr.name)
    _check_carry(init, carry, jaxpr.out_types[:len(carry)])
    jaxpr, consts = open_consts(jaxpr)
    made = scan_p(*consts, *carry, *slices, jaxpr=jaxpr, length=n, reverse=bool(reverse), num_consts=len(consts),
                  num_carry=len(carry))
    return tree.unflatten(carry_tree, made[:len(carry)]), tree.unflatten(out_tree[0], made[len(carry):])


def fori_loop(lower: int, upper: int, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`, as one loop.

    Bounds that are known make a scan, which can be differentiated; traced ones a while_loop.

        lax.fori_loop(0, 3, lambda i, x: x * 2, 1.)
    """
    lower, upper = _known(lower), _known(upper)
    if isinstance(lower, Value) or isinstance(upper, Value):
        start, stop = _alike(as_value(lower, 'fori_loop'), as_value(upper, 'fori_loop'))
        return while_loop(lambda c: lt(c[0], c[1]), lambda c: (add(c[0], scalar(1, c[0])), c[1], body_fun(c[0], c[2])),
                          (start, stop, init_val))[2]
    start, stop = int(lower), int(upper)
    (_, out), _ = scan(lambda c, _: ((c[0] + 1, body_fun(*c)), None), (start, init_val), None, length=max(stop - start, 0))
    return out


def _known(bound: Any) -> Any:
    """A bound that can be read now. A rank outside its mesh runs along without data, so to it any number of rounds is the same."""
    if not isinstance(bound, Array) or not bound.is_fully_replicated:
        return bound
    return 0 if bound.block is None else read(bound)


def _alike(start: Value, stop: Value) -> tuple[Value, Value]:
    """Both bounds in one dtype, and varying where one of them varies."""
    mesh, varying = (start if stop.type.mesh.empty else stop).type.mesh, start.type.varying | stop.type.varying
    dtype = dtypes.promote((start.dtype, start.weak_type), (stop.dtype, stop.weak_type))[0]
    start, stop = (convert_element_type(x, new_dtype=dtype, weak_type=x.weak_type) for x in (start, stop))
    return tuple(cast(x, x.type.update(mesh=mesh, varying=varying)) for x in (start, stop))


def map_(f: Callable, xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply a function to every slice along the leading dimension, one after the other, and stack the results.

    batch_size: how many slices are done at once, by `vmap`; what is left over is done at the end.

        lax.map(lambda x: x @ x, xs, batch_size=8)
    """
    if batch_size is None or not tree.leaves(xs):
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    xs = tree.map(lambda x: as_value(x, 'map'), xs)
    if batch_size < 0:
        raise ValueError(f"map: batch_size is at least 1, got {batch_size}")
    n = _length([typeof(x) for x in tree.leaves(xs)], None)
    size = batch_size or n
    many = n // size * size if size else 0
    if not many:
        return vmap(f)(xs)
    outs = scan(lambda _, x: (None, vmap(f)(x)), None, tree.map(lambda x: _rows(_part(x, 0, many), (many // size, size), 1), xs))[1]
    outs = tree.map(lambda y: _rows(y, (many,), 2), outs)
    if many == n:
        return outs
    return tree.map(lambda y, z: concatenate(y, z, dimension=0), outs, vmap(f)(tree.map(lambda x: _part(x, many, n), xs)))


def _part(x: Value, start: int, stop: int) -> Value:
    """Slices from start to stop along the leading dimension."""
    shape = typeof(x).shape
    return x if stop - start == shape[0] else slice_p(
        x, start_indices=(start, *[0] * (len(shape) - 1)), limit_indices=(stop, *shape[1:]), strides=None)


def _rows(x: Value, sizes: tuple[int, ...], instead_of: int) -> Value:
    """The leading dimensions with other sizes."""
    return reshape(x, new_sizes=(*sizes, *typeof(x).shape[instead_of:]))


def _length(types: list[ArrayType], length: int | None) -> int:
    if any(t.ndim == 0 for t in types):
        raise ValueError(f"scan takes arrays with a leading dimension, got {', '.join(map(str, types))}")
    sizes = {t.shape[0] for t in types} | (set() if length is None else {int(length)})
    if len(sizes) != 1:
        if not sizes:
            raise ValueError('scan needs xs or length: one of them says how many rounds there are')
        raise ValueError(f"scan got leading dimensions of different sizes: {sorted(sizes)} ({', '.join(map(str, types))}, "
                         f"length={length})")
    return sizes.pop()


def _promote(x, got: ArrayType, number: bool):
    """A weakly typed first carry takes the dtype that the body gives it; a number takes its state too, where that is free, and
    an array that was never placed its mesh."""
    t = typeof(x)
    if number and not got.mesh.empty and not got.unreduced:
        x = cast(x, t.update(mesh=got.mesh, reduced=got.reduced, varying=got.varying))
    elif t.mesh.empty and not got.mesh.empty:
        x = cast(x, t.update(mesh=got.mesh))
    if t.weak_type and (t.dtype != got.dtype or not got.weak_type) and t.shape == got.shape:
        return convert_element_type(x, new_dtype=got.dtype, weak_type=got.weak_type)
    return x


def _check_carry(init, carry, out_types) -> None:
    paths = [tree.keystr(path) for path, _ in tree.flatten_with_path(init)[0]]
    for path, x, got in zip(paths, carry, out_types, strict=True):
        want = typeof(x)
        if not same_type(got, want):
            raise TypeError(f"scan: the carry{path} enters a round as {want} and leaves it as {got}; the types must be equal. "
                            + repair(want, f"init{path}", got, f"carry{path}"))
