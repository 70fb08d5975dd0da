"""Batching rules for functions of one's own, under the names of jax.custom_batching."""

from distad.control.custom_vmap import custom_vmap, sequential_vmap

__all__ = ['custom_vmap', 'sequential_vmap']
