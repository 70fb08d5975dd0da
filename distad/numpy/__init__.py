"""NumPy's names over distad arrays: kind functions, which promote, broadcast and cast before they bind a primitive."""

from distad.numpy import fft as fft
from distad.numpy import linalg as linalg
from distad.numpy.counting import *  # noqa: F403
from distad.numpy.creation import *  # noqa: F403
from distad.numpy.cumulative import *  # noqa: F403
from distad.numpy.diagonals import *  # noqa: F403
from distad.numpy.dtype_info import *  # noqa: F403
from distad.numpy.einsum import *  # noqa: F403
from distad.numpy.elementwise import *  # noqa: F403
from distad.numpy.equality import *  # noqa: F403
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
from distad.numpy.shapes import *  # noqa: F403
from distad.numpy.sorting import *  # noqa: F403
from distad.numpy.statistics import *  # noqa: F403
from distad.numpy.taking import *  # noqa: F403
from distad.source import bounded

bounded(globals())
