"""The GPT step for distad and JAX: a map over the ranks, gradients of varying copies, one psum."""

import time
from functools import partial

import numpy as np
from measure import report, say
from problem import EPSILON, HEAD, HEADS, LAYERS, LENGTH, RATE, SHAPES, WIDTH, checksum, data, init, views
from side import RANK, RANKS, P, jax, jnp, mesh, part, place

mesh()


def norm(x, scale, shift):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPSILON) * scale + shift


def attention(x, p, i):
    b = x.shape[0]
    qkv = (x @ p[f'qkv_{i}'] + p[f'qkv_bias_{i}']).reshape(b, LENGTH, 3, HEADS, HEAD)
    scores = jnp.einsum('bqhd,bkhd->bhqk', qkv[:, :, 0], qkv[:, :, 1]) / HEAD ** .5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    return jnp.einsum('bhqk,bkhd->bqhd', jax.nn.softmax(scores, axis=-1), qkv[:, :, 2]).reshape(b, LENGTH, WIDTH)


def loss(p, tokens, wanted):
    x = p['words'][tokens] + p['places']
    for i in range(LAYERS):
        x = x + attention(norm(x, p[f'scale1_{i}'], p[f'shift1_{i}']), p, i) @ p[f'merge_{i}'] + p[f'merge_bias_{i}']
        y = norm(x, p[f'scale2_{i}'], p[f'shift2_{i}'])
        x = x + jax.nn.gelu(y @ p[f'up_{i}'] + p[f'up_bias_{i}']) @ p[f'down_{i}'] + p[f'down_bias_{i}']
    logits = jax.nn.log_softmax(norm(x, p['scale'], p['shift']) @ p['head'])
    return -jnp.take_along_axis(logits, wanted[..., None], axis=-1).mean()


@partial(jax.jit, donate_argnums=0)
@partial(jax.shard_map, in_specs=(P(), P('X'), P('X')), out_specs=P())
def step(p, tokens, wanted):
    varying = jax.tree.map(lambda x: jax.lax.pcast(x, 'X', to='varying'), p)
    gradient = jax.lax.psum(jax.grad(loss)(varying, tokens, wanted), 'X')
    return jax.tree.map(lambda x, g: x - (RATE / RANKS) * g, p, gradient)


before = init()
tokens, wanted = (place(x, P('X')) for x in data(RANKS))
placed = {name: place(x, P()) for name, x in views(before).items()}
start = time.perf_counter()
state = [jax.block_until_ready(step(placed, tokens, wanted))]
say('first step, tracing and compiling included', [time.perf_counter() - start], rank=RANK)
check = checksum(before, np.concatenate([part(state[0][name]).ravel() for name in SHAPES]))


def again() -> None:
    state[0] = step(state[0], tokens, wanted)
    jax.block_until_ready(state[0])


report('step', again, check, calls=10, rank=RANK)
