"""Activations and normalizations of neural networks."""
