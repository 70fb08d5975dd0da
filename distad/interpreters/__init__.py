"""The transformations as they meet primitives: where rules for primitives of your own are registered."""

from distad.interpreters import ad, batching

__all__ = ['ad', 'batching']
