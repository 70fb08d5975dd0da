"""What each rank was doing last, in memory that the ranks of a node share: it can be read when a rank cannot answer.

A rank writes its own part and reads the others'. In its part are its process number, the last collectives it has begun, whether
the last of them has ended, and its last words if it failed. Nothing is sent, no file is left over: the memory has no name (a
memfd) and goes with the last process that holds it. Where a system has none, each rank has a part of its own and knows of no
other.

A stack is no part of this, for writing one costs time. It is asked for: a signal makes a process write the stacks of its threads,
in C and without Python's lock, so it answers from inside a lock or an endless loop too. Not when it is stopped or dead.
"""

from __future__ import annotations

import faulthandler
import fcntl
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LENGTH = 32  # collectives remembered
_HEAD, _SLOT, _TEXT = 1024, 768, 64
_PART = _HEAD + LENGTH * _SLOT
_WORDS = 128  # where the last words begin in the head
_SLOT_FORMAT = struct.Struct(f'=qqqqqdd{_SLOT - _TEXT}s')  # number, sequence, channel, call, bytes, begun, ended, text
_ENDED = 48
_HEAD_FORMAT = struct.Struct('=qqqqq')  # rank + 1, process, main thread, file of stacks, length of the last words
_SAID = 32
_NUMBER = struct.Struct('=q')
_write, _write_time = _SLOT_FORMAT.pack_into, struct.Struct('=d').pack_into
_write_numbers = struct.Struct('=qqqqqdd').pack_into
# A signal that nobody has a use for; the first ones belong to the C library.
SIGNAL = signal.SIGRTMIN + 11 if hasattr(signal, 'SIGRTMIN') else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One collective, as its rank wrote it down. `sequence` is 0 for what is not counted, such as an agreement."""

    sequence: int
    channel: int
    call: int
    nbytes: int
    begun: float
    ended: float
    what: str
    about: str
    ranks: tuple[int, ...]

    @property
    def running(self) -> bool:
        return not self.ended

    def __str__(self) -> str:
        number = f'#{self.sequence} ' if self.sequence else ''
        size = f'{self.nbytes} B ' if self.sequence else ''
        return f'{number}{self.what}, {size}{self.about}' if self.about else number + self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What can be seen of a rank: its last collectives, oldest first, and its last words."""

    rank: int
    process: int
    main_thread: int
    stacks: int
    entries: tuple[Entry, ...]
    words: str

    @property
    def inside(self) -> Entry | None:
        """The collective it is in."""
        return self.entries[-1] if self.entries and self.entries[-1].running else None

    def has_begun(self, entry: Entry) -> bool:
        """Whether it has come to this collective, too."""
        return any(own.channel == entry.channel and own.call >= entry.call for own in self.entries)


class Box:
    """The memory of a node, and in it the part that this rank writes. `ranks` are the ranks of the node."""

    __slots__ = ('memory', 'file', 'ranks', 'first', 'slot', 'number', 'said', 'holds')

    def __init__(self, file: int, ranks: Sequence[int], rank: int) -> None:
        # An anonymous mapping (file -1) is this rank's alone.
        self.ranks = tuple(ranks) if file >= 0 else (rank,)
        self.file = file
        self.memory = mmap.mmap(file, _PART * len(self.ranks))
        self.first = _PART * self.ranks.index(rank)
        self.slot = self.number = 0
        self.said: list[bytes] = [b''] * LENGTH  # the texts that stand in the slots
        self.holds = False  # the claim
        stacks = _answer()
        _HEAD_FORMAT.pack_into(self.memory, self.first, rank + 1, os.getpid(), threading.main_thread().ident or 0, stacks, 0)

    # -- what a rank writes

    def begin(self, sequence: int, channel: int, call: int, nbytes: int, begun: float, text: bytes) -> None:
        """Note that a collective begins. On the way of every collective: no more than bytes put into memory."""
        number = self.number = self.number + 1
        place = number % LENGTH
        at = self.slot = self.first + _HEAD + place * _SLOT
        if self.said[place] is text:  # as in every round of a loop
            _write_numbers(self.memory, at, number, sequence, channel, call, nbytes, begun, 0.0)
        else:
            self.said[place] = text
            _write(self.memory, at, number, sequence, channel, call, nbytes, begun, 0.0, text)

    def end(self, ended: float) -> None:
        """Note that it has ended."""
        _write_time(self.memory, self.slot + _ENDED, ended)

    def say(self, words: str) -> None:
        """Leave last words."""
        text = words.encode(errors='replace')[:_HEAD - _WORDS]
        self.memory[self.first + _WORDS:self.first + _WORDS + len(text)] = text
        _NUMBER.pack_into(self.memory, self.first + _SAID, len(text))

    def claim(self) -> bool:
        """Ask to be the one rank of the node that reports; only one may, until it has ended the job."""
        if self.file >= 0:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
        self.holds = True
        return True

    # -- what any rank reads

    def look(self) -> list[Seen]:
        """All ranks of the node that have written anything."""
        return [seen for at in range(0, len(self.memory), _PART) if (seen := _read(self.memory, at)) is not None]


def text(what: str, about: str, ranks: Sequence[int]) -> bytes:
    """What is written down of a collective: "all-reduce over X", then "float32, at train.py:7 (step)", and whom it needs."""
    return b'\0'.join((what.encode()[:100], about.encode()[:400], _packed(ranks).encode()))[:_SLOT - _TEXT]


def shared(rank: int, ranks: Sequence[int], broadcast: Callable[[Any], Any]) -> Box:
    """The box of this rank, together with the other ranks of the node. `broadcast` hands on what the first of them has."""
    path = ''
    own = -1
    if rank == ranks[0] and hasattr(os, 'memfd_create'):
        own = os.memfd_create('distad', os.MFD_CLOEXEC)
        os.ftruncate(own, _PART * len(ranks))
        path = f'/proc/{os.getpid()}/fd/{own}'
    path = broadcast(path)
    if own < 0 and path:
        try:
            own = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # processes that may not look at one another, or do not see the same /proc
            own = -1
    return Box(own, ranks, rank)


def _read(memory: mmap.mmap, at: int) -> Seen | None:
    rank, process, main, stacks, said = _HEAD_FORMAT.unpack_from(memory, at)
    if not rank:
        return None
    first = at + _HEAD
    slots = sorted(_SLOT_FORMAT.unpack_from(memory, first + i * _SLOT) for i in range(LENGTH))
    words = memory[at + _WORDS:at + _WORDS + said].decode(errors='replace')
    return Seen(rank=rank - 1, process=process, main_thread=main, stacks=stacks, words=words,
                entries=tuple(_entry(*slot) for slot in slots if slot[0]))


def _entry(number: int, sequence: int, channel: int, call: int, nbytes: int, begun: float, ended: float, text: bytes) -> Entry:
    what, about, ranks = text.decode(errors='replace').rstrip('\0').split('\0')
    return Entry(sequence=sequence, channel=channel, call=call, nbytes=nbytes, begun=begun, ended=ended, what=what, about=about,
                 ranks=_unpacked(ranks))


def _packed(ranks: Sequence[int]) -> str:
    """Ranks in few bytes: those along mesh axes mostly are evenly spaced."""
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    even = step and list(ranks) == list(range(ranks[0], ranks[0] + step * len(ranks), step))
    return f'{ranks[0]}:{step}:{len(ranks)}' if even else ','.join(map(str, ranks)) + ','


def _unpacked(text: str) -> tuple[int, ...]:
    if ':' in text:
        first, step, count = map(int, text.split(':'))
        return tuple(range(first, first + step * count, step))
    return tuple(map(int, text.split(',')[:-1]))  # what stands after the last comma may be cut short


# ---- stacks

def _answer() -> int:
    """From now on this process answers the signal with its stacks, in a file without a name; the number of that file."""
    if SIGNAL is None or not hasattr(os, 'memfd_create'):
        return -1
    file = os.memfd_create('distad-stacks', os.MFD_CLOEXEC)
    faulthandler.register(SIGNAL, file=file, all_threads=True)
    return file


def state(process: int) -> str:
    """The state of a process as the system sees it: R runs, S sleeps, T is stopped, Z is dead, '' is gone."""
    try:
        return Path(f'/proc/{process}/stat').read_text().rpartition(')')[2].split()[0]
    except (OSError, IndexError):
        return ''


def stacks(seen: Sequence[Seen], patience: float = 1.0) -> dict[int, str]:
    """The stack of each rank's main thread, innermost frame first, as faulthandler writes it; '' if it does not answer."""
    asked = [one for one in seen if one.stacks >= 0 and state(one.process) in ('R', 'S', 'D')]
    for one in asked:
        os.kill(one.process, SIGNAL)
    limit = time.monotonic() + patience
    found, before = {}, {'': ''}
    while found != before or not all(found.values()) and time.monotonic() < limit:  # all there, and no longer growing
        time.sleep(0.03)
        found, before = {one.rank: _main_thread(one) for one in asked}, found
    return dict.fromkeys((one.rank for one in seen), '') | found


def _main_thread(seen: Seen) -> str:
    try:
        text = Path(f'/proc/{seen.process}/fd/{seen.stacks}').read_text(errors='replace')
    except OSError:
        return ''
    threads = dict(part.split('\n', 1) for part in text.split('\n\n') if '\n' in part)
    return next((frames.rstrip() for head, frames in threads.items() if f'{seen.main_thread:016x} ' in head), '')
