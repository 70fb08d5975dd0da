"""How an array lies over the ranks, as a picture: which ranks hold which block.

A picture is a function of type and mesh, so nothing is communicated, and one rank shows it.
"""

import html
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from distad.core.value import typeof
from distad.lax.placement import concrete_mesh
from distad.runtime import mpi
from distad.runtime.blocks import index_of
from distad.types.array_type import ArrayType
from distad.types.asked import named, wanted
from distad.types.mesh import Mesh

Picture = list[list[str]]  # a cell for each block: the ranks that hold it

_COLORS = ('68', '172', '71', '167', '103', '143', '132', '66', '137', '108')  # of the 256 that terminals know, of like brightness


def visualize_array_sharding(x: Any, *, use_color: bool = True, scale: float = 1., min_width: int = 9, max_width: int = 80) -> None:
    """Print which ranks hold which blocks of an array: a picture of its split dimensions, at most two.

    x: an array of any shape on a mesh. "ranks 0, 1" hold copies, "ranks 0 + 1" summands. use_color: colours, where standard
    output is a terminal; in a notebook the picture is an HTML table. scale, min_width, max_width: the size in characters.
    Printed by the first rank of the mesh. No communication. Raises ValueError for an array that is not on a mesh, or is
    split along more than two dimensions.

        visualize_array_sharding(device_put(np.ones((8, 4)), P('X', None)))
    """
    t, mesh = typeof(x), getattr(x, 'mesh', None)
    if mesh is None:
        raise ValueError(f'visualize_array_sharding: a value of type {t} lies on no mesh; every rank holds all of it')
    _show(t, mesh, use_color, scale, min_width, max_width)


def visualize_sharding(shape: Sequence[int], sharding: Any, *, use_color: bool = True, scale: float = 1., min_width: int = 9,
                       max_width: int = 80) -> None:
    """Print which ranks would hold which blocks of an array of this shape: see `visualize_array_sharding`. No communication.

    sharding: a P on the current mesh, or a NamedSharding.

        visualize_sharding((8, 4), P('X', 'Y'))
    """
    target = named(sharding)
    mesh = concrete_mesh(target)
    if mesh is None:
        raise ValueError('visualize_sharding needs a mesh: use set_mesh(mesh), or hand a NamedSharding')
    _show(wanted(ArrayType(tuple(shape), 'float32'), target), mesh, use_color, scale, min_width, max_width)


def _show(t: ArrayType, mesh: Mesh, use_color: bool, scale: float, min_width: int, max_width: int) -> None:
    if mpi.rank() != mesh.ranks[0]:
        return
    cells, title = picture(t, mesh), f'{t} on {mesh}'
    display = _notebook()
    if display is not None:
        display.display(display.HTML(as_html(cells, title)))
        return
    text = as_text(cells, title, use_color and sys.stdout.isatty(), scale, min_width, max_width)
    sys.stdout.write(text)
    sys.stdout.flush()


def picture(t: ArrayType, mesh: Mesh) -> Picture:
    """A row for each part of one split dimension, a column for each of another; of a single one, columns if it is the last."""
    split = [dim for dim, axes in enumerate(t.partitions) if axes]
    if len(split) > 2:
        raise ValueError(f'visualize_array_sharding shows two split dimensions; {t} is split along {len(split)}. Look at a part of it')
    if len(split) < 2:
        split = [*split, None] if split and split[0] < t.ndim - 1 else [None, *split, None]
    rows, columns = split[:2]
    parts = [t.shape[dim] // t.local_shape[dim] if dim is not None else 1 for dim in (rows, columns)]
    holders: list[list[list[int]]] = [[[] for _ in range(parts[1])] for _ in range(parts[0])]
    for rank in mesh.ranks:
        index = index_of(t, mesh.coords(rank))
        i, j = (0 if dim is None else index[dim].start // max(t.local_shape[dim], 1) for dim in (rows, columns))
        holders[i][j].append(rank)
    return [[_named(ranks, t, mesh) for ranks in row] for row in holders]


def _named(ranks: Sequence[int], t: ArrayType, mesh: Mesh) -> str:
    """'rank 0', copies 'ranks 0, 1', summands 'ranks 0 + 1'; of both, '(0, 1) + (2, 3)'."""
    summands: dict[tuple[int, ...], list[int]] = {}
    for rank in ranks:
        coords = mesh.coords(rank)
        summands.setdefault(tuple(coords[axis] for axis in mesh.axis_names if axis in t.unreduced), []).append(rank)
    copies = [', '.join(map(str, who)) for who in summands.values()]
    if len(copies) > 1:
        copies = [f'({who})' if ',' in who else who for who in copies]
    return ('rank ' if len(ranks) == 1 else 'ranks ') + ' + '.join(copies)


def as_text(cells: Picture, title: str, color: bool, scale: float = 1., min_width: int = 9, max_width: int = 80) -> str:
    """The picture in characters, coloured with the escapes of terminals."""
    longest = max(len(cell) for row in cells for cell in row) + 2
    room = max_width // len(cells[0]) - 1
    width = max(min(max(round(12 * scale), min_width), room), longest)
    height = max(1, round(scale))
    colors = _colors(cells)
    line = '+' + '+'.join('-' * width for _ in cells[0]) + '+\n'
    text = title + '\n' + line
    for row in cells:
        for k in range(height):
            texts = [(cell if k == height // 2 else '').center(width) for cell in row]
            if color:
                texts = [f'\033[48;5;{_COLORS[colors[cell]]}m\033[30m{part}\033[0m' for cell, part in zip(row, texts)]
            text += '|' + '|'.join(texts) + '|\n'
        text += line
    return text


def as_html(cells: Picture, title: str) -> str:
    """The picture as an HTML table."""
    colors = _colors(cells)
    rows = ''.join('<tr>' + ''.join(f'<td style="border: 1px solid; padding: 0.5em 1em; text-align: center; '
                                    f'background: hsl({36 * colors[cell]}, 50%, 75%); color: black">{html.escape(cell)}</td>'
                                    for cell in row) + '</tr>' for row in cells)
    return f'<table style="border-collapse: collapse"><caption>{html.escape(title)}</caption>{rows}</table>'


def _colors(cells: Iterable[Iterable[str]]) -> dict[str, int]:
    """The same holders, the same colour; neighbours differ."""
    names = dict.fromkeys(cell for row in cells for cell in row)
    return {name: i % len(_COLORS) for i, name in enumerate(names)}


def _notebook() -> Any:
    """IPython's display module, in a notebook."""
    ipython = sys.modules.get('IPython')
    shell = ipython.get_ipython() if ipython is not None else None
    return sys.modules.get('IPython.display') if shell is not None and hasattr(shell, 'kernel') else None
