"""Derivatives of one's own, under the names of jax.custom_derivatives."""

from distad.control.custom_rules import CustomVJPPrimal, SymbolicZero, closure_convert, custom_jvp, custom_vjp

__all__ = ['CustomVJPPrimal', 'SymbolicZero', 'closure_convert', 'custom_jvp', 'custom_vjp']
