"""Distributed automatic differentiation over MPI."""
