"""What the examples share: ranks that speak once, and a check that ends the program."""

import argparse
import os
import sys

import numpy as np

import distad as jax
from distad.runtime.launch import LAUNCHERS


class Parser(argparse.ArgumentParser):
    """Every rank reads the same command line, and the first one speaks. The launcher says who is first, so no MPI is needed."""

    def __init__(self, doc: str):
        super().__init__(description=doc, epilog='Run it with mpirun -n N.', formatter_class=argparse.RawDescriptionHelpFormatter)

    def number(self, name: str, default: int, meaning: str) -> None:
        """An option `--name` that takes a number from 1 on."""
        self.add_argument(f"--{name}", type=_positive, default=default, metavar='N', help=f"{meaning} (default %(default)s)")

    def _print_message(self, message, file=None):
        if all(os.environ.get(rank, '0') == '0' for _, rank, _ in LAUNCHERS):
            super()._print_message(message, file)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def say(*words) -> None:
    """Print on the first rank."""
    if jax.process_index() == 0:
        print(*words, flush=True)


def sends(sent) -> str:
    """'3 all-reduce (1.2 kB from rank 0)': what a `count_collectives` has seen on the first rank."""
    kinds = ', '.join(f"{n} {op}" for op, n in sorted(sent.by_op.items()))
    return f"{kinds} ({sent.bytes / 1e3:.1f} kB from rank 0)" if kinds else 'nothing'


def expect(what: str, got, want, tolerance: float) -> None:
    """Compare a result with what it must be; a wrong one ends the program with status 1. Every rank has the same `got`."""
    error = float(np.linalg.norm(np.asarray(got) - want) / np.linalg.norm(want))
    say(f"{what}: relative error {error:.1e}, allowed {tolerance:.0e}")
    require(error <= tolerance, f"{what} is wrong: the relative error is {error:.1e}")


def require(condition: bool, otherwise: str) -> None:
    """End the program with status 1 and a sentence unless a condition holds, which is the same on every rank."""
    if not condition:
        sys.exit(otherwise if jax.process_index() == 0 else 1)
