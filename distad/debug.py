"""Looking at a running program: what it computes, what it sends.

    debug.print('loss {} after step {}', loss, step)            # also under jit, scan, vmap, grad and in shard_map

    with debug.count_collectives() as sent:
        step(params, batch)
    print(sent.total, sent.by_op, sent.bytes)

    with debug.communication_budget(all_reduce=1):              # BudgetError, with lines, if more is sent
        step(params, batch)

    debug.visualize_array_sharding(x)                           # which ranks hold which block
"""

from distad.budget import communication_budget
from distad.callbacks import debug_callback as callback
from distad.callbacks import debug_print as print
from distad.runtime.recorder import Record
from distad.runtime.recorder import count as count_collectives
from distad.runtime.recorder import recent as recent_collectives
from distad.visualize import visualize_array_sharding, visualize_sharding

__all__ = ['Record', 'callback', 'communication_budget', 'count_collectives', 'print', 'recent_collectives',
           'visualize_array_sharding', 'visualize_sharding']
