"""Looking at a running program: what it sends.

    with debug.count_collectives() as sent:
        step(params, batch)
    print(sent.total, sent.by_op, sent.bytes)
"""

from distad.runtime.recorder import Record
from distad.runtime.recorder import count as count_collectives
from distad.runtime.recorder import recent as recent_collectives

__all__ = ['Record', 'count_collectives', 'recent_collectives']
