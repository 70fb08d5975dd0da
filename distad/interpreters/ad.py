"""Derivatives of primitives of your own: forward rules and transposes, under the names of jax.interpreters.ad."""

from collections.abc import Callable

from distad.core.primitive import Primitive
from distad.core.value import Linear, Zero
from distad.interpreters.tables import Table
from distad.ops.basic import instantiated

UndefinedPrimal = Linear


def is_undefined_primal(x: object) -> bool:
    """Whether an operand of a transpose rule is one that the op is linear in: it has a type (`x.aval`) and no value."""
    return x.__class__ is Linear


def defjvp(primitive: Primitive, *rules: Callable | None) -> None:
    """Set the forward rule, one for each operand: `rule(t, *operands, **params)`, the tangent of the result due to that of the operand.

    None stands for an operand that the result does not depend on smoothly. The terms are added.

        defjvp(sine, lambda t, x: t * jnp.cos(x))
    """
    primitive.jvp = tuple(None if rule is None else _without_result(rule) for rule in rules)


def defjvp2(primitive: Primitive, *rules: Callable | None) -> None:
    """As `defjvp`, for rules that also want the result: `rule(t, result, *operands, **params)`."""
    primitive.jvp = tuple(rules)


def _without_result(rule: Callable) -> Callable:
    return lambda t, y, *operands, **params: rule(t, *operands, **params)


def deflinear(primitive: Primitive, transpose: Callable) -> None:
    """Say that an op is linear in all operands together; `transpose(ct, **params)` gives a list of their cotangents."""
    deflinear2(primitive, lambda ct, *operands, **params: transpose(ct, **params))


def deflinear2(primitive: Primitive, transpose: Callable) -> None:
    """As `deflinear`, with the operands' types: `transpose(ct, *operands, **params)`, whose operands have `aval` and no value."""
    def forward(primals, tangents, **params):
        return primitive.bind(*primals, **params), primitive.bind(*tangents, **params)
    primitive_jvps[primitive] = forward
    primitive_transposes[primitive] = transpose


def defbilinear(primitive: Primitive, left: Callable, right: Callable) -> None:
    """Say that an op of two operands is linear in each: `left(ct, x, y, **params)` is the cotangent of x, `right` that of y."""
    defjvp(primitive, lambda t, x, y, **params: primitive.bind(t, y, **params),
           lambda t, x, y, **params: primitive.bind(x, t, **params))
    primitive.transpose = (left, right)


def _set_jvp(primitive: Primitive, rule: Callable) -> None:
    def jvp(primals, tangents, **params):
        outs, made = rule(primals, tuple(map(instantiated, tangents)), **params)
        if not primitive.multiple:
            outs, made = [outs], [made]
        return list(outs), list(made)
    primitive.jvp = jvp


def _set_transpose(primitive: Primitive, rule: Callable) -> None:
    """The rule always gets arrays: for a result whose cotangent is zero, zeros."""
    def transpose(cts, *operands, **params):
        found = rule([*map(instantiated, cts)] if primitive.multiple else cts, *operands, **params)
        return [None if ct.__class__ is Zero else ct for ct in found]
    primitive.transpose = transpose


primitive_jvps = Table('jvp', _set_jvp)
primitive_transposes = Table('transpose', _set_transpose)

__all__ = ['UndefinedPrimal', 'Zero', 'defbilinear', 'defjvp', 'defjvp2', 'deflinear', 'deflinear2', 'is_undefined_primal',
           'primitive_jvps', 'primitive_transposes']
