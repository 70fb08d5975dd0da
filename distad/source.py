"""Which line of the user's program is running: for error messages, records of collectives and equations."""

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar

import numpy as np
import optree

F = TypeVar('F', bound=Callable[..., Any])

# The library's own files, and those of the libraries that stand between it and itself: pytrees, and NumPy's errstate.
_OURS = (*(str(Path(module.__file__).parent) + '/' for module in (sys.modules['distad'], optree, np)), '<distad ')


@dataclass(frozen=True, slots=True)
class Source:
    """A place in a user's file."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


UNKNOWN = Source('<unknown>', 0, '')


@functools.lru_cache(maxsize=4096)
def is_ours(file: str) -> bool:
    """Whether a file is the library's own."""
    return file.startswith(_OURS)


def user_frame() -> FrameType | None:
    """The innermost frame that is not the library's own."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_source() -> Source:
    """The user's file, line and function that led here."""
    frame = user_frame()
    if frame is None:
        return UNKNOWN
    return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


# ---- errors as their reader wants them

def _full() -> bool:
    return os.environ.get('DISTAD_TRACEBACK') == 'full'


def boundary(f: F) -> F:
    """A public function whose errors come without the library's own frames: only the program's lines are left.

    The environment variable DISTAD_TRACEBACK=full keeps them all.
    """
    @functools.wraps(f)
    def entered(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            if not _full():
                error.__traceback__ = _visible(error.__traceback__)
            raise
    return entered


def bounded(names: dict[str, Any], public: Iterable[str] | None = None) -> None:
    """Make the public functions of a module's namespace boundaries: the last line of a module.

    All functions of a module that only gathers names; of one that defines them, those that are listed, so that the library's own
    functions which it uses stay as they are.
    """
    for name in tuple(names) if public is None else public:
        value = names[name]
        if isinstance(value, FunctionType) and not name.startswith('_') and value is not bounded:
            names[name] = boundary(value)


def _visible(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the library's frames; the last one stays where there is no other."""
    kept, last = [], None
    while trace is not None:
        last = trace
        if not is_ours(trace.tb_frame.f_code.co_filename):
            kept.append(trace)
        trace = trace.tb_next
    rest = None
    for part in reversed(kept or [last] if last is not None else []):
        rest = TracebackType(rest, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return rest


def traceback_text(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> str:
    """A traceback as its reader wants it: the lines of the program, without the library's own frames.

    The environment variable DISTAD_TRACEBACK=full shows all of them.
    """
    told = traceback.TracebackException(kind, value, trace)
    hidden = 0 if _full() else _hide(told)
    text = ''.join(told.format())
    frames = '1 frame of distad is' if hidden == 1 else f"{hidden} frames of distad are"
    return text + (f"({frames} not shown; DISTAD_TRACEBACK=full shows {'it' if hidden == 1 else 'them'})\n" if hidden else '')


def _hide(told: traceback.TracebackException) -> int:
    """Take the library's frames out, also of the causes; the number taken."""
    hidden = 0
    while told is not None:
        kept = [frame for frame in told.stack if not is_ours(frame.filename)]
        if kept:
            hidden += len(told.stack) - len(kept)
            told.stack = traceback.StackSummary.from_list(kept)
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    return hidden
