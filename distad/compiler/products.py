"""Products that are added where the total lies: `total + dot_general(x, y)` as one GEMM, if the total dies there.

That is known of three totals: one that a loop carries, a slice that a loop replaces (see `accumulate`: gradients of layers that are
summed over microbatches), and a product that nothing else reads (gradients of weights that are used twice). Other sums of products
stay as they are, for `fusion` to take: a bias, a residual connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from distad.compiler.accumulate import SUMS
from distad.core.jaxpr import Atom, Equation, Jaxpr, Var
from distad.core.primitive import NoRule, Place, Primitive
from distad.ops.contraction import dot_general
from distad.ops.gemm import added

NEVER = NoRule('it is made by the compiler only')


def _kernel(place: Place, ins, outs, params):
    total, x, y = map(place.out, ins)
    return added(x.shape, y.shape, params['dimension_numbers'], total.dtype)


add_dot = Primitive(
    'add_dot',
    type=lambda total, x, y, *, dimension_numbers, in_place: total,
    kernel=_kernel,
    jvp=NEVER,
    transpose=NEVER,
    batch=NEVER,
    show=lambda params: {'dimension_numbers': params['dimension_numbers']})


def added_in_place(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with sums of products as single equations, in it and in the bodies of its loops."""
    reads = Counter(a for eqn in jaxpr.equations for a in eqn.ins) + Counter(jaxpr.outs)
    joined = _joined(jaxpr, reads, {})
    equations = tuple(_in_body(eqn, reads) if eqn.primitive.name == 'scan' else eqn for eqn in joined.equations)
    same = all(a is b for a, b in zip(equations, joined.equations, strict=True))
    return joined if same else joined.changed(equations=equations)


def _in_body(eqn: Equation, reads: Counter) -> Equation:
    """A loop whose body adds to what the body replaces."""
    body, consts, carries = eqn.params['jaxpr'], eqn.params['num_consts'], eqn.params['num_carry']
    replaced = dict(zip(body.ins[consts:consts + carries], ({a} for a in body.outs[:carries]), strict=True))
    for a, x in zip(eqn.ins[consts + carries:], body.ins[consts + carries:], strict=True):
        if a.__class__ is Var and reads[a] == 1:
            replaced[x] = set(body.outs[carries:])
    joined = _joined(body, Counter(a for e in body.equations for a in e.ins) + Counter(body.outs), replaced)
    return eqn if joined is body else eqn.changed(params=dict(eqn.params, jaxpr=joined))


def _joined(jaxpr: Jaxpr, reads: Counter, replaced: dict[Var, Collection[Atom]]) -> Jaxpr:
    """`replaced`: inputs that may be written over by these results."""
    products: dict[Var, Equation] = {}                   # that one equation reads
    totals: set[Atom] = set()                            # that are sums of products already
    gone: set[int] = set()
    equations: list[Equation] = []
    for eqn in jaxpr.equations:
        if eqn.primitive is dot_general and reads[eqn.outs[0]] == 1:
            products[eqn.outs[0]] = eqn
        elif eqn.primitive.name in SUMS:
            for total, summand in (eqn.ins, eqn.ins[::-1]):
                dot = products.get(summand)
                lies = total in products or total in totals or eqn.outs[0] in replaced.get(total, ())
                if dot is not None and lies and reads[total] == 1 and _is_one(eqn, total, dot):
                    gone.add(id(dot))
                    eqn = eqn.changed(primitive=add_dot, ins=(total, *dot.ins), params={
                        'dimension_numbers': dot.params['dimension_numbers'], 'in_place': (0,)})
                    totals.add(eqn.outs[0])
                    break
        equations.append(eqn)
    return jaxpr.changed(equations=tuple(e for e in equations if id(e) not in gone)) if gone else jaxpr


def _is_one(add: Equation, total: Atom, dot: Equation) -> bool:
    """Whether a sum and its product are of one type, for which there is such a GEMM."""
    t, (x, y) = total.type, (a.type for a in dot.ins)
    return (t == dot.outs[0].type == add.outs[0].type and t.dtype == x.dtype == y.dtype and total not in dot.ins
            and added(x.local_shape, y.local_shape, dot.params['dimension_numbers'], t.dtype) is not None)
