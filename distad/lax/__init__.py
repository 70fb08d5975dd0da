"""The kind functions over the primitives, under the names of jax.lax."""

from distad.control.scan import fori_loop, scan
from distad.control.scan import map_ as map
from distad.lax.parallel import *  # noqa: F403
from distad.ops.stop import stop_gradient as stop_gradient
