"""Ranks as threads of one process: the plans of meshes larger than the number of ranks, with no MPI at all.

It stands in for `mpi.rank`, `mpi.group` and the collectives with the few lines that say what each of these means.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from distad.runtime import collectives, moves, mpi
from distad.types.mesh import Mesh


class Ranks:
    """`Ranks(n).each(f)` calls f(rank) for each rank, in a thread of its own, and gives all results."""

    def __init__(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.local = threading.local()
        self.board: list[Any] = [None] * size
        self.barrier = threading.Barrier(size, timeout=20)
        monkeypatch.setattr(mpi, 'rank', lambda: self.local.rank)
        monkeypatch.setattr(mpi, 'group', self.group)
        monkeypatch.setattr(moves, 'collectives', SimpleNamespace(
            wire_dtype=collectives.wire_dtype, all_reduce=self.all_reduce, all_gather=self.all_gather,
            all_gather_along=self.all_gather_along,
            reduce_scatter=self.reduce_scatter, all_to_all=self.all_to_all, all_to_all_v=self.all_to_all_v))

    def each(self, f: Any) -> list[Any]:
        results: list[Any] = [None] * len(self.board)

        def body(rank: int) -> None:
            self.local.rank = rank
            try:
                results[rank] = f(rank)
            except BaseException as error:
                results[rank] = error
                self.barrier.abort()

        threads = [threading.Thread(target=body, args=(r,)) for r in range(len(self.board))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        errors = [r for r in results if isinstance(r, BaseException)]
        for error in sorted(errors, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
            raise error
        return results

    def group(self, mesh: Mesh, axes: tuple[str, ...]) -> Any:
        here = mesh.coords(self.local.rank)
        alike = {}
        for rank in mesh.ranks:
            there = mesh.coords(rank)
            if all(there[name] == here[name] for name in mesh.axis_names if name not in axes):
                alike[tuple(there[name] for name in axes)] = rank
        ranks = [alike[place] for place in sorted(alike)]
        return SimpleNamespace(ranks=ranks, size=len(ranks), index=ranks.index(self.local.rank))

    def all(self, group: Any, value: Any) -> list[Any]:
        self.board[self.local.rank] = value
        self.barrier.wait()
        values = [self.board[r] for r in group.ranks]
        self.barrier.wait()
        return values

    def all_reduce(self, group, x, kind='sum', *, given=False, where):
        return {'sum': np.sum, 'max': np.max, 'min': np.min}[kind](self.all(group, x), axis=0, dtype=x.dtype)

    def all_gather(self, group, x, *, where):
        return np.stack(self.all(group, x))

    def all_gather_along(self, group, x, dim, shape, *, where):
        return np.moveaxis(self.all_gather(group, x, where=where), 0, dim).reshape(shape)

    def reduce_scatter(self, group, x, kind='sum', *, where):
        assert len(x) == group.size
        return np.sum(self.all(group, x), axis=0, dtype=x.dtype)[group.index]

    def all_to_all(self, group, x, *, where):
        assert len(x) == group.size
        return np.stack([theirs[group.index] for theirs in self.all(group, x)])

    def all_to_all_v(self, group, blocks, shapes, *, where):
        came = [theirs[group.index] for theirs in self.all(group, blocks)]
        assert [x.shape for x in came] == list(shapes)
        return came
