"""The recorded cases, and the recipe by which their inputs are rebuilt.

A case names an expression, a mesh and the placement of each argument; the values are not stored but follow from
formulas in the row-major index `k` and the argument's position `i`.  Everything here is plain NumPy: no rank, no mesh
object, no library.  So the recipe can be checked by itself (`test_recipe.py`), and what it makes can be handed to any
implementation.

An unreduced input is cut into summands that are all non-zero.  An implementation that takes one summand for the value,
or adds a constant once per rank, therefore can't get the right answer by luck.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

DATA = Path(__file__).parent / 'data'
Case = dict[str, Any]
Axes = tuple[str, ...]

EXTENDED = {'bfloat16': np.dtype(ml_dtypes.bfloat16)}
INEXACT = ('float16', 'bfloat16', 'float32', 'float64', 'complex64', 'complex128')
NONFINITE = {'nan': np.nan, 'inf': np.inf, '-inf': -np.inf}


@functools.cache
def load(name: str) -> tuple[Case, ...]:
    """The cases of one file, in the order they were recorded."""
    with open(DATA / f'{name}.jsonl', encoding='utf-8') as lines:
        return tuple(json.loads(line) for line in lines)


def explicit() -> tuple[Case, ...]:
    """All cases of explicit mode: single expressions, then whole programs (group `programs`)."""
    programs = tuple({**case, 'group': 'programs'} for case in load('explicit_programs'))
    return load('explicit') + programs


def mesh_size(case: Case) -> int:
    return int(np.prod([size for _, size in case['mesh']], dtype=int))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where an array lies: a shape, a dtype, mesh axes per dimension, and the axes it is unreduced or reduced over."""

    shape: tuple[int, ...]
    dtype: str
    spec: tuple[Axes, ...]
    unreduced: Axes = ()
    reduced: Axes = ()
    kind: str = 'sum'
    weak: bool = False

    @staticmethod
    def of_arg(arg: Case) -> Placed:
        spec = tuple(tuple(axes or ()) for axes in arg['spec'])
        return Placed(shape=tuple(arg['shape']), dtype=arg['dtype'], spec=spec, unreduced=tuple(arg['unreduced']),
                      reduced=tuple(arg['reduced']))

    @staticmethod
    @functools.cache
    def parse(text: str) -> Placed:
        """Read a printed type: 'float32[8@X,4@(Y,Z)]{U:W, R:V}'."""
        match = re.fullmatch(r'(~?)([\w<>]+)\[(.*?)\](?:\{(.*)\})?', text)
        if match is None:
            raise ValueError(f'not a printed type: {text!r}')
        weak, dtype, dims, states = match.groups()
        shape, spec = [], []
        for dim in re.findall(r'\d+(?:@(?:\w+|\([^)]*\)))?', dims):
            size, _, axes = dim.partition('@')
            shape.append(int(size))
            spec.append(_axes(axes))
        unreduced: Axes = ()
        reduced: Axes = ()
        kind = 'sum'
        for letter, axes in re.findall(r'(\w+):(\w+|\([^)]*\))', states or ''):
            if letter == 'R':
                reduced = _axes(axes)
            elif letter == 'V':
                raise ValueError(f'{text!r} varies: not a type of explicit mode')
            else:
                unreduced, kind = _axes(axes), letter.removeprefix('U').removeprefix('_') or 'sum'
        return Placed(shape=tuple(shape), dtype=dtype, spec=tuple(spec), unreduced=unreduced, reduced=reduced,
                      kind=kind, weak=bool(weak))

    def dual(self) -> Placed:
        """The type of a cotangent: unreduced and reduced change places."""
        return replace(self, unreduced=self.reduced, reduced=self.unreduced, kind='sum', weak=False)

    def replicated(self) -> Placed:
        return replace(self, spec=((),) * len(self.shape), unreduced=(), reduced=())

    def show(self, mesh: list[list[Any]]) -> str:
        """Print as the library prints types; the axes inside braces are in mesh order."""
        order = [name for name, _ in mesh]
        dims = ','.join(f'{n}@{_show(axes)}' if axes else str(n) for n, axes in zip(self.shape, self.spec))
        letter = 'U' if self.kind == 'sum' else f'U_{self.kind}'
        states = [f'{mark}:{_show(tuple(sorted(axes, key=order.index)))}'
                  for mark, axes in ((letter, self.unreduced), ('R', self.reduced)) if axes]
        return f"{'~' * self.weak}{self.dtype}[{dims}]" + (f"{{{', '.join(states)}}}" if states else '')


def _axes(text: str) -> Axes:
    return tuple(name.strip() for name in text.strip('()').split(',') if name.strip())


def _show(axes: Axes) -> str:
    return axes[0] if len(axes) == 1 else f"({','.join(axes)})"


def np_dtype(name: str) -> np.dtype:
    return EXTENDED.get(name) or np.dtype(name)


# ---- values


def index(shape: tuple[int, ...]) -> np.ndarray:
    """The row-major linear index of every element."""
    return np.arange(int(np.prod(shape, dtype=int))).reshape(shape)


def input_value(arg: Case, position: int) -> np.ndarray:
    """The global value of an argument."""
    k = index(tuple(arg['shape']))
    m = (7 * k + 3 * position) % 11
    fill, dtype = arg.get('fill', 'std'), arg['dtype']
    if fill.startswith('mod'):
        value = (7 * k + 3 * position) % int(fill[3:])
    elif fill == 'iota':
        value = k
    elif dtype == 'bool':
        value = (7 * k + 3 * position) % 3 == 0
    elif dtype.startswith('uint'):
        value = m
    elif dtype.startswith('int'):
        value = m - 5
    elif dtype.startswith('complex'):
        value = (m - 5) / 4 + 1j * (((7 * k + 3 * (position + 1)) % 11) - 5) / 4
    else:
        value = {'std': (m - 5) / 4, 'pos': (m + 1) / 4, 'unit': (m - 5) / 6}[fill]
    return np.asarray(value).astype(np_dtype(dtype))


def cotangent_value(kind: str, placed: Placed, position: int) -> np.ndarray:
    """The global value of the cotangent of float output number `position`: all ones, or the 'mod7' formula."""
    k = index(placed.shape)
    value = np.ones(placed.shape) if kind == 'ones' else ((5 * k + 2 * position) % 7 - 2) / 2
    return np.asarray(value).astype(np_dtype(placed.dtype))


def blocks(value: np.ndarray, placed: Placed, mesh: list[list[Any]]) -> Iterator[np.ndarray]:
    """What each device of the mesh holds, devices in row-major order."""
    order = [name for name, _ in mesh]
    sizes = dict(map(tuple, mesh))
    along = [name for name in order if name in placed.unreduced]
    pieces = [_piece(value, c) for c in range(1, int(np.prod([sizes[a] for a in along], dtype=int)))]
    first = value if not pieces else (value - sum(pieces[1:], pieces[0])).astype(value.dtype)
    pieces.insert(0, first)
    for coords in np.ndindex(*(size for _, size in mesh)):
        at = dict(zip(order, coords))
        yield np.array(pieces[_ravel(along, at, sizes)][slices(placed, at, sizes)], order='C')


def _piece(value: np.ndarray, c: int) -> np.ndarray:
    """The summand of the c-th device (c >= 1) along the unreduced axes; the first device holds what is left."""
    shift = 0 if value.dtype.kind == 'u' else 3
    return np.asarray((5 * index(value.shape) + c) % 7 - shift).astype(value.dtype)


def _ravel(axes: list[str] | Axes, at: dict[str, int], sizes: dict[str, int]) -> int:
    return functools.reduce(lambda c, axis: c * sizes[axis] + at[axis], axes, 0)


def slices(placed: Placed, at: dict[str, int], sizes: dict[str, int]) -> tuple[slice, ...]:
    """The part of the global array that the device at these mesh coordinates holds."""
    cut = []
    for n, axes in zip(placed.shape, placed.spec):
        size = n // int(np.prod([sizes[a] for a in axes], dtype=int))
        start = _ravel(axes, at, sizes) * size
        cut.append(slice(start, start + size))
    return tuple(cut)


def assemble(parts: dict[int, np.ndarray], placed: Placed, mesh: list[list[Any]]) -> np.ndarray:
    """The global value from what each device holds (the inverse of `blocks`).

    Raises ValueError where devices that should hold copies do not hold the same, or a block has the wrong shape.
    """
    sizes = dict(map(tuple, mesh))
    order = [name for name, _ in mesh]
    along = [name for name in order if name in placed.unreduced]
    pieces: dict[int, np.ndarray] = {}
    filled: dict[tuple[int, tuple], int] = {}
    for device, coords in enumerate(np.ndindex(*(size for _, size in mesh))):
        at = dict(zip(order, coords))
        block, cut, c = parts[device], slices(placed, at, sizes), _ravel(along, at, sizes)
        want = tuple(s.stop - s.start for s in cut)
        if block.shape != want:
            raise ValueError(f'device {device} holds a block of shape {block.shape}, its type says {want}')
        piece = pieces.setdefault(c, np.zeros(placed.shape, block.dtype))
        key = (c, tuple((s.start, s.stop) for s in cut))
        if key in filled and not same_bits(piece[cut], block):
            raise ValueError(f'devices {filled[key]} and {device} should hold the same copy and do not')
        filled.setdefault(key, device)
        piece[cut] = block
    if len(pieces) == 1:
        return pieces[0]
    join = {'sum': np.add, 'max': np.maximum, 'min': np.minimum}[placed.kind]
    kind = pieces[0].dtype.kind
    wide = np.complex128 if kind == 'c' else np.float64 if kind in 'fV' else pieces[0].dtype
    return functools.reduce(join, [pieces[c].astype(wide) for c in sorted(pieces)])


def same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


# ---- recorded answers


def recorded_value(value: Any, complex_: bool) -> np.ndarray:
    """A recorded nested list as float64 or complex128; complex numbers were written as [re, im]."""
    numbers = np.array(value, dtype=object)
    flat = [NONFINITE[v] if isinstance(v, str) else float(v) for v in numbers.ravel()]
    array = np.array(flat).reshape(numbers.shape)
    return array[..., 0] + 1j * array[..., 1] if complex_ else array


def tolerance(dtype: str) -> float:
    return 2e-2 if dtype in ('float16', 'bfloat16') else 2e-4


def difference(got: np.ndarray, want: np.ndarray, tol: float) -> str | None:
    """One line on how two values differ, or None if they agree."""
    kind = complex if got.dtype.kind == 'c' or want.dtype.kind == 'c' else float
    got, want = np.asarray(got).astype(kind), np.asarray(want).astype(kind)
    if got.shape != want.shape:
        return f'shape {got.shape}, expected {want.shape}'
    wrong = ~np.isclose(got, want, rtol=tol, atol=tol, equal_nan=True)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f'{int(wrong.sum())} of {wrong.size} values differ, at {list(at)} got {got[at]:.6g}, expected {want[at]:.6g}'
