"""A budget of communication: what a piece of program may send, checked when it has run."""

from collections.abc import Iterator
from contextlib import contextmanager

from distad.errors import BudgetError
from distad.runtime.recorder import Count, count, recent


@contextmanager
def communication_budget(*, total: int | None = None, bytes: int | None = None, **by_op: int) -> Iterator[Count]:
    """Inside the block at most this is sent; otherwise BudgetError at its end, which lists each collective with its line.

    total: collectives of all kinds. bytes: what this rank hands to MPI. By kind: `all_reduce`, `all_gather`, `reduce_scatter`,
    `all_to_all`, `collective_permute`; if any kind is named, those not named may not be made. Nothing is communicated. Ranks that
    send the same raise alike.

        with communication_budget(all_reduce=1, bytes=40_000):
            step(params, batch)
    """
    allowed = {name.replace('_', '-'): n for name, n in by_op.items()}
    last = recent()[-1].sequence if recent() else 0
    with count() as sent:
        yield sent
    over = [f"{n} {op}, allowed {allowed.get(op, 0)}" for op, n in sorted(sent.by_op.items()) if by_op and n > allowed.get(op, 0)]
    if total is not None and sent.total > total:
        over.append(f"{sent.total} collectives, allowed {total}")
    if bytes is not None and sent.bytes > bytes:
        over.append(f"{sent.bytes} bytes, allowed {bytes}")
    if over:
        made = '\n'.join(f"  {record}" for record in recent() if record.sequence > last)
        raise BudgetError(f"communication beyond the budget: {'; '.join(over)}. Sent were\n{made}")


__all__ = ['communication_budget']
