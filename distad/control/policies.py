"""Which values `checkpoint` keeps for the backward pass: policies, and names for values.

A policy is asked of each operation of the forward pass, `policy(primitive, *types, **params)`, whether its results are kept; what it
does not keep is computed again. `checkpoint_name` is an operation that does nothing but have a name.
"""

from collections.abc import Callable
from typing import Any

from distad import tree
from distad.core.batching import VECTORIZED
from distad.core.lift import as_value
from distad.core.primitive import Primitive, by_labels, signature
from distad.core.value import Zero
from distad.ops.contraction import dot_general
from distad.types.array_type import ArrayType
from distad.types.inference import STRUCTURAL

Policy = Callable[..., bool]


# ---- names

def _labels(x: ArrayType, *, name: str):
    return signature('name', [range(x.ndim)], [range(x.ndim)], linearity=STRUCTURAL)


def _jvp(primals, tangents, *, name: str):
    """Tangents are not what was named."""
    y = named(primals[0], name=name)
    return [y], [Zero(y.type.tangent()) if tangents[0].__class__ is Zero else tangents[0]]


named = Primitive(
    'name', type=by_labels(_labels, lambda x, *, name: (x.shape, x.dtype)), labels=_labels, impl=lambda x, *, out, name: x, jvp=_jvp,
    transpose=(lambda ct, x, *, name: ct,), batch=VECTORIZED, linearity=STRUCTURAL)


def checkpoint_name(x: Any, name: str) -> Any:
    """The same values, of which the policies of `checkpoint` that go by names can speak.

        h = checkpoint_name(jnp.tanh(x @ w), 'hidden')
        checkpoint(f, policy=checkpoint_policies.save_only_these_names('hidden'))
    """
    return tree.map(lambda v: named(as_value(v, 'checkpoint_name'), name=name), x)


# ---- policies

def everything_saveable(primitive: Primitive, *types: ArrayType, **params: Any) -> bool:
    """Keep all: nothing is computed again."""
    return True


def nothing_saveable(primitive: Primitive, *types: ArrayType, **params: Any) -> bool:
    """Keep nothing but the arguments."""
    return False


def dots_saveable(primitive: Primitive, *types: ArrayType, **params: Any) -> bool:
    """Keep the results of contractions."""
    return primitive is dot_general


def dots_with_no_batch_dims_saveable(primitive: Primitive, *types: ArrayType, **params: Any) -> bool:
    """Keep the results of contractions without batch dimensions, such as those with weights."""
    return primitive is dot_general and not params['dimension_numbers'][1][0]


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def save_only_these_names(*names: str) -> Policy:
    """Keep the values of these names."""
    return lambda primitive, *types, **params: primitive is named and params['name'] in names


def save_any_names_but_these(*names: str) -> Policy:
    """Keep the values of all names but these."""
    return lambda primitive, *types, **params: primitive is named and params['name'] not in names


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep all but the values of these names."""
    return lambda primitive, *types, **params: primitive is not named or params['name'] not in names


def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """Keep what one of two policies keeps."""
    return lambda primitive, *types, **params: first(primitive, *types, **params) or second(primitive, *types, **params)


__all__ = ['checkpoint_dots', 'checkpoint_dots_with_no_batch_dims', 'dots_saveable', 'dots_with_no_batch_dims_saveable',
           'everything_saveable', 'nothing_saveable', 'save_any_names_but_these', 'save_anything_except_these_names',
           'save_from_both_policies', 'save_only_these_names']
