"""What goes wrong with ranks, provoked for real: each case in an mpirun of its own, started by tests that run on one rank."""
