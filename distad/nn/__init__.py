"""Activations, normalizations and poolings of neural networks."""

from distad.nn import initializers
from distad.nn.activations import *  # noqa: F403
from distad.nn.attention import *  # noqa: F403
from distad.nn.normalization import *  # noqa: F403
from distad.nn.pooling import *  # noqa: F403
from distad.source import bounded

bounded(globals())
