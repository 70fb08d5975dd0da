"""The products by np.matmul of views, into a buffer that is there already."""

import numpy as np
from measure import report
from problem import CASES, operands


def views(formula: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, ...] | None]:
    """The operands as matmul takes them, and how its result has to be transposed."""
    match formula:
        case 'ij,kj->ik':
            return x, y.T, None
        case 'ji,jk->ik':
            return x.T, y, None
        case 'bqhd,bkhd->bhqk':
            return x.transpose(0, 2, 1, 3), y.transpose(0, 2, 3, 1), None
        case 'bhqk,bkhd->bqhd':
            return x, y.transpose(0, 2, 1, 3), (0, 2, 1, 3)
    return x, y, None


for name, (dtype, a, b, formula) in CASES.items():
    x, y, order = views(formula, *operands(dtype, a, b))
    product = np.matmul(x, y)
    out = np.empty_like(product if order is None else np.ascontiguousarray(product.transpose(order)))

    def run() -> None:
        if order is None:  # noqa: B023
            np.matmul(x, y, out=out)  # noqa: B023
        else:
            np.matmul(x, y, out=product)  # noqa: B023
            np.copyto(out, product.transpose(order))  # noqa: B023
    run()
    report(name, run, float(np.abs(out.astype('d')).sum()))
