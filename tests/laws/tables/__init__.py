"""Example calls of all primitives, by name. One file for each family of ops."""
