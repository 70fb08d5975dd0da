"""SciPy's names over distad arrays, as in jax.scipy: linear algebra, special functions, the normal distribution."""

from distad.scipy import linalg as linalg
from distad.scipy import special as special
from distad.scipy import stats as stats
