"""all_reduce of torch.distributed over gloo, which is in place."""

import torch
import torch.distributed as dist
from measure import report
from problem import SIZES, calls, label

torch.set_num_threads(1)
dist.init_process_group('gloo')
for size in SIZES:
    x = torch.zeros(size // 4)
    report(f'in place, {label(size)}', lambda: dist.all_reduce(x), calls=calls(size), rank=dist.get_rank())  # noqa: B023
dist.destroy_process_group()
