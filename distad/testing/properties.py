"""Properties under mpirun: hypothesis must see the same outcome of an example on every rank, or the ranks part ways."""

import functools
import traceback
from collections.abc import Callable

from distad.runtime.world import names
from distad.testing.agreement import WaitedInVainError, all_ranks


def collective(example: Callable[..., None]) -> Callable[..., None]:
    """Makes an example of a property fail on all ranks, with the same error, if it fails on one.

    Goes below `@given`. Examples must be the same on all ranks: `settings(derandomize=True, database=None,
    deadline=None)`, without `Phase.explain`, and no health checks, as they look at the time.
    """
    @functools.wraps(example)
    def run(*args: object, **kwargs: object) -> None:
        ranks, error = all_ranks(), ''
        try:
            example(*args, **kwargs)
        except (Exception, WaitedInVainError) as exc:
            if type(exc).__module__.startswith('hypothesis'):
                raise  # an example that `assume` rejects: so it does on every rank
            if isinstance(exc, Exception):
                ranks.alarm()
            error = ''.join(traceback.format_exception(exc))
        errors = ranks.agree('example', error)
        failed = [r for r, text in enumerate(errors) if text]
        if failed:
            raise AssertionError(f'failed on {names(failed)} of {ranks.size}:\n{errors[failed[0]]}')
    return run
