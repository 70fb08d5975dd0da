"""Activations and normalizations of neural networks."""

from distad.nn import initializers
from distad.nn.activations import *  # noqa: F403
from distad.nn.normalization import *  # noqa: F403
from distad.source import bounded

bounded(globals())
