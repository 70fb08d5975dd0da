"""The chains under torch.compile."""

import numpy as np
import torch
from measure import report
from problem import DTYPES, arithmetic, arrays, transcendental

torch.set_num_threads(1)
f = torch.compile(lambda x, y: arithmetic(x, y, torch.clamp_min, torch.clamp_max), dynamic=False)
g = torch.compile(lambda x, y: transcendental(x, y, torch.tanh, torch.exp, torch.log), dynamic=False)
for dtype in DTYPES:
    x, y = map(torch.from_numpy, arrays(dtype))
    for name, chain in (('arithmetic', f), ('transcendental', g)):
        report(f'{name} {dtype}', lambda: chain(x, y), float(np.abs(chain(x, y).numpy().astype('d')).sum()))  # noqa: B023
