"""The kind functions over the primitives, under the names of jax.lax."""

from distad.control.conditional import cond as cond
from distad.control.conditional import switch as switch
from distad.control.conditional import while_loop as while_loop
from distad.control.scan import fori_loop as fori_loop
from distad.control.scan import map_ as map
from distad.control.scan import scan as scan
from distad.lax import linalg as linalg
from distad.lax.applying import *  # noqa: F403
from distad.lax.constraint import with_sharding_constraint as with_sharding_constraint
from distad.lax.contraction import *  # noqa: F403
from distad.lax.convolution import *  # noqa: F403
from distad.lax.creation import *  # noqa: F403
from distad.lax.cumulative import *  # noqa: F403
from distad.lax.dynamic import *  # noqa: F403
from distad.lax.elementwise import *  # noqa: F403
from distad.lax.fourier import *  # noqa: F403
from distad.lax.indexing import *  # noqa: F403
from distad.lax.parallel import *  # noqa: F403
from distad.lax.reduction import *  # noqa: F403
from distad.lax.shape import *  # noqa: F403
from distad.lax.slicing import *  # noqa: F403
from distad.lax.sorting import *  # noqa: F403
from distad.lax.windows import *  # noqa: F403
from distad.ops.stop import stop_gradient as stop_gradient
from distad.source import bounded

bounded(globals())
