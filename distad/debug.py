"""Looking at a running program: what it computes, what it sends.

    debug.print('loss {} after step {}', loss, step)            # also under jit, scan, vmap, grad and in shard_map

    with debug.count_collectives() as sent:
        step(params, batch)
    print(sent.total, sent.by_op, sent.bytes)

    debug.visualize_array_sharding(x)                           # which ranks hold which block
"""

from distad.callbacks import debug_callback as callback
from distad.callbacks import debug_print as print
from distad.runtime.recorder import Record
from distad.runtime.recorder import count as count_collectives
from distad.runtime.recorder import recent as recent_collectives
from distad.visualize import visualize_array_sharding, visualize_sharding

__all__ = ['Record', 'callback', 'count_collectives', 'print', 'recent_collectives', 'visualize_array_sharding', 'visualize_sharding']
