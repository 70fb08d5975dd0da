"""NumPy's names over distad arrays: kind functions, which promote, broadcast and cast before they bind a primitive."""

from distad.core.remember import remembered as _remembered
from distad.numpy import fft as fft
from distad.numpy import linalg as linalg
from distad.numpy.counting import *  # noqa: F403
from distad.numpy.creation import *  # noqa: F403
from distad.numpy.cumulative import *  # noqa: F403
from distad.numpy.diagonals import *  # noqa: F403
from distad.numpy.dtype_info import *  # noqa: F403
from distad.numpy.editing import *  # noqa: F403
from distad.numpy.einsum import *  # noqa: F403
from distad.numpy.elementwise import *  # noqa: F403
from distad.numpy.equality import *  # noqa: F403
from distad.numpy.files import *  # noqa: F403
from distad.numpy.grids import *  # noqa: F403
from distad.numpy.indexing import *  # noqa: F403
from distad.numpy.interpolation import *  # noqa: F403
from distad.numpy.joining import *  # noqa: F403
from distad.numpy.linear import *  # noqa: F403
from distad.numpy.logic import *  # noqa: F403
from distad.numpy.padding import *  # noqa: F403
from distad.numpy.polynomial import *  # noqa: F403
from distad.numpy.quantiles import *  # noqa: F403
from distad.numpy.reductions import *  # noqa: F403
from distad.numpy.repeating import *  # noqa: F403
from distad.numpy.scalars import *  # noqa: F403
from distad.numpy.searching import *  # noqa: F403
from distad.numpy.sets import *  # noqa: F403
from distad.numpy.shapes import *  # noqa: F403
from distad.numpy.sorting import *  # noqa: F403
from distad.numpy.statistics import *  # noqa: F403
from distad.numpy.taking import *  # noqa: F403
from distad.numpy.tapers import *  # noqa: F403
from distad.numpy.vectorize import *  # noqa: F403
from distad.source import bounded

bounded(globals())
# What these do follows from types and from arguments that are no arrays.
for _name in (
        'add', 'subtract', 'multiply', 'divide', 'true_divide', 'floor_divide', 'remainder', 'mod', 'fmod', 'maximum', 'minimum',
        'equal', 'not_equal', 'less', 'less_equal', 'greater', 'greater_equal', 'logical_and', 'logical_or', 'logical_xor',
        'bitwise_and', 'bitwise_or', 'bitwise_xor', 'arctan2', 'hypot'):
    globals()[_name] = _remembered(globals()[_name], numbers=True)
for _name in (
        'negative', 'abs', 'absolute', 'square', 'sqrt', 'reciprocal', 'exp', 'expm1', 'log', 'log1p', 'log2', 'sin', 'cos', 'tan',
        'tanh', 'sinh', 'cosh', 'sign', 'floor', 'ceil', 'power', 'clip', 'where', 'invert', 'logical_not', 'isnan', 'isfinite',
        'matmul', 'dot', 'vdot', 'inner', 'outer', 'sum', 'mean', 'prod', 'max', 'min', 'argmax', 'argmin', 'any', 'all', 'var',
        'std', 'cumsum', 'reshape', 'ravel', 'transpose', 'matrix_transpose', 'swapaxes', 'moveaxis', 'expand_dims', 'squeeze',
        'broadcast_to', 'getitem'):
    globals()[_name] = _remembered(globals()[_name])
