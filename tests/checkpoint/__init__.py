"""Tests of checkpoints; those of programs that are killed are in tests/faults."""
