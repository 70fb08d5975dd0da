"""What the report on a time-out says, for what is seen: a function, so it is tested without a time-out (those: tests/faults)."""

import pytest

from distad.runtime import blackbox, watchdog
from distad.runtime.blackbox import Entry, Seen
from distad.runtime.watchdog import Sight, report, who_waits

pytestmark = pytest.mark.ranks(1)


def entry(call, *, what='all-reduce over X', ended=0., ranks=(0, 1)):
    return Entry(sequence=call, channel=7, call=call, nbytes=8, begun=10., ended=ended, what=what, about='float32, at t.py:3 (f)',
                 ranks=ranks)


def sight(rank, *entries, state='S', stack=('t.py:9 in g: wait()',), words=''):
    seen = Seen(rank=rank, process=100 + rank, main_thread=1, stacks=3, entries=entries, words=words)
    return Sight(seen=seen, now=15., state=state, stack=stack)


def test_calls_that_do_not_fit():
    line, = who_waits([sight(0, entry(1)), sight(1, entry(1, what='all-gather over X'))])
    assert line == ('Ranks 0, 1 wait: the ranks have come together in calls that do not fit: rank 0 in all-reduce over X, 8 B float32, '
                    'at t.py:3 (f); rank 1 in all-gather over X, 8 B float32, at t.py:3 (f).')


def test_a_rank_that_stopped_inside():
    line, = who_waits([sight(0, entry(1)), sight(1, entry(1), state='T')])
    assert 'Rank 1 has come to #1 all-reduce' in line and 'cannot go on: its process is stopped' in line


def test_what_is_not_known():
    text = report([sight(0, entry(1, ranks=(0, 1, 2, 3)))], 4, 2., 'it')
    assert 'Rank 0 waits: all have come to #1' in text and 'but for ranks 1, 2, 3, of which nothing is known.' in text
    assert 'Ranks 1, 2, 3: nothing is known. On their nodes nobody waits' in text


def test_a_rank_that_has_failed_or_never_came():
    text = report([sight(0, entry(1)), sight(1, state='Z', stack=(), words='ValueError: boom')], 2, 2., 'it')
    assert 'Rank 0 waits for rank 1.' in text and 'Rank 1 has not come to any collective; its process is dead.' in text
    assert 'it has failed: ValueError: boom' in text and 'no stack: its process is dead' in text


def test_the_box_remembers_the_last():
    box = blackbox.shared(5, [5], lambda path: path)
    ranks = ((0, 2, 4), (0, 1, 5), (3,))
    for number in range(1, blackbox.LENGTH + 3):
        box.begin(number, 7, number, 8, 1., blackbox.text('all-reduce over X', 'at ü', ranks[number % 3]))
        if number % 2:
            box.end(2.)
    seen, = box.look()
    assert seen.rank == 5 and len(seen.entries) == blackbox.LENGTH and seen.inside is seen.entries[-1]
    for number, one in enumerate(seen.entries, 3):
        assert (one.sequence, one.ranks, one.about, one.running) == (number, ranks[number % 3], 'at ü', number % 2 == 0)
    assert str(one) == f'#{number} all-reduce over X, 8 B at ü'
    box.say('ValueError: boom')
    assert box.look()[0].words == 'ValueError: boom' and box.claim()


def test_a_text_that_is_too_long_is_cut():
    box = blackbox.shared(0, [0], lambda path: path)
    odd = tuple(r * r for r in range(200))
    box.begin(1, 7, 1, 8, 1., blackbox.text('o' * 500, 'ü' * 500, odd))
    one, = box.look()[0].entries
    assert one.what == 'o' * 100 and len(one.ranks) > 20 and one.ranks == odd[:len(one.ranks)]


def test_frames():
    stack = ''.join(f'  File "{file}", line {line} in {name}\n' for file, line, name in (
        (watchdog.__file__, 5, 'end_job'), (__file__, 3, 'g'), ('<frozen runpy>', 88, '_run')))
    assert watchdog.frames(stack) == (f'{__file__}:3 in g: import pytest',)
