"""NumPy's names over distad arrays: kind functions, which promote, broadcast and cast before they bind a primitive."""

from distad.numpy.elementwise import *  # noqa: F403
from distad.numpy.creation import *  # noqa: F403
from distad.numpy.scalars import *  # noqa: F403
