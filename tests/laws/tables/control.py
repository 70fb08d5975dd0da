"""Ops that run programs. The programs are made of strict ops, and typed on whatever types the operands have."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from distad import lax
from distad.control.loop import unstacked
from distad.control.map_primitive import inner_type
from distad.control.policies import everything_saveable, nothing_saveable
from distad.control.vmap import vmap
from distad.core.value import Zero
from distad.ops.arithmetic import add, mul, neg
from distad.ops.basic import instantiated
from distad.ops.broadcast import reduce_sum
from distad.ops.casts import psum_invariant
from distad.ops.compare import lt
from distad.ops.elementary import cos, exp, sin
from distad.transforms.stage import stage
from distad.types.mesh import AbstractMesh, AxisType, use_abstract_mesh
from distad.types.spec import P
from tests.laws.calls import Call, Elsewhere, M, N, Operand, Table, Types, call, call_on, f, i32


def program(body: Callable[..., list], reference: Callable, *operands: Operand, **more) -> Call:
    """A call of a staged body."""
    return call_on(lambda types, mesh: [{'jaxpr': stage(body, types), **more}], reference, *operands)


def product_and_sine(x, y) -> list:
    z = mul(sin(x), y)
    return [z, reduce_sum(z, axes=(0,)), neg(y)]


def linear(x, y) -> list:
    return [add(x, mul(y, x.dtype.type(2)))]


# ---- custom rules: sin and its derivative, by hand

def sine_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return [sin(x)], [t if t.__class__ is Zero else mul(t, cos(x))]


def sine_forward(active, x):
    return [sin(x)], [cos(x)]


def sine_backward(residuals, cts):
    return [mul(instantiated(cts[0]), residuals[0])]


# ---- scan: (*constants, *carry, *slices) -> (*carry, *slices)

def scanned(body: Callable[..., list], reference: Callable, consts: int, carry: int, *operands: Operand,
            reverse: bool = False) -> Call:
    def params(types: Types, mesh: AbstractMesh):
        before = consts + carry
        inside = (*types[:before], *map(unstacked, types[before:]))
        return [{'jaxpr': stage(body, inside), 'length': 3, 'reverse': reverse, 'num_consts': consts, 'num_carry': carry}]
    return call_on(params, reference, *operands)


def horner(a, c, x) -> list:
    """One step of a polynomial in a, with the values on the way."""
    c = add(mul(c, a), x)
    return [c, sin(c)]


def horner_reference(a, c, xs, reverse=False):
    ys = []
    for x in xs[::-1] if reverse else xs:
        c = c * a + x
        ys.append(np.sin(c))
    return [c, np.stack(ys[::-1] if reverse else ys)]


# ---- cond: (index, *operands); while: (*constants of the condition, *constants of the body, *carry)

def branched(branches: Sequence[Callable[..., list]], reference: Callable, *operands: Operand) -> Call:
    def params(types: Types, mesh: AbstractMesh):
        return [{'branches': tuple(stage(branch, types[1:]) for branch in branches)}]
    return call_on(params, reference, i32(low=0, high=len(branches) - 1), *operands)


def doubled_while(condition: Callable, body: Callable[..., list], reference: Callable, consts: tuple[int, int],
                  *operands: Operand) -> Call:
    def params(types: Types, mesh: AbstractMesh):
        a, b = consts
        return [{'cond_jaxpr': stage(condition, (*types[:a], *types[a + b:])), 'body_jaxpr': stage(body, types[a:]),
                 'cond_consts': a, 'body_consts': b}]
    return call_on(params, reference, *operands).but(transposes=False)


def rounds(limit, factor, n, x):
    while n < limit:
        n, x = n + 1, x * factor + 1
    return [n, x]


# ---- shard_map

def mapped(body: Callable[..., list], reference: Callable, *operands: Operand, communicates: bool = False) -> Call:
    """A map over the first axis that is not manual yet, and over all of them. `body` is told them first. The results lie as the
    first operand does, without the dimensions they lack."""
    def params(types: Types, mesh: AbstractMesh):
        free = [axis for axis in mesh.axis_names if axis not in mesh.manual_axes]
        return [mapped_params(body, types, mesh, frozenset(axes)) for axes in dict.fromkeys((tuple(free[:1]), tuple(free)))]
    return call_on(params, reference, *operands).but(communicates=communicates)


def mapped_params(body: Callable[..., list], types: Types, outer: AbstractMesh, manual: frozenset[str]) -> dict:
    inner = outer.with_types(dict.fromkeys(manual, AxisType.Manual))
    specs = tuple(P(*(tuple(a for a in axes if a in manual) for axes in t.partitions), unreduced=t.unreduced & manual,
                    reduced=t.reduced & manual) for t in types)
    with use_abstract_mesh(inner):
        jaxpr = stage(partial(body, manual), [inner_type(t, spec, inner, manual) for t, spec in zip(types, specs)])
    outs = tuple(P(*(tuple(a for a in axes if a in t.varying & manual) for axes in specs[0].axes[len(specs[0].axes) - t.ndim:]),
                   unreduced=t.unreduced & manual, reduced=t.reduced & manual) for t in jaxpr.out_types)
    return {'jaxpr': jaxpr, 'mesh': inner, 'outer_mesh': outer, 'manual': manual, 'in_specs': specs, 'out_specs': outs,
            'check_vma': True}


def summed(manual: frozenset[str], x) -> list:
    """The sum over dimension 0, over the ranks too."""
    axes = tuple(sorted(x.type.varying & manual))
    y = reduce_sum(x, axes=(0,))
    return psum_invariant(y, axes=axes) if axes else [y]


# ---- collectives over a mapped axis: on the batch they are other ops

def over_elements(f: Callable, reference: Callable, *operands: Operand) -> Call:
    """A function of an element that communicates with the others, over the name `i`; the reference is one of the batch."""
    return program(lambda *xs: [vmap(f, axis_name='i')(*xs)], lambda *xs: [reference(*xs)], *operands, name='elements').but(
        communicates=True, places=2, orders=1)


def exchanged(x):
    n = len(x)
    return np.stack([np.concatenate([row.reshape(n, -1)[j] for row in x]) for j in range(n)])


def sent(x, *pairs):
    y = np.zeros_like(x)
    for source, target in pairs:
        y[target] = x[source]
    return y


MAPPED = [
    over_elements(lambda a: lax.psum(a, 'i'), lambda x: np.broadcast_to(x.sum(0), x.shape), f(M, N)),
    over_elements(lambda a: lax.all_gather(a, 'i'), lambda x: np.broadcast_to(x, (M, M, N)), f(M, N)),
    over_elements(lambda a: lax.psum_scatter(a, 'i', tiled=True), lambda x: x.sum(0).reshape(M, -1), f(M, N)),
    over_elements(lambda a: lax.all_to_all(a, 'i', 0, 0, tiled=True), exchanged, f(M, N)),
    over_elements(lambda a: lax.ppermute(a, 'i', [(k, (k + 1) % M) for k in range(M)]), lambda x: np.roll(x, 1, 0), f(M, N)),
    over_elements(lambda a: lax.ppermute(a, 'i', [(0, 5), (7, 1)]), lambda x: sent(x, (0, 5), (7, 1)), f(M, N)),
    over_elements(lambda a: lax.pmax(a, 'i') - lax.pmin(a, 'i'), lambda x: np.broadcast_to(np.ptp(x, 0), x.shape), f(M, 3)),
    over_elements(lambda a: a * lax.axis_index('i').astype(a.dtype), lambda x: x * np.arange(M), f(M)),
]


TABLE: Table = {
    'jit': [*MAPPED,
            program(product_and_sine, lambda x, y: [np.sin(x) * y, (np.sin(x) * y).sum(0), -y], f(M, N), f(M, N), name='f'),
            program(linear, lambda x, y: [x + 2 * y], f(N), f(N), name='g'),
            program(lambda x, n: [exp(x), neg(n)], lambda x, n: [np.exp(x), -n], f(N), i32(M), name='h')],
    'custom_jvp_call': [program(lambda x: [sin(x)], lambda x: [np.sin(x)], f(M, N), rule=sine_rule, num_consts=0)],
    'custom_vjp_call': [program(lambda x: [sin(x)], lambda x: [np.sin(x)], f(M, N), fwd=sine_forward, bwd=sine_backward,
                                num_consts=0).but(forward=False)],
    **dict.fromkeys(('mapped_sum', 'mapped_max', 'mapped_min', 'mapped_gather', 'mapped_scatter', 'mapped_exchange', 'mapped_permute',
                     'mapped_index'), Elsewhere(by='jit', why='vmap makes other ops of it')),
    'custom_lin': Elsewhere(by='custom_vjp_call', why='it is the derivative of a custom_vjp_call'),
    'scan': [scanned(horner, horner_reference, 1, 1, f(N), f(N), f(3, N)).but(places=8),
             scanned(horner, lambda *xs: horner_reference(*xs, reverse=True), 1, 1, f(N), f(N), f(3, N), reverse=True),
             scanned(lambda c, x: [add(c, x), neg(x)], lambda c, xs: [c + xs.sum(0), -xs], 0, 1, f(M, N), f(3, M, N)),
             scanned(lambda n, x: [add(n, np.int32(2)), mul(x, x)], lambda n, xs: [n + 6, xs * xs], 0, 1, i32(), f(3, N)),
             scanned(lambda x: [reduce_sum(x, axes=(0,))], lambda xs: [xs.sum(1)], 0, 0, f(3, M, N))],
    'cond': [branched([product_and_sine, lambda x, y: [add(x, y), reduce_sum(neg(x), axes=(0,)), y]],
                      lambda i, x, y: [x + y, -x.sum(0), y] if i else [np.sin(x) * y, (np.sin(x) * y).sum(0), -y],
                      f(M, N), f(M, N)),
             branched([lambda x: [x], lambda x: [exp(x)], lambda x: [mul(x, x)]], lambda i, x: [[x, np.exp(x), x * x][i]], f(N))],
    'while': [doubled_while(lambda limit, n, x: [lt(n, limit)],
                            lambda factor, n, x: [add(n, np.int32(1)), add(mul(x, factor), np.float64(1))], rounds, (1, 1),
                            i32(low=3, high=5), f(N), i32(low=0, high=1), f(N)),
              doubled_while(lambda n, x: [lt(n, np.int32(3))], lambda n, x: [add(n, np.int32(1)), sin(x)],
                            lambda n, x: [np.int32(3), np.sin(np.sin(np.sin(x)))], (0, 0), i32(low=0, high=0), f(M, N))],
    'checkpoint': [program(product_and_sine, lambda x, y: [np.sin(x) * y, (np.sin(x) * y).sum(0), -y], f(M, N), f(M, N),
                           policy=nothing_saveable),
                   program(linear, lambda x, y: [x + 2 * y], f(N), f(N), policy=nothing_saveable),
                   program(lambda x: [exp(sin(x))], lambda x: [np.exp(np.sin(x))], f(N), policy=everything_saveable)],
    'name': [call(lambda x, **_: x, f(M, N), name='h')],
    'custom_vmap_call': [program(lambda x: [sin(x)], lambda x: [np.sin(x)], f(M, N), num_consts=0,
                                 rule=lambda size, batched, x: ([sin(x)], batched))],
    'pure_callback': [call(lambda x, **_: [np.cumsum(x)], f(N), function=lambda x: [np.cumsum(x)], structs=(((N,), np.dtype(float)),),
                           levels=(), vmap_method='sequential').but(orders=0)],
    'io_callback': [call(lambda x, **_: [np.cumsum(x)], f(N), function=lambda x: [np.cumsum(x)], structs=(((N,), np.dtype(float)),),
                         levels=(), vmap_method='sequential').but(orders=0)],
    'debug_callback': [call(lambda x, **_: [], f(N), function=lambda rank, x: None, levels=(), ranks=None).but(orders=0)],
    'shard_map': [mapped(lambda _, x, y: [mul(sin(x), y), neg(y)], lambda x, y: [np.sin(x) * y, -y], f(M, N), f(M, N)),
                  mapped(lambda _, x, y: linear(x, y), lambda x, y: [x + 2 * y], f(N), f(N)),
                  mapped(summed, lambda x: [x.sum(0)], f(N), communicates=True)],
}
