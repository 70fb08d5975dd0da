"""Types: what is known of a value before there is one.

A type says shape, dtype and, for every axis of the mesh, how the value lies along it. Everything in this layer is a
pure function of types, so that all ranks come to the same answer; nothing here knows the number of a rank, starts
MPI or holds data.
"""
