"""The timelines of all ranks as one, with the waiting in each collective told from the rest, and a table of it.

A rank waits in a collective until the last of its ranks has come to it. The k-th collective among some ranks is the same event on
each of them, so the last to come is known once all files are read.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Cost:
    """What the collectives of one kind have cost: times are seconds, summed over ranks."""

    calls: int = 0
    bytes: int = 0
    time: float = 0.
    waiting: float = 0.
    last: Counter[int] = field(default_factory=Counter)


def merge(folder: str | Path) -> str:
    """Write folder/trace.json from folder/rank<r>.json, and give the tables as text.

    Raises FileNotFoundError where there are no such files, ValueError for a file that is none of them.
    """
    folder = Path(folder)
    paths = sorted((path for path in folder.glob('rank*.json') if path.stem[4:].isdigit()), key=lambda path: int(path.stem[4:]))
    if not paths:
        raise FileNotFoundError(f'there is no rank0.json in {folder}: run the program with DISTAD_TRACE={folder}, or under '
                                f'distad.profiler.trace({str(folder)!r})')
    events = [event for path in paths for event in read(path)]
    waits = waiting(events)
    with open(folder / 'trace.json', 'w') as file:
        file.write('[\n' + ',\n'.join(map(json.dumps, events + waits)) + '\n]\n')
    return summary(events, waits, len(paths))


def read(path: Path) -> list[Event]:
    """The events of a rank's file, also of one whose rank was killed as it wrote."""
    lines = path.read_text().split('\n')
    if lines[0] != '[':
        raise ValueError(f'{path} is not a timeline of distad')
    events = []
    for line in lines[1:]:
        try:
            events.append(json.loads(line.rstrip(',')))
        except ValueError:  # the bracket at the end, or a line cut short
            continue
    return [event for event in events if event['name'] != 'end']


def waiting(events: Sequence[Event]) -> list[Event]:
    """A slice in each collective for the time before its last rank had come."""
    made = []
    for meeting in meetings(events).values():
        last = max(meeting, key=lambda event: event['ts'])
        for event in meeting:
            time = min(last['ts'] - event['ts'], event['dur'])
            if time > 0:
                made.append({'ph': 'X', 'name': f'waiting for rank {last["pid"]}', 'cat': 'waiting', 'pid': event['pid'],
                             'tid': event['tid'], 'ts': event['ts'], 'dur': round(time, 3), 'args': {'op': event['name']}})
    return made


def meetings(events: Sequence[Event]) -> dict[tuple, list[Event]]:
    """What the ranks of each collective noted of it."""
    found = defaultdict(list)
    for event in events:
        if event.get('cat') == 'collective':
            found[tuple(event['args']['ranks']), event['args']['call']].append(event)
    return found


def summary(events: Sequence[Event], waits: Sequence[Event], ranks: int) -> str:
    """Two tables: what the collectives of each kind cost, and how each rank spent its time."""
    costs: dict[str, Cost] = defaultdict(Cost)
    for meeting in meetings(events).values():
        cost = costs[meeting[0]['name']]
        cost.calls += 1
        cost.last[max(meeting, key=lambda event: event['ts'])['pid']] += 1
        for event in meeting:
            cost.bytes += event['args']['bytes']
            cost.time += event['dur'] / 1e6
    for event in waits:
        costs[event['args']['op']].waiting += event['dur'] / 1e6
    rows = [('collective', 'calls', 'bytes', 'time of a rank', 'waiting', 'last to come')]
    for name, cost in sorted(costs.items(), key=lambda item: -item[1].time):
        slowest, times = cost.last.most_common(1)[0]
        rows.append((name, str(cost.calls), _bytes(cost.bytes), f'{cost.time / ranks:.4f} s', _share(cost.waiting, cost.time),
                     f'rank {slowest} ({_share(times, cost.calls)})'))
    spent: dict[int, Counter[str]] = {event['pid']: Counter() for event in events}
    for event in (*events, *waits):
        if event['ph'] == 'X' and event['cat'] != 'annotation':
            spent[event['pid']][event['cat']] += event['dur'] / 1e6
    parts = [('rank', 'compute', 'collectives', 'waiting')]
    for rank, times in sorted(spent.items()):
        whole = times['compute'] + times['collective']
        parts.append((str(rank), f"{times['compute']:.4f} s ({_share(times['compute'], whole)})",
                      f"{times['collective'] - times['waiting']:.4f} s ({_share(times['collective'] - times['waiting'], whole)})",
                      f"{times['waiting']:.4f} s ({_share(times['waiting'], whole)})"))
    return table(rows) + '\n\n' + table(parts)


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return '\n'.join('  '.join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
                     for row in rows)


def _share(part: float, whole: float) -> str:
    return f'{part / whole:.0%}' if whole else '-'


def _bytes(n: float) -> str:
    for unit in ('B', 'kB', 'MB'):
        if n < 1000:
            return f'{n:.4g} {unit}'
        n /= 1000
    return f'{n:.4g} GB'
