"""The GPT step in NumPy and mpi4py: forward and backward by hand, every buffer made once, elementwise work a few rows at a time."""

import numpy as np
from measure import report
from mpi4py import MPI
from problem import BATCH, EPSILON, HEAD, HEADS, INNER, LAYERS, LENGTH, RATE, ROWS, WIDTH, WORDS, checksum, data, init, views

comm = MPI.COMM_WORLD
F = np.float32
matmul, mul, add, sub = np.matmul, np.multiply, np.add, np.subtract
flat = init()
before, gradient = flat.copy(), np.zeros_like(flat)
p, g = views(flat), views(gradient)
tokens, wanted = (x[comm.rank * BATCH:(comm.rank + 1) * BATCH].ravel() for x in data(comm.size))


def room(*shape: int) -> np.ndarray:
    return np.empty(shape, 'f')


# Each layer has two sublayers, each with a norm in front; the last norm is that before the head.
NORMS = 2 * LAYERS + 1
stream, normed, whitened = ([room(ROWS, WIDTH) for _ in range(NORMS)] for _ in range(3))
inverse = [room(ROWS) for _ in range(NORMS)]
qkv = [room(BATCH, LENGTH, 3, HEADS, HEAD) for _ in range(LAYERS)]
weight = [room(BATCH, HEADS, LENGTH, LENGTH) for _ in range(LAYERS)]
attended = [room(BATCH, LENGTH, HEADS, HEAD) for _ in range(LAYERS)]
inner, gate, active = ([room(ROWS, INNER) for _ in range(LAYERS)] for _ in range(3))
ct, ct_normed, ct_scaled = room(ROWS, WIDTH), room(ROWS, WIDTH), room(ROWS, WIDTH)
ct_attended, ct_weight = room(BATCH, LENGTH, HEADS, HEAD), room(BATCH, HEADS, LENGTH, LENGTH)
ct_inner, ct_qkv, ct_logits = room(ROWS, INNER), room(BATCH, LENGTH, 3, HEADS, HEAD), room(ROWS, WORDS)
heads, row = room(BATCH, HEADS, LENGTH, HEAD), room(LENGTH)
mean, ones = np.full(WIDTH, 1 / WIDTH, 'f'), np.ones(ROWS, 'f')
mask = np.triu(np.full((LENGTH, LENGTH), -1e9, 'f'), 1)
NORM, GELU, LOSS = 64, 16, 32                              # rows at a time
norm_buffers, norm_rows = [room(NORM, WIDTH) for _ in range(2)], [room(NORM), room(NORM)]
gelu_buffers, loss_row, loss_index = [room(GELU, INNER) for _ in range(2)], room(LOSS), np.arange(LOSS)
SLOPE, CUBIC = F(0.7978845608028654), F(0.7978845608028654 * 0.044715)
half, one, scale_qk = F(.5), F(1), F(HEAD ** -.5)


def blocks(size: int):
    return [slice(r, r + size) for r in range(0, ROWS, size)]


def split_heads(x: np.ndarray) -> list[np.ndarray]:
    """[batch, length, 3, heads, head] as three views [batch, heads, length, head]."""
    return [x[:, :, j].transpose(0, 2, 1, 3) for j in range(3)]


def norm(i: int, scale: np.ndarray, shift: np.ndarray) -> None:
    for s in blocks(NORM):
        x, h, q, y = stream[i][s], whitened[i][s], inverse[i][s], normed[i][s]
        matmul(x, mean, out=norm_rows[0])
        sub(x, norm_rows[0][:, None], out=h)
        np.vecdot(h, h, out=q)
        mul(q, F(1 / WIDTH), out=q)
        add(q, F(EPSILON), out=q)
        np.sqrt(q, out=q)
        np.reciprocal(q, out=q)
        mul(h, q[:, None], out=h)
        mul(h, scale, out=y)
        add(y, shift, out=y)


def norm_back(i: int, scale: np.ndarray, ct_scale: np.ndarray, ct_shift: np.ndarray, first: bool = False) -> None:
    """Adds to `ct`, or sets it, the cotangent of the norm's operand."""
    matmul(ones, ct_normed, out=ct_shift)
    a, b = norm_buffers
    along, across = norm_rows
    for s in blocks(NORM):
        d, h, q = ct_normed[s], whitened[i][s], inverse[i][s]
        mul(d, h, out=ct_scaled[s])
        mul(d, scale, out=a)
        matmul(a, mean, out=along)
        np.vecdot(a, h, out=across)
        mul(across, F(1 / WIDTH), out=across)
        sub(a, along[:, None], out=a)
        mul(h, across[:, None], out=b)
        sub(a, b, out=a)
        if first:
            mul(a, q[:, None], out=ct[s])
        else:
            mul(a, q[:, None], out=a)
            add(ct[s], a, out=ct[s])
    matmul(ones, ct_scaled, out=ct_scale)


def attention(i: int) -> None:
    x = qkv[i].reshape(ROWS, 3 * WIDTH)
    matmul(normed[2 * i], p[f'qkv_{i}'], out=x)
    add(x, p[f'qkv_bias_{i}'], out=x)
    mul(qkv[i][:, :, 0], scale_qk, out=qkv[i][:, :, 0])
    q, k, v = split_heads(qkv[i])
    matmul(q, k.swapaxes(2, 3), out=weight[i])
    for w in weight[i].reshape(BATCH * HEADS, LENGTH, LENGTH):
        add(w, mask, out=w)
        np.max(w, axis=1, out=row)
        sub(w, row[:, None], out=w)
        np.exp(w, out=w)
        np.sum(w, axis=1, out=row)
        np.reciprocal(row, out=row)
        mul(w, row[:, None], out=w)
    matmul(weight[i], v, out=heads)
    np.copyto(attended[i], heads.transpose(0, 2, 1, 3))


def attention_back(i: int) -> None:
    d, (q, k, v), w = ct_attended.transpose(0, 2, 1, 3), split_heads(qkv[i]), weight[i]
    matmul(w.swapaxes(2, 3), d, out=heads)
    np.copyto(ct_qkv[:, :, 2], heads.transpose(0, 2, 1, 3))
    matmul(d, v.swapaxes(2, 3), out=ct_weight)
    for c, w_ in zip(ct_weight.reshape(-1, LENGTH, LENGTH), w.reshape(-1, LENGTH, LENGTH)):
        np.vecdot(c, w_, out=row)
        sub(c, row[:, None], out=c)
        mul(c, w_, out=c)
    matmul(ct_weight, k, out=heads)
    mul(heads.transpose(0, 2, 1, 3), scale_qk, out=ct_qkv[:, :, 0])
    matmul(ct_weight.swapaxes(2, 3), q, out=heads)
    np.copyto(ct_qkv[:, :, 1], heads.transpose(0, 2, 1, 3))


def gelu(i: int) -> None:
    """`gate` keeps (1 + tanh) / 2."""
    for s in blocks(GELU):
        u, t = inner[i][s], gate[i][s]
        add(u, p[f'up_bias_{i}'], out=u)
        mul(u, u, out=t)
        mul(t, CUBIC, out=t)
        add(t, SLOPE, out=t)
        mul(t, u, out=t)
        np.tanh(t, out=t)
        add(t, one, out=t)
        mul(t, half, out=t)
        mul(t, u, out=active[i][s])


def gelu_back(i: int) -> None:
    a, b = gelu_buffers
    for s in blocks(GELU):
        u, t = inner[i][s], gate[i][s]
        sub(one, t, out=a)
        mul(a, t, out=a)                                   # (1 - tanh^2) / 4
        mul(u, u, out=b)
        mul(b, F(6) * CUBIC, out=b)
        add(b, F(2) * SLOPE, out=b)
        mul(b, u, out=b)
        mul(a, b, out=a)
        add(a, t, out=a)
        mul(ct_inner[s], a, out=ct_inner[s])


def forward() -> None:
    np.take(p['words'], tokens, axis=0, out=stream[0], mode='clip')
    x = stream[0].reshape(BATCH, LENGTH, WIDTH)
    add(x, p['places'], out=x)
    for i in range(LAYERS):
        x, y, z = stream[2 * i:2 * i + 3]
        norm(2 * i, p[f'scale1_{i}'], p[f'shift1_{i}'])
        attention(i)
        matmul(attended[i].reshape(ROWS, WIDTH), p[f'merge_{i}'], out=y)
        add(y, p[f'merge_bias_{i}'], out=y)
        add(y, x, out=y)
        norm(2 * i + 1, p[f'scale2_{i}'], p[f'shift2_{i}'])
        matmul(normed[2 * i + 1], p[f'up_{i}'], out=inner[i])
        gelu(i)
        matmul(active[i], p[f'down_{i}'], out=z)
        add(z, p[f'down_bias_{i}'], out=z)
        add(z, y, out=z)
    norm(2 * LAYERS, p['scale'], p['shift'])
    matmul(normed[2 * LAYERS], p['head'], out=ct_logits)


def loss_back() -> None:
    """From logits to their cotangents: softmax minus one at the wanted word, over the number of rows."""
    for s in blocks(LOSS):
        x = ct_logits[s]
        np.max(x, axis=1, out=loss_row)
        sub(x, loss_row[:, None], out=x)
        np.exp(x, out=x)
        np.sum(x, axis=1, out=loss_row)
        np.reciprocal(loss_row, out=loss_row)
        mul(loss_row, F(1 / ROWS), out=loss_row)
        mul(x, loss_row[:, None], out=x)
        x[loss_index, wanted[s]] -= F(1 / ROWS)


def backward() -> None:
    loss_back()
    matmul(normed[2 * LAYERS].T, ct_logits, out=g['head'])
    matmul(ct_logits, p['head'].T, out=ct_normed)
    norm_back(2 * LAYERS, p['scale'], g['scale'], g['shift'], first=True)
    for i in reversed(range(LAYERS)):
        matmul(ones, ct, out=g[f'down_bias_{i}'])
        matmul(active[i].T, ct, out=g[f'down_{i}'])
        matmul(ct, p[f'down_{i}'].T, out=ct_inner)
        gelu_back(i)
        matmul(ones, ct_inner, out=g[f'up_bias_{i}'])
        matmul(normed[2 * i + 1].T, ct_inner, out=g[f'up_{i}'])
        matmul(ct_inner, p[f'up_{i}'].T, out=ct_normed)
        norm_back(2 * i + 1, p[f'scale2_{i}'], g[f'scale2_{i}'], g[f'shift2_{i}'])
        matmul(ones, ct, out=g[f'merge_bias_{i}'])
        matmul(attended[i].reshape(ROWS, WIDTH).T, ct, out=g[f'merge_{i}'])
        matmul(ct, p[f'merge_{i}'].T, out=ct_attended.reshape(ROWS, WIDTH))
        attention_back(i)
        d = ct_qkv.reshape(ROWS, 3 * WIDTH)
        matmul(ones, d, out=g[f'qkv_bias_{i}'])
        matmul(normed[2 * i].T, d, out=g[f'qkv_{i}'])
        matmul(d, p[f'qkv_{i}'].T, out=ct_normed)
        norm_back(2 * i, p[f'scale1_{i}'], g[f'scale1_{i}'], g[f'shift1_{i}'])
    np.sum(ct.reshape(BATCH, LENGTH, WIDTH), axis=0, out=g['places'])
    g['words'][:] = 0
    np.add.at(g['words'], tokens, ct)


def step() -> None:
    forward()
    backward()
    comm.Allreduce(MPI.IN_PLACE, gradient)
    mul(gradient, F(RATE / comm.size), out=gradient)
    sub(flat, gradient, out=flat)


step()
report('step', step, checksum(before, flat), calls=10, rank=comm.rank, slowest=lambda s: comm.allreduce(s, MPI.MAX))
