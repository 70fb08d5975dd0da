"""The strict primitives, by family. Each is one record of all its rules; adjoint pairs share a file.

Strict means: operands have equal dtypes, shapes that broadcast by size-1 dimensions only, and states that go together. What
the user is forgiven (promotion, casts, `out_sharding`) is done by the functions of `lax` and `numpy`, as equations.
"""
