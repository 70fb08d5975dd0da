"""The agreement checks: all ranks must be about to run the same program, and with DISTAD_CHECK=comm hold the same values.

Types can't see Python code that branches on the rank. So when a program is first run its ranks compare a digest of it, and a
difference is raised on every rank, with the first lines in which the programs differ. Nor can they see that a value called
replicated is another one on each rank; `same_values` compares digests of it, and finds the first element that differs.
"""

import hashlib
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from distad.errors import DisagreementError
from distad.runtime import collectives, mpi
from distad.runtime.world import Group, names
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
    told = '\n'.join(f"  {names(who)}: {line}" for line, who in by_line.items())
    return (f"ranks are about to run different programs as {what}. First difference, in equation {first}:\n{told}\n"
            "Python code that branches on the rank must not decide which operations are traced.")


_PIECE = 1 << 16  # bytes of a value that are compared, and if need be exchanged, at a time


def same_values(mesh: Mesh, what: str, values: Sequence[tuple[str, tuple[str, ...], np.ndarray]]) -> None:
    """Raise on all ranks if a value is not the same bits along its mesh axes. values: (name, axes, this rank's block)."""
    for axes in sorted({axes for _, axes, _ in values if mesh.axis_size(axes) > 1}):
        group = mpi.group(mesh, axes)
        alike = [(name, np.ascontiguousarray(block)) for name, others, block in values if others == axes]
        every = collectives.agree(group, b''.join(_sum(block.reshape(-1).view(np.uint8), f'{block.dtype} {block.shape}')
                                                  for _, block in alike))
        for i, (name, block) in enumerate(alike):
            if len({digests[4 * i:4 * i + 4] for digests in every}) > 1:
                raise DisagreementError(_odd(f'{what}: {name}', group, block))


def _sum(raw: np.ndarray, head: str = '') -> bytes:
    """A check sum of bytes. What differs by mistake has the same one once in 2**32; nothing that finds more is as quick."""
    return zlib.crc32(raw.data, zlib.crc32(head.encode())).to_bytes(4)


def _odd(what: str, group: Group, block: np.ndarray) -> str:
    """Where a value differs. All ranks of the group come here; their pieces are compared, and the first odd one is exchanged."""
    axes = ', '.join(group.axes)
    kinds = [text.decode() for text in collectives.agree(group, f'{block.dtype.name}{list(block.shape)}'.encode())]
    if len(set(kinds)) > 1:
        told = '; '.join(f'{kind} on {names(r for r, other in zip(group.ranks, kinds) if other == kind)}'
                         for kind in dict.fromkeys(kinds))
        return f'{what} should be the same on all ranks along {axes}, but is {told}.'
    raw = block.reshape(-1).view(np.uint8)
    size = max(_PIECE // block.itemsize, 1) * block.itemsize
    pieces = [raw[i:i + size] for i in range(0, raw.size, size)]
    every = collectives.agree(group, b''.join(map(_sum, pieces)))
    first = next(i for i in range(len(pieces)) if len({digests[4 * i:4 * i + 4] for digests in every}) > 1)
    parts = np.stack([np.frombuffer(text, np.uint8).reshape(-1, block.itemsize)
                      for text in collectives.agree(group, pieces[first].tobytes())])
    at = int(np.argmax((parts != parts[0]).any((0, 2))))
    elements = [np.ascontiguousarray(part[at]).view(block.dtype)[0] for part in parts]
    by_value: dict[str, list[int]] = {}
    for rank, element in zip(group.ranks, elements, strict=True):
        by_value.setdefault(str(element), []).append(rank)
    if len(by_value) == 1:  # NaN or zeros of different bits
        by_value = {f'{text} (bits {part[at].tobytes().hex()})': [rank] for rank, part, text in
                    zip(group.ranks, parts, map(str, elements), strict=True)}
    index = tuple(map(int, np.unravel_index(first * size // block.itemsize + at, block.shape)))
    told = '; '.join(f'{text} on {names(who)}' for text, who in by_value.items())
    return (f'{what} should be the same on all ranks along {axes}, but they differ, first in element {list(index)}: {told}. '
            'Make it from the same seed or file on all ranks, or hand on the value of one.')
