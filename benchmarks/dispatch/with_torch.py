"""What a call costs in PyTorch, one process."""

import torch
from measure import report

torch.set_num_threads(1)
x, y, w = torch.ones(4), torch.ones(4), torch.ones(4, 4)
plain = torch.compile(lambda x, y: x * 2 + y, dynamic=False)
leaf = torch.ones(4, requires_grad=True)
for name, call in (('x + y', lambda: x + y), ('x * 2.0', lambda: x * 2.0), ('tanh', lambda: torch.tanh(x)),
                   ('x.sum()', lambda: w.sum(1)), ('jit, 2 arrays', lambda: plain(x, y))):
    report(name, call, inner=500)
report('grad of 10 adds, eager', lambda: torch.autograd.grad(sum([leaf + y for _ in range(10)]).sum(), leaf), inner=5)
