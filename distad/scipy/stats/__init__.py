"""Distributions under the names of scipy.stats."""

from distad.scipy.stats import norm as norm
