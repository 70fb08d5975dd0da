"""The agreement check: all ranks must be about to run the same program.

Types can't see Python code that branches on the rank. So when a program is first run its ranks compare a digest of it, and a
difference is raised on every rank, with the first lines in which the programs differ.
"""

import hashlib
from collections.abc import Callable

from distad.errors import DisagreementError
from distad.runtime import collectives, mpi
from distad.types.mesh import Mesh


def check(mesh: Mesh | None, what: str, lines: Callable[[], list[str]]) -> None:
    """Compare a text over the ranks of a mesh. `lines` tells it line by line."""
    if mesh is None or mesh.size == 1 or mpi.rank() not in mesh.ranks:
        return
    mine = lines()
    group = mpi.group(mesh, mesh.axis_names)
    digests = collectives.agree(group, hashlib.sha256('\n'.join(mine).encode()).digest())
    if len(set(digests)) == 1:
        return
    every = [text.decode().split('\n') for text in collectives.agree(group, '\n'.join(mine).encode())]
    raise DisagreementError(_difference(what, group.ranks, every))


def _difference(what: str, ranks: tuple[int, ...], every: list[list[str]]) -> str:
    longest = max(map(len, every))
    padded = [lines + ['<nothing more>'] * (longest - len(lines)) for lines in every]
    first = next(i for i in range(longest) if len({lines[i] for lines in padded}) > 1)
    by_line: dict[str, list[int]] = {}
    for rank, lines in zip(ranks, padded, strict=True):
        by_line.setdefault(lines[first], []).append(rank)
    told = '\n'.join(f"  rank{'s' if len(who) > 1 else ''} {', '.join(map(str, who))}: {line}" for line, who in by_line.items())
    return (f"ranks are about to run different programs as {what}. First difference, in equation {first}:\n{told}\n"
            "Python code that branches on the rank must not decide which operations are traced.")
