"""What a value is, where Python may know it."""

from distad.core.value import Array, Value
from distad.transforms.jvp import JVPTracer


def known(x: Value) -> Array | None:
    """The array behind a value, if it is known while this code runs."""
    while isinstance(x, JVPTracer):
        x = x.primal
    return x if isinstance(x, Array) else None
