"""no_collectives: a promise that a piece of program does not communicate over some mesh axes, kept by the library."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from distad.core.primitive import Primitive
from distad.errors import ForbiddenCollectiveError
from distad.types.array_type import ArrayType
from distad.types.inference import show

_forbidden: ContextVar[frozenset[str]] = ContextVar('distad_forbidden', default=frozenset())


def forbidden_axes() -> frozenset[str]:
    return _forbidden.get()


@contextmanager
def no_collectives(axis_names: Iterable[str]) -> Iterator[None]:
    """Inside the block an operation that would communicate over one of these mesh axes raises ForbiddenCollectiveError.

    It is raised when the operation is traced or run, before anything is sent; backward passes made inside count too.

        with no_collectives({'X'}):
            y = model(x)
    """
    token = _forbidden.set(_forbidden.get() | frozenset(axis_names))
    try:
        yield
    finally:
        _forbidden.reset(token)


def check_allowed(primitive: Primitive, ins: tuple[ArrayType, ...], outs: tuple[ArrayType, ...], params: dict) -> None:
    """Raise if a call would communicate where it must not."""
    if primitive.messages is None:
        return
    for kind, axes, _ in primitive.messages(ins, outs, params):
        found = _forbidden.get().intersection(axes)
        if found:
            raise ForbiddenCollectiveError(
                f"{primitive.name} from {show(ins)} to {show(outs)} makes an {kind} over {', '.join(axes)}, inside "
                f"no_collectives({sorted(_forbidden.get())}). Leave the sum unreduced, or move the reshard out of the block.")
