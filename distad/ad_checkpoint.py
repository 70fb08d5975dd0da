"""Rematerialization under the names of jax.ad_checkpoint."""

from distad.control import policies as checkpoint_policies
from distad.control.policies import checkpoint_name
from distad.control.remat import checkpoint

__all__ = ['checkpoint', 'checkpoint_name', 'checkpoint_policies']
