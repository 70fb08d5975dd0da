"""The GPT step in PyTorch: torch.compile, fused attention, layer norm and gelu; gradients in one flat buffer that gloo sums."""

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from measure import report
from problem import BATCH, EPSILON, HEAD, HEADS, LAYERS, LENGTH, RATE, SHAPES, SIZE, WIDTH, WORDS, checksum, data, init, views

torch.set_num_threads(1)
dist.init_process_group('gloo')
rank, size = dist.get_rank(), dist.get_world_size()
before = init()
tokens, wanted = (torch.from_numpy(x[rank * BATCH:(rank + 1) * BATCH].astype('i8')) for x in data(size))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.p = torch.nn.ParameterDict({k: torch.nn.Parameter(torch.from_numpy(v.copy())) for k, v in views(before).items()})

    def forward(self, tokens, wanted):
        p = self.p
        x = p['words'][tokens] + p['places']
        for i in range(LAYERS):
            y = F.layer_norm(x, (WIDTH,), p[f'scale1_{i}'], p[f'shift1_{i}'], EPSILON)
            qkv = F.linear(y, p[f'qkv_{i}'].t(), p[f'qkv_bias_{i}']).view(BATCH, LENGTH, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*qkv, is_causal=True).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
            x = x + F.linear(y, p[f'merge_{i}'].t(), p[f'merge_bias_{i}'])
            y = F.layer_norm(x, (WIDTH,), p[f'scale2_{i}'], p[f'shift2_{i}'], EPSILON)
            y = F.gelu(F.linear(y, p[f'up_{i}'].t(), p[f'up_bias_{i}']), approximate='tanh')
            x = x + F.linear(y, p[f'down_{i}'].t(), p[f'down_bias_{i}'])
        logits = F.layer_norm(x, (WIDTH,), p['scale'], p['shift'], EPSILON) @ p['head']
        return F.cross_entropy(logits.view(-1, WORDS), wanted.view(-1))


net = Gpt()
model = torch.compile(net, dynamic=False)
parameters = [net.p[name] for name in SHAPES]
flat = torch.zeros(SIZE)
for p, g in zip(parameters, views(flat.numpy()).values()):
    p.grad = torch.from_numpy(g)


def step() -> None:
    flat.zero_()
    model(tokens, wanted).backward()
    dist.all_reduce(flat)
    with torch.no_grad():
        torch._foreach_add_(parameters, [p.grad for p in parameters], alpha=-RATE / size)


step()
report('step', step, checksum(before, np.concatenate([p.detach().numpy().ravel() for p in parameters])), calls=10, rank=rank)
dist.destroy_process_group()
