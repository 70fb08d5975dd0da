"""The products by torch.einsum."""

import numpy as np
import torch
from measure import report
from problem import CASES, operands

torch.set_num_threads(1)
for name, (dtype, a, b, formula) in CASES.items():
    x, y = map(torch.from_numpy, operands(dtype, a, b))
    report(name, lambda: torch.einsum(formula, x, y),  # noqa: B023
           float(np.abs(torch.einsum(formula, x, y).numpy().astype('d')).sum()))
