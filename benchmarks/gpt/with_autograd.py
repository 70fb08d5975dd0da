"""The GPT step in autograd and mpi4py."""

import autograd.numpy as anp
import numpy as np
from autograd import grad
from autograd.extend import defvjp, primitive
from measure import report
from mpi4py import MPI
from problem import BATCH, EPSILON, HEAD, HEADS, LAYERS, LENGTH, RATE, ROWS, SHAPES, WIDTH, checksum, data, init, views

comm = MPI.COMM_WORLD
flat = init()
before, parameters = flat.copy(), views(flat)
tokens, wanted = (x[comm.rank * BATCH:(comm.rank + 1) * BATCH] for x in data(comm.size))
wanted, every = wanted.ravel(), np.arange(ROWS)
mask = np.triu(np.full((LENGTH, LENGTH), -1e9, 'f'), 1)


@primitive
def part(x, j):
    """x[:, :, j]; autograd's own gradient of it is np.add.at, which is slow."""
    return x[:, :, j]


def part_vjp(ans, x, j):
    def back(ct):
        out = np.zeros(x.shape, x.dtype)
        out[:, :, j] = ct
        return out
    return back


defvjp(part, part_vjp, None)


def norm(x, scale, shift):
    x = x - anp.mean(x, axis=-1, keepdims=True)
    return x / anp.sqrt(anp.mean(x * x, axis=-1, keepdims=True) + np.float32(EPSILON)) * scale + shift


def loss(p):
    x = anp.reshape(p['words'][tokens] + p['places'], (ROWS, WIDTH))
    for i in range(LAYERS):
        y = anp.dot(norm(x, p[f'scale1_{i}'], p[f'shift1_{i}']), p[f'qkv_{i}']) + p[f'qkv_bias_{i}']
        y = anp.reshape(y, (BATCH, LENGTH, 3, HEADS, HEAD))
        q, k, v = (anp.transpose(part(y, j), (0, 2, 1, 3)) for j in range(3))
        s = anp.matmul(q, anp.swapaxes(k, 2, 3)) * np.float32(HEAD ** -.5) + mask
        s = anp.exp(s - anp.max(s, axis=-1, keepdims=True))
        s = s / anp.sum(s, axis=-1, keepdims=True)
        y = anp.reshape(anp.transpose(anp.matmul(s, v), (0, 2, 1, 3)), (ROWS, WIDTH))
        x = x + anp.dot(y, p[f'merge_{i}']) + p[f'merge_bias_{i}']
        u = anp.dot(norm(x, p[f'scale2_{i}'], p[f'shift2_{i}']), p[f'up_{i}']) + p[f'up_bias_{i}']
        z = 0.5 * u * (1.0 + anp.tanh(0.7978845608028654 * (u + 0.044715 * u * u * u)))
        x = x + anp.dot(z, p[f'down_{i}']) + p[f'down_bias_{i}']
    logits = anp.dot(norm(x, p['scale'], p['shift']), p['head'])
    top = anp.max(logits, axis=1, keepdims=True)
    return anp.mean(anp.log(anp.sum(anp.exp(logits - top), axis=1)) + top[:, 0] - logits[every, wanted])


gradient = grad(loss)


def step() -> None:
    g = gradient(parameters)
    total = np.concatenate([np.asarray(g[name], 'f').ravel() for name in SHAPES])
    comm.Allreduce(MPI.IN_PLACE, total)
    flat[:] -= np.float32(RATE / comm.size) * total


step()
report('step', step, checksum(before, flat), calls=4, warm=0, rank=comm.rank, slowest=lambda s: comm.allreduce(s, MPI.MAX))
