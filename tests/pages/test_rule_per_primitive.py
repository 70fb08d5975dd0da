"""One rule for each primitive: what a mapped function sees, how calls are dispatched, and what a missing rule costs."""

from __future__ import annotations

import numpy as np
import pytest

import distad as jax
import distad.numpy as jnp
from distad import rules
from distad.extend import Primitive, ShapedArray
from distad.interpreters import batching

pytestmark = [pytest.mark.timeout(60), pytest.mark.ranks(1)]


@pytest.mark.parametrize(('shape', 'axis'), [((3, 7, 5), 1), ((7, 3, 5), 0)])
def test_a_tracer_holds_the_batch_and_hides_its_dimension(shape, axis) -> None:
    seen = []

    def peek(x, y):
        seen.append((type(x).__name__, x.shape, x.val.shape, x.batch_dim, type(y).__name__, y is weights))
        return x * y

    weights = jnp.ones(5)
    out = jax.vmap(peek, in_axes=(axis, None))(jnp.ones(shape), weights)
    assert seen == [('BatchTracer', (3, 5), shape, axis, 'Array', True)]
    assert out.shape == (7, 3, 5)


def test_a_tracer_knows_the_line_it_comes_from() -> None:
    seen = []
    jax.vmap(lambda x: seen.append(jnp.sin(x).source_info) or x)(jnp.ones(3))
    assert seen[0].file == __file__


def test_work_that_touches_no_batch_stays_outside() -> None:
    seen = []

    def f(x, y):
        seen.append(jnp.sin(y) * 2)
        return x + seen[0]

    jax.vmap(f, in_axes=(0, None))(jnp.ones((4, 3)), jnp.ones(3))
    assert isinstance(seen[0], jax.Array)
    text = str(jax.make_jaxpr(jax.vmap(f, in_axes=(0, None)))(jnp.ones((4, 3)), jnp.ones(3)))
    assert 'f32[3] = sin' in text and 'f32[4,3] = sin' not in text


def test_an_operand_without_batch_gets_a_dimension_of_size_one() -> None:
    text = str(jax.make_jaxpr(jax.vmap(lambda x, y: x * y, in_axes=(1, None)))(jnp.ones((3, 7, 5)), jnp.ones((3, 5))))
    assert 'f32[1,3,5]' in text and text.count('f32[7,3,5]') == 2                  # the transposed x, and the product


def test_a_reduction_shifts_its_axes() -> None:
    text = str(jax.make_jaxpr(jax.vmap(lambda x: jnp.sum(jnp.tanh(x), 0)))(jnp.ones((4, 3, 5))))
    assert 'reduce_sum[axes=(1,)' in text


def test_the_primitives_that_need_the_axis_can_be_listed() -> None:
    names = rules.needing_axis()
    assert len(names) < len(rules.primitives()) / 5
    assert {'jit', 'scan', 'cond', 'while', 'checkpoint', 'custom_jvp_call', 'custom_vjp_call', 'shard_map'} <= set(names)
    assert not {'sin', 'add', 'dot_general', 'reduce_sum', 'transpose'} & set(names)


def mystery() -> Primitive:
    made = Primitive('mystery')
    made.def_impl(lambda v: v * 2.0)
    made.def_abstract_eval(lambda v: ShapedArray(v.shape, v.dtype))
    return made


def test_a_primitive_without_a_rule_is_refused_by_name_until_it_has_one() -> None:
    p = mystery()
    assert np.array_equal(p.bind(jnp.ones(3)), [2., 2., 2.])
    with pytest.raises(NotImplementedError, match="Batching rule for 'mystery' not implemented"):
        jax.vmap(p.bind)(jnp.ones((4, 3)))
    batching.defvectorized(p)
    assert jax.vmap(p.bind)(jnp.ones((4, 3))).shape == (4, 3)
    assert str(jax.make_jaxpr(jax.vmap(p.bind))(jnp.ones((4, 3)))) == '{ lambda ; a:f32[4,3]. let b:f32[4,3] = mystery a in (b,) }'


def test_an_old_rule_is_asked_only_when_there_is_a_batch_and_a_new_one_always() -> None:
    old, new = mystery(), mystery()
    asked = []
    batching.primitive_batchers[old] = lambda values, dims: (asked.append('old') or old.bind(*values), dims[0])
    batching.fancy_primitive_batchers[new] = lambda axis, values, dims: (asked.append(axis.size) or new.bind(*values), dims[0])
    jax.vmap(lambda x, y: x + old.bind(y) + new.bind(y), in_axes=(0, None))(jnp.ones(4), jnp.ones(()))
    assert asked == [4]
    assert old in batching.primitive_batchers and old in batching.fancy_primitive_batchers


def test_every_missing_rule_names_the_primitive() -> None:
    bare, p = Primitive('bare'), mystery()
    x = jnp.ones(3)
    for call, words in (
            (lambda: bare.bind(x), "Abstract evaluation for 'bare' not implemented"),
            (lambda: jax.jvp(p.bind, (x,), (x,)), 'mystery cannot be differentiated'),
            (lambda: jax.grad(lambda x: p.bind(x).sum())(x), 'mystery cannot be differentiated')):
        with pytest.raises(NotImplementedError, match=words):
            call()
    bare.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'bare' not implemented"):
        bare.bind(x)
