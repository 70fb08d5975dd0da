"""What a checkpoint says of itself: step, leaves, their types and files, and the checksum of every piece; itself under a checksum.

    {"format": "distad checkpoint 1", "step": 12, "checksum": "crc32", "leaves": [
        {"path": "['w']", "file": "w.npy", "kind": "array", "shape": [8, 4], "dtype": "bfloat16", "stored": "uint16",
         "type": "bfloat16[8@X,4]", "pieces": [[[0, 0], [4, 4], 3735928559], [[4, 0], [8, 4], 305419896]]}],
     "sha256": "..."}

A piece is where it starts, where it stops and the CRC-32 of its bytes in C order, as `zlib.crc32` gives it. `sha256` is that of the
rest, as `json.dumps(rest, sort_keys=True)` writes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distad.errors import CheckpointError
from distad.runtime import files
from distad.types import dtypes

NAME = 'manifest.json'
FORMAT = 'distad checkpoint 1'
# What a leaf is in Python. Each number is stored in the dtype that holds all its values, within 64 bits for an int.
NUMBERS = {'bool': np.bool_, 'int': np.int64, 'float': np.float64, 'complex': np.complex128}
_NAMED = {'bfloat16': dtypes.bfloat16, dtypes.name(dtypes.KEY): dtypes.KEY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A leaf of the tree, and what of it is in its file. `type` is the printed type, for readers."""

    path: str
    file: str
    kind: str  # 'array', or the class of a Python number
    shape: tuple[int, ...]
    dtype: np.dtype
    type: str
    pieces: tuple[tuple[files.Index, int], ...] = ()

    @property
    def told(self) -> str:
        """What has to be equal to restore it."""
        return f'{dtypes.name(self.dtype)}{list(self.shape)}' if self.kind == 'array' else f'a Python {self.kind}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    step: int
    leaves: tuple[Leaf, ...]


def file_names(paths: Sequence[str]) -> list[str]:
    """A file name for each path: `['w'][0].bias` is `w.0.bias.npy`. No two are equal, also where capitals do not count."""
    names: list[str] = []
    taken: set[str] = set()
    for number, path in enumerate(paths):
        stem = re.sub(r'[^\w-]+', '.', path, flags=re.ASCII).strip('.')[:100] or 'value'
        if stem.lower() in taken:
            stem = f'{stem}.{number}'
        while stem.lower() in taken:
            stem += '_'
        taken.add(stem.lower())
        names.append(f'{stem}.npy')
    return names


def to_text(manifest: Manifest) -> str:
    content = {'format': FORMAT, 'step': manifest.step, 'checksum': 'crc32', 'leaves': [
        {'path': leaf.path, 'file': leaf.file, 'kind': leaf.kind, 'shape': leaf.shape, 'dtype': dtypes.name(leaf.dtype),
         'stored': files.stored_dtype(leaf.dtype).descr if leaf.dtype.names else files.stored_dtype(leaf.dtype).name,
         'type': leaf.type,
         'pieces': [[[s.start for s in index], [s.stop for s in index], crc] for index, crc in leaf.pieces]}
        for leaf in manifest.leaves]}
    return json.dumps(content | {'sha256': _digest(content)}, indent=1) + '\n'


def from_text(text: str, path: str) -> Manifest:
    """Raises CheckpointError with the path of the file, if it was not written by `to_text`."""
    try:
        content = json.loads(text)
        said, form = content.pop('sha256'), content['format']
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f'{path} is truncated or no manifest: {error}') from None
    if form != FORMAT:
        raise CheckpointError(f'{path} is of format {form!r}, this distad reads {FORMAT!r}')
    if said != _digest(content):
        raise CheckpointError(f'{path} has been altered: its SHA-256 is not the one that stands in it')
    return Manifest(step=content['step'], leaves=tuple(map(_leaf, content['leaves'])))


def _leaf(x: dict[str, Any]) -> Leaf:
    name = x['dtype']
    return Leaf(path=x['path'], file=x['file'], kind=x['kind'], shape=tuple(x['shape']), dtype=_NAMED.get(name) or np.dtype(name),
                type=x['type'], pieces=tuple((tuple(map(slice, starts, stops)), crc) for starts, stops, crc in x['pieces']))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
