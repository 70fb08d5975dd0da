"""What the arithmetic alone costs in NumPy."""

import numpy as np
from measure import report

x, y, w = np.ones(4, 'f'), np.ones(4, 'f'), np.ones((4, 4), 'f')
for name, call in (('x + y', lambda: x + y), ('x * 2.0', lambda: x * 2.0), ('tanh', lambda: np.tanh(x)), ('x.sum()', lambda: w.sum(1))):
    report(name, call, inner=500)
