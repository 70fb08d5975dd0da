"""What a call costs in autograd, one process."""

import autograd.numpy as anp
import numpy as np
from autograd import grad
from measure import report

x, y, w = np.ones(4, 'f'), np.ones(4, 'f'), np.ones((4, 4), 'f')
for name, call in (('x + y', lambda: anp.add(x, y)), ('x * 2.0', lambda: anp.multiply(x, 2.0)), ('tanh', lambda: anp.tanh(x)),
                   ('x.sum()', lambda: anp.sum(w, 1))):
    report(name, call, inner=500)
gradient = grad(lambda v: anp.sum(sum([v + y for _ in range(10)])))
report('grad of 10 adds, eager', lambda: gradient(x), inner=5)
