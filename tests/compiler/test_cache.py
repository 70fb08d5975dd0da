"""Kernels on disk: one process of a node compiles, the others wait for its file; whatever goes wrong, there is a kernel."""

from __future__ import annotations

import os
import threading
import time

import pytest

from distad.compiler.llvm import engine

pytestmark = pytest.mark.ranks(1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    return tmp_path / 'distad' / 'kernels'


def asked(count: int, seconds: float = 0.1) -> tuple[list[bytes], int]:
    """What so many askers at once are given, and how often it was made."""
    made, got = [], []

    def make() -> bytes:
        made.append(None)
        time.sleep(seconds)
        return b'code'
    threads = [threading.Thread(target=lambda: got.append(engine._object_code('abc', make))) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got, len(made)


def test_of_several_one_compiles(folder) -> None:
    assert asked(4) == ([b'code'] * 4, 1)
    assert sorted(p.name for p in folder.iterdir()) == ['abc.o']
    assert asked(2) == ([b'code'] * 2, 0)


def test_a_lock_that_a_dead_process_left_does_not_stop_the_others(folder, monkeypatch) -> None:
    folder.mkdir(parents=True)
    lock = folder / 'abc.lock'
    lock.touch()
    os.utime(lock, (0, 0))
    assert asked(1) == ([b'code'], 1)
    assert not lock.exists()


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(tmp_path, monkeypatch) -> None:
    file = tmp_path / 'file'
    file.write_text('')
    monkeypatch.setenv('XDG_CACHE_HOME', str(file))
    assert asked(1) == ([b'code'], 1)


def test_an_error_of_the_compiler_leaves_no_lock(folder) -> None:
    def broken() -> bytes:
        raise RuntimeError('no')
    with pytest.raises(RuntimeError):
        engine._object_code('abc', broken)
    assert not list(folder.iterdir())
