"""custom_vmap: a function that says itself what becomes of it on a batch.

As with custom_jvp the call is handed down the traces whole until one of them maps; a staged program keeps function and rule together.
Forward mode differentiates both, so the rule holds for the derivative as well. Reverse mode needs the function in parts and takes the
function alone: under vmap of grad the derivative is batched op by op, under grad of vmap the rule has been applied before.
"""

from collections.abc import Callable, Sequence
from functools import update_wrapper, wraps
from typing import Any

from distad import tree
from distad.compiler.codegen import compile_jaxpr
from distad.control.custom import passes_on, stages
from distad.control.scan import map_
from distad.core.jaxpr import Jaxpr, evaluate
from distad.core.lift import as_value
from distad.core.primitive import NoRule, Place, Primitive
from distad.core.trace import current_trace, use_trace
from distad.core.value import Zero, typeof
from distad.ops.cast import cast
from distad.transforms.batch import AxisData, BatchTrace, Casting, batch_flat
from distad.transforms.jvp import JVPTrace, JVPTracer, jvp_flat
from distad.transforms.linearize import LinearTrace
from distad.transforms.programs import stage_closed

# A flat rule: `(size, batched, *values) -> (outs, batched outs)`, the batch in front of every batched value.
Rule = Callable[..., tuple[list, list[bool]]]


# ---- the call

def call_custom_vmap(fun: Callable, rule: Rule, args: Sequence) -> list:
    """Call a flat function that has a flat batching rule."""
    trace = current_trace()
    if isinstance(trace, BatchTrace):
        values, dims = zip(*map(trace.parts, args), strict=True) if args else ((), ())
        with use_trace(trace.inner):
            if all(d is None for d in dims):
                outs, places = call_custom_vmap(fun, rule, values), None
            else:
                outs, places = _apply(trace.axis, rule, values, dims)
            return [trace.wrap(y, d) for y, d in zip(outs, places or [None] * len(outs), strict=True)]
    if isinstance(trace, JVPTrace):
        primals, tangents = zip(*map(trace.parts, args), strict=True) if args else ((), ())
        with use_trace(trace.parent):
            if all(t.__class__ is Zero for t in tangents):
                return call_custom_vmap(fun, rule, primals)
            outs, made = _differentiated(fun, rule, primals, tangents)
            return [y if t.__class__ is Zero else JVPTracer(trace, y, t) for y, t in zip(outs, made, strict=True)]
    if isinstance(trace, Casting) or passes_on(trace, args):
        with use_trace(trace.parent):
            return call_custom_vmap(fun, rule, args)
    if stages(trace):
        jaxpr, consts = stage_closed(fun, [typeof(x) for x in args])
        return custom_vmap_call(*consts, *args, jaxpr=jaxpr, rule=rule, num_consts=len(consts))
    return list(fun(*args))


def _apply(axis: AxisData, rule: Rule, values: Sequence, dims: Sequence[int | None]) -> tuple[list, list[int | None]]:
    moved = [x if d is None else axis.move(x, d, 0) for x, d in zip(values, dims, strict=True)]
    outs, batched = rule(axis.size, [d is not None for d in dims], *moved)
    return outs, [0 if b else None for b in batched]


def _differentiated(fun: Callable, rule: Rule, primals: Sequence, tangents: Sequence) -> tuple[list, list]:
    """Values and tangents, by a function of both with a rule of its own."""
    live = [t.__class__ is not Zero for t in tangents]
    n = len(primals)
    on: list[bool] = []

    def spread(args: Sequence) -> list:
        given = iter(args[n:])
        return [next(given) if a else Zero(typeof(x).tangent()) for x, a in zip(args[:n], live, strict=True)]

    def both(*args):
        outs, made = jvp_flat(fun, args[:n], spread(args))
        on[:] = [t.__class__ is not Zero for t in made]
        return [*outs, *(t for t in made if t.__class__ is not Zero)]

    def rule_of_both(size, batched, *args):
        given = iter(batched[n:])
        with_tangent = [b or (a and next(given)) for b, a in zip(batched[:n], live, strict=True)]
        flags: list[bool] = []

        def f(*xs):
            outs, found = rule(size, with_tangent, *xs)
            flags[:] = found
            return outs

        ts = iter(zip(args[n:], batched[n:], strict=True))
        values = [_in_front(x, b, w, size) for x, b, w in zip(args[:n], batched[:n], with_tangent, strict=True)]
        pairs = [(_in_front(*next(ts), w, size) if a else Zero(typeof(x).tangent())) for x, a, w in
                 zip(values, live, with_tangent, strict=True)]
        outs, made = jvp_flat(f, values, pairs)
        on[:] = [t.__class__ is not Zero for t in made]
        return [*outs, *(t for t in made if t.__class__ is not Zero)], [*flags, *(b for b, a in zip(flags, on, strict=True) if a)]

    found = call_custom_vmap(both, rule_of_both, [*primals, *(t for t in tangents if t.__class__ is not Zero)])
    count = len(on)
    given = iter(found[count:])
    return found[:count], [next(given) if a else Zero(typeof(y).tangent()) for y, a in zip(found, on, strict=False)]


def _in_front(x, batched: bool, want: bool, size: int):
    """A value with a batch in front where one is wanted."""
    return AxisData(size=size).spread(x) if want and not batched else x


# ---- in a program

def _kernel(place: Place, ins, outs, params):
    return compile_jaxpr(params['jaxpr'], place.mesh, place.path).run


def _jvp(primals, tangents, *, jaxpr: Jaxpr, rule: Rule, num_consts: int):
    _no_closure(any(t.__class__ is not Zero for t in tangents[:num_consts]), 'differentiated')
    consts = primals[:num_consts]
    return _differentiated(lambda *xs: evaluate(jaxpr, *consts, *xs), rule, primals[num_consts:], tangents[num_consts:])


def _batch(axis: AxisData, values, dims, *, jaxpr: Jaxpr, rule: Rule, num_consts: int):
    _no_closure(any(d is not None for d in dims[:num_consts]), 'mapped over')
    if all(d is None for d in dims):                     # a collective over the axis stands in it
        return batch_flat(lambda *xs: evaluate(jaxpr, *xs), axis, values, dims)
    return _apply(axis, rule, values[num_consts:], dims[num_consts:])


def _no_closure(closed: bool, what: str) -> None:
    if closed:
        raise TypeError(f"custom_vmap: the function closes over a value that is being {what}. Pass it as an argument.")


def _inline(trace: LinearTrace, owned, args, params):
    with use_trace(trace):
        return evaluate(params['jaxpr'], *args)


custom_vmap_call = Primitive(
    'custom_vmap_call', type=lambda *types, jaxpr, **rules: jaxpr.out_types, kernel=_kernel, jvp=_jvp,
    transpose=NoRule('its function is not linear'), batch=_batch, split=_inline, multiple=True,
    show=lambda params: {'call_jaxpr': params['jaxpr']})


# ---- the functions

class custom_vmap:
    """A function with a batching rule of its own.

        @custom_vmap
        def solve(a, b): ...
        @solve.def_vmap
        def rule(axis_size, in_batched, a, b):      # -> (out, out_batched)

    The rule gets the size of the batch, a list with a tree of bools for each argument that says what is batched, and the arguments,
    with the batch in front of what is. It returns the result and, of the same structure, which of its leaves have a batch in front. It
    has to mean the same as the function for each element, and is used in its place under vmap, jvp of vmap, grad of vmap, and vmap of
    jvp.
    Communication: what function and rule say. Raises AttributeError where no rule has been given.
    """

    def __init__(self, fun: Callable):
        update_wrapper(self, fun)
        self.fun, self.rule = fun, None

    def def_vmap(self, rule: Callable) -> Callable:
        """Set the rule `(axis_size, in_batched, *args) -> (out, out_batched)`; usable as decorator."""
        self.rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        if self.rule is None:
            raise AttributeError(f"no batching rule was defined for custom_vmap function {self.__name__}: use def_vmap")
        flat, structure = tree.flatten(args)
        flat = [as_value(x, 'custom_vmap') for x in flat]
        out_tree: list = []

        def fun(*leaves):
            outs, made = tree.flatten(self.fun(*tree.unflatten(structure, leaves)))
            out_tree[:] = [made]
            return [as_value(y, 'the result of custom_vmap') for y in outs]

        def rule(size, batched, *leaves):
            pair = self.rule(size, list(tree.unflatten(structure, batched)), *tree.unflatten(structure, leaves))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"the batching rule of {self.__name__} must return a pair (out, out_batched), got {pair!r}")
            outs, made = tree.flatten(pair[0])
            flags, made_flags = tree.flatten(pair[1])
            if made != made_flags:
                raise ValueError(f"the batching rule of {self.__name__} returns a value of structure {made} and flags of structure "
                                 f"{made_flags}; they must be equal")
            out_tree[:] = [made]
            outs = [as_value(y, 'the result of a batching rule') for y in outs]
            for y, b in zip(outs, flags, strict=True):
                if b and (not y.ndim or y.shape[0] != size):
                    raise ValueError(f"the batching rule of {self.__name__} says that a result of type {y.type} has the batch in "
                                     f"front, whose size is {size}")
            return outs, list(flags)

        outs = call_custom_vmap(fun, rule, flat)
        return tree.unflatten(out_tree[0], outs)


def sequential_vmap(f: Callable) -> custom_vmap:
    """The function, called for one element after the other under vmap: in a loop, in place of being batched.

    Its results are stacked. A batch that is split over mesh axes is gathered first. Communication besides: that of `f`, for each
    element.

        @sequential_vmap
        def g(x): ...
    """
    g = custom_vmap(f)

    @g.def_vmap
    @wraps(f)
    def rule(size, in_batched, *args):
        leaves, structure = tree.flatten(args)
        flags = tree.leaves(in_batched)
        mapped = [_whole(x) for x, b in zip(leaves, flags, strict=True) if b]

        def one(elements):
            given = iter(elements)
            return f(*tree.unflatten(structure, [next(given) if b else x for x, b in zip(leaves, flags, strict=True)]))

        out = map_(one, mapped)
        return out, tree.map(lambda _: True, out)

    return g


def _whole(x):
    t = typeof(x)
    return cast(x, t.update(partitions=((), *t.partitions[1:])))


__all__ = ['custom_vmap', 'sequential_vmap']
