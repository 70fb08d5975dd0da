"""The report on a collective that did not come together, and the end of the job.

A rank that has waited for DISTAD_TIMEOUT seconds tells, for every rank of its node, its last collectives, whether it is inside one
or between two, and its stack; and first of all in a sentence who waits for whom. What happens on other nodes is asked of a rank there
that waits, too (`overdue`); of a node where none does nothing is known. One rank reports; then the job ends with a status of its own.

What is to be said is a function of what was seen (`report`), so it can be read and tested without MPI.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distad.runtime import blackbox
from distad.runtime.blackbox import Box, Entry, Seen
from distad.runtime.world import names
from distad.source import is_ours

STATUS = 75  # EX_TEMPFAIL of sysexits.h, "try again later": a script may start the job anew from its last checkpoint
_SHOWN = 8  # collectives of each rank, and frames of its stack
_FORWARDING = 0.3  # the launcher forwards what was printed, but not once the job is aborted
PATIENCE = 20.0  # seconds that a rank gives the one that reports

_STATES = {
    '': 'its process is gone', 'Z': 'its process is dead', 'X': 'its process is dead',
    'T': 'its process is stopped (SIGSTOP or a debugger)', 't': 'its process is stopped (a debugger)',
    'D': 'its process is in a system call that cannot be interrupted (a disk or a network file system)',
    'R': 'its process is running', 'S': 'its process is sleeping',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is known of one rank at the time `now` of its clock."""

    seen: Seen
    now: float
    state: str
    stack: tuple[str, ...]  # innermost last, without the library's frames where there are others

    @property
    def rank(self) -> int:
        return self.seen.rank


def end_job(box: Box, size: int, limit: float, abort: Callable[[int], None], what: str,
            elsewhere: Callable[[list[Sight]], list[Sight]]) -> None:
    """Report, as the one rank of the node that does, and end the job. Does not return.

    `elsewhere` tells what is seen on other nodes, for what is seen here.
    """
    if box.claim():
        sights = look(box)
        sights += elsewhere(sights)
        text = report(sorted(sights, key=lambda sight: sight.rank), size, limit, what)
        sys.stdout.flush()
        os.write(2, text.encode(errors='replace'))
        time.sleep(_FORWARDING)
    else:
        time.sleep(PATIENCE)
    abort(STATUS)


def look(box: Box) -> list[Sight]:
    """All ranks of the node as they are now."""
    seen = box.look()
    stacks = blackbox.stacks(seen)
    return [Sight(seen=one, now=time.perf_counter(), state=blackbox.state(one.process), stack=frames(stacks[one.rank]))
            for one in seen]


def report(sights: Sequence[Sight], size: int, limit: float, what: str) -> str:
    """The text of the report, for what is seen of `size` ranks."""
    lines = ['', f'distad: TIME-OUT: {what} did not come together within {limit:g} s (DISTAD_TIMEOUT).', *who_waits(sights)]
    for sight in sights:
        lines += ['', *_about(sight)]
    hidden = set(range(size)) - {sight.rank for sight in sights}
    if hidden:
        lines += ['', f'{names(sorted(hidden)).capitalize()}: nothing is known. On their nodes nobody waits in a collective and '
                  'could answer, or they are in containers that do not share memory.']
    lines += ['', 'A step that rightly takes longer needs a longer DISTAD_TIMEOUT (seconds).', '']
    return '\n'.join(lines)


def who_waits(sights: Sequence[Sight]) -> list[str]:
    """In sentences: which ranks wait for which, and what the missing ones do."""
    by_rank = {sight.rank: sight for sight in sights}
    waits: dict[tuple[int, ...], list[Sight]] = {}
    for sight in sights:
        entry = sight.seen.inside
        if entry is not None:
            missing = tuple(r for r in entry.ranks if r in by_rank and not by_rank[r].seen.has_begun(entry))
            waits.setdefault(missing, []).append(sight)
    lines = []
    for missing, waiting in sorted(waits.items()):
        who = names(sorted(sight.rank for sight in waiting)).capitalize()
        verb = 'waits' if len(waiting) == 1 else 'wait'
        if missing:
            lines.append(f'{who} {verb} for {names(sorted(missing))}.')
        else:
            lines += [f'{who} {verb}: {text}' for text in sorted({_all_there(s.seen.inside, by_rank) for s in waiting})]
    for rank in sorted({rank for missing in waits for rank in missing}):
        sight = by_rank[rank]
        if sight.seen.inside is None:
            last = sight.seen.entries[-1] if sight.seen.entries else None
            after = f'has stopped after {last}' if last else 'has not come to any collective'
            place = f', at {sight.stack[-1].strip()}' if sight.stack else ''
            lines.append(f'Rank {rank} {after}{place}; {_STATES.get(sight.state, "its state is " + sight.state)}.')
        else:
            lines.append(f'Rank {rank} is in another one: {sight.seen.inside}. The ranks do not make the same calls.')
    return lines


def _all_there(entry: Entry, by_rank: dict[int, Sight]) -> str:
    """Nobody that is known of is missing from a collective: what else it can be."""
    away = [r for r in entry.ranks if r not in by_rank]
    if away:
        return f'all have come to {entry}, but for {names(sorted(away))}, of which nothing is known.'
    calls: dict[str, list[int]] = {}
    for rank in entry.ranks:
        for own in by_rank[rank].seen.entries:
            if (own.channel, own.call) == (entry.channel, entry.call):
                calls.setdefault(f'{own.what}, {own.nbytes} B {own.about}', []).append(rank)
    if len(calls) > 1:
        return ('the ranks have come together in calls that do not fit: '
                + '; '.join(f'{names(sorted(who))} in {call}' for call, who in calls.items()) + '.')
    stopped = [r for r in entry.ranks if by_rank[r].state not in ('R', 'S', 'D')]
    if stopped:
        return (f'{names(sorted(stopped)).capitalize()} {"has" if len(stopped) == 1 else "have"} come to {entry} and cannot go on: '
                f'{_STATES.get(by_rank[stopped[0]].state, "?")}.')
    return f'all ranks have come to {entry}, and MPI does not bring it to an end.'


def _about(sight: Sight) -> list[str]:
    seen, inside = sight.seen, sight.seen.inside
    if inside is not None:
        where = f'is inside {inside}, for {sight.now - inside.begun:.1f} s'
    elif seen.entries:
        where = f'is between two collectives, the last of which ended {sight.now - seen.entries[-1].ended:.1f} s ago'
    else:
        where = 'has not been in a collective'
    lines = [f'rank {sight.rank} (process {seen.process}) {where}']
    if seen.words:
        lines.append(f'  it has failed: {seen.words}')
    if seen.entries:
        lines.append('  last collectives:')
        lines += [f'    {entry}, ' + ('not ended' if entry.running else f'{(entry.ended - entry.begun) * 1e3:.3f} ms')
                  for entry in seen.entries[-_SHOWN:]]
    if sight.stack:
        lines += ['  stack, innermost last:', *(f'    {frame}' for frame in sight.stack)]
    else:
        lines.append(f'  no stack: {_STATES.get(sight.state, "its state is " + sight.state)}'
                     + (', and it does not answer' if sight.state in ('R', 'S', 'D') else ''))
    return lines


_FRAME = re.compile(r'File "(.*)", line (\d+) in (.*)')


def frames(stack: str) -> tuple[str, ...]:
    """The last frames of a stack that faulthandler wrote, innermost last, each with its source line."""
    found = [(m[1], int(m[2]), m[3]) for m in map(_FRAME.search, stack.splitlines()) if m]
    program = [frame for frame in found if not is_ours(frame[0]) and not frame[0].startswith('<frozen ')] or found
    shown = reversed(program[:_SHOWN])
    return tuple(f'{file}:{line} in {name}: {linecache.getline(file, line).strip()}'.removesuffix(': ') for file, line, name in shown)
