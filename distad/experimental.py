"""What JAX keeps under this name."""

from distad.callbacks import io_callback

__all__ = ['io_callback']
