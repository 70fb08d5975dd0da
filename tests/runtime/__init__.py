"""Tests of the runtime, which run at any number of ranks: a mesh that needs more is skipped, on all ranks alike."""
