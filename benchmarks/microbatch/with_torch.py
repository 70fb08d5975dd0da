"""The microbatch step in PyTorch: gradients are views of one flat buffer, which gloo sums once a step."""

import numpy as np
import torch
import torch.distributed as dist
from measure import report
from problem import LAYERS, MICROBATCHES, RATE, ROWS, WIDTH, checksum, data

torch.set_num_threads(1)
dist.init_process_group('gloo')
rank = dist.get_rank()
before, inputs = data(dist.get_world_size())
inputs = torch.from_numpy(inputs[:, rank * ROWS:(rank + 1) * ROWS].copy())
weights = [torch.nn.Parameter(torch.from_numpy(w.copy())) for w in before]
flat = torch.zeros(LAYERS, WIDTH, WIDTH)
for w, g in zip(weights, flat):
    w.grad = g


def step() -> None:
    flat.zero_()
    for m in range(MICROBATCHES):
        x = inputs[m]
        for w in weights:
            x = torch.tanh(x @ w)
        (x ** 2).sum().backward()
    dist.all_reduce(flat)
    with torch.no_grad():
        torch._foreach_add_(weights, [w.grad for w in weights], alpha=-RATE)


step()
report('step', step, checksum(before, np.stack([w.detach().numpy() for w in weights])), rank=rank)
dist.destroy_process_group()
