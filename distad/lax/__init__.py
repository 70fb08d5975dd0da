"""The kind functions over the primitives, under the names of jax.lax."""

from distad.control.scan import fori_loop, scan
from distad.control.scan import map_ as map
from distad.ops.stop import stop_gradient

__all__ = ['fori_loop', 'map', 'scan', 'stop_gradient']
