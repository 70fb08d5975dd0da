"""with_sharding_constraint: in explicit mode an assertion about types."""

from typing import Any

from distad import tree
from distad.core.lift import as_value
from distad.types.asked import is_sharding, wanted


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The same values, if they lie as `shardings` say.

    x: a pytree of arrays; shardings: P or NamedSharding, or a tree prefix of these. Nothing is communicated. Raises AssertionError
    where a type is another one (use reshard to change it), and ValueError for unreduced and reduced values, about which a
    constraint says nothing.

        lax.with_sharding_constraint(x, P('X'))
    """
    specs = tree.broadcast_prefix(shardings, x, is_leaf=is_sharding)
    for v, s in zip(tree.leaves(x), specs, strict=True):
        t = as_value(v, 'with_sharding_constraint').type
        want = wanted(t, s)
        if t.unreduced | t.reduced | want.unreduced | want.reduced:
            raise ValueError(f"with_sharding_constraint takes split and replicated values, got {t} and {s!r}. Use reshard.")
        if t != want:
            raise AssertionError(f"with_sharding_constraint: a value of type {t} does not lie as {s!r} says. Use reshard to bring "
                                 "it there.")
    return x
